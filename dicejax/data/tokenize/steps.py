"""Steps of a tokenizer, changed so that offsets are exact and words have spaces."""

from __future__ import annotations

import json
from typing import Any

from tokenizers import Regex, Tokenizer, normalizers

SPACE = "▁"  # SentencePiece's


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
