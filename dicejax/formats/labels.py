"""Classes, labels, probabilities and weights, from the values of a field."""

from __future__ import annotations

import ast
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dicejax.data.examples import ROUNDING
from dicejax.errors import Flaw, quote
from dicejax.formats.records import check_label
from dicejax.io import json_text

INDICATORS = {"0": False, "0.0": False, "false": False}
INDICATORS |= {"1": True, "1.0": True, "true": True}
BETWEEN = "|;,#"  # what may separate the labels in a field

_QUOTED = r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\""""
_ITEM = rf"\s*(?:{_QUOTED}|[^\s,'\"\[\]]+)\s*"
# Commas are wanted between items: Python joins 'a' 'b', as NumPy prints two, to one.
_PYTHON_LIST = re.compile(rf"\[(?:{_ITEM}(?:,{_ITEM})*+|\s*)\]")
# Of numbers, parentheses hold an interval more often.
_TUPLE_OR_SET = re.compile(
    rf"\(\s*(?:(?:{_QUOTED})\s*,.*)?\)|set\(\)"
    rf"|\{{\s*(?:{_QUOTED}|\d+)\s*(?:,.*)?\}}",
    re.DOTALL,
)


def class_of(value: object, field: str, names: Sequence[str]) -> str | None:
    """Return the class that a value names; None where it is null.

    True and false are classes of these names, a whole number one of `names`.
    """
    if value is None or (isinstance(value, str) and value in names):
        return value
    if isinstance(value, bool):
        value = str(value).lower()
    if type(value) is int:
        if not names:
            return str(value)
        if not 0 <= value < len(names):
            fault = f"{quote(field)} is {quote(value)}, but names are given for 0 to"
            raise Flaw(f"{fault} {len(names) - 1}", "correct it or name all")
        return names[value]
    if type(value) is float:
        fault = f"{quote(field)} is {quote(value)}, a number and no class"
        raise Flaw(fault, "name classes: regression is not supported")
    label = json_text.value_of(value, str, field).strip()
    check_label(label, names or None)
    return label


def labels_of(
    value: object,
    field: str,
    names: Sequence[str] = (),
    between: str = "",
    indicators: bool = False,
) -> tuple[str, ...] | None:
    """Return the labels in a list, also one written as text; None where it is null.

    >>> labels_of("['a', 'b']", "labels")
    ('a', 'b')
    >>> labels_of("a; b", "labels", between=";")
    ('a', 'b')
    >>> labels_of([0.0, 1.0], "labels", indicators=True)
    ('label_1',)

    Args:
      value: a list, or text.
      field: its field.
      names: names of labels that are whole numbers, or of the places of indicators.
      between: what separates labels in text; empty where it is a list in brackets.
      indicators: whether lists have a 0 or 1 for each label.
    """
    if value is None:
        return None
    if isinstance(value, str):
        value = _split(value, field, between)
    values = json_text.value_of(value, list, field)
    if indicators:
        names = names or [f"label_{place}" for place in range(len(values))]
        if len(values) != len(names):
            fault = f"{quote(field)} has {len(values)} values for {len(names)} names"
            raise Flaw(fault, "correct it or name all")
        places = (f"{field}[{place}]" for place in range(len(values)))
        return chosen(zip(places, names, values, strict=True))
    labels: dict[str, None] = {}
    for place, item in enumerate(values):
        where = f"{field}[{place}]"
        if item is None or (isinstance(item, str) and not item.strip()):
            fault = "null" if item is None else "blank"
            raise Flaw(f"{quote(where)} is {fault}", "remove it")
        label = class_of(item, where, names) or ""
        if label in labels:
            remedy = "remove one"
            if str(item) in INDICATORS:
                remedy += ", or set indicators=True if 1 stands for a label that holds"
            raise Flaw(f"{quote(field)} has {quote(label)} twice", remedy)
        labels[label] = None
    return tuple(labels)


def chosen(fields: Iterable[tuple[str, str, object]]) -> tuple[str, ...]:
    """Return the labels with a 1, of the field, label and value of each."""
    labels = []
    for field, label, value in fields:
        holds = INDICATORS.get(str(value).strip().lower())
        if holds is None:
            raise Flaw(f"{quote(field)} is {quote(value)}, not 0 or 1", "correct it")
        if holds:
            labels.append(label)
    return tuple(labels)


def soft(values: Mapping[str, object], field: str) -> dict[str, Any]:
    """Return the class with the highest probability, and the probability of each.

    >>> soft({"good": 0.8, "bad": 0.2}, "label")
    {'label': 'good', 'probabilities': (('good', 0.8), ('bad', 0.2))}
    """
    if not values:
        raise Flaw(f"{quote(field)} names no class", "add classes")
    shares = {name: number(x, f"{field}[{name}]") for name, x in values.items()}
    total = sum(shares.values())
    if abs(total - 1) > ROUNDING:
        fault = f"the probabilities in {quote(field)} sum to {total:.4g}, not to 1"
        raise Flaw(fault, "correct them")
    pairs = tuple((name, share / total) for name, share in shares.items())
    return {"label": max(pairs, key=lambda pair: pair[1])[0], "probabilities": pairs}


def number(value: object, field: str) -> float:
    """Return a probability or weight: a finite number from 0 on, also in text."""
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            result = float(value)
            if math.isfinite(result) and result >= 0:
                return result
    except (ValueError, OverflowError):
        pass
    fault = f"{quote(field)} is {quote(value)}, no finite number from 0 on"
    raise Flaw(fault, "correct it")


def form_of(values: Iterable[object]) -> dict[str, Any] | None:
    """Return how a field lists labels, as settings; None where it holds a class.

    Text between bars, semicolons or commas is a list only where some label also stands
    alone. As names may hold a comma or semicolon, each label must be in two different
    lists then, or be a word without spaces while most stand alone.

    >>> form_of(["a", "a,b", "b"]), form_of(["()", "('a',)"]), form_of([[0, 1], [1, 1]])
    ({'between': ','}, {}, {'indicators': True})
    >>> form_of(["Rome, Italy", "Oslo"]) is None
    True
    """
    present = [value for value in values if value is not None and value != ""]
    texts = [_in_brackets(value) for value in present if isinstance(value, str)]
    if texts and all(text[:1] == "[" and text[-1:] == "]" for text in texts):
        try:
            present = [_split(text, "", "") for text in texts]
        except Flaw:
            return {}  # the reader names the line
    if any(isinstance(value, list) for value in present):
        rows = [value for value in present if isinstance(value, list)]
        lengths = {len(row) for row in rows}
        are_indicators = lengths != {1} and len(lengths) == 1 and min(lengths) > 1
        if are_indicators and all(x in (0, 1) for row in rows for x in row):
            return {"indicators": True}
        if alone := [text for text in texts if text[:1] != "["]:  # of a single label
            unused = (x for x in BETWEEN if not any(x in text for text in alone))
            return {"between": next(unused, "")}
        return {}
    if len(texts) < len(present):
        return None
    for between in BETWEEN:
        if is_between(between, texts):
            return {"between": between}
    return None


def is_between(between: str, texts: Sequence[str]) -> bool:
    """Return whether a character separates labels, beyond doubt."""
    groups = {tuple(part.strip() for part in t.split(between)) for t in texts}
    alone = {group[0] for group in groups if len(group) == 1}
    counts = Counter(part for group in groups if len(group) > 1 for part in group)
    if "" in counts or not alone & counts.keys():
        return False
    counts.update(alone)
    are_words = len(" ".join(texts).split()) == len(texts)
    are_mostly_alone = len(counts) <= 2 * len(counts.keys() & alone)
    are_repeated = min(counts.values()) > 1
    return between == "|" or are_repeated or (are_words and are_mostly_alone)


def places(before: object, named: Iterable[str]) -> list[str]:
    """Return the names of unnamed indicators, by a list of them or by those in use."""
    if isinstance(before, str) and before.strip():
        before = _split(before, "", "")
    last = [int(name.removeprefix("label_")) for name in named]
    count = len(before) if isinstance(before, list) else max(last, default=-1) + 1
    return [f"label_{place}" for place in range(count)]


def join(labels: Sequence[object], like: object, between: str) -> object:
    """Return labels in the form of a field, by its value before."""
    if between and not isinstance(like, list):
        return between.join(map(str, labels))
    if not isinstance(like, str):
        return [*labels]
    before = like.strip()
    if before.startswith("("):
        return str((*labels,))
    if before.startswith(("{", "set")):
        return f"{{{', '.join(map(repr, labels))}}}" if labels else "set()"
    is_python = "'" in like and '"' not in like
    return str([*labels]) if is_python else json.dumps([*labels], ensure_ascii=False)


def _in_brackets(text: str) -> str:
    """Return a tuple or set that Python wrote as a list; other text as it is."""
    text = text.strip()
    if not _TUPLE_OR_SET.fullmatch(text):
        return text
    return f"[{text.removeprefix('set')[1:-1].strip().removesuffix(',')}]"


def _split(text: str, field: str, between: str) -> list[Any]:
    """Return the labels in a text, or the items of a list that JSON or Python wrote."""
    if between:
        return [part.strip() for part in text.split(between)] if text.strip() else []
    items = _in_brackets(text)
    try:
        value = json_text.parse(items)
    except Flaw:
        value = None
    if isinstance(value, list):
        return value
    if _PYTHON_LIST.fullmatch(items):
        try:
            return list(ast.literal_eval(items))
        except (ValueError, SyntaxError):
            pass
    fault = f"{quote(field)} is {quote(text)}, not a list"
    raise Flaw(fault, 'write ["a", "b"], or name what separates labels: between=","')
