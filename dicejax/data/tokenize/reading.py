"""Tokenizers of Hugging Face model folders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from dicejax import files, json_text
from dicejax.data.tokenize import sentencepiece
from dicejax.errors import InputError, shown

FILE = "tokenizer.json"
_WORDPIECE = "vocab.txt"
_XLNET = "spiece.model"
_DEBERTA = "spm.model"
_BPE = ("vocab.json", "merges.txt")
_SETTINGS = "tokenizer_config.json"
_FLAGS = (
    "add_prefix_space",
    "do_lower_case",
    "keep_accents",
    "split_by_punct",
    "strip_accents",
    "tokenize_chinese_chars",
)

# How far a table of embeddings may be longer than its vocabulary: rows are added up to
# a multiple of 8, 64 or 128 to suit the hardware.
_SPARE_ROWS = 128

# A pair of texts with a space, a digit, an accent, Chinese, and a letter that hardly
# any vocabulary has.
_PROBE = ("Zo\u00eb 1,", "\u4e2d \U00010380 a")

_SPACE = "▁"  # SentencePiece's

Settings = dict[str, Any]


def read(folder: Path, *, words: bool = True) -> Tokenizer:
    """Read the tokenizer of a Hugging Face model folder.

    `tokenizer.json` is read as it is. Without it, the tokenizer is built from
    `vocab.json` and `merges.txt` (RoBERTa), `vocab.txt` (BERT, ELECTRA),
    `spiece.model` (XLNet) or `spm.model` (DeBERTa), and `tokenizer_config.json` sets
    case, accents, Chinese characters and names of special tokens. By default
    `vocab.txt` itself decides on lower case.

    Args:
      folder: a model folder.
      words: the tokenizer is for texts split into words, `encode`. BPE then takes each
        word of a text as one that follows a space, the first one too.

    Raises:
      InputError: the folder holds no usable tokenizer.
    """
    try:
        tokenizer = _read(folder)
        tokenizer.normalizer = _with_exact_offsets(tokenizer.normalizer)
        if words and isinstance(tokenizer.model, models.BPE):
            tokenizer = _with_prefix_space(tokenizer)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        _check_template(tokenizer)
    except InputError as error:
        reason = str(error).removeprefix(str(folder)).lstrip(os.sep)
        raise _unusable(folder, reason) from error
    except BaseException as error:
        # The library raises bare Exception on bad files; its Rust code panics on some,
        # with an exception that is none.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise _unusable(folder, str(error) or type(error).__name__) from error
        raise
    return tokenizer


def check_fits(tokenizer: Tokenizer, vocab_size: int, folder: Path) -> list[str]:
    """Check that every id of a tokenizer has a row in the encoder's table.

    Args:
      tokenizer: tokenizer to check.
      vocab_size: number of rows of the table.
      folder: its folder, for messages.

    Returns:
      Warnings, if the table has many more rows than the tokenizer has entries.

    Raises:
      InputError: an id is beyond the table.
    """
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    if not vocabulary:
        raise _unusable(folder, "its vocabulary is empty")
    entry = max(vocabulary, key=vocabulary.__getitem__)
    counts = f"the tokenizer has {len(vocabulary):d} entries, the encoder {vocab_size}"
    if vocabulary[entry] >= vocab_size:
        beyond = sum(number >= vocab_size for number in vocabulary.values())
        raise InputError(
            f"{folder}: {counts}: they do not belong together ({beyond} of the "
            f"entries have no embedding, the last is {entry!r}, id "
            f"{vocabulary[entry]}); take both from one model"
        )
    if vocab_size - vocabulary[entry] > _SPARE_ROWS:
        return [f"{folder}: {counts}: make sure that they belong together"]
    return []


def _check_template(tokenizer: Tokenizer) -> None:
    """Encode a text and a pair: steps that do not fit fail here and not in a run."""
    for texts in (_PROBE[:1], _PROBE):
        found = tokenizer.encode(*texts)
        columns = (found.tokens, found.ids, found.special_tokens_mask)
        for token, number, special in zip(*columns, strict=True):
            if special and tokenizer.id_to_token(number) != token:
                raise InputError(f"its template gives {shown(token)} the id {number}")


def pad_id(tokenizer: Tokenizer) -> int:
    """Return the id that fills a row; 0 for a tokenizer that has none of its own."""
    for name in ("[PAD]", "<pad>"):
        number = tokenizer.token_to_id(name)
        if number is not None:
            return number
    return 0


def _read(folder: Path) -> Tokenizer:
    present = {file.name for file in folder.iterdir() if file.is_file()}
    if FILE in present:
        try:
            return Tokenizer.from_file(str(folder / FILE))
        except Exception as error:  # bare, and says nothing of the file
            raise InputError(f"{FILE}: {error}; fetch it again") from error
    settings = _settings(folder) if _SETTINGS in present else {}
    if present.issuperset(_BPE):
        return _byte_level(folder, settings)
    if _WORDPIECE in present:
        return _wordpiece(folder, settings)
    if _XLNET in present:
        return _xlnet(folder, settings)
    if _DEBERTA in present:
        return _deberta(folder, settings)
    others = sorted(n for n in present if n.endswith(".model") or n in _BPE)
    if others:
        raise InputError(
            f"{', '.join(others)} alone cannot be read; AutoTokenizer.from_pretrained("
            "folder).save_pretrained(folder) of transformers makes tokenizer.json",
        )
    raise InputError(
        f"holds none of {FILE}, {_WORDPIECE}, {_XLNET}, {_DEBERTA}, "
        f"{' with '.join(_BPE)}",
    )


def _wordpiece(folder: Path, settings: Settings) -> Tokenizer:
    vocabulary: dict[str, int] = {}
    for number, entry in files.lines(folder / _WORDPIECE):
        first = vocabulary.setdefault(entry, number - 1) + 1
        if first != number:
            raise InputError.at(
                folder / _WORDPIECE,
                number,
                f"{shown(entry)} is on line {first} too",
                "fetch it again",
            )
    names = _names(
        settings, pad="[PAD]", unk="[UNK]", cls="[CLS]", sep="[SEP]", mask="[MASK]"
    )
    _require(folder / _WORDPIECE, vocabulary, names, "unk", "cls", "sep")
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=names["unk"]))
    tokenizer.add_special_tokens([n for n in names.values() if n in vocabulary])
    lower = settings.get("do_lower_case")
    if lower is None:
        entries = (entry for entry in vocabulary if entry[:1] not in ("[", "<"))
        lower = not any(entry != entry.lower() for entry in entries)
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=lower,
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=settings.get("tokenize_chinese_chars") is not False,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = _bert_template(vocabulary, names)
    return tokenizer


def _bert_template(
    vocabulary: dict[str, int], names: dict[str, str]
) -> processors.TemplateProcessing:
    cls, sep = names["cls"], names["sep"]
    return processors.TemplateProcessing(
        single=[cls, "$A", sep],
        pair=[cls, "$A", sep, "$B:1", f"{sep}:1"],
        special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
    )


def _byte_level(folder: Path, settings: Settings) -> Tokenizer:
    entries, merges = (str(folder / name) for name in _BPE)
    try:
        vocabulary, pairs = models.BPE.read_file(entries, merges)
        model = models.BPE(vocabulary, pairs)
    except Exception as error:  # bare, and says nothing of the files
        files = " with ".join(_BPE)
        raise InputError(f"{files}: {error}; fetch them again") from error
    names = _names(
        settings, cls="<s>", pad="<pad>", sep="</s>", unk="<unk>", mask="<mask>"
    )
    _require(folder / _BPE[0], vocabulary, names, "cls", "sep")
    tokenizer = Tokenizer(model)
    tokenizer.add_special_tokens(
        _added([n for n in names.values() if n in vocabulary], names["mask"])
    )
    prefixed = bool(settings.get("add_prefix_space", False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefixed)
    tokenizer.decoder = decoders.ByteLevel()
    cls, sep = names["cls"], names["sep"]
    tokenizer.post_processor = processors.RobertaProcessing(
        (sep, vocabulary[sep]),
        (cls, vocabulary[cls]),
        trim_offsets=True,
        add_prefix_space=prefixed,
    )
    return tokenizer


def _xlnet(folder: Path, settings: Settings) -> Tokenizer:
    """Build XLNet's tokenizer, as its authors' `prepro_utils.py` splits a text."""
    file = folder / _XLNET
    model, vocabulary = _unigram(file)
    names = _names(
        settings, cls="<cls>", pad="<pad>", sep="<sep>", unk="<unk>", mask="<mask>"
    )
    _require(file, vocabulary, names, "cls", "sep")
    # A comma behind a digit is a piece of its own.
    scores = [
        (piece, score - 100 if _is_number_comma(piece) else score)
        for piece, score in model.pieces
    ]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=model.unknown))
    special = {*names.values(), *model.control, "<s>", "</s>", "<eod>", "<eop>"}
    tokenizer.add_special_tokens(
        _added([piece for piece in vocabulary if piece in special], names["mask"])
    )
    steps = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not settings.get("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if settings.get("do_lower_case", False):
        steps.append(normalizers.Lowercase())
    _split_as_sentencepiece(tokenizer, model, steps)
    cls, sep = names["cls"], names["sep"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["$A", sep, f"{cls}:2"],
        pair=["$A", sep, "$B:1", f"{sep}:1", f"{cls}:2"],
        special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
    )
    return tokenizer


def _deberta(folder: Path, settings: Settings) -> Tokenizer:
    """Build DeBERTa's tokenizer: texts split as by sentencepiece, in BERT's template.

    Transformers from version 5 on leaves the file's normalization out for NFC: it has
    the unknown piece for what is folded here, such as full-width letters.
    """
    file = folder / _DEBERTA
    if settings.get("split_by_punct"):
        raise InputError(f"{_SETTINGS}: split_by_punct is true; supported: false")
    model, vocabulary = _unigram(file)
    names = _names(
        settings, pad="[PAD]", cls="[CLS]", sep="[SEP]", unk="[UNK]", mask="[MASK]"
    )
    _require(file, vocabulary, names, "pad", "unk", "cls", "sep")
    tokenizer = Tokenizer(models.Unigram(model.pieces, unk_id=model.unknown))
    # The mask is not in the file, and comes behind its pieces.
    special = [AddedToken(name, normalized=False) for name in names.values()]
    tokenizer.add_special_tokens(special)
    lower = settings.get("do_lower_case", False)
    steps = [normalizers.Lowercase()] if lower else []
    _split_as_sentencepiece(tokenizer, model, steps)
    tokenizer.post_processor = _bert_template(vocabulary, names)
    return tokenizer


def _unigram(
    file: Path,
) -> tuple[sentencepiece.SentencePieceModel, dict[str, int]]:
    """Read a SentencePiece model of the unigram kind, and its vocabulary."""
    try:
        model = sentencepiece.parse(file.read_bytes())
    except ValueError as error:
        raise InputError(
            f"{file.name} is no SentencePiece model or damaged; fetch it again"
        ) from error
    if model.algorithm != sentencepiece.UNIGRAM:
        raise InputError(f"{file.name} is not of the unigram kind")
    return model, {piece: number for number, (piece, _) in enumerate(model.pieces)}


def _split_as_sentencepiece(
    tokenizer: Tokenizer,
    model: sentencepiece.SentencePieceModel,
    steps: list[normalizers.Normalizer],
) -> None:
    """Normalize by `steps`, then by the model's own map, and split at white space."""
    if model.character_map:
        steps = [*steps, normalizers.Precompiled(model.character_map)]
    steps = [*steps, normalizers.Replace(Regex(" {2,}"), " ")]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    tokenizer.decoder = decoders.Metaspace()


def _is_number_comma(piece: str) -> bool:
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def _with_prefix_space(tokenizer: Tokenizer) -> Tokenizer:
    """Have BPE put a space before a word: bytes the first, Gemma's "▁" every one."""
    content = json.loads(tokenizer.to_str())
    steps = _steps(content["pre_tokenizer"]) + _steps(content["post_processor"])
    bare = [step for step in steps if step.get("add_prefix_space") is False]
    for step in bare:
        step["add_prefix_space"] = True
    spaced = _steps(content["normalizer"])
    kinds = {step["type"] for step in spaced}
    space = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    lacks = space in spaced and "Prepend" not in kinds
    if not bare and not lacks:
        return tokenizer
    if lacks:
        first = {"type": "Prepend", "prepend": _SPACE}
        content["normalizer"] = {"type": "Sequence", "normalizers": [first, *spaced]}
    return Tokenizer.from_str(json.dumps(content))


def _steps(part: Settings | None) -> list[Settings]:
    """Return the steps of a sequence of normalizers and the like, or the only one."""
    if part is None:
        return []
    names = ("normalizers", "pretokenizers", "processors")
    inner = next((part[name] for name in names if name in part), None)
    if inner is None:
        return [part]
    return [step for one in inner for step in _steps(one)]


def _with_exact_offsets(
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


def _added(names: list[str], mask: str) -> list[AddedToken]:
    """Return the special tokens; a mask includes the space before it."""
    return [AddedToken(n, lstrip=n == mask, normalized=False) for n in names]


def _names(settings: Settings, **names: str) -> dict[str, str]:
    """Return the names of the special tokens by role, as the settings rename them."""
    found = {}
    for role, name in names.items():
        given = settings.get(f"{role}_token")
        if isinstance(given, dict):
            given = given.get("content")
        if not isinstance(given, str | None):
            raise InputError(
                f"{_SETTINGS}: {role}_token is {shown(given)}; want text or null"
            )
        found[role] = given or name
    return found


def _require(
    file: Path, vocabulary: dict[str, int], names: dict[str, str], *roles: str
) -> None:
    missing = [names[role] for role in roles if names[role] not in vocabulary]
    if missing:
        raise InputError(f"{file.name} lacks {', '.join(missing)}")


def _settings(folder: Path) -> Settings:
    content = json_text.read(folder / _SETTINGS)
    if not isinstance(content, dict):
        raise InputError(f"{_SETTINGS} holds no JSON object; fetch it again")
    for name in _FLAGS:
        if not isinstance(content.get(name), bool | None):
            raise InputError(
                f"{_SETTINGS}: {name} is {shown(content[name])}; want true, false or "
                "null"
            )
    return content


def _unusable(folder: Path, reason: str) -> InputError:
    return InputError(f"{folder}: no usable tokenizer ({' '.join(reason.split())})")
