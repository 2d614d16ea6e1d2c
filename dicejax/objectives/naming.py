"""Names of losses, told apart by what differs from their defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dicejax.errors import InputError
from dicejax.objectives.objective import Objective


def name_of(objective: Objective) -> str:
    """Name an objective: its short name, and what differs from its defaults.

    >>> from dicejax.objectives import SelfAdjustingDice
    >>> name_of(SelfAdjustingDice(alpha=1.0, smooth=0.01))
    'dsc-alpha=1.0-smooth=0.01'
    """
    default = type(objective)()
    changed = [
        f"{field.name}={_text(getattr(objective, field.name))}"
        for field in dataclasses.fields(objective)
        if getattr(objective, field.name) != getattr(default, field.name)
    ]
    return "-".join([objective.short_name, *changed])


def _text(value: object) -> str:
    """Write a field's value; the objectives within a sum are named too."""
    if isinstance(value, tuple):
        return "+".join(map(_text, value))
    return name_of(value) if isinstance(value, Objective) else str(value)


def names_of(objectives: Sequence[Objective]) -> list[str]:
    """Name objectives, each as `name_of` does.

    >>> from dicejax.objectives import CrossEntropy, SelfAdjustingDice
    >>> names_of([CrossEntropy(), SelfAdjustingDice(), SelfAdjustingDice(alpha=1.0)])
    ['ce', 'dsc', 'dsc-alpha=1.0']

    Raises:
      InputError: two of them have the same name.
    """
    names = [name_of(objective) for objective in objectives]
    if len(set(names)) < len(names):
        raise InputError(f"the same loss is named twice: {', '.join(names)}")
    return names
