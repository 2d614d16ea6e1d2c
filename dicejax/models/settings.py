"""Types of settings with their ranges, and the check of values against them.

The values of a `config.json` come from elsewhere: what passes here may be used.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from dicejax.errors import quote


@dataclasses.dataclass(frozen=True)
class Between:
    """The range of a number, from `low` to `high`, or only `below` that."""

    low: float
    high: float
    below: bool = False

    def __str__(self) -> str:
        return f"from {self.low:g} to {'below ' * self.below}{self.high:.10g}"


# Sizes and ids are int32 on devices.
Size = Annotated[int, Between(1, 2**31 - 1)]
OptionalSize = Annotated[int, Between(-1, 2**31 - 1)]  # -1: none
TokenId = Annotated[int, Between(0, 2**31 - 2)]
Rate = Annotated[float, Between(0, 1, below=True)]
Scale = Annotated[float, Between(0, 1000)]
Epsilon = Annotated[float, Between(1e-30, 1)]
Activation = Literal["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh"]
Remat = Literal["none", "attention", "layer"]
"""What the backward pass recomputes: nothing, scores and weights of attention and what
is cheap, or whole layers."""

_NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    type(None): "null",
}


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Raise a ValueError for a value that is none of the choices."""
    if value not in choices:
        supported = ", ".join(map(repr, choices))
        raise ValueError(f"{name} is {value!r}; supported: {supported}")


def check_fields(settings: Any) -> None:
    """Check the fields of a dataclass against their declared types and ranges.

    Checked are fields of `bool`, `int`, `float`, `str`, `None`, literals, and unions of
    them, where `Annotated` may add a range. A bool is no number; a whole number is a
    float as well.

    Raises:
      ValueError: a value is of another type or out of range.
    """
    hints = typing.get_type_hints(type(settings), include_extras=True)
    for field in dataclasses.fields(settings):
        value, kinds = getattr(settings, field.name), _kinds(hints[field.name])
        if kinds and not any(_fits(value, kind) for kind in kinds):
            raise ValueError(f"{field.name} is {quote(value)}; {_describe(kinds)}")


def _kinds(hint: Any) -> tuple[Any, ...]:
    """Return the kinds of values that a type admits; none if it is not checked."""
    match typing.get_origin(hint):
        case typing.Union | types.UnionType:
            parts = [_kinds(part) for part in typing.get_args(hint)]
            return sum(parts, ()) if all(parts) else ()
        case typing.Literal:
            return typing.get_args(hint)
    base = typing.get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
    return (hint,) if base in _NAMES else ()


def _fits(value: Any, kind: Any) -> bool:
    base, *ranges = typing.get_args(kind) or (kind,)
    if not isinstance(base, type):  # a literal's value
        return type(value) is type(base) and value == base
    if type(value) is not base and (type(value), base) != (int, float):
        return False
    limits = [limit for limit in ranges if isinstance(limit, Between)]
    return all(  # NaN is in no range
        limit.low <= value < limit.high or (value == limit.high and not limit.below)
        for limit in limits
    )


def _describe(kinds: tuple[Any, ...]) -> str:
    values = [None if kind is type(None) else kind for kind in kinds]
    bases = [(typing.get_args(kind) or (kind,))[0] for kind in values]
    if not any(isinstance(base, type) for base in bases):
        return f"supported: {', '.join(map(repr, values))}"
    names = []
    for kind in kinds:
        base, *ranges = typing.get_args(kind) or (kind,)
        within = [str(limit) for limit in ranges if isinstance(limit, Between)]
        names.append(" ".join([_NAMES.get(base, repr(base)), *within]))
    return f"want {' or '.join(names)}"
