"""Search space of tuning: the learning rate and the ranges that losses declare.

Only numbers have ranges. A number that only scales the loss has none: it acts like the
learning rate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from scipy.stats import qmc

from dicejax.config import Experiment
from dicejax.losses.declaration import Range, complement
from dicejax.objectives import Objective, WeightedSum

LEARNING_RATE = "optimizer.learning_rate"
HEAD_LEARNING_RATE = "optimizer.head_learning_rate"
FACTOR = 5.0
"""Learning rates are taken from the experiment's, divided by this, to it times this."""


def ranges_of(experiment: Experiment) -> dict[str, Range]:
    """Return the tuning ranges of an experiment, by path.

    Hyper-parameters with a non-default value are kept, as they are part of the loss's
    name; so are those without effect under its other settings.

    >>> from dicejax import objectives
    >>> from dicejax.data.sources import SyntheticNER
    >>> experiment = Experiment(
    ...     name="mine",
    ...     data=SyntheticNER(),
    ...     objective=objectives.Tversky(smooth=0.5),
    ... )
    >>> list(ranges_of(experiment))
    ['optimizer.learning_rate', 'objective.alpha']
    """
    rate = experiment.optimizer.learning_rate
    of_rate = Range(
        low=rate / FACTOR,
        high=rate * FACTOR,
        scale="log",
        why="around the experiment's own",
    )
    return {LEARNING_RATE: of_rate, **dict(_ranges(experiment.objective, "objective"))}


def _ranges(loss: Objective, path: str) -> Iterator[tuple[str, Range]]:
    default = type(loss)()

    def is_free(name: str, declared: Range) -> bool:
        fields = [name] if declared.rest is None else [name, declared.rest]
        if (
            declared.only is not None
            and getattr(loss, declared.only[0]) != declared.only[1]
        ):
            return False
        return all(getattr(loss, field) == getattr(default, field) for field in fields)

    for name, declared in declared_ranges(type(loss)).items():
        if not is_free(name, declared):
            continue
        if isinstance(loss, WeightedSum):
            for number in range(1, len(loss.weights)):
                yield f"{path}.{name}.{number}", declared
        else:
            yield f"{path}.{name}", declared
    for field in dataclasses.fields(loss):
        value = getattr(loss, field.name)
        if isinstance(value, Objective):
            yield from _ranges(value, f"{path}.{field.name}")
        elif isinstance(value, tuple):
            for number, part in enumerate(value):
                if isinstance(part, Objective):
                    yield from _ranges(part, f"{path}.{field.name}.{number}")


def declared_ranges(kind: type[Objective]) -> dict[str, Range]:
    """Return the ranges of an objective, by field."""
    ranges = {
        declared.name: declared.metadata.get("range")
        for declared in dataclasses.fields(kind)
    }
    return {name: declared for name, declared in ranges.items() if declared is not None}


def given_values(experiment: Experiment) -> dict[str, float]:
    """Return the experiment's value at each path that tuning varies."""
    paths = [path for path, _ in _with_rest(ranges_of(experiment))]
    if experiment.optimizer.head_learning_rate is not None:
        paths.insert(1, HEAD_LEARNING_RATE)
    return {path: _value_at(experiment, path.split(".")) for path in paths}


def spread(ranges: Mapping[str, Range], count: int) -> list[dict[str, float]]:
    """Return draws that are spread evenly over ranges.

    They are points of Halton's sequence: the first range is cut into halves, quarters
    and so on, each further one by the next prime. Its first two points are left out: a
    corner, and the middle of the first range, where a learning rate is as given.

    >>> rates = {"optimizer.learning_rate": Range(low=1e-4, high=1e-2, scale="log")}
    >>> [round(draw["optimizer.learning_rate"], 5) for draw in spread(rates, 3)]
    [0.00032, 0.00316, 0.00018]
    """
    halton = qmc.Halton(len(ranges), scramble=False)
    halton.fast_forward(2)
    return [
        {
            path: declared.draw_at(share)
            for (path, declared), share in zip(ranges.items(), point, strict=True)
        }
        for point in halton.random(count).tolist()
    ]


def drawn_values(
    experiment: Experiment, drawn: Mapping[str, float]
) -> dict[str, float]:
    """Return the value at each path that tuning varies, from a sampler's draw.

    The ratio of the heads' learning rate, if set, to the other is kept.
    """
    ranges, optimizer = ranges_of(experiment), experiment.optimizer
    values: dict[str, float] = {}
    for path, complement_of in _with_rest(ranges):
        if complement_of is None:
            values[path] = ranges[path].to_value(drawn[path])
        else:
            values[path] = complement(values[complement_of])
        if path == LEARNING_RATE and optimizer.head_learning_rate is not None:
            ratio = optimizer.head_learning_rate / optimizer.learning_rate
            values[HEAD_LEARNING_RATE] = float(f"{values[path] * ratio:.3g}")
    return values


def _with_rest(ranges: Mapping[str, Range]) -> Iterator[tuple[str, str | None]]:
    """Yield all paths, each followed by the one that is set to 1 minus it."""
    for path, declared in ranges.items():
        yield path, None
        if declared.rest is not None:
            yield f"{path.rpartition('.')[0]}.{declared.rest}", path


def with_values(experiment: Experiment, values: Mapping[str, float]) -> Experiment:
    """Return an experiment with other values at some paths.

    >>> from dicejax.data.sources import SyntheticNER
    >>> experiment = Experiment(
    ...     name="mine", data=SyntheticNER(), objective=WeightedSum()
    ... )
    >>> changed = with_values(
    ...     experiment, {"objective.weights.1": 3.0, "objective.parts.1.smooth": 0.1}
    ... )
    >>> changed.objective.weights, changed.objective.parts[1].smooth
    ((1.0, 3.0), 0.1)
    """
    for path, value in values.items():
        experiment = _replaced(experiment, path.split("."), value)
    return experiment


def _value_at(tree: Any, path: list[str]) -> float:
    for name in path:
        tree = tree[int(name)] if isinstance(tree, tuple) else getattr(tree, name)
    return tree


def _replaced(tree: Any, path: list[str], value: float) -> Any:
    if not path:
        return value
    name, *rest = path
    if isinstance(tree, tuple):
        place = int(name)
        changed = _replaced(tree[place], rest, value)
        return (*tree[:place], changed, *tree[place + 1 :])
    changed = _replaced(getattr(tree, name), rest, value)
    return dataclasses.replace(tree, **{name: changed})
