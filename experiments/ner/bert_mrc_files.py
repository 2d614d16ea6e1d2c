"""BERT-MRC: named entities as answers to a query per type, in one JSON list."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Collection, Sequence
from typing import ClassVar

from etils import epath

from dicejax.data.examples import Sentence
from dicejax.data.tags import Span
from dicejax.errors import Flaw, InputError, quote
from dicejax.formats import FileSource
from dicejax.formats.records import OnError, check_label, report
from dicejax.io import json_text

_PLACE = re.compile(r"([0-9]{1,9})[;,]([0-9]{1,9})")


@dataclasses.dataclass(frozen=True)
class SpanQuery:
    """A sentence, asked for the spans of one type: one item of BERT-MRC.

    Attributes:
      id: id of the item; its part before the first dot is the sentence's.
      query: description of the type.
      words: words of the sentence; characters in Chinese.
      label: type of span.
      spans: all spans of this type, sorted; they may nest and overlap.
    """

    id: str
    query: str
    words: tuple[str, ...]
    label: str
    spans: tuple[Span, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertMrcFiles(FileSource):
    """BERT-MRC's JSON as its authors released it, items of a sentence merged.

    The queries in the files are not used: the task names its own.

    Args:
      labels: allowed entity types; empty allows any.
    """

    noun: ClassVar[str] = "sentences"

    train: str = "mrc-ner.train"
    dev: str | None = "mrc-ner.dev"
    test: str | None = "mrc-ner.test"
    labels: tuple[str, ...] = ()

    def read(self, path: epath.Path, on_error: OnError | None) -> list[Sentence]:
        """Read one file."""
        queries = read(path, labels=self.labels or None, on_error=on_error)
        return merged(path, queries)


def merged(path: epath.Path, queries: Sequence[SpanQuery]) -> list[Sentence]:
    """Merge the items of each sentence by the first part of their id.

    >>> spans = [("PER", Span("PER", 0, 1)), ("LOC", Span("LOC", 2, 3))]
    >>> words = ("Ada", "in", "London")
    >>> items = [SpanQuery(f"7.{n}", "?", words, label, (span,))
    ...     for n, (label, span) in enumerate(spans)]
    >>> [sentence] = merged("dev.json", items)
    >>> [span.type for span in sentence.spans]
    ['PER', 'LOC']

    Raises:
      InputError: items of one sentence have different words.
    """
    sentences: dict[str, tuple[tuple[str, ...], list[Span]]] = {}
    for item in queries:
        key = item.id.partition(".")[0]
        words, spans = sentences.setdefault(key, (item.words, []))
        if words != item.words:
            raise InputError.at(
                path,
                None,
                f"items of sentence {quote(key)} have different words, "
                f"{quote(item.id)} among them",
                "give the items of each sentence an id of their own, as 'SENTENCE.N'",
            )
        spans += item.spans
    return [
        Sentence(words, tuple(sorted(spans, key=lambda s: (s.start, s.end))), number)
        for number, (words, spans) in enumerate(sentences.values(), start=1)
    ]


def read(
    path: str | os.PathLike[str],
    *,
    labels: Collection[str] | None = None,
    on_error: OnError | None = None,
) -> list[SpanQuery]:
    r"""Read sentences with a query for each type of span.

    Each item has `context` (words, one space between them; characters for Chinese),
    `query`, `entity_label`, `qas_id`, `impossible` (no span of this type) and the
    places of the spans three times over, ends included: `start_position`,
    `end_position` and, as "start;end", `span_position`. The three must agree.

    >>> import json, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.json"
    >>> item = {"context": "Ada Lovelace slept", "query": "people", "qas_id": "0.1",
    ...         "entity_label": "PER", "impossible": False, "start_position": [0],
    ...         "end_position": [1], "span_position": ["0;1"]}
    >>> _ = path.write_text(json.dumps([item]))
    >>> [example] = read(path)
    >>> example.words, [tuple(span) for span in example.spans]
    (('Ada', 'Lovelace', 'slept'), [('PER', 0, 2)])

    Args:
      path: see `readers`.
      labels: every `entity_label` there is; None allows any.
      on_error: see `readers`.

    Raises:
      InputError: the file is not a JSON list; an item lacks a field, its places
        disagree, lie outside the sentence or end before they start; an id comes twice;
        a label is not in the list.
    """
    document = json_text.read(path)
    if not isinstance(document, list):
        raise InputError.at(path, None, "is not a JSON list", "put the items in one")
    queries: list[SpanQuery] = []
    ids: set[str] = set()
    for place, record in enumerate(document):
        try:
            example = _query(record, labels)
            if example.id in ids:
                raise Flaw("the id comes a second time", "give each item its own")
        except Flaw as flaw:
            report(flaw.at(path, None, _where(place, record)), on_error)
            continue
        ids.add(example.id)
        queries.append(example)
    if not queries:
        raise InputError.at(path, None, "holds no items", "name a file that has some")
    return queries


def _where(place: int, record: object) -> str:
    named = isinstance(record, dict) and record.get("qas_id")
    return f"item {place}" + (f" (qas_id {quote(named)})" if named else "")


def _query(record: object, labels: Collection[str] | None) -> SpanQuery:
    label = json_text.field(record, "entity_label", str)
    check_label(label, labels)
    words = json_text.field(record, "context", str).split(" ")
    if "" in words:
        raise Flaw(
            "'context' is empty or has two spaces in a row, so places are unsure",
            "put one space between words",
        )
    return SpanQuery(
        id=json_text.field(record, "qas_id", str),
        query=json_text.field(record, "query", str),
        words=tuple(words),
        label=label,
        spans=_spans(record, label, len(words)),
    )


def _spans(record: object, label: str, length: int) -> tuple[Span, ...]:
    places = json_text.field(record, "span_position", list)
    spans = [_span(place, label, length) for place in places]
    _check_agrees(record, "start_position", {span.start for span in spans})
    _check_agrees(record, "end_position", {span.end - 1 for span in spans})
    impossible = json_text.field(record, "impossible", bool)
    if impossible and spans:
        raise Flaw("is impossible but has spans", "correct one or the other")
    if not impossible and not spans:
        raise Flaw("has no span but is not impossible", "correct one or the other")
    return tuple(sorted(spans, key=lambda span: (span.start, span.end)))


def _span(place: object, label: str, length: int) -> Span:
    match = _PLACE.fullmatch(place) if isinstance(place, str) else None
    if not match:
        raise Flaw(f"'span_position' holds {quote(place)}", 'write "start;end"')
    start, end = int(match[1]), int(match[2])
    if end < start:
        raise Flaw(f"span {quote(place)} ends before it starts", "correct it")
    if end >= length:
        raise Flaw(
            f"span {quote(place)} is outside the sentence of {length} words",
            "correct it; words count from 0",
        )
    return Span(label, start, end + 1)


def _check_agrees(record: object, name: str, expected: set[int]) -> None:
    values = [json_text.value_of(v, int) for v in json_text.field(record, name, list)]
    if set(values) != expected:
        raise Flaw(
            f"{quote(name)} is {quote(values)} but 'span_position' says "
            f"{quote(sorted(expected))}",
            "correct one or the other; ends are included",
        )
