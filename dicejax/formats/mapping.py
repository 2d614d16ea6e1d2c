"""The columns of a table, or fields of JSON, that hold texts and classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from etils import epath

from dicejax.data.examples import ROUNDING
from dicejax.errors import InputError, quote, truncate
from dicejax.formats import labels, tables
from dicejax.formats.records import Columns

LABELS = ("label", "labels", "class", "category", "target", "sentiment", "quality")
TEXTS = ("text", "sentence", "review", "content", "tweet", "comment", "comment_text")
PAIRS = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("premise", "hypothesis"),
    ("#1 string", "#2 string"),
)
SAMPLE = 1000  # rows that columns without a known name are chosen by
_MOST_CLASSES = 50
_WORDS_OF_A_TEXT = 3
_NUMBERS = 20  # more different numbers than these are a measure and no classes


Row = Mapping[Any, object]


def columns_of(
    path: epath.Path, sample: Sequence[Row], named: Columns, by_name_alone: bool = False
) -> dict[str, Any]:
    """Return the columns of texts and classes: `first`, perhaps `second`, `label`.

    They are those that the user names, that have a usual name or, unless
    `by_name_alone`, the only one whose values are texts, or few classes; or `label` is
    a tuple of those that have 0 or 1 where no other is left, `probabilities` one of
    those that sum to 1.

    Raises:
      InputError: a column is missing, cannot be told, or holds no classes.
    """
    names = list(sample[0]) if sample else []
    left_out = tables.left_out(path) if tables.is_table(path) else {}
    if names and isinstance(names[0], int):
        return {name: int(value) for name, value in named.fields().items()}
    listed = truncate(", ".join(map(quote, names)), 240)
    several = tuple(named.label.split(",")) if named.label else ()
    if len(several) > 1 and set(several) <= set(names):
        named = dataclasses.replace(named, label=several[0])
    for flag, name in dataclasses.asdict(named).items():
        if name is not None and name not in (*names, *left_out):
            fault = f"has no column {quote(name)}"
            raise InputError.at(path, 1, fault, f"name one of {listed} with --{flag}")
    values: dict[str, list[str]] = {name: [] for name in (*names, *left_out)}
    for row in () if by_name_alone else sample:
        for name in names:
            if (value := row.get(name)) not in (None, ""):
                values[name].append(str(value))
    columns = _choose(named, values)
    for flag, name in dataclasses.asdict(columns).items():
        if name in left_out:
            fault = f"column {quote(name)} holds {left_out[name]}, which is not read"
            remedy = f"save it as text, or name another with --{flag}"
            raise InputError.at(path, None, fault, remedy)
    if len(several) < 2 and columns.text is not None and columns.label is None:
        texts = (columns.text, columns.second)
        rest = tuple(name for name in names if name not in texts)
        shares = rest if _are_shares(rest, sample) else ()
        several = _indicators(columns, values) or shares
    if len(several) > 1 and columns.text is not None:
        key = "probabilities" if _are_shares(several, sample) else "label"
        return Columns(columns.text, columns.second).fields() | {key: several}
    if columns.text is None or columns.label is None:
        nouns = {"text": "the text", "label": "the class"}
        missing = [flag for flag in nouns if getattr(columns, flag) is None]
        fault = f"the columns {listed} do not say which is "
        fault += " and which ".join(nouns[flag] for flag in missing)
        flags = [f"--{flag} NAME" for flag in missing]
        raise InputError.at(path, 1, fault, f"say it with {' and '.join(flags)}")
    classes = values[columns.label]
    if columns.label in classes or columns.text in values[columns.text]:
        fault = "begins with an example where the names of columns are expected"
        chosen = dataclasses.asdict(columns).items()
        flags = [f"--{flag} {names.index(name)}" for flag, name in chosen if name]
        remedy = "add a first line with names, or number columns from 0"
        raise InputError.at(path, 1, fault, f"{remedy}: {' '.join(flags)}")
    _check_classes(path, columns.label, classes)
    return dict(columns.fields())


def schema_of(
    path: epath.Path, sample: Sequence[Row], named: Columns
) -> dict[str, Any]:
    """Return the columns of texts, of classes or labels, and how these are written."""
    columns = columns_of(path, sample, named)
    label = columns.get("label")
    if isinstance(label, tuple):
        return columns | {"multi_label": True}
    how = None if label is None else labels.form_of(row.get(label) for row in sample)
    return columns if how is None else columns | {"multi_label": True} | how


def _indicators(
    columns: Columns, values: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Return the columns of 0 and 1, if others hold texts and identifiers alone."""
    rest = {n: v for n, v in values.items() if n not in (columns.text, columns.second)}
    are = {
        n: bool(v) and {x.lower() for x in v} <= labels.INDICATORS.keys()
        for n, v in rest.items()
    }
    others = [v for n, v in rest.items() if not are[n]]
    if any(len(set(v)) < len(v) for v in others):
        return ()
    return tuple(n for n in rest if are[n])


def _are_shares(names: Sequence[str], rows: Iterable[Row]) -> bool:
    """Return whether columns hold probabilities that sum to 1, not all 0 or 1."""
    try:
        filled = [row for row in rows if any(row.values())]  # the header has no values
        shares = [[float(str(row[name])) for name in names] for row in filled]
    except (KeyError, ValueError):
        return False
    sums_fit = all(abs(sum(x) - 1) <= ROUNDING and min(x) >= 0 for x in shares if x)
    return bool(shares) and sums_fit and any(0 < x < 1 for row in shares for x in row)


def _choose(named: Columns, values: Mapping[str, Sequence[str]]) -> Columns:
    by_lower = {name.lower(): name for name in values}
    text, second, label = named.text, named.second, named.label
    if label is None:
        label = next((by_lower[n] for n in LABELS if n in by_lower), None)
    if text is None and second is None:
        pair = next((p for p in PAIRS if all(n in by_lower for n in p)), None)
        if pair is not None:
            text, second = (by_lower[name] for name in pair)
    if text is None:
        text = next((by_lower[n] for n in TEXTS if n in by_lower), None)
    if text is None:
        words = {n: sum(len(x.split()) for x in v) for n, v in values.items()}
        least = {n: _WORDS_OF_A_TEXT * max(len(v), 1) for n, v in values.items()}
        texts = [n for n in values if n != label and words[n] >= least[n]]
        text = texts[0] if len(texts) == 1 else None
    if label is None:  # few different values, each of them some times
        others = {n: v for n, v in values.items() if n not in (text, second)}
        most = {n: min(_MOST_CLASSES, len(v) // 3) for n, v in others.items()}
        classes = [n for n, v in others.items() if 2 <= len(set(v)) <= most[n]]
        label = classes[0] if len(classes) == 1 else None
    return Columns(text, second, label)


def _check_classes(path: epath.Path, name: str, values: Sequence[str]) -> None:
    """Refuse measures: numbers with a part behind the point, or very many."""
    distinct = sorted(set(values))
    try:
        numbers = [float(value) for value in distinct]
    except ValueError:
        return
    whole = all(number.is_integer() for number in numbers)
    if numbers and (not whole or len(numbers) > _NUMBERS):
        few = f"{len(numbers)} different numbers ({', '.join(distinct[:3])}, ...)"
        remedy = "give classes, or name another with --label: regression is not"
        fault, remedy = f"column {quote(name)} has {few}", f"{remedy} supported"
        raise InputError.at(path, None, fault, remedy)
