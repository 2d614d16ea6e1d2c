"""Objectives of registered losses and of the paper's presets, made once for each."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

from dicejax.losses import contract
from dicejax.losses.declaration import REGISTRY, Declaration
from dicejax.losses.documentation import described_arguments
from dicejax.objectives.loss_objective import LossObjective
from dicejax.objectives.objective import objective
from dicejax.objectives.presets import PRESETS, Preset, sentence
from dicejax.objectives.sets import SetObjective


@functools.wraps(contract.loss)
def loss(*names: Any, **declared: Any) -> Callable:
    """Declare a loss and its objective; see `dicejax.losses.contract.loss`."""

    def decorate(formula: Callable) -> Callable:
        function = contract.loss(*names, **declared)(formula)
        class_of(function.declaration)
        return function

    return decorate


def class_of(
    declaration: Declaration, preset: Preset | None = None
) -> type[LossObjective]:
    """Make the objective of a loss, or of a preset of it.

    That of the loss is stored as the loss's `objective`.
    """
    base = SetObjective if declaration.kind == "set" else LossObjective
    name = preset.class_name if preset else declaration.class_name
    settings, ranges = declaration.settings(), declaration.bounds
    of_base = {one.name: one for one in dataclasses.fields(base)}
    fields = [*of_base, *settings]
    given = preset.settings if preset else {}
    members: dict[str, Any] = {
        # That of an experiment file is no module, where help would look for a source.
        "__module__": __package__,
        "__annotations__": {name: hint for name, (hint, _) in settings.items()},
        "declaration": declaration,
        "short_name": preset.name if preset else declaration.short_name,
    }
    for field, (_, default) in settings.items():
        bounds = ranges.get(field)
        members[field] = dataclasses.field(
            default=given.get(field, default),
            metadata={"range": bounds and bounds.tuning},
        )
    for field in given.keys() & of_base.keys():
        members["__annotations__"][field] = of_base[field].type
        members[field] = given[field]
    if unknown := given.keys() - {*fields}:
        raise TypeError(f"{declaration.short_name} does not take {sorted(unknown)}")
    members["__doc__"] = _docstring(declaration, preset, base, fields)
    cls = objective(type(name, (base,), members))
    if preset is None:
        vars(declaration.function)["objective"] = cls
    return cls


def _docstring(
    declaration: Declaration,
    preset: Preset | None,
    base: type[LossObjective],
    fields: list[str],
) -> str:
    """Return a summary and a line for each field, for help and reference."""
    text = inspect.getdoc(declaration.function) or ""
    about = [text.partition("\n\n")[0], "", sentence(declaration.short_name)]
    if preset:
        about = [preset.line, "", f"{preset.source} of Li et al., ACL 2020."]
        about[-1] += f" The loss {preset.loss} with other defaults."
    told = described_arguments(base.__doc__ or "")
    for one in filter(None, (declaration.function, declaration.initial_state)):
        told |= described_arguments(inspect.getdoc(one) or "")
    told["class_counts"] = (
        "how often each class occurs, in the multi-label form its 0s and then its 1s; "
        "taken from the training data if empty."
    )
    lines = [f"  {name}: {told.get(name, '')}" for name in fields]
    return "\n".join([*about, "", "Args:", *lines])


for _declaration in REGISTRY.values():
    class_of(_declaration)
for _preset in PRESETS.values():
    if _preset.name != _preset.loss:
        class_of(REGISTRY[_preset.loss], _preset)
