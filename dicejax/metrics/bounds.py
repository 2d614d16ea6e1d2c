"""Order statistics, tests and intervals of a share in a sample."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special


def tolerance_rank(count: int, share: float, delta: float) -> int:
    r"""Return the largest rank whose order statistic is a tolerance limit; 0: none is.

    Of n independent scores, a share of at least 1 - q of new ones is not below the
    k-th smallest with probability :math:`P(Binomial(n, q) \geq k)`, since the share is
    Beta(n - k + 1, k) for continuous scores, and larger where there are ties. k is the
    largest with

    .. math:: P(Binomial(n, q) \geq k) \geq 1 - \delta

    Source: Wilks, "Determination of sample sizes for setting tolerance limits", Annals
    of Mathematical Statistics 12(1), 1941; Vovk, "Conditional validity of inductive
    conformal predictors", 2012, for the same bound on conformal predictors.

    >>> tolerance_rank(44, 0.05, 0.1), tolerance_rank(45, 0.05, 0.1)
    (0, 1)

    Args:
      count: n.
      share: q, the share of new scores that may be below.
      delta: probability of a sample that breaks the promise.
    """
    ranks = range(count)
    return bisect.bisect_right(
        ranks, delta, key=lambda k: special.bdtr(k, count, share)
    )


def least_count(share: float, delta: float) -> int:
    r"""Return the smallest n with a tolerance limit, about log(delta) / log(1 - share).

    >>> least_count(0.05, 0.1), least_count(0.01, 0.05)
    (45, 299)
    """
    count = max(int(np.log(delta) / np.log1p(-share)) - 1, 1)
    while not tolerance_rank(count, share, delta):
        count += 1
    return count


def hoeffding_bentkus(mean: Any, count: Any, bound: float) -> Any:
    r"""Return a p-value of "losses in [0, 1] have an expectation above the bound".

    Of n independent losses with the mean m, which is at most the bound a:

    .. math:: p = \min(e^{-n\,kl(m, a)},\; e\,P(Binomial(n, a) \leq \lceil nm \rceil))

    with :math:`kl(m, a) = m \log(m / a) + (1 - m) \log((1 - m) / (1 - a))`. Without a
    loss it is :math:`(1 - a)^n`, as for losses that are 0 or 1.

    Source: Bates, Angelopoulos, Lei, Malik and Jordan, "Distribution-free,
    risk-controlling prediction sets", Journal of the ACM 68(6), 2021, section 3.1.

    >>> hoeffding_bentkus(np.array([0.0, 0.02]), 45, 0.05).round(3), round(0.95**45, 3)
    (array([0.099, 0.579]), 0.099)

    Args:
      mean: m, number or array.
      count: n, number or array.
      bound: a.
    """
    low = np.minimum(mean, bound)
    kl = special.rel_entr(low, bound) + special.rel_entr(1 - low, 1 - bound)
    hits = np.ceil(count * mean - 1e-9)  # a sum of shares is rounded
    tail = np.e * special.bdtr(hits, count, bound)
    return np.minimum(np.minimum(np.exp(-count * kl), tail), 1.0)


def mean_interval(mean: float, count: int) -> tuple[float, float]:
    """Return an interval of at least 95 % of an expectation, from losses in [0, 1].

    It has the bounds whose p-value in neither direction is below 0.025, see
    `hoeffding_bentkus`.

    >>> [round(x, 3) for x in mean_interval(0.9, 40)]
    [0.734, 0.979]
    """
    if not count:
        return 0.0, 1.0

    def above(share: float) -> float:
        if share == 1:
            return 1.0
        f = functools.partial(hoeffding_bentkus, share, count)
        root: Any = optimize.bisect(lambda bound: f(bound) - 0.025, share, 1.0)
        return float(root)

    return 1 - above(1 - mean), above(mean)


def unit_shares(hits: np.ndarray, among: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return each unit's share of hits among some of its examples, if it has any.

    >>> unit_shares(np.arange(4) > 0, np.ones(4, bool), np.array([2, 2, 0, 0]))
    array([1. , 0.5])
    """
    counts = np.bincount(units[among])
    right = np.bincount(units[among & hits], minlength=len(counts))
    return right[counts > 0] / counts[counts > 0]


def running_shares(
    hits: np.ndarray, units: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of units' shares and their number among the first 0, 1, ..., N.

    >>> running_shares(np.array([True, False, True]), np.array([4, 4, 0]))
    (array([0. , 1. , 0.5, 1.5]), array([0, 1, 1, 2]))
    """
    order = np.argsort(units, kind="stable")
    hits, ranked, places = hits[order], units[order], np.arange(len(units))
    is_first = np.append(True, ranked[1:] != ranked[:-1])[: len(units)]
    begins = np.maximum.accumulate(np.where(is_first, places, 0))
    right = np.cumsum(hits)
    shares = (right - (right - hits)[begins]) / (places - begins + 1)
    before = np.where(is_first, 0.0, np.append(0.0, shares[:-1])[: len(units)])
    steps, firsts = np.zeros(len(units) + 1), np.zeros(len(units) + 1, int)
    steps[1 + order], firsts[1 + order] = shares - before, is_first
    return np.cumsum(steps), np.cumsum(firsts)


def clopper_pearson(hits: int, total: int) -> tuple[float, float]:
    """Return the two-sided interval of 95 % of a share, exact for binomial counts.

    Source: Clopper and Pearson, Biometrika 26(4), 1934.

    >>> [round(x, 3) for x in clopper_pearson(9, 10)]
    [0.555, 0.997]

    Raises:
      ValueError: hits are not from 0 to the total.
    """
    rest = total - hits
    if hits < 0 or rest < 0:
        raise ValueError(f"{hits} of {total} is not a share")
    low = special.betaincinv(hits, rest + 1, 0.025) if hits else 0.0
    high = special.betaincinv(hits + 1, rest, 0.975) if rest else 1.0
    return float(low), float(high)


class Observation(NamedTuple):
    """A share that is observed: k of n, or the mean of shares of n units.

    >>> print(Observation(178, 186))
    0.957 (0.917 to 0.981)
    >>> print(Observation(36.0, 40, "documents"))
    0.900 (0.734 to 0.979) as the mean of 40 documents

    Attributes:
      hits: k, or the sum of shares.
      total: n.
      units: noun of the units; empty where examples are counted.
    """

    hits: float
    total: int
    units: str = ""

    @property
    def value(self) -> float | None:
        """The share; None of nothing."""
        return self.hits / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of 95 %, exact for counts."""
        if self.units and self.total:
            return mean_interval(self.hits / self.total, self.total)
        return clopper_pearson(int(self.hits), self.total)

    def to_json(self) -> dict[str, Any]:
        """Return the counts, the share and its interval."""
        low, high = self.interval
        return {**self._asdict(), "value": self.value, "low": low, "high": high}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Observation:
        """Read what `to_json` returns."""
        return cls(record["hits"], record["total"], record.get("units", ""))

    def __str__(self) -> str:
        if self.value is None:
            return "of no example"
        text = "{:.3f} ({:.3f} to {:.3f})".format(self.value, *self.interval)
        return text + f" as the mean of {self.total:,} {self.units}" * bool(self.units)
