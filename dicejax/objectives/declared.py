"""The objective class of a declared loss: written in source, or made for a new loss."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from dicejax.losses import contract
from dicejax.losses.declaration import Declaration
from dicejax.objectives.loss_objective import LossObjective
from dicejax.objectives.objective import objective
from dicejax.objectives.sets import SetObjective

_Class = TypeVar("_Class", bound=type[LossObjective])
_ARGUMENT = re.compile(r"^  (\w+): (.*(?:\n    .+)*)", re.MULTILINE)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def of_loss(
    function: Callable, preset: str | None = None
) -> Callable[[_Class], _Class]:
    """Make a class the objective of a loss, or of a preset of it.

    Its fields get the tuning ranges of the loss's declaration, and its docstring the
    function's documentation of them. The objective of the loss is stored as the
    function's `objective`.
    """
    declaration = vars(function)["declaration"]

    def decorate(cls: _Class) -> _Class:
        cls.declaration = declaration
        cls.short_name = preset or declaration.short_name
        for name in cls.__annotations__.keys() & declaration.bounds.keys():
            tuning = declaration.bounds[name].tuning
            default, metadata = vars(cls)[name], {"range": tuning}
            setattr(cls, name, dataclasses.field(default=default, metadata=metadata))
        objective(cls)
        if preset is None:
            vars(function)["objective"] = cls
            _document(cls, declaration)
        return cls

    return decorate


def _document(cls: type[LossObjective], declaration: Declaration) -> None:
    """Add the documentation of a loss's arguments that are fields of its objective."""
    texts = {
        "class_counts": "counts per class (multi-label: 0s, 1s); training data's if"
        " empty."
    }
    for function in filter(None, (declaration.function, declaration.initial_state)):
        for name, text in _ARGUMENT.findall(inspect.getdoc(function) or ""):
            texts.setdefault(name, text)
    entries = [
        f"  {name}: {texts[name]}" for name in cls.__annotations__ if name in texts
    ]
    if entries and "\nArgs:\n" not in (summary := inspect.getdoc(cls) or ""):
        cls.__doc__ = "\n".join([summary, "", "Args:", *entries])


@functools.wraps(contract.loss)
def loss(*names: Any, **declared: Any) -> Callable:
    """Declare a loss and its objective; see `dicejax.losses.contract.loss`."""

    def decorate(formula: Callable) -> Callable:
        function = contract.loss(*names, **declared)(formula)
        declaration = function.declaration
        settings = declaration.settings()
        members = {name: default for name, (_, default) in settings.items()}
        members["__annotations__"] = {
            name: hint for name, (hint, _) in settings.items()
        }
        members["__doc__"] = formula.__doc__
        # That of an experiment file is no module, where help would look for a source.
        members["__module__"] = __package__
        base = SetObjective if declaration.kind == "set" else LossObjective
        of_loss(function)(type(declaration.class_name, (base,), members))
        return function

    return decorate
