"""Tokenizers of Hugging Face model folders, built by transformers."""

from __future__ import annotations

import contextlib
import inspect
import json
import logging
import math
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from tokenizers import Tokenizer, models, normalizers

from dicejax.data.tokenize.steps import (
    check_pieces,
    check_sizes,
    with_exact_offsets,
    with_prefix_space,
)
from dicejax.errors import Flaw, InputError, quote
from dicejax.io import files, json_text, limits
from dicejax.io.parts import temporary_folder

FILE = "tokenizer.json"
_CONFIG = "config.json"
_SETTINGS = "tokenizer_config.json"
_SPECIAL = "special_tokens_map.json"
_WORDPIECE = "vocab.txt"
_BPE = ("vocab.json", "merges.txt")
_XLNET = "spiece.model"
_UNIGRAM = (_XLNET, "spm.model")
_READ = {FILE, "added_tokens.json", _WORDPIECE, *_BPE, *_UNIGRAM}

_BACKEND = "TokenizersBackend"  # tokenizer.json as it is
# Classes by the model type in config.json, as AutoTokenizer chooses them. It is not
# used itself, since it imports PyTorch where that is installed.
_NAMED = {
    "BertTokenizer": "bert distilbert electra ernie megatron-bert nomic_bert",
    "RobertaTokenizer": "roberta data2vec-text roberta-prelayernorm",
    "XLMRobertaTokenizer": "xlm-roberta gte jina_embeddings_v3",
    "CamembertTokenizer": "camembert",
    "DebertaV2Tokenizer": "deberta-v2",
    "XLNetTokenizer": "xlnet",
    "AlbertTokenizer": "albert",
    "MPNetTokenizer": "mpnet",
    _BACKEND: "modernbert eurobert",
}
_CLASSES = {kind: name for name, kinds in _NAMED.items() for kind in kinds.split()}
# Classes by the file in a folder that names no model type.
_CLASSES_OF_FILES = {
    FILE: _BACKEND,
    "merges.txt": "RobertaTokenizer",
    _WORDPIECE: "BertTokenizer",
    _XLNET: "XLNetTokenizer",
    "spm.model": "DebertaV2Tokenizer",
}
_GENERIC = ("PreTrainedTokenizer", "PreTrainedTokenizerFast", "PythonBackend")
_FLAGS = (
    "add_prefix_space",
    "do_lower_case",
    "keep_accents",
    "split_by_punct",
    "split_special_tokens",
    "strip_accents",
    "tokenize_chinese_chars",
    "trim_offsets",
)
_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_NAMES = tuple(f"{role}_token" for role in _ROLES)
_TOKENS = ("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens")

_SPARE_ROWS = 128  # tables of embeddings are padded to a multiple of 8, 64 or 128

# A pair of texts with a space, a digit, an accent, Chinese, and a letter that hardly
# any vocabulary has.
_PROBE = ("Zo\u00eb 1,", "\u4e2d \U00010380 a")

_LAST_TYPE = 2  # of XLNet's `<cls>`

Settings = dict[str, Any]


def read(folder: Path, *, words: bool = True) -> Tokenizer:
    """Read the tokenizer of a Hugging Face model folder, as transformers does.

    The class that `tokenizer_config.json` or `config.json` name builds the tokenizer
    from `tokenizer.json`, or without it from `vocab.json` and `merges.txt`,
    `vocab.txt`, or a SentencePiece model. Where the settings leave the case open,
    `tokenizer.json` or the entries of `vocab.txt` decide; transformers would lower it.
    With `words` BPE takes each word as one that follows a space, the first one too.

    Raises:
      InputError: the folder holds no usable tokenizer.
    """
    try:
        tokenizer = _read(folder)
        tokenizer.normalizer = with_exact_offsets(tokenizer.normalizer)
        if words and isinstance(tokenizer.model, models.BPE):
            tokenizer = with_prefix_space(tokenizer)
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

    Return warnings if the table has many more rows than the tokenizer has entries.

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
    text, other = _PROBE
    for encoding in (tokenizer.encode(text), tokenizer.encode(text, other)):
        columns = (encoding.tokens, encoding.ids, encoding.special_tokens_mask)
        for token, number, special in zip(*columns, strict=True):
            if special and tokenizer.id_to_token(number) != token:
                raise InputError(f"its template gives {quote(token)} the id {number}")
        if (kind := max(encoding.type_ids)) > _LAST_TYPE:
            fault = f"its template gives a piece the type {kind}"
            raise InputError(f"{fault}, more than {_LAST_TYPE}")


def pad_id(tokenizer: Tokenizer) -> int:
    """Return the id that fills a row; 0 for a tokenizer that has none of its own."""
    added = tokenizer.get_added_tokens_decoder().values()
    special = {token.content for token in added if token.special}
    # MPNet's vocabulary has BERT's too, as an entry like any other.
    names = sorted(("[PAD]", "<pad>"), key=lambda name: name not in special)
    numbers = map(tokenizer.token_to_id, names)
    return next((number for number in numbers if number is not None), 0)


def _read(folder: Path) -> Tokenizer:
    """Have transformers read a copy of a folder with the known files and settings.

    Other settings could name files elsewhere, or take the place of objects.
    """
    present = {file.name for file in folder.iterdir() if file.is_file()}
    settings = _settings(folder / _SETTINGS) if _SETTINGS in present else {}
    if _SPECIAL in present and "added_tokens_decoder" not in settings:
        special = _settings(folder / _SPECIAL)
        settings |= {n: special[n] for n in (*_NAMES, *_TOKENS) if n in special}
    config = _object(folder / _CONFIG) if _CONFIG in present else {}
    with _transformers() as transformers, temporary_folder() as copy:
        kind = _class(transformers, settings, config, present)
        names = [n for n in kind.vocab_files_names.values() if n != FILE]
        whole, pieces = None, None
        vocabulary: dict[str, Any] = {}
        if FILE in present:
            whole = _whole(folder / FILE)
        elif missing := [n for n in names if n not in present & _READ]:
            raise InputError(f"{kind.__name__} needs {' and '.join(missing)} or {FILE}")
        elif names[0] in _UNIGRAM:
            pieces, unknown = _unigram(folder / names[0])
            pieces.save(str(Path(copy, FILE)))
            vocabulary = {"unk_id": unknown}
        else:
            vocabulary = _vocabulary(folder, names)
        if kind.model is models.WordPiece and "do_lower_case" not in settings:
            settings = _case(whole, vocabulary) | settings
        used = {n: settings[n] for n in (*_FLAGS, *_NAMES, *_TOKENS) if n in settings}
        if pieces is None:
            entries = vocabulary.get("vocab") if whole is None else whole.get_vocab()
            if entries is None:
                entries = _object(folder / names[0])
            used = _absent(kind, entries) | used
        Path(copy, _SETTINGS).write_text(json.dumps(used), "utf-8")
        for name in present & _READ - {*_UNIGRAM}:
            Path(copy, name).symlink_to((folder / name).absolute())
        built = kind.from_pretrained(
            copy, local_files_only=True, trust_remote_code=False, **vocabulary
        )
    tokenizer = built.backend_tokenizer
    if whole is None:
        entries = tokenizer.get_vocab(with_added_tokens=False)
        roles = (built.unk_token, built.cls_token, built.sep_token)
        if missing := [name for name in roles if name not in entries]:
            raise InputError(f"{names[0]} lacks {', '.join(missing)}")
    elif type(tokenizer.model) is not type(whole.model):
        raise InputError(
            f"{FILE} is {type(whole.model).__name__}, {kind.__name__} is "
            f"{type(tokenizer.model).__name__}; if the file is right, name "
            f"PreTrainedTokenizerFast as tokenizer_class in {_SETTINGS}"
        )
    if pieces and pieces.normalizer and "Precompiled" not in str(tokenizer.normalizer):
        steps = [pieces.normalizer, tokenizer.normalizer]
        tokenizer.normalizer = normalizers.Sequence(steps)
    return tokenizer


@contextlib.contextmanager
def _transformers() -> Iterator[ModuleType]:
    """Import transformers, and silence its warnings while it reads."""
    logger = logging.getLogger("transformers")
    logger.disabled = True  # reports that there is no PyTorch
    try:
        import transformers
    finally:
        logger.disabled = False
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield transformers
    finally:
        logger.setLevel(level)


def _class(
    transformers: ModuleType, settings: Settings, config: Settings, present: set[str]
) -> Any:
    """Return the class that reads a folder, by the rules of AutoTokenizer."""
    named = [part.get("tokenizer_class") for part in (settings, config)]
    model_type = config.get("model_type")
    for value in (*named, model_type):
        if not isinstance(value, str | None):
            raise InputError(f"tokenizer_class or model_type is {quote(value)}")
    registered = _CLASSES.get(model_type or "")
    by_file = (_CLASSES_OF_FILES[n] for n in _CLASSES_OF_FILES if n in present)
    name = next(filter(None, [*named, registered, *by_file]), None)
    if name is None:
        others = sorted(n for n in present if n.endswith(".model") or n in _BPE)
        if others:
            raise InputError(
                f"{', '.join(others)} alone cannot be read; AutoTokenizer"
                ".from_pretrained(folder).save_pretrained(folder) of transformers "
                f"makes {FILE}"
            )
        names = (FILE, _WORDPIECE, *_UNIGRAM, " with ".join(_BPE))
        raise InputError(f"holds none of {', '.join(names)}")
    base = getattr(transformers, _BACKEND)
    kind, is_whole = base, registered == _BACKEND or name in _GENERIC
    if name.endswith(("Tokenizer", "TokenizerFast")) and not is_whole:
        kind = getattr(transformers, name.removesuffix("Fast"), base)
    if not (isinstance(kind, type) and issubclass(kind, base)):
        raise InputError(
            f"tokenizer_class is {name}, which has no fast form; save it as {FILE}"
        )
    return kind


def parse(text: str) -> Tokenizer:
    """Build the tokenizer of a `tokenizer.json`, without its padding and truncation.

    Raises:
      Flaw: it is none, or could fill the memory.
    """
    try:
        content = json_text.value_of(json_text.parse(text), dict)
    except Flaw as flaw:
        raise Flaw(flaw.fault, "fetch it again") from None
    check_sizes(content)
    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # bare, and says nothing of the file
        raise Flaw(str(error), "fetch it again") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _whole(file: Path) -> Tokenizer:
    """Read `tokenizer.json` as it is."""
    with json_text.flaws_at(FILE):
        tokenizer = parse(files.read_text(file))
    _check_template(tokenizer)
    return tokenizer


def _vocabulary(folder: Path, names: list[str]) -> Settings:
    """Check the files of a class without `tokenizer.json`; return a `vocab.txt`."""
    if set(names) == set(_BPE):
        try:
            models.BPE.from_file(*(str(folder / name) for name in _BPE))
        except Exception as error:  # bare, and says nothing of the files
            both = " with ".join(_BPE)
            raise InputError(f"{both}: {error}; fetch them again") from error
    if _WORDPIECE not in names:
        return {}
    vocabulary: dict[str, int] = {}
    for number, entry in files.lines(folder / _WORDPIECE):
        first = vocabulary.setdefault(entry, number - 1) + 1
        if first != number:
            fault = f"{quote(entry)} is on line {first} too"
            raise InputError.at(folder / _WORDPIECE, number, fault, "fetch it again")
    return {"vocab": vocabulary}


def _unigram(file: Path) -> tuple[Tokenizer, int]:
    """Read a SentencePiece model: pieces, normalization, id of the unknown piece.

    From the file itself transformers would make the pieces of the user's choice, such
    as XLNet's ".", marks that cut a text before a space is put in front of its words.
    """
    from google.protobuf.message import DecodeError
    from transformers.convert_slow_tokenizer import import_protobuf

    model: Any = vars(import_protobuf())["ModelProto"]()
    try:
        model.ParseFromString(file.read_bytes())
    except DecodeError:
        model.Clear()
    scores = {piece.piece: piece.score for piece in model.pieces}
    sound = all(scores) and all(map(math.isfinite, scores.values()))
    unknown = model.trainer_spec.unk_id
    if not (sound and len(scores) == len(model.pieces) and unknown < len(scores)):
        fault = f"{file.name} is not a SentencePiece model, or is damaged"
        raise InputError(f"{fault}; fetch it again")
    if model.trainer_spec.model_type != model.trainer_spec.UNIGRAM:
        raise InputError(f"{file.name} is not of the unigram kind")
    if file.name == _XLNET:  # a comma behind a digit is a piece of its own
        commas = [piece for piece in scores if re.search(r"\d,\Z", piece)]
        scores |= {piece: scores[piece] - 100 for piece in commas}
    with json_text.flaws_at(file.name):
        check_pieces([*scores])
        tokenizer = Tokenizer(models.Unigram(list(scores.items()), unk_id=unknown))
        if characters := model.normalizer_spec.precompiled_charsmap:
            tokenizer.normalizer = normalizers.Precompiled(characters)
            check_sizes(json.loads(tokenizer.to_str()))
    return tokenizer, unknown


def _case(whole: Tokenizer | None, vocabulary: Settings) -> Settings:
    """Return the settings of case that `tokenizer.json` or `vocab.txt` imply."""
    if whole is None:
        entries = (e for e in vocabulary["vocab"] if e[:1] not in ("[", "<"))
        return {"do_lower_case": all(entry == entry.lower() for entry in entries)}
    normalizer = whole.normalizer
    if isinstance(normalizer, normalizers.BertNormalizer):
        return {
            "do_lower_case": normalizer.lowercase,
            "strip_accents": normalizer.strip_accents,
            "tokenize_chinese_chars": normalizer.handle_chinese_chars,
        }
    lower = normalizer is not None and normalizer.normalize_str("A") == "a"
    return {"do_lower_case": lower}


def _absent(kind: Any, entries: Collection[str]) -> Settings:
    """Return settings without the tokens that fine-tuning can do without.

    A class adds its own behind the vocabulary, where the encoder has no embedding.
    """
    defaults = inspect.signature(kind).parameters
    names = [name for name in ("pad_token", "mask_token") if name in defaults]
    return {name: None for name in names if str(defaults[name].default) not in entries}


def _object(file: Path) -> Settings:
    content = json_text.read(file)
    if not isinstance(content, dict):
        raise InputError(f"{file.name} holds no JSON object; fetch it again")
    return content


def _settings(file: Path) -> Settings:
    """Read settings of the tokenizer, without those that are null."""
    content = {n: v for n, v in _object(file).items() if v is not None}
    for name in _FLAGS:
        if not isinstance(content.get(name), bool | None):
            fault = f"{name} is {quote(content[name])}; want true, false or null"
            raise InputError(f"{file.name}: {fault}")
    for name in _NAMES:
        token = content.get(name)
        if isinstance(token, dict):
            token |= {"__type": "AddedToken", "special": True}
            token = token.get("content")
        if not isinstance(token, str | None):
            fault = f"{name} is {quote(token)}; want text or null"
            raise InputError(f"{file.name}: {fault}")
        limits.PIECE.require(len(token or ""), file.name)
    return content


def _unusable(folder: Path, reason: str) -> InputError:
    return InputError(f"{folder}: no usable tokenizer ({' '.join(reason.split())})")
