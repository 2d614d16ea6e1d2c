"""Names of objectives: the short name and the settings other than defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dicejax.errors import InputError
from dicejax.objectives.candidates import Candidate, Control, FromPrior
from dicejax.objectives.objective import Objective


def name_of(objective: Candidate) -> str:
    """Return an objective's name: its short name and non-default settings.

    The short name of `FromPrior` ends with "+prior".

    >>> from dicejax.objectives import SelfAdjustingDice
    >>> name_of(SelfAdjustingDice(alpha=1.0, smooth=0.01))
    'dsc-alpha=1.0-smooth=0.01'
    """
    if isinstance(objective, Control):
        return objective.name
    suffix = ""
    if isinstance(objective, FromPrior):
        objective, suffix = objective.objective, FromPrior.SUFFIX
    default = type(objective)()
    changed = [
        f"{field.name}={_text(getattr(objective, field.name))}"
        for field in dataclasses.fields(objective)
        if getattr(objective, field.name) != getattr(default, field.name)
    ]
    return "-".join([objective.short_name + suffix, *changed])


def _text(value: object) -> str:
    """Format a field's value, with the names of objectives within a sum."""
    if isinstance(value, tuple):
        return "+".join(map(_text, value))
    return name_of(value) if isinstance(value, Objective) else str(value)


def names_of(objectives: Sequence[Candidate]) -> list[str]:
    """Return the name of each objective.

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
