"""Resampling: choose an epoch's examples so that rare classes are seen more often.

All three ways count units: examples of a class where each example has one label, words
of a class where each word has. `UnitCounts` holds how many of each an example has. A
ratio is the number of negative units in the epoch for each positive one.

An epoch depends on (seed, epoch) alone. Its indices ascend: the pipeline shuffles.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Last part of the seed of each kind of draw, so that none repeats another's. None is
# 0: NumPy takes (seed, epoch, 0) for (seed, epoch), which orders the pipeline.
_DOWN, _OVER, _IMPORTANCE = 1, 2, 3

# Units are whole, but a ratio such as 0.1 is not exact: 0.1 * 30 is a little above 3.
_SLACK = 1e-6


class Epoch(NamedTuple):
    """The examples of one pass over the data."""

    indices: np.ndarray  # int64 [n], ascending; one that occurs twice is seen twice
    weights: np.ndarray | None = None  # float64 [n], of the losses; None: all 1


@dataclasses.dataclass(frozen=True, eq=False)
class UnitCounts:
    """The number of units of each class in each example.

    Attributes:
      units: int64 `[N, C]`, for N examples and C classes; column 0 is the negative
        class, every other is positive.
    """

    units: np.ndarray

    def __post_init__(self) -> None:
        units = np.asarray(self.units)
        if units.ndim != 2 or units.shape[1] < 2 or len(units) == 0:
            raise ValueError(
                f"units has shape {units.shape}; want (examples, classes), with at "
                "least 1 example and 2 classes"
            )
        if units.dtype.kind not in "iub" or (units < 0).any():
            raise ValueError("units are counts: want integers from 0 on")
        object.__setattr__(self, "units", units.astype(np.int64))

    @property
    def negative(self) -> np.ndarray:
        """Number of negative units of each example, `[N]`."""
        return self.units[:, 0]

    @property
    def positive(self) -> np.ndarray:
        """Number of positive units of each example, `[N]`."""
        return self.units[:, 1:].sum(axis=1)

    def ratio(self, indices: np.ndarray | None = None) -> float:
        """Return the negative units per positive one; infinite without any."""
        chosen = slice(None) if indices is None else indices
        negative, positive = self.negative[chosen].sum(), self.positive[chosen].sum()
        return float(negative / positive) if positive else float("inf")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling(abc.ABC):
    """Base class of resampling strategies."""

    @abc.abstractmethod
    def epoch(self, counts: UnitCounts, seed: int, epoch: int) -> Epoch:
        """Choose the examples of an epoch."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DownSampling(Sampling):
    """Down-sampling of negative examples, those without a positive unit.

    Every other example is in every epoch. Of the negative ones each epoch draws others,
    without replacement; give one of `ratio` and `share`.

    >>> counts = UnitCounts(np.eye(2, dtype=int)[[0, 0, 1, 0, 0, 0, 0]])
    >>> [DownSampling(ratio=2).epoch(counts, 0, e).indices.tolist() for e in range(3)]
    [[1, 2, 5], [0, 2, 6], [1, 2, 6]]

    Args:
      ratio: at most so many negative units for each positive one are left. Negative
        examples are drawn until the next would exceed it; where each has one unit,
        floor(ratio * positives) are left. Where the ratio is met, all stay; where the
        positive examples alone exceed it, no other is taken.
      share: this share of the negative examples is left, rounded.
    """

    ratio: float | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        if (self.ratio is None) == (self.share is None):
            both = f"{self.ratio} and {self.share}"
            raise ValueError(f"give one of ratio and share, not {both}")
        if self.ratio is not None:
            _check_ratio(self.ratio)
        elif self.share is not None and not 0 <= self.share <= 1:
            raise ValueError(f"share is {self.share}; want 0 to 1")

    def epoch(self, counts: UnitCounts, seed: int, epoch: int) -> Epoch:
        """Choose the examples of an epoch."""
        is_negative = counts.positive == 0
        order = np.flatnonzero(is_negative)
        positives = np.flatnonzero(~is_negative)
        np.random.default_rng((seed, epoch, _DOWN)).shuffle(order)
        if self.share is not None:
            left = round(self.share * len(order))
        else:
            _check_positives(counts)
            room = (self.ratio or 0.0) * counts.positive.sum() - counts.negative[
                positives
            ].sum()
            taken = np.cumsum(counts.negative[order])
            left = np.searchsorted(taken, room + _SLACK, side="right")
        return Epoch(np.sort(np.concatenate([positives, order[:left]])))


@dataclasses.dataclass(frozen=True, kw_only=True)
class OverSampling(Sampling):
    """Over-sampling of positive examples; every epoch holds every example.

    Repeated are examples with fewer negative units per positive one than `ratio`. All
    are repeated equally often, but for the last round, drawn anew each epoch.

    >>> counts = UnitCounts(np.eye(2, dtype=int)[[0, 0, 1, 0, 0, 1, 0]])
    >>> OverSampling(ratio=1).epoch(counts, seed=0, epoch=0).indices.tolist()
    [0, 1, 2, 2, 3, 4, 5, 5, 5, 6]

    Args:
      ratio: at most so many negative units for each positive one, with as few repeats
        as that takes in the order drawn; where each example has one unit, the epoch
        holds max(positives, ceil(negatives / ratio)) positive ones.
    """

    ratio: float

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)
        if self.ratio == 0:
            raise ValueError("ratio is 0: no number of repeats leaves no negative unit")

    def epoch(self, counts: UnitCounts, seed: int, epoch: int) -> Epoch:
        """Choose the examples of an epoch.

        Raises:
          ValueError: repeating examples cannot reach the ratio.
        """
        _check_positives(counts)
        # The ratio is met once this sum over the epoch is 0 or more.
        surplus = self.ratio * counts.positive - counts.negative
        missing = -surplus.sum()
        every = np.arange(len(surplus))
        if missing < _SLACK:
            return Epoch(every)
        order = np.flatnonzero(surplus > 0)
        if not len(order):
            has_any = counts.positive > 0
            least = (counts.negative[has_any] / counts.positive[has_any]).min()
            raise ValueError(
                f"no repeats give ratio {self.ratio}: the example richest in positives "
                f"has {least:.4g} negatives for each"
            )
        np.random.default_rng((seed, epoch, _OVER)).shuffle(order)
        gained = np.cumsum(surplus[order])
        rounds = int(missing // gained[-1])
        rest = missing - rounds * gained[-1]
        last = np.searchsorted(gained, rest - _SLACK) + 1 if rest > _SLACK else 0
        repeats = [every, *[order] * rounds, order[:last]]
        return Epoch(np.sort(np.concatenate(repeats)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImportanceSampling(Sampling):
    """Importance sampling of rare classes, with weights against bias.

    An example's chance is proportional to the sum over its units of 1 / n**power, where
    n is the number of units of the unit's class in the data: at 1 every class is drawn
    equally often, at 0 every unit is. See `draw` for the weights.

    >>> counts = UnitCounts(np.eye(2, dtype=int)[[0, 0, 0, 0, 0, 1]])
    >>> indices, weights = ImportanceSampling().epoch(counts, seed=0, epoch=0)
    >>> indices.tolist(), weights.round(2).tolist()
    ([4, 4, 4, 5, 5, 5], [1.67, 1.67, 1.67, 0.33, 0.33, 0.33])

    Args:
      power: exponent of the class frequency, at least 0.
      size: number of examples per epoch; None draws as many as there are.
    """

    power: float = 1.0
    size: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.power < float("inf"):
            raise ValueError(f"power is {self.power}; want a number from 0 on")
        _check_size(self.size)

    def epoch(self, counts: UnitCounts, seed: int, epoch: int) -> Epoch:
        """Draw the examples of an epoch, with loss weights.

        Raises:
          ValueError: an example has no unit.
        """
        totals = np.maximum(counts.units.sum(axis=0), 1)
        chances = counts.units @ totals.astype(float) ** -self.power
        return draw(chances, seed, epoch, size=self.size)


def draw(
    chances: Sequence[float] | np.ndarray,
    seed: int,
    epoch: int,
    *,
    size: int | None = None,
) -> Epoch:
    r"""Draw examples with given chances, with replacement.

    Example i is drawn with probability $p_i = c_i / \sum_j c_j$ and gets the weight
    $1 / (N p_i)$. The mean over the draws of weight times loss is then an unbiased
    estimate of the mean loss of all N examples; the weight's expected value is 1.

    >>> indices, weights = draw([1.0, 3.0], seed=1, epoch=0, size=4)
    >>> indices.tolist(), weights.round(2).tolist()
    ([0, 1, 1, 1], [2.0, 0.67, 0.67, 0.67])

    The chances are c > 0 per example, unnormalized; `size` is the number of draws, by
    default as many as there are examples.

    Raises:
      ValueError: there is no example, or a chance is not positive.
    """
    _check_size(size)
    chances = np.asarray(chances, float)
    if chances.ndim != 1 or not len(chances):
        raise ValueError(f"chances has shape {chances.shape}; want (examples,)")
    wrong = np.flatnonzero(~(np.isfinite(chances) & (chances > 0)))
    if len(wrong):
        raise ValueError(
            f"the chance of example {wrong[0]} is {chances[wrong[0]]}; want a number "
            "above 0, or the estimate is not that of all examples"
        )
    shares = chances / chances.sum()
    size = len(shares) if size is None else size
    random = np.random.default_rng((seed, epoch, _IMPORTANCE))
    indices = np.sort(random.choice(len(shares), size, p=shares))
    return Epoch(indices, 1 / (len(shares) * shares[indices]))


def _check_ratio(ratio: float) -> None:
    if not 0 <= ratio < float("inf"):
        raise ValueError(f"ratio is {ratio}; want a number from 0 on")


def _check_size(size: int | None) -> None:
    if size is not None and size < 1:
        raise ValueError(f"size is {size}; want at least 1")


def _check_positives(counts: UnitCounts) -> None:
    if not counts.positive.any():
        raise ValueError(
            f"none of {len(counts.units)} examples has a positive unit, so no ratio "
            "can be met; check which class is the negative one"
        )
