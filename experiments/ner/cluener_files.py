"""CLUENER2020: one JSON object per line, a text and its entity offsets."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import ClassVar

from etils import epath

from dicejax.data.examples import Sentence
from dicejax.data.tags import Span
from dicejax.errors import Flaw, InputError, quote
from dicejax.formats import FileSource
from dicejax.formats.records import OnError, check_label, report
from dicejax.io import files, json_text

_NAMES = "address book company game government movie name organization position scene"
TYPES = frozenset(_NAMES.split())
"""The types of CLUENER2020."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CluenerFiles(FileSource):
    """CLUENER2020 as released: its test file has no labels, so dev is the test set.

    The dev split is held out of train.
    """

    noun: ClassVar[str] = "sentences"

    train: str = "train.json"
    dev: str | None = None
    stratified: bool = False
    test: str | None = "dev.json"

    def read(self, path: epath.Path, on_error: OnError | None) -> list[Sentence]:
        """Read one file."""
        return read(path, on_error=on_error)


def read(
    path: str | os.PathLike[str], *, on_error: OnError | None = None
) -> list[Sentence]:
    r"""Read texts as sentences of characters, with spans.

    A line is `{"text": ..., "label": {type: {string: [[first, last], ...]}}}`, last
    included. Each string must be at its places. Spans may overlap, as one pair in
    the published training set does.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.json"
    >>> line = '{"text": "他去台湾", "label": {"address": {"台湾": [[2, 3]]}}}'
    >>> _ = path.write_text(line, "utf-8")
    >>> [sentence] = read(path)
    >>> sentence.words, [tuple(span) for span in sentence.spans]
    (('他', '去', '台', '湾'), [('address', 2, 4)])

    Raises:
      InputError: a malformed line, an unknown type, or a string not at its place.
    """
    sentences = []
    for number, line in files.lines(path, on_error):
        if not line.strip():
            continue
        try:
            sentences.append(_sentence(line, number))
        except Flaw as flaw:
            report(flaw.at(path, number), on_error)
    if not sentences:
        do = "put one JSON object on each line"
        raise InputError.at(path, None, "holds no sentences", do)
    return sentences


def _sentence(line: str, number: int) -> Sentence:
    record = json_text.parse(line)
    content = json_text.field(record, "text", str)
    if not content:
        raise Flaw("the text is empty", "remove the line")
    spans = _spans(content, json_text.field(record, "label", dict))
    spans = sorted(spans, key=lambda span: (span.start, span.end))
    return Sentence(tuple(content), tuple(spans), number)


def _spans(content: str, label: dict) -> Iterator[Span]:
    for kind in label:
        check_label(kind, TYPES)
        for name, places in json_text.field(label, kind, dict).items():
            for place in json_text.value_of(places, list):
                first, last = _place(place, name)
                _check_place(content, name, first, last)
                yield Span(kind, first, last + 1)


def _place(place: object, name: str) -> tuple[int, int]:
    if isinstance(place, list) and [type(end) for end in place] == [int, int]:
        return place[0], place[1]
    raise Flaw(
        f"place {quote(place)} of {quote(name)} is not [first, last]", "correct it"
    )


def _check_place(content: str, name: str, first: int, last: int) -> None:
    where = f"{quote(name)} at {quote(first)} to {quote(last)}"
    if last < first:
        raise Flaw(f"{where} ends before it starts", "correct it")
    if first < 0 or last >= len(content):
        what = f"{where} is outside the text of {len(content)} characters"
        raise Flaw(what, "correct it")
    if content[first : last + 1] != name:
        raise Flaw(
            f"{where} is not there, but {quote(content[first : last + 1])}",
            "correct the place; its end is included",
        )
