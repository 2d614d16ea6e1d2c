"""Strict decoding of untrusted JSON, field by field."""

from __future__ import annotations

import json
import os
import re
from typing import Any, TypeVar

from dicejax.data.readers import text
from dicejax.data.readers.skipping import Flaw, suggestion

T = TypeVar("T")

# Half a surrogate pair can be written in JSON but is no text: it has no UTF-8.
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_KINDS = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    float: "a number",
    type(None): "null",
}
_REQUIRED: Any = object()


def document(path: str | os.PathLike[str]) -> object:
    """Decode a file that is one JSON document.

    Args:
      path: local, or anything etils.epath opens; see `text.lines`.

    Returns:
      Objects as dicts, lists as lists.

    Raises:
      InputError: the file cannot be read, or is not JSON; with the line.
    """
    content = text.whole(path)
    try:
        return _decode(content)
    except json.JSONDecodeError as error:
        flaw = Flaw(f"not JSON: {error.msg} (column {error.colno})", "mend the file")
        raise flaw.at(path, error.lineno) from None
    except Flaw as flaw:
        raise flaw.at(path, None) from None


def line(content: str) -> object:
    """Decode one line of a file with a JSON document per line.

    Raises:
      Flaw: it is not JSON.
    """
    try:
        return _decode(content)
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg} (column {error.colno})"
        raise Flaw(what, "put one object on each line") from None


def field(record: object, name: str, kind: type[T], default: T | None = _REQUIRED) -> T:
    """Take a field from an object.

    >>> field({"text": "Rome"}, "text", str)
    'Rome'
    >>> field({"texts": "Rome"}, "text", str)
    Traceback (most recent call last):
    dicejax.data.readers.skipping.Flaw: ("has no 'text'", 'did you mean texts?')

    Args:
      record: JSON object.
      name: field name.
      kind: expected type: str, int, bool, list or dict.
      default: value of a missing field; without one that is a flaw.

    Raises:
      Flaw: no object, no such field, or a value of another kind or not valid text.
    """
    fields = value_of(record, dict)
    if name not in fields:
        if default is not _REQUIRED:
            return default
        raise Flaw(f"has no {name!r}", suggestion(name, fields) or "add it")
    try:
        return value_of(fields[name], kind)
    except Flaw as flaw:
        raise Flaw(f"{name!r} {flaw.what}", flaw.do) from None


def value_of(value: object, kind: type[T]) -> T:
    """Return the value if it is of the expected kind.

    Raises:
      Flaw: it is another kind, or not valid text.
    """
    if type(value) is not kind:  # not isinstance: True is an int in Python
        raise Flaw(f"is {_KINDS[type(value)]}, not {_KINDS[kind]}", "correct it")
    if kind is str and _NOT_TEXT.search(value):
        raise Flaw("holds a NUL or half a surrogate pair", "remove it")
    return value


def _decode(content: str) -> object:
    try:
        return json.loads(content, object_pairs_hook=_without_repetition)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise Flaw("not JSON of data: nested too deeply", "name another file") from None
    except ValueError as error:  # a number of thousands of digits
        raise Flaw(f"not JSON of data: {error}", "name another file") from None


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object; raise if two of its fields have one name."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Flaw(f"an object has {twice!r} twice", "merge the two")
    return fields
