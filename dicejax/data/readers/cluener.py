"""CLUENER2020: one JSON object per line, a text and the places of its names."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from dicejax.data.readers import json_text, text
from dicejax.data.readers.conll import Sentence
from dicejax.data.readers.skipping import Flaw, OnError, check_label, report
from dicejax.data.tags import Span
from dicejax.errors import InputError

TYPES = (
    "address",
    "book",
    "company",
    "game",
    "government",
    "movie",
    "name",
    "organization",
    "position",
    "scene",
)
"""The types of CLUENER2020."""


def read(
    path: str | os.PathLike[str],
    *,
    labelled: bool = True,
    types: Collection[str] | None = None,
    on_error: OnError | None = None,
) -> list[Sentence]:
    r"""Read texts as sentences of characters, with spans.

    A line is `{"text": ..., "label": {type: {string: [[first, last], ...]}}}`, last
    included. Each string must stand at its places. Spans may overlap, as one pair in
    the published training set does.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.json"
    >>> line = '{"text": "他去台湾", "label": {"address": {"台湾": [[2, 3]]}}}'
    >>> _ = path.write_text(line, "utf-8")
    >>> [sentence] = read(path)
    >>> sentence.words, [tuple(span) for span in sentence.spans]
    (('他', '去', '台', '湾'), [('address', 2, 4)])

    Args:
      path: local, or anything etils.epath opens (gs://, s3://).
      labelled: False for a test file without labels: then no sentence has spans.
      types: every type there is, such as `TYPES`; None allows any.
      on_error: is told of each line that is left out; None raises the first.

    Returns:
      The sentences in the order of the file; at least one.

    Raises:
      InputError: the file is missing, empty, a folder, or not UTF-8 text; a line is not
        such an object; a string is not at its place, or the place is outside the text
        or ends before it starts; a type is not in the list.
    """
    found = []
    for number, line in text.lines(path, on_error):
        if not line.strip():
            continue
        try:
            found.append(_sentence(line, number, labelled, types))
        except Flaw as flaw:
            report(flaw.at(path, number), on_error)
    if not found:
        raise InputError.at(
            path, None, "holds no sentences", "put one JSON object on each line"
        )
    return found


def _sentence(line: str, number: int, labelled: bool, types) -> Sentence:
    record = json_text.line(line)
    content = json_text.field(record, "text", str)
    if not content:
        raise Flaw("the text is empty", "remove the line")
    spans = []
    if labelled:
        if "label" not in record:
            raise Flaw(
                "has no 'label'", "add it, or read a test file with labelled=False"
            )
        label = json_text.field(record, "label", dict)
        spans = sorted(_spans(content, label, types), key=lambda s: (s.start, s.end))
    return Sentence(tuple(content), tuple(spans), number)


def _spans(content: str, label: dict, types) -> Iterator[Span]:
    for kind in label:
        check_label(kind, types)
        for name, places in json_text.field(label, kind, dict).items():
            for place in json_text.value_of(places, list):
                first, last = _place(place, name)
                _check_place(content, name, first, last)
                yield Span(kind, first, last + 1)


def _place(place: object, name: str) -> tuple[int, int]:
    if isinstance(place, list) and [type(end) for end in place] == [int, int]:
        return place[0], place[1]
    raise Flaw(f"place {place!r} of {name!r} is not [first, last]", "correct it")


def _check_place(content: str, name: str, first: int, last: int) -> None:
    if last < first:
        raise Flaw(f"{name!r} ends at {last} before it starts at {first}", "correct it")
    if first < 0 or last >= len(content):
        raise Flaw(
            f"{name!r} at {first} to {last} is outside the text of {len(content)} "
            "characters",
            "correct it",
        )
    if content[first : last + 1] != name:
        stands = content[first : last + 1]
        raise Flaw(
            f"{name!r} is not at {first} to {last}, where {stands!r} stands",
            "correct the place; its end is included",
        )
