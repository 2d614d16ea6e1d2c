"""Steps of a tokenizer, changed so that offsets are exact and words have spaces."""

from __future__ import annotations

import base64
import json
import re
import warnings
from typing import Any

from tokenizers import Regex, Tokenizer, normalizers

from dicejax.io import limits

SPACE = "▁"  # SentencePiece's
# A regular expression with one of these may match between characters.
_BETWEEN = re.compile(r"\(\?|\\[bBAzZGKyY]|[\^$]")


def with_prefix_space(tokenizer: Tokenizer) -> Tokenizer:
    """Have BPE put a space before a word: bytes the first, Gemma's "▁" every one."""
    content = json.loads(tokenizer.to_str())
    steps = _steps(content["pre_tokenizer"]) + _steps(content["post_processor"])
    bare = [step for step in steps if step.get("add_prefix_space") is False]
    for step in bare:
        step["add_prefix_space"] = True
    spaced = _steps(content["normalizer"])
    kinds = {step["type"] for step in spaced}
    space = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    lacks = space in spaced and "Prepend" not in kinds
    if not bare and not lacks:
        return tokenizer
    if lacks:
        first = {"type": "Prepend", "prepend": SPACE}
        content["normalizer"] = {"type": "Sequence", "normalizers": [first, *spaced]}
    return Tokenizer.from_str(json.dumps(content))


def _steps(part: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the steps of a sequence of normalizers and the like, or the only one."""
    if part is None:
        return []
    names = ("normalizers", "pretokenizers", "processors")
    inner = next((part[name] for name in names if name in part), None)
    if inner is None:
        return [part]
    return [step for child in inner for step in _steps(child)]


def check_growth(normalizer: normalizers.Normalizer | None) -> None:
    """Check how many characters a normalizer may make of one, before it is run.

    Raises:
      Flaw: it has too many steps, or makes too many characters.
    """
    if normalizer is None:
        return
    steps = _steps(json.loads(normalizer.__getstate__()))
    limits.STEPS.check(len(steps))
    total = 1
    for step in steps:
        total *= _growth(step)
    limits.GROWTH.check(total)


def _growth(step: dict[str, Any]) -> int:
    """Return the most characters that a step makes of one."""
    match step:
        case {"type": "Prepend", "prepend": text}:
            return 1 + len(text)
        case {"type": "Replace", "content": content, "pattern": {"String": text}}:
            return max(1, -(-len(content) // len(text))) if text else 1 + len(content)
        case {"type": "Replace", "content": content, "pattern": {"Regex": regex}}:
            is_between = bool(content) and _matches_between(regex)
            return max(1, len(content)) + is_between
        case {"type": "Precompiled", "precompiled_charsmap": encoded}:
            blob = base64.b64decode(encoded)
            texts = blob[4 + int.from_bytes(blob[:4], "little") :].split(b"\0")
            return max(len(text.decode("utf-8", "replace")) for text in texts)
    return 1


def _matches_between(regex: str) -> bool:
    """Return whether a regular expression may match no character."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sets that other dialects have
            return bool(_BETWEEN.search(regex) or re.fullmatch(regex, ""))
    except re.error:  # of another dialect
        return True


def with_exact_offsets(
    normalizer: normalizers.Normalizer | None,
) -> normalizers.Normalizer | None:
    """Drop control characters before SentencePiece's normalization.

    The library's `Precompiled` does not count those that it drops at the start of a
    text, which shifts all offsets.
    """
    is_sequence = isinstance(normalizer, normalizers.Sequence)
    steps = []
    for step in normalizer if is_sequence else [normalizer]:
        if isinstance(step, normalizers.Precompiled):
            controls = map(chr, [*range(0x20), *range(0x7F, 0xA0)])
            dropped = [c for c in controls if step.normalize_str(c) == ""]
            if dropped:
                pattern = "".join(f"\\x{{{ord(c):x}}}" for c in dropped)
                steps.append(normalizers.Replace(Regex(f"[{pattern}]+"), ""))
        steps.append(step)
    return normalizers.Sequence(steps) if len(steps) > 1 else normalizer
