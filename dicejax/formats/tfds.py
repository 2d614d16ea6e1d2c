"""Data sets of tensorflow-datasets, read without TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from etils import epath

from dicejax.data import tags
from dicejax.data.examples import (
    LabelledText,
    ReadingExample,
    Sentence,
    TaggedWords,
    by_character,
)
from dicejax.data.source import Corpus, Source
from dicejax.errors import Flaw, InputError, first_line, quote
from dicejax.formats import squad
from dicejax.formats.records import (
    Fields,
    FileRecord,
    OnError,
    Skipped,
    did_you_mean,
    read_examples,
)
from dicejax.formats.tables import Features
from dicejax.io import files, json_text

Example = Sentence | TaggedWords | ReadingExample | LabelledText
Convert = Callable[[Fields, int], Example | None]

PLAIN_NAME = re.compile(r"\w+(/[\w+.-]+)?(:(\d+|\*)(\.(\d+|\*)){2})?", re.ASCII)
"""NAME/CONFIGURATION:VERSION, without a namespace or arguments."""

_PAIRS = (("sentence1", "sentence2"), ("question1", "question2"))


def _source(source: TensorflowDataset, split: str) -> tuple[Iterable[Any], Features]:
    import tensorflow_datasets as package  # takes a second
    import tensorflow_datasets.text  # registers its data sets

    name, data_dir = source.name, source.dir
    if data_dir is not None:
        _check_classes(epath.Path(data_dir) / re.split("[/:]", name)[0])
    with _errors(name, "check the name"):
        try:
            form = {"data_dir": data_dir, "file_format": "array_record"}
            builder: Any = package.builder(name, **form)
        except package.core.DatasetNotFoundError:
            names = package.list_builders(with_community_datasets=False)
            remedy = did_you_mean(re.split("[/:]", name)[0], names) if names else ""
            remedy = remedy if 0 < len(remedy) < 200 else "check the name"
            fault = f"no such data set in tensorflow-datasets {package.__version__}"
            raise InputError(f"{name}: {fault}; {remedy}") from None
    if not builder.info.splits:
        _prepare(name, builder, source.download)
    base = re.split(r"\W", split)[0]
    if base not in builder.info.splits:
        remedy = did_you_mean(base, list(builder.info.splits))
        raise InputError(f"{name}: no split {quote(split)}; {remedy}")
    fault = f"{name}: cannot be read from {builder.data_dir}"
    with _errors(fault, "prepare it again as array_record"):
        return builder.as_data_source(split), builder.info.features


@contextlib.contextmanager
def _errors(fault: str, remedy: str) -> Iterator[None]:
    """Turn what builders and files raise, which may be anything, into an InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{fault}: {first_line(error)}; {remedy}") from error


def _check_classes(folder: epath.Path) -> None:
    """Refuse pipes, and features of other packages, which would be imported by name."""
    # NAME/VERSION or NAME/CONFIGURATION/VERSION.
    with files.input_errors(folder, "read"):  # to open a pipe would wait for ever
        for file in (*folder.glob("*/*"), *folder.glob("*/*/*")):
            if not file.is_dir():
                files.check_regular(file)
    for file in (*folder.glob("*/features.json"), *folder.glob("*/*/features.json")):
        parts = [json_text.read(file)]
        while parts:
            part = parts.pop()
            if isinstance(part, list):
                parts += part
            if not isinstance(part, dict):
                continue
            parts += part.values()
            for key in ("pythonClassName", "python_class_name", "type"):
                if not isinstance(name := part.get(key), str):
                    continue
                if not name.startswith("tensorflow_datasets."):
                    raise InputError(
                        f"{file}: a feature is of class {quote(name)}, which is "
                        "not of tensorflow-datasets; prepare the set again"
                    )


def _prepare(name: str, builder: Any, download: bool) -> None:
    if not download:
        raise InputError(
            f"{name}: is not prepared in {builder.data_dir}; allow its download, or "
            f"run: tfds build {name} --file_format=array_record"
        )
    fault = f"{name}: cannot be prepared"
    with _errors(fault, f"fix that, or copy a prepared set to {builder.data_dir}"):
        try:
            builder.download_and_prepare()
        except ImportError as error:
            reason = f"{fault} ({first_line(error)})"
            raise InputError(f"{reason}; install the package named here") from error


def _records(source: Iterable[Any], path: str) -> Iterator[Any]:
    with _errors(f"{path}: cannot be read", "prepare the set anew"):
        yield from source  # opens files late


def _plain(value: Any) -> Any:
    """Convert NumPy values and bytes to Python values and text."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            fault, remedy = f"{quote(value)} is not UTF-8", "prepare the set again"
            raise Flaw(fault, remedy) from None
    if hasattr(value, "tolist"):
        value = value.tolist()
        return _plain(value) if isinstance(value, bytes | list) else value
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _converter(name: str, features: Features, label: str | None) -> Convert:
    """Return a function from records with these features to examples."""
    if "tokens" in features:
        return _for_words(name, features, label)
    if label is not None:
        fault = f"has no labels per word; leave out label={quote(label)}"
        raise InputError(f"{name}: {fault}")
    if {"id", "context", "question", "answers"} <= set(features):
        return lambda record, _: squad.example(
            record["context"],
            {"is_impossible": False, **record, "answers": squad.answers_of(record)},
        )
    for pair in (*_PAIRS, ("sentence",)):
        if {*pair, "label"} <= set(features):
            return lambda record, number: _text_example(record, number, pair)
    raise InputError(
        f"{name}: has features {', '.join(features)}, which make no example known "
        "here; name a set for tagging, reading, or classifying one text or two"
    )


def _for_words(name: str, features: Features, label: str | None) -> Convert:
    if label is None:
        label = "ner" if "ner" in features else "upos"
    if label not in features or label == "tokens":
        remedy = did_you_mean(label, [name for name in features if name != "tokens"])
        raise InputError(f"{name}: no labels {quote(label)}; {remedy}")
    names = getattr(getattr(features[label], "feature", None), "names", None)
    scheme = _scheme(names) if names else None

    def convert(record: Fields, number: int) -> Sentence | TaggedWords | None:
        words, labels = tuple(record["tokens"]), record[label]
        if not words:  # conll2003 ends in one
            return None
        if len(words) != len(labels):
            fault = f"{len(words)} words but {len(labels)} labels"
            raise Flaw(fault, "prepare the set again")
        if names:
            labels = [names[place] for place in labels]
        if scheme:
            return Sentence(words, tuple(tags.spans(labels, scheme)), number)
        return TaggedWords(words, tuple(labels), number)

    return convert


def _scheme(names: list[str]) -> str | None:
    """Return the scheme of span tags; None if the names are no tags."""
    try:
        kinds = [tags.parse(name) for name in names]
    except ValueError:
        return None
    whole = all(kind or prefix == "O" for prefix, kind in kinds)
    return tags.detect_scheme([names]) if whole and "O" in names else None


def _text_example(record: Fields, number: int, texts: tuple[str, ...]) -> LabelledText:
    first, second = [record[name].strip() for name in texts] + [None] * (2 - len(texts))
    if not first or second == "":
        raise Flaw("a text is empty", "leave the example out")
    label = None if record["label"] == -1 else str(record["label"])
    id_ = str(record.get("idx", number - 1))
    return LabelledText(first, second, label, id_, number)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorflowDataset(Source):
    """A data set by its name in tensorflow-datasets; its features say what is read.

    | features                                 | such as                | example      |
    | ---------------------------------------- | ---------------------- | ------------ |
    | id, context, question, answers           | squad/v1.1, squad/v2.0 | Reading      |
    | tokens, labels that are tags (B-PER)     | conll2003              | Sentence     |
    | tokens, other labels                     | universal_dependencies | TaggedWords  |
    | sentence1, sentence2 / question1 and 2   | glue/mrpc, glue/qqp    | LabelledText |
    | sentence, label                          | glue/sst2              | LabelledText |

    Classes of texts are numbers written out, as in GLUE's own files; -1, a label that
    is kept back, is None. Lines count records from 1. Splits take tensorflow-datasets'
    own language: "train[:90%]".

    Args:
      name: data set, such as "squad", "glue/mrpc" or "conll2003".
      train: training split.
      dev: split that selects the best checkpoint.
      test: held-out split.
      dir: folder of sets prepared as array_record; None takes tensorflow-datasets' own.
      download: fetch and prepare it where it is missing.
      label: feature of the labels, where there are several.
      characters: write words with labels as characters with spans.
      on_error: "stop" at the first malformed example, or "skip" them.
    """

    name: str
    train: str = "train"
    dev: str = "validation"
    test: str = "test"
    dir: str | None = None
    download: bool = False
    label: str | None = None
    characters: bool = False
    on_error: Literal["stop", "skip"] = "stop"

    def read(self, split: str, on_error: OnError | None = None) -> list[Example]:
        """Read a split.

        Raises:
          InputError: the set, split or label is unknown, not prepared or of no kind
            above; an example is flawed.
        """
        source, features = _source(self, split)
        convert = _converter(self.name, features, self.label)

        def make(record: FileRecord, row: int) -> Example | None:
            example = convert(_plain(record.value), record.number)
            if self.characters and isinstance(example, TaggedWords):
                return by_character(example)
            return example

        path, empty = f"{self.name}:{split}", Flaw("is empty", "name another split")
        rows = enumerate(_records(source, path), start=1)
        records = (FileRecord(x, n, path, where=f"example {n}") for n, x in rows)
        return read_examples(path, records, make, on_error, empty=empty)

    def load(self) -> Corpus:
        """Read the three splits."""
        notes: list[str] = []
        splits = []
        for split in (self.train, self.dev, self.test):
            skipped = Skipped() if self.on_error == "skip" else None
            splits.append(tuple(self.read(split, skipped)))
            if skipped is not None and skipped.count:
                notes.append(f"{self.name}, {split}: {skipped}")
        train, dev, test = splits
        return Corpus(train, dev, test, tuple(notes))

    def offline(self) -> TensorflowDataset:
        """Return this source without its download.

        Raises:
          InputError: the name has a namespace or arguments, for which code is fetched.
        """
        if not PLAIN_NAME.fullmatch(self.name):
            raise InputError(
                f"data set {quote(self.name)} is not a plain name: tensorflow-datasets "
                "may fetch code for it and run it"
            )
        return dataclasses.replace(self, download=False)
