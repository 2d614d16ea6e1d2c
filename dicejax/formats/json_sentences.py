"""JSON lines: words with tags, texts with entities."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Sequence
from typing import ClassVar

from dicejax.data import tags
from dicejax.data.examples import Sentence
from dicejax.data.tags import Span
from dicejax.errors import Flaw, InputError, quote, truncate
from dicejax.formats import annotations, containers, tables
from dicejax.formats.json_texts import class_of
from dicejax.formats.records import (
    FileRecord,
    read_examples,
)
from dicejax.formats.sample import FileSample
from dicejax.formats.skipping import (
    OnError,
    check_tag,
    did_you_mean,
    report,
)
from dicejax.formats.source import FileSource
from dicejax.io import json_text

TAGS = ("tags", "ner_tags")  # fields that may hold the tags of `tokens`
_WORD = re.compile(r"\w+|[^\w\s]")


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

    rows = read_examples(path, containers.records(path, on_error), make, on_error)
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
        return [str(class_of(value, field, names)) for value in values]
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonSentences(FileSource):
    """Words with tags or texts with entities, a JSON object per line.

    Args:
      names: names of tags that are whole numbers, from 0.
    """

    several: ClassVar[str] = "sentences"
    reader = staticmethod(read_sentences)

    train: str = "train.jsonl"
    dev: str | None = "dev.jsonl"
    test: str | None = "test.jsonl"
    names: tuple[str, ...] = ()

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file has records, or is a folder of brat."""
        return file.has_records or file.is_brat

    @classmethod
    def looks(cls, file: FileSample) -> str:
        """Return what such a file looks like."""
        if file.is_brat:
            return "holds brat's .ann files"
        return f"is {tables.describe(file.path)}" if file.is_arrow else "is JSON lines"
