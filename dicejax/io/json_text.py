"""Strict decoding of JSON from elsewhere, field by field."""

from __future__ import annotations

import collections
import contextlib
import json
import math
import re
from collections.abc import Iterator
from typing import Any, TypeVar, overload

from dicejax.errors import Flaw, quote, suggestion, truncate
from dicejax.io import files, limits

T = TypeVar("T")
D = TypeVar("D")
Key = str | int

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
_DIGITS = 4300  # of the longest whole number that Python converts
_STRING_OR_NUMBER = re.compile(
    r'"(?:[^"\\]++|\\.)*+"|(-?(?:NaN|Infinity|[0-9][0-9.eE+-]*))'
)


def read(path: files.Path) -> object:
    """Decode a file that is one JSON document.

    Raises:
      InputError: the file cannot be read, or `parse` refuses it.
    """
    with flaws_at(path):
        return parse(files.read_text(path))


@contextlib.contextmanager
def flaws_at(path: files.Path, line: int | None = None, at: str = "") -> Iterator[None]:
    """Turn a Flaw into an InputError with its place; `at`: where it is in the file.

    >>> with flaws_at("dev.json", 3):
    ...     _ = field({}, "text", str)
    Traceback (most recent call last):
    dicejax.errors.InputError: dev.json:3: has no 'text'; add it
    """
    try:
        yield
    except Flaw as flaw:
        raise flaw.at(path, line or flaw.line, at) from flaw


def parse(text: str) -> object:
    r"""Decode a JSON document of finite numbers and objects without repeated names.

    >>> parse('{"text": ["Rome", 2]}')
    {'text': ['Rome', 2]}
    >>> parse('{"rate": \n NaN}')
    Traceback (most recent call last):
    dicejax.errors.Flaw: ('number NaN is too large or not finite', 'correct it')

    Raises:
      Flaw: it is not JSON, nested too deeply, has more values than are read, a number
        too large or not finite, or an object with two fields of one name; with the
        line, where it is known.
    """
    limits.NODES.check(text.count(","))
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        fault = f"not JSON: {error.msg} (column {error.colno})"
        raise Flaw(fault, "correct it", error.lineno) from None
    except RecursionError:
        raise Flaw("not JSON of data: nested too deeply", "name another file") from None
    except ValueError:
        raise _bad_number(text) from None


@overload
def field(record: object, name: Key, kind: type[T]) -> T: ...


@overload
def field(record: object, name: Key, kind: type[T], default: D) -> T | D: ...


def field(record: object, name: Key, kind: type[T], default: Any = _REQUIRED) -> Any:
    """Take a field from an object.

    >>> field({"text": "Rome"}, "text", str)
    'Rome'
    >>> field({"texts": "Rome"}, "text", str)
    Traceback (most recent call last):
    dicejax.errors.Flaw: ("has no 'text'", 'did you mean texts?')

    Raises:
      Flaw: no object, no such field and no default, or a value that is not of the kind
        (str, int, bool, list or dict) or is no valid text.
    """
    fields = value_of(record, dict)
    if name not in fields:
        if default is not _REQUIRED:
            return default
        raise Flaw(f"has no {quote(name)}", suggestion(str(name), fields) or "add it")
    return value_of(fields[name], kind, name)


def value_of(value: object, kind: type[T], name: Key = "") -> T:
    """Return the value if it is of the expected kind; a flaw names its field.

    Raises:
      Flaw: it is another kind, or not valid text.
    """
    if type(value) is not kind:  # not isinstance: True is an int in Python
        fault, remedy = f"is {_KINDS[type(value)]}, not {_KINDS[kind]}", "correct it"
    elif isinstance(value, str) and _NOT_TEXT.search(value):
        fault, remedy = "holds a NUL or half a surrogate pair", "remove it"
    else:
        return value
    raise Flaw(f"{quote(name)} {fault}" if name else fault, remedy)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError
    return value


def _bad_number(text: str) -> Flaw:
    """Return the first number that cannot be decoded, with its line."""
    for match in _STRING_OR_NUMBER.finditer(text):
        number = match[1]
        if number and (len(number) > _DIGITS or not math.isfinite(float(number))):
            name = truncate(number, 40)
            line = text.count("\n", 0, match.start()) + 1
            return Flaw(f"number {name} is too large or not finite", "correct it", line)
    return Flaw("a number is too large or not finite", "correct it")


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object; raise if two of its fields have one name."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = collections.Counter(name for name, _ in pairs)
        [(twice, _)] = names.most_common(1)
        raise Flaw(f"an object has {quote(twice)} twice", "merge the two")
    return fields


_DECODER = json.JSONDecoder(
    object_pairs_hook=_without_repetition, parse_float=_finite, parse_constant=_finite
)
