"""Losses and optimizers by name, for the command line."""

from __future__ import annotations

import contextlib
import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal

from dicejax import objectives, optimizers
from dicejax.errors import InputError, hint, quote
from dicejax.objectives import Objective
from dicejax.optimizers import Optimizer


def objective_named(text: str) -> Objective:
    """Return a loss with its default settings except those given after a colon.

    >>> objective_named("dsc:alpha=1,over=element").alpha
    1.0

    Args:
      text: a name, or NAME:FIELD=VALUE,FIELD=VALUE for numbers, words, true and false.
        A loss as VALUE has its own settings after colons: mined:of=dsc:alpha=1.

    Raises:
      InputError: the loss or field is unknown, or the value does not fit.
    """
    name, _, settings = text.partition(":")
    loss = _chosen("loss", name, objectives.by_short_name())
    hints = {one.name: one.type for one in dataclasses.fields(loss)}
    values = {}
    for field, value in _pairs(settings):
        if field not in hints:
            raise InputError(
                f"loss {name} has no {quote(field)}; it has {', '.join(hints)}"
                f"{hint(field, hints)}{_losses_with(field)}"
            )
        try:
            values[field] = _read(hints[field], value)
        except (KeyError, ValueError):
            raise InputError(
                f"loss {name}: {field}={value} cannot be read; {_wanted(hints[field])}"
            ) from None
    try:
        return dataclasses.replace(loss, **values)
    except ValueError as error:
        raise InputError(f"loss {name}: {error}") from error


def _pairs(settings: str) -> list[list[str]]:
    """Split settings; a part without "=" continues the value before it.

    >>> _pairs("classes=PER,LOC,over=element")
    [['classes', 'PER,LOC'], ['over', 'element']]
    """
    pairs: list[list[str]] = []
    for part in filter(None, settings.split(",")):
        field, found, value = part.partition("=")
        if found or not pairs:
            pairs.append([field, value])
        else:
            pairs[-1][1] += f",{part}"
    return pairs


def _losses_with(field: str) -> str:
    """Return the end of a message that names the losses with a field."""
    names = [
        name
        for name, cls in objectives.by_short_name().items()
        if any(one.name == field for one in dataclasses.fields(cls))
    ]
    return f"; {', '.join(names)} have {field}" if names else ""


def _with_commas(text: str) -> str:
    """Write the settings of a loss within a loss as those of a loss.

    >>> _with_commas("dsc:alpha=1:smooth=0.01")
    'dsc:alpha=1,smooth=0.01'
    """
    name, colon, settings = text.partition(":")
    return name + colon + settings.replace(":", ",")


_READERS: dict[Any, Callable[[str], Any]] = {
    bool: {"true": True, "false": False}.__getitem__,
    int: int,
    float: float,
    str: str,
    type(None): {"none": None}.__getitem__,
    tuple[str, ...]: lambda text: tuple(text.split(",")),
    Objective: lambda text: objective_named(_with_commas(text)),
}


def _read(hint: Any, text: str) -> Any:
    """Parse a value of a field's type.

    >>> _read(int | None, "none"), _read(int | None, "3")
    (None, 3)
    >>> _read(Literal["batch"] | int, "batch"), _read(Literal["batch"] | int, "36")
    ('batch', 36)
    """
    *others, last = map(_reader, _kinds(hint))
    for read in others:
        with contextlib.suppress(KeyError, ValueError):
            return read(text)
    return last(text)


def _reader(kind: Any) -> Callable[[str], Any]:
    if typing.get_origin(kind) is Literal:
        return {one: one for one in typing.get_args(kind)}.__getitem__
    return _READERS[kind]


def _kinds(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the only one."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def _wanted(hint: Any) -> str:
    words: list[str] = []
    for kind in _kinds(hint):
        if typing.get_origin(kind) is Literal:
            words += typing.get_args(kind)
        elif kind in _READERS and isinstance(kind, type):
            words.append(kind.__name__.replace("NoneType", "none"))
        else:
            return "set it in an experiment"
    return "want " + " or ".join(words)


def optimizer_named(name: str) -> Optimizer:
    """Return an optimizer with its default settings.

    Raises:
      InputError: the name is unknown.
    """
    return _chosen("optimizer", name, optimizers.by_short_name())


def _chosen(what: str, name: str, known: Mapping[str, type]) -> Any:
    if name not in known:
        names = ", ".join(known)
        raise InputError(
            f"unknown {what} {quote(name)}; known: {names}{hint(name, known)}"
        )
    return known[name]()
