"""Declarations of losses: bounds of hyper-parameters, tuning ranges, the registry."""

import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import numpy as np

Kind = Literal["pointwise", "batch", "set", "stateful"]
Absent = Literal["smooth", "skip"]
Average = Literal["none", "macro", "micro"]
Scheme = Literal["log_ratio", "inverse", "inverse_square_root", "effective_number"]
Scale = Literal["linear", "log", "log from 1"]
Shape = Literal["scalar", "class", "loss"]

# Keywords for the layout of arrays, and for arrays of the caller.
LAYOUT = ("where", "axis", "class_axis", "multi_label", "axis_name", "form")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise a ValueError unless `value` is one of `choices`."""
    if value not in choices:
        names = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
        raise ValueError(f"{name} is {value!r} but must be {names}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Range:
    """Tuning range of a hyper-parameter.

    Attributes:
      low: lowest value.
      high: highest value.
      scale: whether the value, its logarithm, or that of 1 - value is drawn uniformly.
      whole: whether the value is an integer.
      rest: another hyper-parameter, set to 1 minus the value.
      only: another hyper-parameter, and its values with which this one has an effect.
      why: reason for these bounds, with its source if there is one.

    Raises:
      ValueError: there is no such scale, or the ends do not fit it.
    """

    low: float
    high: float
    scale: Scale = "linear"
    whole: bool = False
    rest: str | None = None
    only: tuple[str, ...] | None = None
    why: str = ""

    def __post_init__(self) -> None:
        check_choice("scale", self.scale, typing.get_args(Scale))
        floor = -math.inf if self.scale == "linear" else 0.0
        top = 1.0 if self.scale == "log from 1" else math.inf
        if not floor < self.drawn[0] <= self.drawn[1] < top or self.low > self.high:
            raise ValueError(
                f"a range of scale {self.scale!r} cannot go from {self.low:g} to "
                f"{self.high:g}"
            )

    @property
    def drawn(self) -> tuple[float, float]:
        """Bounds of the sampler's draw, uniform or log-uniform.

        >>> Range(low=0.9, high=0.9999, scale="log from 1", why="").drawn
        (0.0001, 0.1)
        """
        ends = self.to_drawn(self.low), self.to_drawn(self.high)
        return min(ends), max(ends)

    def to_drawn(self, value: float) -> float:
        """Return the sampler's draw for a value."""
        return complement(value) if self.scale == "log from 1" else value

    def draw_at(self, share: float) -> float:
        """Return the sampler's draw below which a share of all draws is.

        >>> Range(low=0.01, high=1, scale="log", why="").draw_at(0.5)
        0.1
        >>> Range(low=1, high=10, whole=True, why="").draw_at(0.99)
        10
        """
        low, high = self.drawn
        high += self.whole  # the last integer has a share too
        if self.scale == "linear":
            draw = low + share * (high - low)
        else:
            draw = low * (high / low) ** share
        return int(draw) if self.whole else draw

    def to_value(self, drawn: float) -> float:
        """Return the value for a sampler's draw, in three digits.

        >>> Range(low=0, high=5, why="").to_value(1.23456)
        1.23
        """
        if self.whole:
            return int(drawn)
        short = float(f"{drawn:.3g}")
        return complement(short) if self.scale == "log from 1" else short


def complement(value: float) -> float:
    """Return 1 minus a value, without the rounding noise of 1 - 0.9999."""
    return round(1 - value, 10)


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Valid interval of a hyper-parameter.

    Attributes:
      low: lower end.
      high: upper end; infinity is never inside.
      shape: "scalar"; "class": one number per class (`[C]`, `[2]` in the binary form,
        `[C, 2]` in the multi-label form); or "loss": one per loss of a class, `[C]`.
      low_inside: whether the lower end is allowed.
      high_inside: whether the upper end is allowed.
      tuning: range that tuning draws from; None to keep the default.
      off: a number at which a formula needs nothing of it: known to be that, it is
        None there, and its part is not compiled.

    Raises:
      ValueError: the interval is empty, or the range for tuning leaves it.
    """

    low: float
    high: float
    shape: Shape = "scalar"
    low_inside: bool = True
    high_inside: bool = True
    tuning: Range | None = None
    off: float | None = None

    def __post_init__(self) -> None:
        check_choice("shape", self.shape, typing.get_args(Shape))
        if not self.low < self.high:
            raise ValueError(f"bounds {self} hold nothing")
        tuning = self.tuning
        if tuning and not self.low <= tuning.low <= tuning.high <= self.high:
            raise ValueError(
                f"a range from {tuning.low:g} to {tuning.high:g} leaves {self}"
            )

    def tuned(
        self,
        low: float,
        high: float,
        *,
        scale: Scale = "linear",
        whole: bool = False,
        rest: str | None = None,
        only: tuple[str, ...] | None = None,
        why: str = "",
    ) -> "Bounds":
        """Return the bounds with a `Range` from low to high."""
        tuning = Range(
            low=low, high=high, scale=scale, whole=whole, rest=rest, only=only, why=why
        )
        return dataclasses.replace(self, tuning=tuning)

    def holds(self, value: Any) -> Any:
        """Return whether values, of Python or an array, are finite and inside."""
        above = value >= self.low if self.low_inside else value > self.low
        below = value <= self.high if self.high_inside else value < self.high
        return above & below & np.isfinite(value)

    def __str__(self) -> str:
        left = "[" if self.low_inside else "("
        right = "]" if self.high_inside and math.isfinite(self.high) else ")"
        return f"{left}{self.low:g}, {self.high:g}{right}"


ANY = Bounds(-math.inf, math.inf)
NON_NEGATIVE = Bounds(0.0, math.inf)
"""From 0, inside."""
POSITIVE = Bounds(0.0, math.inf, low_inside=False)
"""Above 0."""
AT_LEAST_ONE = Bounds(1.0, math.inf)
UNIT_INTERVAL = Bounds(0.0, 1.0)
"""From 0 to 1, both inside."""
BELOW_ONE = Bounds(0.0, 1.0, high_inside=False)
CLASS_WEIGHTS = Bounds(0.0, math.inf, "class")
LOSS_WEIGHTS = Bounds(0.0, math.inf, "loss")
CLASS_COUNTS = Bounds(0.0, math.inf, "class", low_inside=False)

# Bounds shared by several losses.
SMOOTH = NON_NEGATIVE.tuned(
    1e-5, 10.0, scale="log", why="in counts, from almost 0; Li et al. 2020 use 1"
)
SHARE_OF_ERRORS = NON_NEGATIVE.tuned(
    0.1, 0.9, rest="beta", why="values of Li et al. 2020, with beta 1 - alpha"
)
FOCUSING = NON_NEGATIVE.tuned(0.0, 5.0, why="values of Lin et al. 2017")
TAU = NON_NEGATIVE.tuned(
    0.0, 2.0, why="from cross-entropy's 0 to twice the balancing value"
)
_OF_BETA = functools.partial(
    BELOW_ONE.tuned,
    0.9,
    0.9999,
    scale="log from 1",
    why="values of Cui et al. 2019: 0.9, 0.99, 0.999, 0.9999",
)
EFFECTIVE_BETA = _OF_BETA()
OF_SCHEMES: dict[str, Any] = {
    "k": AT_LEAST_ONE.tuned(
        1.0,
        100.0,
        scale="log",
        only=("scheme", "log_ratio"),
        why="from the smallest allowed to nearly equal weights",
    ),
    "beta": _OF_BETA(only=("scheme", "effective_number")),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declaration:
    """A registered loss, the source of its objective, flags, tuning range and docs.

    Attributes:
      short_name: its name on the command line.
      class_name: the name of its objective.
      kind: how an objective reduces it, as in `dicejax.losses.contract.loss`.
      function: the public loss.
      takes: names of its parameters.
      bounds: bounds of its hyper-parameters, by name.
      multi_label: whether it takes labels of the logits' shape only.
      initial_state: returns the state before the first call.
    """

    short_name: str
    class_name: str
    kind: Kind
    function: Callable[..., Any]
    takes: frozenset[str]
    bounds: Mapping[str, Bounds]
    multi_label: bool
    initial_state: Callable[..., Any] | None

    def __post_init__(self) -> None:
        name, kind = self.function.__name__, self.kind
        check_choice(f"kind of {name}", kind, typing.get_args(Kind))
        if (self.initial_state is None) is (kind == "stateful"):
            raise ValueError(f"{name}: kind 'stateful' goes with an initial_state")
        for field, bounds in self.bounds.items():
            if not isinstance(bounds, Bounds):
                raise TypeError(f"{field} of {name} is {bounds!r}, not Bounds")
        settings = self.settings()
        defaults = {field: default for field, (_, default) in settings.items()}
        if unknown := sorted(self.bounds.keys() - defaults.keys() - self.takes):
            raise TypeError(f"{name} does not take {unknown}")
        for field, bounds in self.bounds.items():
            default = defaults.get(field)
            if isinstance(default, int | float) and not bounds.holds(default):
                raise ValueError(f"{field} of {name} is {default} but not in {bounds}")
            if tuning := bounds.tuning:
                rest = () if tuning.rest is None else (tuning.rest,)
                if missing := {*rest, *(tuning.only or ())[:1]} - defaults.keys():
                    raise TypeError(f"{name} does not take {sorted(missing)}")
        hints: dict[str, Any] = {"average": Average}
        hints |= typing.get_type_hints(self.function)
        for field, parameter in inspect.signature(self.function).parameters.items():
            if typing.get_origin(hints.get(field)) is Literal:
                choices = typing.get_args(hints[field])
                check_choice(f"{field} of {name}", parameter.default, choices)

    def settings(self) -> dict[str, tuple[Any, Any]]:
        """Return type and default of each setting of an experiment, by name.

        These are the keywords of the loss and of `initial_state`, less those of layout
        and less arrays. Class counts come from the training data unless they are given.
        """
        settings: dict[str, tuple[Any, Any]] = {}
        others = {*LAYOUT, "logits", "labels", "state", "class_counts"}
        others |= {"exclude_class"} if self.kind == "set" else set()
        for function in filter(None, (self.initial_state, self.function)):
            hints = typing.get_type_hints(function)
            for name, parameter in inspect.signature(function).parameters.items():
                bounds = self.bounds.get(name)
                if name in others or (bounds and bounds.shape != "scalar"):
                    continue
                if name == "average" and parameter.default == "none":
                    continue  # as that of all set losses
                if parameter.default is parameter.empty:
                    raise TypeError(f"{name} of {self.short_name} has no value")
                hint = hints.get(name, type(parameter.default))
                if typing.get_origin(hint) in (typing.Union, types.UnionType):
                    # Traced as an array, but set as a number.
                    choices = [x for x in typing.get_args(hint) if x is not jax.Array]
                    hint = typing.Union[tuple(choices)]  # noqa: UP007
                settings[name] = (hint, parameter.default)
        if "class_counts" in self.takes:
            settings["class_counts"] = (tuple[float, ...], ())
        return settings


REGISTRY: dict[str, Declaration] = {}
"""The registered losses by short name, in the order of their declaration."""


def register(declaration: Declaration) -> None:
    """Add a loss to the registry, or replace one of an experiment file."""
    room = __name__.partition(".")[0] + "."
    is_ours = declaration.function.__module__.startswith(room)
    for earlier in [*REGISTRY.values()]:
        same = earlier.short_name == declaration.short_name
        if not same and earlier.class_name != declaration.class_name:
            continue
        if earlier.function.__module__.startswith(room) > is_ours:
            raise ValueError(
                f"{declaration.short_name}: dicejax has a loss of this name; choose "
                "another"
            )
        del REGISTRY[earlier.short_name]
    REGISTRY[declaration.short_name] = declaration
