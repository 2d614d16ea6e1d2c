"""Files of examples to predict, and of their predictions, line for line.

docs/own-data.md says what each format keeps of a line, which ends in LF or CR LF.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from etils import epath

from dicejax.errors import Flaw, InputError, quote
from dicejax.formats import (
    containers,
    json_sentences,
    kinds,
    rows,
    separated,
    squad,
    tables,
)
from dicejax.formats.conll import ConllFiles
from dicejax.formats.labelled import TextFiles
from dicejax.formats.records import FileRecord, join_pair, texts_of
from dicejax.formats.sample import FileSample
from dicejax.formats.source import FileSource, Form
from dicejax.formats.text import Predictions, Text, Texts
from dicejax.io import files, json_text

FORMS: Mapping[Form, str] = {
    "text": "plain text, one example per line",
    "jsonl": "JSON lines",
    "conll": "columns, the first one words",
    "csv": "a table with a header",
}

_ENDINGS: Mapping[Form, str] = {
    "jsonl": "jsonl ndjson json",
    "conll": "conll bio iob bmes conllu",
    "csv": "csv tsv tab",
}


def format_of(path: str, source: FileSource | None = None) -> Form:
    """Return the format of a file by its name, or by that of a run's training files.

    A file whose name does not tell is of the source's format if it is one of its files,
    or looks so.
    """
    if containers.is_split(path):
        return "jsonl"
    file = FileSample(epath.Path(path))
    forms: list[Form] = [f for f, e in _ENDINGS.items() if file.ending in e.split()]
    form: Form = forms[0] if forms else "text"
    if source is None or not file.path.is_file():
        return form
    splits = (source.train, source.dev, source.test)
    names = "+".join(name for name in splits if name is not None).split("+")
    looks_so = form == "csv" and _is_word_table(source)
    if form == "text":
        tagged = source.form == "conll"
        looks_so = kinds.has_tags(file) if tagged else kinds.fits(source, file)
    return source.form if file.path.name in names or looks_so else form


def _is_word_table(source: FileSource) -> TypeGuard[ConllFiles]:
    return isinstance(source, ConllFiles) and source.sentence_column is not None


def same_format(
    path: str, form: Form, source: FileSource, stream: files.Stream = None
) -> FileSource | None:
    """Return the source if a file of a format is like its files, else None.

    Raises:
      InputError: a stream is a table of words, as its files are, but not the format.
    """
    if source.form != form:
        if stream is not None and _is_word_table(source):
            number, line = next(files.lines(path, stream=stream))
            stream.seek(0)
            with contextlib.suppress(Flaw):  # of a text with a quote
                if source.columns.is_header(line):
                    fault = "is the header of a table of words"
                    remedy = "read it with --format conll"
                    raise InputError.at(path, number, fault, remedy)
        return None
    separator = source.separator if isinstance(source, TextFiles) else ""
    if form == "csv" and path != "-" and separator not in containers.first_line(path):
        return None
    return source


def read(
    path: files.Path,
    form: Form,
    stream: files.Stream = None,
    columns: Sequence[str] = ("text",),
    source: FileSource | None = None,
) -> Texts:
    """Return the examples of a file, or of a stream in its place, to be looped over.

    With a source it is read as its training files were. Else `columns` hold the text,
    or the two of a pair, of CSV and of objects.

    A loop raises InputError: see `files.lines`; or a line is not of the format, or, at
    its end, all are blank.
    """

    def begin() -> Iterable[Text]:
        if stream is not None:
            stream.seek(0)
        if form == "csv":
            return _rows(path, stream, columns, source)
        if source is not None:
            return source.texts(path, stream)
        if form == "jsonl":
            return _objects(path, stream, columns)
        if form == "conll":
            return ConllFiles(dir="").texts(path, stream)
        return itertools.starmap(Text, files.lines(path, stream=stream))

    def read() -> Iterator[Text]:
        is_blank = True
        for text in begin():
            is_blank = is_blank and text.is_blank
            yield text
        if is_blank:
            raise InputError(f"{path}: holds no text")

    return Texts(read)


def _rows(
    path: files.Path,
    stream: files.Stream,
    columns: Sequence[str],
    source: FileSource | None,
) -> Iterable[Text]:
    """Read a table; its separator is that of the source, if the header has it.

    Else it is the one that the header has most of.
    """
    _, header = next(files.lines(path, stream=stream))
    if stream is not None:
        stream.seek(0)
    if not isinstance(source, TextFiles):
        first, second = [*columns, None][:2]
        source = TextFiles(dir="", first=first or "text", second=second)
    if source.separator not in header:
        separator = max(separated.SEPARATORS, key=header.count)
        source = dataclasses.replace(source, separator=separator, quoted=True)
    return source.texts(path, stream)


def table(examples: Iterable[Text], pairs: Predictions) -> Iterator[str]:
    """Yield lines of CSV: the columns of all examples, prediction and probability.

    `pairs` are the examples again, with their predictions.
    The prediction is the class of a text, else a JSON object. Names of columns differ,
    and a text that would be a formula has an apostrophe before it, see `as_text`.

    >>> rows = [Text(2, "fine", fields={"id": "7", "text": "fine"})]
    >>> record = {"texts": ["fine"], "label": "good", "probabilities": {"good": 0.9}}
    >>> list(table(rows, [(rows[0], record)]))
    ['id,text,prediction,probability', '7,fine,good,0.9']
    """
    columns: dict[Any, str] = {}  # names in the table, by those of fields
    taken = {*separated.PREDICTED}
    for example in examples:
        fields = list(example.fields or {"text": ""})
        if fields[-2:] == separated.PREDICTED:  # of a prediction before
            fields = fields[:-2]
        for name in fields:
            if name not in columns:
                columns[name] = _unique(str(name), taken)
                taken.add(columns[name])
    yield _row([*columns.values(), *separated.PREDICTED])
    for text, record in pairs:
        values = text.fields or {"text": text.text}
        label = record.get("label")
        if "label" in record:
            prediction = [label, record["probabilities"][label]]
        else:
            rest = {k: v for k, v in record.items() if k not in ("id", "question")}
            prediction = [json.dumps(rest, ensure_ascii=False) if rest else "", ""]
        yield _row([*(values.get(name, "") for name in columns), *prediction])


def _unique(name: str, taken: Collection[str]) -> str:
    """Return a name, with a number behind it where another column has it."""
    name = name.rstrip(separated.AGAIN)
    numbered = (f"{name}.{number}" for number in itertools.count(1))
    choices = itertools.chain([name], numbered)
    return next(x for x in choices if x not in taken)


def _row(cells: Iterable[object]) -> str:
    return separated.row(map(separated.as_text, cells))


def offsets(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the characters of each word in a text that holds them in this order."""
    spans, end = [], 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        spans.append((start, end))
    return spans


def has_tags(record: Mapping[str, Any]) -> bool:
    """Return whether a prediction gives each word a tag."""
    return isinstance(record.get("words"), list) and bool(
        {"labels", "entities"} & record.keys()
    )


def conll(text: Text, record: Mapping[str, Any]) -> str:
    """Format a prediction as rows, the predicted tag in a new last column.

    Spans are written in the BIO scheme; of overlapping spans the first is kept. A
    word without a prediction has the tag `_`.
    """
    words = record["words"]
    predicted = rows.labels_of(record, len(words), "BIO")
    lines = [
        "\t".join([row, tag]) if "\t" in row else f"{row} {tag}"
        for row, tag in zip(text.rows or words, predicted, strict=True)
    ]
    if not text.rows:
        return "\n".join([*lines, ""])
    return "\n".join([*text.before, *lines, *text.after])


def jsonl(text: Text, record: Mapping[str, Any]) -> str:
    """Format a prediction as a JSON object, after the fields of its example."""
    identity = {"id": text.fields["id"]} if "id" in text.fields else {}
    return json.dumps({**text.fields, **record, **identity}, ensure_ascii=False)


def check_ids(texts: Iterable[Text], path: str | None = None) -> None:
    """Raise unless each example has an id of its own; blank lines need none.

    Raises:
      InputError: an example has no id, or two have the same.
    """
    lines: dict[str, int] = {}
    for text in texts:
        if text.is_blank and not text.fields:
            continue
        name, fault, remedy = _id_of(text), "", ""
        if not name:
            fault, remedy = "has no id, the key of an answer of squad", "add it"
        elif name in lines:
            fault = f"has the id {quote(name)} of line {lines[name]}"
            remedy = "give each its own"
        if fault:
            raise InputError.at(path or "texts", text.line, fault, remedy)
        lines[name] = text.line


def _id_of(text: Text) -> str:
    value = text.fields.get("id")
    return str(value) if type(value) in (str, int) else ""


def official(pairs: Predictions) -> str:
    """Format answers for SQuAD's evaluation scripts, `{id: text}`; "" for none.

    The ids are those that `check_ids` has passed.
    """
    named = ((_id_of(text), record.get("answer", "")) for text, record in pairs)
    return json.dumps({name: x for name, x in named if name}, ensure_ascii=False)


def _objects(
    path: files.Path, stream: files.Stream, columns: Sequence[str]
) -> Iterator[Text]:
    """Read words, questions, or the columns of texts, whichever an object has."""

    def make(record: FileRecord) -> Text:
        fields = json_text.value_of(record.content(), dict)
        if "tokens" in fields and "text" not in fields:
            return json_sentences.text_of_words(record.number, fields, "tokens")
        if "question" in fields and "context" in fields:
            return squad.question(record)
        names = tuple(columns) if fields.keys() >= set(columns) else ("text",)
        text = join_pair([json_text.field(fields, name, str) for name in names])
        return Text(record.number, text, fields=fields)

    is_document = stream is None and not tables.is_table(path)
    if is_document and containers.is_document(containers.first_line(path)):
        return texts_of(squad.to_predict(path), make)
    return texts_of(containers.records(path, stream=stream, blanks=True), make)
