"""Losses and optimizers by name, for the command line."""

from __future__ import annotations

import contextlib
import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal

from dicejax import objectives, optimizers
from dicejax.errors import InputError, hint, shown
from dicejax.objectives import Objective
from dicejax.optimizers import Optimizer


def objective_named(text: str) -> Objective:
    """Return a loss with its default settings except those given after a colon.

    >>> objective_named("dsc:alpha=1,over=token").alpha
    1.0

    Args:
      text: a name, or NAME:FIELD=VALUE,FIELD=VALUE for numbers, words, true and false.

    Raises:
      InputError: the loss or field is unknown, or the value does not fit.
    """
    name, _, settings = text.partition(":")
    loss = _chosen("loss", name, objectives.by_short_name())
    hints = {one.name: one.type for one in dataclasses.fields(loss)}
    values = {}
    for pair in filter(None, settings.split(",")):
        field, _, value = pair.partition("=")
        if field not in hints:
            raise InputError(
                f"loss {name} has no {shown(field)}; it has {', '.join(hints)}"
                f"{hint(field, hints)}"
            )
        try:
            values[field] = _read(hints[field], value)
        except (KeyError, ValueError):
            raise InputError(
                f"loss {name}: {field}={value} cannot be read; {_wanted(hints[field])}"
            ) from None
    return dataclasses.replace(loss, **values)


_READERS: dict[Any, Callable[[str], Any]] = {
    bool: {"true": True, "false": False}.__getitem__,
    int: int,
    float: float,
    str: str,
    type(None): {"none": None}.__getitem__,
}


def _read(hint: Any, text: str) -> Any:
    """Parse a value of a field's type.

    >>> _read(int | None, "none"), _read(int | None, "3")
    (None, 3)
    """
    if typing.get_origin(hint) is Literal:
        return {one: one for one in typing.get_args(hint)}[text]
    *others, last = _kinds(hint)
    for kind in others:
        with contextlib.suppress(KeyError, ValueError):
            return _READERS[kind](text)
    return _READERS[last](text)


def _kinds(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the only one."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def _wanted(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return f"want {' or '.join(typing.get_args(hint))}"
    kinds = _kinds(hint)
    if not set(kinds) <= _READERS.keys():
        return "set it in an experiment"
    return "want " + " or ".join(
        one.__name__.replace("NoneType", "none") for one in kinds
    )


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
            f"unknown {what} {shown(name)}; known: {names}{hint(name, known)}"
        )
    return known[name]()
