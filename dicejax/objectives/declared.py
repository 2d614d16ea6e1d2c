"""The objective class of a declared loss: written in source, or made for a new loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import (
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeVar,
    dataclass_transform,
    overload,
)

from jax import Array

from dicejax.losses import contract
from dicejax.losses.declaration import Bounds, Declaration, Kind
from dicejax.objectives.loss_objective import LossObjective
from dicejax.objectives.objective import objective, register
from dicejax.objectives.sets import SetObjective, Sets

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
_Class = TypeVar("_Class", bound=type[LossObjective])


@dataclass_transform(kw_only_default=True, frozen_default=True)
def of_loss(
    function: Callable[..., Any], preset: str | None = None
) -> Callable[[_Class], _Class]:
    """Make a class the objective of a loss, or of a preset of it.

    Its fields get the tuning ranges of the loss's declaration. The objective of the
    loss is stored as the function's `objective`.
    """
    declaration = vars(function)["declaration"]

    def decorate(cls: _Class) -> _Class:
        cls.declaration = declaration
        cls.short_name = preset or declaration.short_name
        for name in cls.__annotations__.keys() & declaration.bounds.keys():
            setattr(cls, name, _field(declaration, name, vars(cls)[name]))
        objective(cls)
        if preset is None:
            vars(function)["objective"] = cls
        return cls

    return decorate


def _field(declaration: Declaration, name: str, default: Any) -> Any:
    bounds = declaration.bounds.get(name)
    metadata = {"range": bounds.tuning} if bounds else {}
    return dataclasses.field(default=default, metadata=metadata)


class OwnObjective(Protocol[P]):
    """The objective class of an own loss, to a type checker.

    It knows the loss's keywords; beside a setting of all objectives it does not check
    the rest.
    """

    @overload
    def __call__(self) -> LossObjective: ...
    @overload
    def __call__(self, *args: P.args, **settings: P.kwargs) -> LossObjective: ...
    @overload
    def __call__(self, *, output: str | None, **settings: Any) -> LossObjective: ...
    @overload
    def __call__(self, *, over: Sets | int, **settings: Any) -> LossObjective: ...


class OwnLoss(Protocol[P, R_co]):
    """A loss of an experiment: a function with the class of its objective."""

    @property
    def objective(self) -> OwnObjective[P]:
        """The class of the objective that the loss is in an experiment."""
        ...

    def __call__(
        self, logits: Array, labels: Array, *args: P.args, **kwargs: P.kwargs
    ) -> R_co:
        """Return the loss."""
        ...


def loss(
    short_name: str | None = None,
    *,
    kind: Kind,
    class_name: str | None = None,
    multi_label: bool = False,
    initial_state: Callable[..., Any] | None = None,
    **bounds: Bounds,
) -> Callable[[Callable[Concatenate[Array, Array, P], R_co]], OwnLoss[P, R_co]]:
    """Declare a loss and its objective, which is its attribute `objective`.

    For the arguments see `dicejax.losses.contract.loss`.
    """
    declare = contract.loss(
        short_name,
        kind=kind,
        class_name=class_name,
        multi_label=multi_label,
        initial_state=initial_state,
        **bounds,
    )

    def decorate(formula: Callable[Concatenate[Array, Array, P], R_co]) -> Any:
        function = declare(formula)
        declaration: Declaration = vars(function)["declaration"]
        members = {"__doc__": formula.__doc__, "declaration": declaration}
        # An experiment file is no module, where help would look for a source.
        members |= {"__module__": __package__, "short_name": declaration.short_name}
        fields = [
            (name, hint, _field(declaration, name, default))
            for name, (hint, default) in declaration.settings().items()
        ]
        base = SetObjective if declaration.kind == "set" else LossObjective
        how: Any = {"bases": (base,), "frozen": True, "kw_only": True}
        made = dataclasses.make_dataclass(
            declaration.class_name, fields, namespace=members, **how
        )
        vars(function)["objective"] = register(made)
        return function

    return decorate
