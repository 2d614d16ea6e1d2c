"""Losses and optimizers by name and settings, as text."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast, get_args

from dicejax.errors import InputError, hint, quote
from dicejax.objectives.candidates import (
    Candidate,
    Control,
    ControlName,
    FromPrior,
)
from dicejax.objectives.objective import Objective, by_short_name
from dicejax.objectives.sets import RENAMED, SetObjective


def objective_named(text: str) -> Objective:
    """Return the loss of NAME or NAME:FIELD=VALUE,FIELD=VALUE; others are defaults.

    A loss as VALUE has its own settings after colons: mined:of=dsc:alpha=1.

    >>> objective_named("dsc:alpha=1,over=element").alpha
    1.0

    Raises:
      InputError: the loss or field is unknown, or the value does not fit.
    """
    name, _, settings = text.partition(":")
    classes = by_short_name()
    loss = default_of("loss", name, classes)
    hints = {field.name: field.type for field in dataclasses.fields(loss)}
    values = {}
    for field, value in _pairs(settings):
        if field in RENAMED and isinstance(loss, SetObjective):
            raise InputError(f"loss {name}: {field} is now {RENAMED[field]}")
        if field not in hints:
            others = [
                other
                for other, cls in classes.items()
                if field in {each.name for each in dataclasses.fields(cls)}
            ]
            raise InputError(
                f"loss {name} has no {quote(field)}; it has {', '.join(hints)}"
                f"{hint(field, hints)}"
                + (f"; {', '.join(others)} have {field}" if others else "")
            )
        values[field] = _read(hints[field], value, f"loss {name}: {field}")
    try:
        return dataclasses.replace(loss, **values)
    except ValueError as error:
        raise InputError(f"loss {name}: {error}") from error


def candidate_named(text: str) -> Candidate:
    """Return the control of a name, or the loss as `loss_named` does."""
    name, _, settings = text.partition(":")
    if name not in get_args(ControlName):
        return loss_named(text)
    if settings:
        raise InputError(f"{name} has no settings; leave out {quote(settings)}")
    return Control(cast(ControlName, name))


def loss_named(text: str) -> Objective | FromPrior:
    """Return the loss of NAME or NAME:SETTINGS; of NAME+prior one that begins so.

    >>> loss_named("dsc+prior:alpha=1").objective.alpha
    1.0
    """
    name, colon, settings = text.partition(":")
    if not name.endswith(FromPrior.SUFFIX):
        return objective_named(text)
    name = name.removesuffix(FromPrior.SUFFIX)
    return FromPrior(objective_named(name + colon + settings))


def default_of(kind: str, name: str, classes: Mapping[str, type]) -> Any:
    """Return a loss or an optimizer with default settings, or raise an InputError."""
    if name.endswith(FromPrior.SUFFIX):
        raise InputError(
            f"{kind} {quote(name)} has another start and no other formula; take "
            f"{name.removesuffix(FromPrior.SUFFIX)}"
        )
    if name in get_args(ControlName):
        raise InputError(f"{name} is a control; dicejax train takes --control {name}")
    if name not in classes and "," in name:
        raise InputError(f"unknown {kind} {quote(name)}; separate names by spaces")
    if name not in classes:
        # Those that look most alike, however far they are; the time is quadratic.
        names = difflib.get_close_matches(name[:100], list(classes), 5, cutoff=0.0)
        few = f"nearest of {len(classes)}" if len(names) < len(classes) else "choices"
        raise InputError(
            f"unknown {kind} {quote(name)}{hint(name, classes)}; {few}: "
            f"{', '.join(names)}"
        )
    return classes[name]()


def _pairs(settings: str) -> list[list[str]]:
    """Split settings; a part without "=" continues the value before it.

    >>> _pairs("exclude_class=O,LOC,over=element")
    [['exclude_class', 'O,LOC'], ['over', 'element']]
    """
    pairs: list[list[str]] = []
    for part in filter(None, settings.split(",")):
        if "=" in part or not pairs:
            field, _, value = part.partition("=")
            pairs.append([field, value])
        else:
            pairs[-1][1] += f",{part}"
    return pairs


def _inner_objective(text: str) -> Objective:
    """Return a loss within a loss, whose settings colons separate."""
    name, colon, settings = text.partition(":")
    return objective_named(name + colon + settings.replace(":", ","))


_READERS: dict[Any, Callable[[str], Any]] = {
    bool: {"true": True, "false": False}.__getitem__,
    int: int,
    float: float,
    str: str,
    type(None): {"none": None}.__getitem__,
    tuple[str, ...]: lambda text: tuple(text.split(",")),
    Objective: _inner_objective,
}


def _choices(hint: Any) -> list[Any]:
    """Return the words and types that a field takes."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    choices: list[Any] = []
    for kind in typing.get_args(hint) if is_union else (hint,):
        is_literal = typing.get_origin(kind) is Literal
        choices += typing.get_args(kind) if is_literal else [kind]
    return choices


def _read(hint: Any, text: str, name: str) -> Any:
    """Parse a value of a field's type.

    >>> _read(int | None, "none", ""), _read(int | None, "3", "")
    (None, 3)
    >>> _read(Literal["batch"] | int, "36", "")
    36

    Raises:
      InputError: the value is none of the type.
    """
    words: list[Any] = []
    for choice in _choices(hint):
        if text == choice:
            return text
        with contextlib.suppress(KeyError, ValueError):
            return _READERS[choice](text)
        is_type = choice in _READERS and isinstance(choice, type)
        words.append(choice.__name__.replace("NoneType", "none") if is_type else choice)
    readable = all(isinstance(word, str) for word in words)
    wish = f"want {' or '.join(words)}" if readable else "set it in an experiment"
    raise InputError(f"{name}={text} cannot be read; {wish}")
