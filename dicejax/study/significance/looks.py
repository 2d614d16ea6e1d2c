"""P-values that stay valid however often seeds are added and results looked at."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

MIN_SEEDS = 3
"""Fewer seeds have no interval and no verdict: with 2, t is 12.7."""
_LOST = 2
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(120)
_ALPHAS = np.exp(np.linspace(math.log(1e-8), math.log(0.999), 80))


def spending(seeds: int) -> float:
    """Return the share of the error rate that is spent up to a number of seeds.

        f(S) = 1 - 2 / S,    f(3) = 1/3,  f(5) = 0.6,  f(10) = 0.8,  f(20) = 0.9

    It grows towards 1 without an end, so seeds can always be added. By simulation
    (`benchmarks/README.md`) spending later gains no power at 10 seeds and loses half
    of it at 5.

    >>> spending(5), spending(10)
    (0.6, 0.8)
    """
    return 1 - 2 / seeds


def nominal_level(looks: Sequence[int], level: float) -> float:
    """Return the level of the last look's test, for all looks together to hold `level`.

    With z_j the statistic at look j, of S_j seeds, independent increments of
    sqrt(S_j - 2) z_j and critical values c_j,

        P(|z_j| > c_j, |z_i| <= c_i for i < j) = level (f(S_j) - f(S_{j-1}))

    where f is `spending`; the result is 2 Phi(-c_j). It is applied to p-values of t
    tests (the significance level approach). S_j - 2, since t statistics of few seeds
    depend on one another less than normal ones: in simulations of t tests all looks
    together reject 3.8 to 4.9 %, and with S_j 4.7 to 5.7 %.

    Source: Lan and DeMets, "Discrete sequential boundaries for clinical trials",
    Biometrika 70(3), 1983; Jennison and Turnbull, Group Sequential Methods with
    Applications to Clinical Trials, 2000, chapters 7 and 11.

    >>> round(nominal_level([10], 0.05), 4)
    0.04
    >>> [round(nominal_level([3, 5, 10, 20][:n], 0.05), 4) for n in (1, 2, 3, 4)]
    [0.0167, 0.016, 0.013, 0.0073]

    Args:
      looks: [J], numbers of seeds at all looks so far, growing, at least 3.
      level: error rate of all looks together, in (0, 1].

    Raises:
      ValueError: looks are no such numbers.
    """
    _check(looks)
    return float(_levels(tuple(looks), float(level))[-1])


@functools.lru_cache(maxsize=4096)
def _levels(looks: tuple[int, ...], level: float) -> np.ndarray:
    """Return the levels of all looks, [J], by integration from look to look."""
    criticals = [-float(special.ndtri(level * spending(looks[0]) / 2))]
    first = looks[0] - _LOST
    end = criticals[0] * math.sqrt(first)
    points, weights = end * _NODES, end * _WEIGHTS
    # Density of sqrt(S_j - 2) z_j, of what has not crossed, times the weights.
    density = weights * np.exp(-(points**2) / (2 * first))
    density /= math.sqrt(2 * math.pi * first)
    for earlier, seeds in itertools.pairwise(looks):
        increment = level * (spending(seeds) - spending(earlier))
        width, root = math.sqrt(seeds - earlier), math.sqrt(seeds - _LOST)
        criticals.append(_crossing(density, points, width, increment) / root)
        end = criticals[-1] * root
        before, points, weights = points, end * _NODES, end * _WEIGHTS
        kernel = np.exp(-(((points[:, None] - before) / width) ** 2) / 2)
        density = weights * (kernel @ density) / (width * math.sqrt(2 * math.pi))
    return 2 * special.ndtr(-np.array(criticals))


def _crossing(
    density: np.ndarray, points: np.ndarray, width: float, probability: float
) -> float:
    """Return the end beyond which a normal step from `points` has a probability."""

    def beyond(end: float) -> float:
        tails = special.ndtr((-end - points) / width)
        tails += special.ndtr((points - end) / width)
        return float(density @ tails) - probability

    if beyond(0.0) <= 0:  # rounding, at a level near 1
        return 0.0
    ends = 0.0, abs(points[0]) + 40 * width
    return optimize.root_scalar(beyond, bracket=ends, xtol=1e-10).root


def sequential_p_value(p_values: ArrayLike, looks: Sequence[int]) -> np.ndarray:
    """Return the smallest level at which any look so far rejects.

        p~ = min_j min {a: p_j <= nominal_level(S_1 ... S_j, a)}

    P(p~ <= a) is at most a over all looks, so that `holm` may follow.

    Source: Liu and Anderson, "On adaptive extensions of group sequential trials for
    clinical investigations", JASA 103(484), 2008.

    >>> sequential_p_value([0.02], [10]).round(4).item()  # 0.02 / f(10)
    0.025
    >>> sequential_p_value([[0.02], [0.5]], [5, 10]).round(4).tolist()
    [0.0333]

    Args:
      p_values: [J, ...], at each look.
      looks: [J], numbers of seeds.

    Returns:
      [...]

    Raises:
      ValueError: there are no looks, or they do not grow.
    """
    _check(looks)
    p_values = np.asarray(p_values, np.float64)
    table = _table(tuple(looks))
    smallest = np.ones(p_values.shape[1:])
    for nominal, p_value in zip(table, p_values, strict=True):
        log_p = np.log(np.clip(p_value, nominal[0], nominal[-1]))
        levels = np.exp(np.interp(log_p, np.log(nominal), np.log(_ALPHAS)))
        # Below the table levels are proportional; above it no level rejects.
        levels *= np.minimum(p_value / nominal[0], 1.0)
        levels = np.where(p_value > nominal[-1], 1.0, levels)
        smallest = np.minimum(smallest, levels)
    return smallest


@functools.lru_cache(maxsize=256)
def _table(looks: tuple[int, ...]) -> np.ndarray:
    """Return the levels of all looks for each of `_ALPHAS`, [J, A]."""
    return np.stack([_levels(looks, float(alpha)) for alpha in _ALPHAS], axis=1)


def _check(looks: Sequence[int]) -> None:
    if not looks or min(looks) < MIN_SEEDS:
        raise ValueError(f"looks are at {list(looks)} seeds; want {MIN_SEEDS} or more")
    if any(a >= b for a, b in itertools.pairwise(looks)):
        raise ValueError(f"looks are at {list(looks)} seeds, which do not grow")
