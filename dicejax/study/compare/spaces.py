"""Search space of tuning: the learning rate and the ranges that losses declare.

The heads' learning rate is a factor of the encoder's and follows it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scipy.stats import qmc

from dicejax import config
from dicejax.config import Experiment
from dicejax.losses.declaration import Range, complement
from dicejax.objectives import Objective, WeightedSum

LEARNING_RATE = "optimizer.learning_rate"
FACTOR = 5.0
"""Learning rates are taken from the experiment's, divided by this, to it times this."""


def ranges_of(experiment: Experiment) -> dict[str, Range]:
    """Return the tuning ranges of an experiment, by path.

    Hyper-parameters with a non-default value are kept, as they are part of the loss's
    name; so are those without effect under its other settings.
    """
    rate, why = experiment.optimizer.learning_rate, "around the experiment's own"
    around = Range(low=rate / FACTOR, high=rate * FACTOR, scale="log", why=why)
    return {LEARNING_RATE: around, **_free_ranges(experiment.objective, "objective")}


def _free_ranges(loss: Objective, path: str) -> dict[str, Range]:
    """Return the ranges of a loss and of those that it is made of, by path."""
    default = type(loss)()
    ranges: dict[str, Range] = {}
    for name, declared in declared_ranges(type(loss)).items():
        fields = [name] if declared.rest is None else [name, declared.rest]
        setting, *values = declared.only or (name, getattr(loss, name))
        if getattr(loss, setting) not in values:  # without effect
            continue
        if any(getattr(loss, field) != getattr(default, field) for field in fields):
            continue
        paths = [f"{path}.{name}"]
        if isinstance(loss, WeightedSum):
            paths = [f"{path}.{name}.{part}" for part in range(1, len(loss.weights))]
        ranges |= dict.fromkeys(paths, declared)
    for field in dataclasses.fields(loss):
        value, parts = getattr(loss, field.name), {}
        if isinstance(value, tuple):
            parts = {f".{index}": part for index, part in enumerate(value)}
        for index, part in {"": value, **parts}.items():
            if isinstance(part, Objective):
                ranges |= _free_ranges(part, f"{path}.{field.name}{index}")
    return ranges


def declared_ranges(kind: type[Objective]) -> dict[str, Range]:
    """Return the ranges of an objective, by field."""
    fields = {field.name: field.metadata for field in dataclasses.fields(kind)}
    return {name: data["range"] for name, data in fields.items() if data.get("range")}


def given_values(experiment: Experiment) -> dict[str, float]:
    """Return the experiment's value at each path that tuning varies."""
    values = config.leaves(experiment)
    return {path: values[path] for path, _ in _with_rest(ranges_of(experiment))}


def spread(ranges: Mapping[str, Range], count: int) -> list[dict[str, float]]:
    """Return draws that are spread evenly over ranges, by Halton's sequence.

    Its first two points are left out: a corner, and the middle of the first range,
    where a learning rate is as given.
    """
    halton = qmc.Halton(len(ranges), scramble=False)
    halton.fast_forward(2)
    return [
        {path: r.draw_at(x) for (path, r), x in zip(ranges.items(), point, strict=True)}
        for point in halton.random(count).tolist()
    ]


def drawn_values(
    experiment: Experiment, drawn: Mapping[str, float]
) -> dict[str, float]:
    """Return the value at each path that tuning varies, from a sampler's draw."""
    ranges = ranges_of(experiment)
    values: dict[str, float] = {}
    for path, other in _with_rest(ranges):
        if other is None:
            values[path] = ranges[path].to_value(drawn[path])
        else:
            values[path] = complement(values[other])
    return values


def _with_rest(ranges: Mapping[str, Range]) -> Iterator[tuple[str, str | None]]:
    """Yield all paths, each followed by the one that is set to 1 minus it."""
    for path, declared in ranges.items():
        yield path, None
        if declared.rest is not None:
            yield f"{path.rpartition('.')[0]}.{declared.rest}", path


def with_values(experiment: Experiment, values: Mapping[str, float]) -> Experiment:
    """Return an experiment with other values at some paths."""
    for path, value in values.items():
        experiment = _replace(experiment, path.split("."), value)
    return experiment


def _replace(tree: Any, path: Sequence[str], value: float) -> Any:
    if not path:
        return value
    name, *rest = path
    if isinstance(tree, tuple):
        parts = list(tree)
        parts[int(name)] = _replace(parts[int(name)], rest, value)
        return tuple(parts)
    changed = _replace(getattr(tree, name), rest, value)
    return dataclasses.replace(tree, **{name: changed})
