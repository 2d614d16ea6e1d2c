"""Texts and pairs of texts with a class, in tab-separated files as GLUE has them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

from dicejax.data.examples import LabelledText
from dicejax.data.readers import text
from dicejax.data.readers.skipping import (
    Flaw,
    OnError,
    check_label,
    did_you_mean,
    report,
)
from dicejax.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """Which column of a tab-separated file is what.

    Columns are named as the file's first line names them, or numbered from 0 where it
    names none.

    Args:
      first: the text, or the first of a pair.
      second: the second of a pair; None where there is none.
      label: the class.
      id: what tells examples apart; None numbers the rows from 0.
      labels: every class there is; None allows any.
    """

    first: str | int
    second: str | int | None = None
    label: str | int
    id: str | int | None = None
    labels: tuple[str, ...] | None = None

    def __post_init__(self):
        used = [
            c for c in (self.first, self.second, self.label, self.id) if c is not None
        ]
        if len({type(column) for column in used}) > 1:
            raise ValueError(f"name all columns or number all, not {used}")
        if len(set(used)) < len(used):
            raise ValueError(f"a column is used twice: {used}")

    @property
    def has_header(self) -> bool:
        """Whether the first line of a file names its columns."""
        return isinstance(self.first, str)


MRPC = Layout(first="#1 String", second="#2 String", label="Quality", labels=("0", "1"))
"""Microsoft paraphrases, as released and as in GLUE."""

QQP = Layout(first=1, second=2, label=0, id=3, labels=("0", "1"))
"""Quora question pairs in the split of Wang et al. (2017): no header."""

GLUE_QQP = Layout(
    first="question1",
    second="question2",
    label="is_duplicate",
    id="id",
    labels=("0", "1"),
)
"""Quora question pairs as in GLUE."""

SST2 = Layout(first="sentence", label="label", labels=("0", "1"))
"""Sentiment as in GLUE."""


def read(
    path: str | os.PathLike[str],
    layout: Layout,
    *,
    labelled: bool = True,
    on_error: OnError | None = None,
) -> list[LabelledText]:
    r"""Read a tab-separated file, an example per line.

    There is no quoting: a quotation mark is one, and no text can hold a tab. White
    space around a text is taken off, blank lines are passed over.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.tsv"
    >>> _ = path.write_text("sentence\tlabel\nso \"good\" \t1\n")
    >>> [example] = read(path, SST2)
    >>> example.first, example.label
    ('so "good"', '1')

    Args:
      path: local, or anything etils.epath opens (gs://, s3://).
      layout: `MRPC`, `QQP`, `GLUE_QQP`, `SST2`, or one's own.
      labelled: False for a test file: no label is read, whether or not there is one.
      on_error: is told of each line that is left out; None raises the first.

    Returns:
      The examples in the order of the file; at least one.

    Raises:
      InputError: the file is missing, empty, a folder, or not UTF-8 text; the header
        lacks a column; a line has more or fewer columns than the first; a text is
        empty; a label is not in the list.
    """
    columns: _Columns | None = None
    found = []
    row = -1

    def leave_out(error: InputError) -> None:
        nonlocal row
        row += columns is not None or not layout.has_header
        report(error, on_error)

    for number, line in text.lines(path, leave_out):
        if not line.strip(" "):
            continue
        fields = line.split("\t")
        if columns is None:
            columns = _columns(path, number, fields, layout, labelled)
            if layout.has_header:
                continue
        row += 1
        try:
            found.append(columns.pick(fields, row, number))
        except Flaw as flaw:
            report(flaw.at(path, number), on_error)
    if not found:
        raise InputError.at(path, None, "holds no examples", "put one on each line")
    return found


def _columns(path, number, fields, layout: Layout, labelled: bool) -> _Columns:
    used = {
        part: column for part, column in _used(layout) if labelled or part != "label"
    }
    names = [name.strip() for name in fields]
    for part, column in used.items():
        if layout.has_header and column not in names:
            do = did_you_mean(column, names)
            what = f"the header has no column {column!r}"
            if part == "label":
                do += " (read a test file with labelled=False)"
            raise InputError.at(path, number, what, do)
        if not layout.has_header and not 0 <= column < len(fields):
            what = f"{_count(fields)}, but the {part} is asked from column {column}"
            do = "columns count from 0 and are separated by tabs"
            raise InputError.at(path, number, what, do)
    places = {
        part: names.index(column) if layout.has_header else column
        for part, column in used.items()
    }
    return _Columns(places, layout.labels, len(fields), number)


def _used(layout: Layout) -> Iterator[tuple[str, str | int]]:
    for part in ("first", "second", "label", "id"):
        column = getattr(layout, part)
        if column is not None:
            yield part, column


def _count(fields: list[str]) -> str:
    return "1 column" if len(fields) == 1 else f"{len(fields)} columns"


@dataclasses.dataclass(frozen=True)
class _Columns:
    """Takes an example from a row."""

    places: dict[str, int]
    labels: tuple[str, ...] | None
    width: int
    first_line: int

    def pick(self, fields: list[str], row: int, line: int) -> LabelledText:
        if len(fields) != self.width:
            raise Flaw(
                f"{_count(fields)} where {self.width} are expected, as in line "
                f"{self.first_line}",
                "mend the line; a text may hold no tab",
            )
        part = {name: fields[place].strip() for name, place in self.places.items()}
        for name in ("first", "second"):
            if part.get(name) == "":
                which = "text" if "second" not in part else f"{name} text"
                raise Flaw(f"the {which} is empty", "add it or remove the line")
        label = part.get("label")
        if label is not None:
            check_label(label, self.labels)
        id_ = part.get("id", str(row))
        return LabelledText(part["first"], part.get("second"), label, id_, line)
