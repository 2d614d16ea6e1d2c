"""What the command line chooses by name: losses and optimizers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from dicejax import objectives, optimizers
from dicejax.errors import InputError, hint
from dicejax.objectives import Objective
from dicejax.optimizers import Optimizer


def objective_named(text: str) -> Objective:
    """Return a loss at its defaults, but for what is named after a colon.

    >>> objective_named("dsc:alpha=1,over=token").alpha
    1.0

    Args:
      text: a name, or NAME:FIELD=VALUE,FIELD=VALUE for numbers, words, true and false.

    Raises:
      InputError: there is no such loss or field, or the value does not fit.
    """
    name, _, settings = text.partition(":")
    loss = _chosen("loss", name, objectives.by_short_name())
    pairs = [pair.partition("=") for pair in settings.split(",") if pair]
    return dataclasses.replace(
        loss, **{field: _value(loss, field, value) for field, _, value in pairs}
    )


def _value(loss: Objective, field: str, text: str) -> float | int | bool | str:
    """Read a field's value: of the type that its default has."""
    fields = [one.name for one in dataclasses.fields(loss)]
    if field not in fields:
        named = ", ".join(fields)
        raise InputError(
            f"loss {loss.short_name} has no {field!r}; it has {named}"
            f"{hint(field, fields)}"
        )
    default = getattr(loss, field)
    readers = {bool: _BOOLS.__getitem__, int: int, float: float, str: str}
    try:
        return readers[type(default)](text)
    except (KeyError, ValueError):
        what = type(default).__name__
        how = f"want {what}" if type(default) in readers else "set it in an experiment"
        raise InputError(
            f"loss {loss.short_name}: {field}={text} cannot be read; {how}"
        ) from None


_BOOLS = {"true": True, "false": False}


def optimizer_named(name: str) -> Optimizer:
    """Return an optimizer at its defaults.

    Raises:
      InputError: there is none of this name.
    """
    return _chosen("optimizer", name, optimizers.by_short_name())


def _chosen(what: str, name: str, known: Mapping[str, type]) -> Any:
    if name not in known:
        names = ", ".join(known)
        raise InputError(f"unknown {what} {name!r}; known: {names}{hint(name, known)}")
    return known[name]()
