"""JSON lines: texts with a class or labels; words with tags, texts with entities."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence

from dicejax.data import tags
from dicejax.data.examples import LabelledText, MultiLabelText, Sentence
from dicejax.data.tags import Span
from dicejax.errors import Flaw, InputError, quote, truncate
from dicejax.formats import annotations, brat, tables
from dicejax.formats.records import (
    Example,
    FileRecord,
    fields_of,
    read_examples,
)
from dicejax.formats.skipping import (
    OnError,
    check_label,
    check_tag,
    did_you_mean,
    report,
)
from dicejax.io import files, json_text

TAGS = ("tags", "ner_tags")  # fields that may hold the tags of `tokens`
_WORD = re.compile(r"\w+|[^\w\s]")


def read_texts(
    path: str | os.PathLike[str],
    *,
    first: str = "text",
    second: str | None = None,
    label: str = "label",
    names: Sequence[str] = (),
    on_error: OnError | None = None,
) -> list[LabelledText]:
    r"""Read texts or pairs with a class; a missing or null one is None.

    Texts are stripped, blank lines skipped.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.jsonl"
    >>> _ = path.write_text('{"id": 7, "text": "a fine film", "label": 1}\n')
    >>> [example] = read_texts(path, names=["bad", "good"])
    >>> example.id, example.first, example.label
    ('7', 'a fine film', 'good')

    Raises:
      InputError: a record lacks a text; a label is no text or number, or has no name.
    """

    def gold(fields: dict) -> str | None:
        return _class(fields.get(label), label, names)

    return _read_texts(path, LabelledText, first, second, gold, on_error)


def read_multi_label(
    path: str | os.PathLike[str],
    *,
    first: str = "text",
    second: str | None = None,
    labels: str = "labels",
    names: Sequence[str] = (),
    on_error: OnError | None = None,
) -> list[MultiLabelText]:
    """Read texts or pairs with any number of labels; None if missing or null.

    Raises:
      InputError: a record lacks a text; labels are no list; one is no text or number,
        occurs twice or has no name.
    """

    def gold(fields: dict) -> tuple[str, ...] | None:
        return _labels(fields, labels, names)

    return _read_texts(path, MultiLabelText, first, second, gold, on_error)


def _read_texts(
    path: str | os.PathLike[str],
    kind: Callable[..., Example],
    first: str,
    second: str | None,
    gold: Callable[[dict], object],
    on_error: OnError | None,
) -> list[Example]:
    def make(record: FileRecord, row: int) -> Example:
        fields = record.fields()
        texts = [_text(fields, name) if name else None for name in (first, second)]
        id_ = fields.get("id")
        id_ = str(id_) if type(id_) in (int, str) else str(row)
        return kind(*texts, gold(fields), id_, record.number)

    rows = records(path, on_error)
    return read_examples(path, rows, make, on_error, empty="holds no texts")


def read_sentences(
    path: str | os.PathLike[str],
    *,
    names: Sequence[str] = (),
    on_error: OnError | None = None,
) -> list[Sentence]:
    r"""Read sentences with spans.

    Either words and their tags, as `{"tokens": [...], "ner_tags": [...]}` (or `tags`),
    in the scheme that is detected from the file; or a text and its entities, in one of
    the layouts of `annotations`. A text is divided into runs of letters and digits, and
    single other characters; an entity must not cut one.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.jsonl"
    >>> _ = path.write_text('{"text": "In New York.", "entities": '
    ...     '[{"start": 3, "end": 11, "label": "LOC"}]}\n')
    >>> [sentence] = read_sentences(path)
    >>> sentence.words, [tuple(span) for span in sentence.spans]
    (('In', 'New', 'York', '.'), [('LOC', 1, 3)])

    Raises:
      InputError: a record is none of these; words and tags differ in number; a tag is
        malformed; an entity is outside of the text, cuts a word or overlaps another.
    """

    def make(record: FileRecord, row: int) -> tuple[Sentence, list[str] | None]:
        return _sentence(record.fields(), record.number, names)

    rows = read_examples(path, records(path, on_error), make, on_error)
    scheme = tags.detect_scheme(labels for _, labels in rows if labels is not None)
    sentences = []
    for sentence, labels in rows:
        if labels is not None:
            try:
                for tag in set(labels):
                    check_tag(tag, scheme)
            except Flaw as flaw:
                report(flaw.at(path, sentence.line), on_error)
                continue
            spans = tuple(tags.spans(labels, scheme))
            sentence = dataclasses.replace(sentence, spans=spans)
        sentences.append(sentence)
    if not sentences:
        raise InputError.at(path, None, "holds no sentences", "name another file")
    return sentences


def records(
    path: str | os.PathLike[str], on_error: OnError | None = None
) -> Iterator[FileRecord]:
    """Yield the records of a file: an object on each line, or one list of them.

    Rows of a table of `datasets` and documents of brat are such records too.
    """
    if tables.is_table(path):
        yield from tables.records(path)
        return
    if brat.is_folder(path):
        yield from brat.records(path, on_error)
        return
    lines = ((n, line) for n, line in files.lines(path, on_error) if line.strip())
    first = next(lines, None)
    if first is not None and _begins_a_list(first[1]):
        for place, value in enumerate(json_text.value_of(json_text.read(path), list)):
            yield FileRecord(value, place + 1, path, where=f"[{place}]")
        return
    for number, line in itertools.chain([first] if first else [], lines):
        yield record(path, number, line)


def record(path: str | os.PathLike[str], number: int, line: str) -> FileRecord:
    """Return the record on a line."""
    try:
        return FileRecord(json_text.parse(line), number, path, number)
    except Flaw as flaw:
        return FileRecord(flaw, number, path, number)


def _begins_a_list(line: str) -> bool:
    """Return whether a line begins a list of records, and is no record itself."""
    if line.lstrip().startswith("["):
        try:
            fields_of(json_text.parse(line))
        except Flaw:
            return True
    return False


def _text(record: dict, name: str) -> str:
    text = json_text.field(record, name, str).strip()
    if not text:
        raise Flaw(f"{quote(name)} is empty", "remove the line")
    return text


def _class(value: object, field: str, names: Sequence[str]) -> str | None:
    if value is None:
        return None
    if type(value) is int:
        if not names:
            return str(value)
        if not 0 <= value < len(names):
            what = f"{quote(field)} is {quote(value)}, but names are given for 0 to"
            raise Flaw(f"{what} {len(names) - 1}", "correct it or name all")
        return names[value]
    if type(value) is float:
        what = f"{quote(field)} is {quote(value)}, a number and no class"
        raise Flaw(what, "name classes: regression is not for this tool")
    try:
        label = json_text.value_of(value, str)
    except Flaw as flaw:
        raise Flaw(f"{quote(field)} {flaw.what}", flaw.do) from None
    check_label(label, names or None)
    return label


def _labels(record: dict, field: str, names: Sequence[str]) -> tuple[str, ...] | None:
    if record.get(field) is None:
        return None
    labels: dict[str, None] = {}
    for place, value in enumerate(json_text.field(record, field, list)):
        where = f"{field}[{place}]"
        if value is None or (isinstance(value, str) and not value.strip()):
            what = "null" if value is None else "blank"
            raise Flaw(f"{quote(where)} is {what}", "remove it")
        label = _class(value, where, names) or ""
        if label in labels:
            raise Flaw(f"{quote(field)} has {quote(label)} twice", "remove one")
        labels[label] = None
    return tuple(labels)


def _sentence(
    record: dict, line: int, names: Sequence[str]
) -> tuple[Sentence, list[str] | None]:
    """Return a sentence with its spans, or without and the tags of its words."""
    if not {"tokens", "text", "data"} & record.keys():
        fields = truncate(", ".join(map(quote, record)), 240)
        raise Flaw(f"has neither 'tokens' nor 'text' but {fields}", "rename its fields")
    has_tags = any(name in record for name in TAGS)
    # Prodigy's texts have tokens too.
    if "tokens" not in record or ("text" in record and not has_tags):
        words, spans = _entities(record)
        return Sentence(words, spans, line), None
    texts = strings(record, "tokens")
    return Sentence(tuple(texts), (), line), _tags(record, len(texts), names)


def strings(record: dict, name: str) -> list[str]:
    """Return a field that lists texts.

    Raises:
      Flaw: it is missing, no such list or empty, or a text is blank.
    """
    values = json_text.field(record, name, list)
    if not values:
        raise Flaw(f"{quote(name)} is empty", "remove the line")
    for place, value in enumerate(values):
        try:
            if not json_text.value_of(value, str).strip():
                raise Flaw("is blank", "remove it")
        except Flaw as flaw:
            raise Flaw(f"{name}[{place}] {flaw.what}", flaw.do) from None
    return values


def _tags(record: dict, count: int, names: Sequence[str]) -> list[str]:
    field = next((name for name in TAGS if name in record), None)
    if field is None:
        raise Flaw(f"has 'tokens' and no {' or '.join(map(quote, TAGS))}", "add it")
    values = json_text.field(record, field, list)
    if len(values) != count:
        raise Flaw(f"{count} tokens but {len(values)} {field}", "correct the line")
    if all(type(value) is int for value in values):
        if not names:
            what = f"{field} are whole numbers without names"
            raise Flaw(what, "give their names (--data.names), in their order")
        return [str(_class(value, field, names)) for value in values]
    texts = strings(record, field)
    if names:
        for tag in texts:
            if tag not in names:
                raise Flaw(f"tag {quote(tag)} is unknown", did_you_mean(tag, names))
    for tag in texts:
        check_tag(tag, None)
    return texts


def _entities(record: dict) -> tuple[tuple[str, ...], tuple[Span, ...]]:
    text, entities = annotations.text_and_entities(record)
    places = [match.span() for match in _WORD.finditer(text)]
    if not places:
        raise Flaw("the text has no words", "remove the line")
    starts = {start: word for word, (start, _) in enumerate(places)}
    ends = {end: word + 1 for word, (_, end) in enumerate(places)}
    spans: list[Span] = []
    for start, end, label, name in entities:
        if not 0 <= start < end <= len(text):
            what = f"{name} is at {quote(start)} to {quote(end)} of {len(text)}"
            do = "correct it: offsets count characters from 0, end excluded"
            raise Flaw(f"{what} characters", do)
        part = text[start:end]
        first = start + len(part) - len(part.lstrip())
        last = end - (len(part) - len(part.rstrip()))
        if first not in starts or last not in ends:
            what = f"{name} is {quote(part)}, which cuts a word"
            raise Flaw(what, "correct its offsets")
        spans.append(Span(label, starts[first], ends[last]))
    spans.sort(key=lambda span: (span.start, span.end))
    for span, other in itertools.pairwise(spans):
        if other.start < span.end:
            what = f"entities {quote(span.type)} and {quote(other.type)} overlap"
            raise Flaw(what, "keep one of them")
    return tuple(text[start:end] for start, end in places), tuple(spans)
