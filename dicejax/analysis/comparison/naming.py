"""Names of losses, told apart by what differs from their defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dicejax.errors import InputError
from dicejax.objectives import Objective


def names_of(objectives: Sequence[Objective]) -> list[str]:
    """Name objectives apart, by what differs from the defaults where need be.

    >>> from dicejax.objectives import CrossEntropy, SelfAdjustingDice
    >>> names_of([CrossEntropy(), SelfAdjustingDice(), SelfAdjustingDice(alpha=1.0)])
    ['ce', 'dsc', 'dsc-alpha=1.0']
    """
    names = [_name(objective) for objective in objectives]
    if len(set(names)) < len(names):
        raise InputError(f"the same loss is named twice: {', '.join(names)}")
    return names


def _name(value: object) -> str:
    """The short name of an objective, with what differs from its defaults."""
    if isinstance(value, tuple):
        return "+".join(map(_name, value))
    if not isinstance(value, Objective):
        return str(value)
    default = type(value)()
    changed = [
        f"{field.name}={_name(getattr(value, field.name))}"
        for field in dataclasses.fields(value)
        if getattr(value, field.name) != getattr(default, field.name)
    ]
    return "-".join([value.short_name, *changed])
