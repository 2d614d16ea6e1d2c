"""The columns of a table, or fields of JSON, that hold texts and classes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

from etils import epath

from dicejax.errors import InputError, quote, truncate

LABELS = ("label", "class", "category", "target", "sentiment", "quality")
TEXTS = ("text", "sentence", "review", "content", "tweet", "comment")
PAIRS = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("premise", "hypothesis"),
    ("#1 string", "#2 string"),
)
SAMPLE = 1000
"""Rows that columns without a known name are chosen by."""
_MOST_CLASSES = 50
_WORDS_OF_A_TEXT = 3
_NUMBERS = 20
"""More different numbers than these are a measure and no classes."""


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns as the user names them; None where they are to be found.

    Attributes:
      text: the text, or the first of a pair.
      second: the second of a pair.
      label: the class.
    """

    text: str | None = None
    second: str | None = None
    label: str | None = None

    @property
    def any(self) -> bool:
        """Whether one is named."""
        return any(dataclasses.astuple(self))


ALL_UNNAMED = Columns()


def columns_of(
    path: epath.Path,
    rows: Iterable[Mapping[str, object]],
    named: Columns,
    by_name_alone: bool = False,
) -> dict[str, str | int]:
    """Return the columns of texts and classes: `first`, perhaps `second`, `label`.

    Those that the user names; else those with a usual name; else the only one whose
    values are texts, or few classes. The first row has all columns; `by_name_alone`
    does not look at values.

    Raises:
      InputError: a column is missing, cannot be told, or holds no classes.
    """
    sample = list(itertools.islice(rows, SAMPLE))
    names = list(sample[0]) if sample else []
    listed = truncate(", ".join(map(quote, names)), 240)
    flags = [name for name in dataclasses.astuple(named) if name is not None]
    if named.label and all(n.isdecimal() and n not in names for n in flags):
        return _fields(named, int)  # without a header
    for flag, name in dataclasses.asdict(named).items():
        if name is not None and name not in names:
            what = f"has no column {quote(name)}"
            raise InputError.at(path, 1, what, f"name one of {listed} with --{flag}")
    values: dict[str, list[str]] = {name: [] for name in names}
    for row in () if by_name_alone else sample:
        for name in names:
            if (value := row.get(name)) not in (None, ""):
                values[name].append(str(value))
    columns = _choose(named, values)
    missing = [flag for flag in ("text", "label") if getattr(columns, flag) is None]
    if columns.text is None or columns.label is None:
        nouns = {"text": "the text", "label": "the class"}
        what = f"the columns {listed} do not say which is "
        what += " and which ".join(nouns[flag] for flag in missing)
        flags = [f"--{flag} NAME" for flag in missing]
        raise InputError.at(path, 1, what, f"say it with {' and '.join(flags)}")
    labels = values[columns.label]
    if columns.label in labels or columns.text in values[columns.text]:
        what = "begins with an example where the names of columns are expected"
        do = "add a first line with names, or number columns from 0: --text 1 --label 0"
        raise InputError.at(path, 1, what, do)
    _check_classes(path, columns.label, labels)
    return _fields(columns, str)


def _fields(columns: Columns, kind: type) -> dict[str, str | int]:
    """Return them as fields of a source."""
    fields = {"first": columns.text, "second": columns.second, "label": columns.label}
    return {name: kind(value) for name, value in fields.items() if value is not None}


def _choose(named: Columns, values: Mapping[str, Sequence[str]]) -> Columns:
    """Return the columns that are named, or by name or content the only ones."""
    by_lower = {name.lower(): name for name in values}
    text, second, label = dataclasses.astuple(named)
    if label is None:
        label = next((by_lower[n] for n in LABELS if n in by_lower), None)
    if text is None and second is None:
        pair = next((p for p in PAIRS if all(n in by_lower for n in p)), None)
        if pair is not None:
            text, second = (by_lower[name] for name in pair)
    if text is None:
        text = next((by_lower[n] for n in TEXTS if n in by_lower), None)
    if text is None:
        texts = [n for n, v in values.items() if n != label and _are_texts(v)]
        text = texts[0] if len(texts) == 1 else None
    if label is None:
        others = ((n, v) for n, v in values.items() if n not in (text, second))
        classes = [n for n, v in others if _are_classes(v)]
        label = classes[0] if len(classes) == 1 else None
    return Columns(text, second, label)


def _are_texts(values: Sequence[str]) -> bool:
    words = sum(len(value.split()) for value in values)
    return words >= _WORDS_OF_A_TEXT * max(len(values), 1)


def _are_classes(values: Sequence[str]) -> bool:
    """Whether there are few different values, each of them some times."""
    return 2 <= len(set(values)) <= min(_MOST_CLASSES, len(values) // 3)


def _check_classes(path: epath.Path, name: str, values: Sequence[str]) -> None:
    """Refuse measures: numbers with a part behind the point, or very many."""
    distinct = sorted(set(values))
    try:
        numbers = [float(value) for value in distinct]
    except ValueError:
        return
    whole = all(number.is_integer() for number in numbers)
    if numbers and (not whole or len(numbers) > _NUMBERS):
        few = ", ".join(distinct[:3])
        what = f"column {quote(name)} has {len(numbers)} different numbers ({few}, ...)"
        do = "give classes, or name another with --label: regression is not for this"
        raise InputError.at(path, None, what, f"{do} tool")
