"""Steps of a tokenizer, changed so that offsets are exact and words have spaces."""

from __future__ import annotations

import base64
import json
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, normalizers

from dicejax.errors import Flaw
from dicejax.io import limits

SPACE = "▁"  # SentencePiece's
# A regular expression with one of these may match between characters.
_BETWEEN = re.compile(r"\(\?|\\[bBAzZGKyY]|[\^$]")


def with_prefix_space(tokenizer: Tokenizer) -> Tokenizer:
    """Have BPE put a space before a word: bytes the first, Gemma's "▁" every one."""
    content = json.loads(tokenizer.to_str())
    cuts, ends = _steps(content["pre_tokenizer"]), _steps(content["post_processor"])
    bare = [x for x in cuts[:1] + ends if x.get("add_prefix_space") is False]
    # Behind a step that cuts words, as Llama's, each of their parts would take a space.
    cut_before = any(x.get("add_prefix_space") is False for x in cuts[1:])
    spaced = _steps(content["normalizer"])
    kinds = {step["type"] for step in spaced}
    space = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    prefix = SPACE if space in spaced else " "
    lacks = (space in spaced or cut_before) and "Prepend" not in kinds
    if not bare and not lacks:
        return tokenizer
    for step in bare:
        step["add_prefix_space"] = True
    if lacks:
        first = {"type": "Prepend", "prepend": prefix}
        content["normalizer"] = {"type": "Sequence", "normalizers": [first, *spaced]}
    return Tokenizer.from_str(json.dumps(content))


def _steps(part: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the steps of a sequence of normalizers and the like, or the only one."""
    if part is None:
        return []
    names = ("normalizers", "pretokenizers", "processors", "decoders")
    inner = next((part[name] for name in names if name in part), None)
    if inner is None:
        return [part]
    return [step for child in inner for step in _steps(child)]


def check_sizes(content: Mapping[str, Any]) -> None:
    """Check by arithmetic what a `tokenizer.json` may make, before it is built.

    Each step is bounded by the size of the file, what several make together by their
    product: normalizers in a chain, byte-level steps in a chain, parts of a template
    and their ids, the nodes of a tree of pieces, the name of the unknown piece and the
    unknown words.

    Raises:
      Flaw: it has too many steps, or makes too much.
    """
    for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        try:
            steps = _steps(content.get(name))
            limits.STEPS.check(len(steps))
            if name == "post_processor":
                _check_templates(steps)
            elif name != "decoder":
                limits.GROWTH.check(math.prod(map(_growth, steps)))
        except Flaw as flaw:
            raise Flaw(f"its {name} has {flaw.fault}", flaw.remedy) from None
    model = content.get("model") or {}
    affixes = ("unk_token", "continuing_subword_prefix", "end_of_word_suffix")
    for name in affixes:
        limits.PIECE.check(len(str(model.get(name) or "")))
    if isinstance(vocabulary := model.get("vocab"), list):  # Unigram's
        check_pieces([str(pair[0]) for pair in vocabulary])


def check_pieces(pieces: Sequence[str]) -> None:
    """Check the tree that Unigram makes of its pieces, a node for each character.

    Raises:
      Flaw: it is too large, or so deep that freeing it would overflow the stack.
    """
    limits.PIECE.check(max(map(len, pieces), default=0))
    limits.PIECES.check(sum(map(len, pieces)))


def _check_templates(steps: Sequence[Mapping[str, Any]]) -> None:
    """Check how many special pieces templates in a chain put round a text."""
    total = 0
    for step in steps:
        special = step.get("special_tokens") or {}
        for parts in (step.get("single") or (), step.get("pair") or ()):
            texts = [part["Sequence"]["id"] for part in parts if "Sequence" in part]
            if len(set(texts)) < len(texts):
                raise Flaw("a text twice", "take another folder's tokenizer")
            for part in parts:
                if "SpecialToken" in part:
                    piece = special.get(part["SpecialToken"]["id"], {})
                    names = piece.get("tokens", ())
                    total += max(len(piece.get("ids", ())), len(names), 1)
                    limits.PIECE.check(max(map(len, names), default=0))
                    limits.SPECIAL.check(total)


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
        case {"type": "ByteLevel"}:
            return 4  # bytes, each of which becomes a character
        case {"type": "BertNormalizer"}:
            return 3  # a Chinese character between spaces
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
    parts = [normalizer]
    if isinstance(normalizer, normalizers.Sequence):
        parts = [*iter(normalizer)]
    steps: list[Any] = []
    for step in parts:
        if isinstance(step, normalizers.Precompiled):
            controls = map(chr, [*range(0x20), *range(0x7F, 0xA0)])
            dropped = [c for c in controls if step.normalize_str(c) == ""]
            if dropped:
                pattern = "".join(f"\\x{{{ord(c):x}}}" for c in dropped)
                steps.append(normalizers.Replace(Regex(f"[{pattern}]+"), ""))
        steps.append(step)
    return normalizers.Sequence(steps) if len(steps) > 1 else normalizer
