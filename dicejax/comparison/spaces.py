"""What tuning varies: the learning rate, and of each loss the numbers of its own."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from dicejax import objectives
from dicejax.config import Experiment
from dicejax.objectives import Objective, WeightedSum

LEARNING_RATE = "optimizer.learning_rate"
HEAD_LEARNING_RATE = "optimizer.head_learning_rate"
FACTOR = 5.0
"""Learning rates are taken from the experiment's, divided by this, to it times this."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Range:
    """The values of one number that tuning may choose.

    Attributes:
      low: the lowest.
      high: the highest.
      scale: what is drawn evenly: the value, its logarithm, or that of its distance
        from 1.
      whole: whether the value is an integer.
      rest: a field beside it that becomes 1 minus the value.
      only: a field beside it, and the value of that without which this one is of no
        meaning.
      why: these bounds, with the source where they have one.
    """

    low: float
    high: float
    scale: Literal["linear", "log", "log from 1"] = "linear"
    whole: bool = False
    rest: str | None = None
    only: tuple[str, str] | None = None
    why: str

    @property
    def drawn(self) -> tuple[float, float]:
        """The bounds of what a sampler draws, evenly or by its logarithm.

        >>> Range(low=0.9, high=0.9999, scale="log from 1", why="").drawn
        (0.0001, 0.1)
        """
        ends = self.to_drawn(self.low), self.to_drawn(self.high)
        return min(ends), max(ends)

    def to_drawn(self, value: float) -> float:
        """Return what a sampler would have drawn for a value."""
        return _from_1(value) if self.scale == "log from 1" else value

    def to_value(self, drawn: float) -> float:
        """Return the value for what a sampler drew, in three digits.

        >>> Range(low=0, high=5, why="").to_value(1.23456)
        1.23
        """
        if self.whole:
            return int(drawn)
        short = float(f"{drawn:.3g}")
        return _from_1(short) if self.scale == "log from 1" else short


def _from_1(value: float) -> float:
    return round(1 - value, 10)  # without the noise of 1 - 0.9999


_SMOOTH = Range(
    low=0.01,
    high=10.0,
    scale="log",
    why="in counts: from next to none to some elements; Li et al. 2020 have 1",
)
_SHARE_OF_ERRORS = Range(
    low=0.1,
    high=0.9,
    rest="beta",
    why="what Li et al. 2020 try, with beta 1 - alpha",
)
_TAU = Range(
    low=0.0, high=2.0, why="from cross-entropy's 0 to twice what balances the classes"
)
_WEIGHTS = {
    "k": Range(
        low=1.0,
        high=100.0,
        scale="log",
        only=("scheme", "log_ratio"),
        why="from the least allowed to weights that are all but equal",
    ),
    "beta": Range(
        low=0.9,
        high=0.9999,
        scale="log from 1",
        only=("scheme", "effective_number"),
        why="what Cui et al. 2019 choose from: 0.9, 0.99, 0.999, 0.9999",
    ),
}
_OF_SUM = Range(
    low=0.1,
    high=10.0,
    scale="log",
    why="ten times less to ten times more than the first part, whose weight stays",
)

SPACES: Mapping[type[Objective], Mapping[str, Range]] = types.MappingProxyType(
    {
        # Label smoothing makes another loss of it: a row of its own in a comparison.
        objectives.CrossEntropy: {},
        objectives.WeightedCrossEntropy: _WEIGHTS,
        objectives.Focal: {
            "gamma": Range(low=0.0, high=5.0, why="what Lin et al. 2017 try"),
            **_WEIGHTS,
        },
        objectives.Poly: {
            "epsilon": Range(
                low=-1.0,
                high=5.0,
                why="from the least allowed to a slope near p = 1 six times as steep",
            )
        },
        objectives.MajorityOrMinority: {
            "weight": Range(
                low=0.1,
                high=1.0,
                why="to cross-entropy's 1; at 0 minorities have no gradient",
            )
        },
        objectives.LogitAdjusted: {"tau": _TAU},
        objectives.LDAM: {
            "max_margin": Range(
                low=0.1,
                high=5.0,
                scale="log",
                why="in units of logits, which reach some 10",
            )
        },
        objectives.VectorScaling: {
            "tau": _TAU,
            "gamma": Range(
                low=0.0,
                high=0.5,
                why="from the logit-adjusted loss to the square root of frequencies",
            ),
        },
        objectives.GHM: {
            "bins": Range(
                low=5,
                high=50,
                scale="log",
                whole=True,
                why="coarser hardly tells easy from hard, finer leaves bins empty",
            ),
            "momentum": Range(
                low=0.0, high=0.99, why="from this batch alone to about 100 batches"
            ),
        },
        objectives.HardNegatives: {
            "negatives_per_positive": Range(
                low=1.0,
                high=10.0,
                scale="log",
                why="from as many negatives as positives to most of them",
            )
        },
        objectives.Asymmetric: {
            "gamma_negative": Range(
                low=0.0, high=8.0, why="from no focusing to twice the usual 4"
            ),
            "gamma_positive": Range(
                low=0.0, high=2.0, why="from no focusing to twice the usual 1"
            ),
            "margin": Range(
                low=0.0, high=0.2, why="above, negatives in doubt are left out"
            ),
        },
        objectives.ZLPR: {},
        objectives.DistributionBalanced: {
            "mu": Range(
                low=0.1,
                high=0.9,
                why="where weights rise: they are of shares in [0, 1]",
            ),
            "kappa": Range(
                low=0.005,
                high=0.5,
                scale="log",
                why="ten times either way of the usual",
            ),
            "scale": Range(
                low=1.0,
                high=10.0,
                scale="log",
                why="from no delay of negatives to next to no slope of easy ones",
            ),
        },
        objectives.Dice: {"smooth": _SMOOTH},
        objectives.SelfAdjustingDice: {
            "alpha": Range(
                low=0.01,
                high=1.0,
                scale="log",
                why="from the scripts of Li et al. 2020 to their eq. 11 as written; "
                "above, positives are trained to under 0.5",
            ),
            "smooth": _SMOOTH,
        },
        objectives.LogCoshDice: {"smooth": _SMOOTH},
        objectives.GeneralizedDice: {
            "smooth": Range(
                low=1e-6,
                high=1.0,
                scale="log",
                why="in counts of the rarest class: up to one element of it",
            )
        },
        objectives.DiceSemimetric: {"smooth": _SMOOTH},
        objectives.Tversky: {"alpha": _SHARE_OF_ERRORS, "smooth": _SMOOTH},
        objectives.FocalTversky: {
            "alpha": _SHARE_OF_ERRORS,
            "gamma": Range(
                low=1.0, high=3.0, why="what Abraham and Khan 2019 try; 1 is Tversky"
            ),
            "smooth": _SMOOTH,
        },
        objectives.Jaccard: {"smooth": _SMOOTH},
        objectives.SoftF1: {
            "beta": Range(
                low=0.5,
                high=2.0,
                scale="log",
                why="recall counts half or twice as much as precision",
            ),
            "smooth": _SMOOTH,
        },
        objectives.SigmoidF1: {
            "slope": Range(
                low=0.5,
                high=10.0,
                scale="log",
                why="above, an element one logit away has next to no slope",
            ),
            "offset": Range(
                low=-2.0, high=2.0, why="in units of logits, to either side"
            ),
            "smooth": _SMOOTH,
        },
        objectives.UnifiedFocal: {
            "weight": Range(low=0.1, high=0.9, why="some of both of its parts"),
            "delta": Range(
                low=0.5, high=0.9, why="from even to nearly all for rare classes"
            ),
            "gamma": Range(low=0.1, high=0.9, why="inside [0, 1), where it is defined"),
        },
        objectives.LovaszSoftmax: {},
        # Of those made of others, the numbers of the others too.
        objectives.WeightedSum: {"weights": _OF_SUM},
        objectives.LinearSchedule: {
            "begin": Range(low=0.0, high=0.4, why="in the first half of training"),
            "end": Range(low=0.5, high=1.0, why="in the second half of training"),
        },
        objectives.StepSchedule: {
            "at": Range(low=0.1, high=0.9, why="so that both have a part of training")
        },
    }
)
"""What tuning varies of each loss, beside the learning rate.

Numbers only: words, switches and labels say which loss it is. None of those that only
scale the loss, for that is the learning rate's part.
"""


def ranges_of(experiment: Experiment) -> dict[str, Range]:
    """Return what tuning varies of an experiment, by path.

    What the loss has at another value than its default is kept, for that is part of
    its name; so is what has no meaning with its other settings.

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

    def is_free(name: str, one: Range) -> bool:
        fields = [name] if one.rest is None else [name, one.rest]
        if one.only is not None and getattr(loss, one.only[0]) != one.only[1]:
            return False
        return all(getattr(loss, field) == getattr(default, field) for field in fields)

    for name, one in _space(type(loss)).items():
        if not is_free(name, one):
            continue
        if isinstance(loss, WeightedSum):
            for number in range(1, len(loss.weights)):
                yield f"{path}.{name}.{number}", one
        else:
            yield f"{path}.{name}", one
    for field in dataclasses.fields(loss):
        value = getattr(loss, field.name)
        if isinstance(value, Objective):
            yield from _ranges(value, f"{path}.{field.name}")
        elif isinstance(value, tuple):
            for number, part in enumerate(value):
                if isinstance(part, Objective):
                    yield from _ranges(part, f"{path}.{field.name}.{number}")


def _space(kind: type[Objective]) -> Mapping[str, Range]:
    """The ranges of a class, or of the nearest that it is derived from; else none."""
    return next((SPACES[one] for one in kind.__mro__ if one in SPACES), {})


def given_values(experiment: Experiment) -> dict[str, float]:
    """Return what an experiment has at each path that tuning changes."""
    paths = [path for path, _ in _with_rest(ranges_of(experiment))]
    if experiment.optimizer.head_learning_rate is not None:
        paths.insert(1, HEAD_LEARNING_RATE)
    return {path: _value_at(experiment, path.split(".")) for path in paths}


def drawn_values(
    experiment: Experiment, drawn: Mapping[str, float]
) -> dict[str, float]:
    """Return the value at each path that tuning changes, for what a sampler drew.

    The learning rate of the heads, where it is set, keeps its ratio to the other.
    """
    ranges, optimizer = ranges_of(experiment), experiment.optimizer
    values: dict[str, float] = {}
    for path, complement_of in _with_rest(ranges):
        if complement_of is None:
            values[path] = ranges[path].to_value(drawn[path])
        else:
            values[path] = _from_1(values[complement_of])
        if path == LEARNING_RATE and optimizer.head_learning_rate is not None:
            ratio = optimizer.head_learning_rate / optimizer.learning_rate
            values[HEAD_LEARNING_RATE] = float(f"{values[path] * ratio:.3g}")
    return values


def _with_rest(ranges: Mapping[str, Range]) -> Iterator[tuple[str, str | None]]:
    """Yield all paths, and for one that is 1 minus another, that other."""
    for path, one in ranges.items():
        yield path, None
        if one.rest is not None:
            yield f"{path.rpartition('.')[0]}.{one.rest}", path


def with_values(experiment: Experiment, values: Mapping[str, float]) -> Experiment:
    """Return an experiment with other values at some paths.

    >>> from dicejax.data.sources import SyntheticNER
    >>> experiment = Experiment(
    ...     name="mine", data=SyntheticNER(), objective=objectives.WeightedSum()
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
