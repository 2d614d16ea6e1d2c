"""Differences that hold for new seeds and new sentences: the final claim."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from dicejax.study.significance.differences import (
    check_paired,
    quotient_mean,
    t_test,
)

PRIOR_FREEDOM = 2.0
"""Largest number of degrees of freedom that a loss borrows from the others."""


@dataclasses.dataclass(frozen=True)
class CrossedDifference:
    """A difference of mean scores, as it may be for other seeds and sentences.

    Attributes:
      mean: mean of ours - baseline over seeds.
      seeds: number of pairs, S.
      sentences: number of test sentences, N.
      seed_error: standard error of the mean for new seeds on these sentences.
      sentence_error: additional standard error for new sentences.
      same_seeds_error: standard error for new sentences, seeds fixed.
      freedom: degrees of freedom of `seed_error`; more after `shrink_variances`.
      level: the interval has at least the coverage 1 - level.
    """

    mean: float
    seeds: int
    sentences: int
    seed_error: float
    sentence_error: float
    same_seeds_error: float
    freedom: float
    level: float = 0.05

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.half(self.level)

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.half(self.level)

    @property
    def p_value(self) -> float:
        """Two-sided p-value: below `level` where the interval leaves 0 out."""
        return self.level_of(abs(self.mean))

    def p_equal(self, margin: float) -> float:
        """Return the smallest level at which the interval lies within +-margin.

            P(p_equal <= a) <= a / 2  where the true difference is at the margin

        Source: Schuirmann, "A comparison of the two one-sided tests procedure and the
        power approach", Journal of Pharmacokinetics and Biopharmaceutics 15(6), 1987,
        at half of its error rate.
        """
        return self.level_of(max(margin - abs(self.mean), 0.0))

    def half(self, level: float) -> float:
        """Return half the width of the interval at a level."""
        alone = special.stdtrit(self.sentences - 1, level / 2) * self.same_seeds_error
        return math.sqrt(max(self._both(level), alone**2))

    def level_of(self, half: float) -> float:
        """Return the level of the interval with a half width."""
        smallest = -300.0  # of log p; below it squares of quantiles overflow
        if half == 0:
            return 1.0
        alone = t_test(half, self.same_seeds_error, self.sentences - 1)
        if self.sentence_error == 0:
            return max(t_test(half, self.seed_error, self.freedom), alone)
        if self._both(math.exp(smallest)) <= half**2:
            return alone

        def excess(log_p: float) -> float:
            return self._both(math.exp(log_p)) / half**2 - 1

        log_p = optimize.root_scalar(excess, bracket=(smallest, 0.0), xtol=1e-10).root
        return max(math.exp(log_p), alone)

    def _both(self, level: float) -> float:
        seeds = special.stdtrit(self.freedom, level / 2) * self.seed_error
        rest = special.stdtrit(self.sentences - 1, level / 2) * self.sentence_error
        return float(seeds**2 + rest**2)


def over_seeds(
    ours: ArrayLike, baseline: ArrayLike, *, level: float = 0.05
) -> CrossedDifference:
    """Compare scores seed by seed, with Student's interval of the mean difference.

        d_s = ours_s - baseline_s,    mean d -+ t_{S-1, 1 - level/2} sd(d) / sqrt(S)

    No bootstrap: its percentiles lie between the smallest and the largest difference, a
    range that misses the median 25 % of the time for 3 seeds and 6 % for 5 (Hesterberg,
    "What Teachers Should Know About the Bootstrap", The American Statistician 69(4),
    2015). Student's interval is exact for normal differences.

    Where all differences are equal the interval is a point and the p-value 0: scores
    that coarse need `seeds_and_items`.

    >>> difference = over_seeds([0.82, 0.85, 0.84], [0.80, 0.82, 0.83])
    >>> print(f"{difference.mean:.4f}, {difference.low:.4f} to {difference.high:.4f}")
    0.0200, -0.0048 to 0.0448
    >>> round(difference.p_value, 4)
    0.0742

    Args:
      ours: [S], a score per seed.
      baseline: [S], of the same seeds in the same order.
      level: 0.05 for a 95 % interval.

    Raises:
      ValueError: the shapes are not the same [S], there are fewer than 2 seeds, or a
        score is not finite.
    """
    ours, baseline = np.asarray(ours, np.float64), np.asarray(baseline, np.float64)
    if ours.ndim != 1 or ours.shape != baseline.shape:
        raise ValueError(
            f"ours have shape {ours.shape} and baseline {baseline.shape}, not both [S]"
        )
    # A run has two equal sentences, as nothing is known of others.
    runs = (np.stack([x, np.ones_like(x)], -1)[:, None, None] for x in (ours, baseline))
    return seeds_and_items(*(np.repeat(x, 2, axis=1) for x in runs), level=level)


def seeds_and_items(
    ours: ArrayLike, baseline: ArrayLike, *, level: float = 0.05
) -> CrossedDifference:
    """Compare mean scores with seeds and sentences both as samples.

    Each sentence's influence on the difference of seed s is its jackknife pseudo-value
    z_sn. In the crossed model z_sn = mean + seed_s + sentence_n + rest_sn, with the
    mean squares A of seeds, B of sentences and E of the rest, the mean's variance is
    estimated by (A + B - E) / (S N). It is split into two parts, each with the t
    quantile of its own degrees of freedom,

        half^2 = max(t_{S-1}^2 A + t_{N-1}^2 max(B - E, 0), t_{N-1}^2 B) / (S N),

    and the p-value is the level at which the interval ends at 0.

    - The first term alone is the paired t test over seeds, A / (S N) = sd^2 / S.
    - One quantile per part rejects at most 5 % whatever the two variances (Banerjee,
      Sankhya 22, 1960); Satterthwaite's degrees of freedom reject 10 % for 2 seeds, a
      bootstrap of seeds times sentences 13 % for 3 and 9 % for 5.
    - The max is the interval for new sentences only: seeds that agree by chance, or
      because scores are coarse, do not make it narrower.

    It is conservative for few seeds that hardly matter; with 2 seeds t_1 is 12.7.

    Source: Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 1(2), 2007,
    for the variance of a mean over two crossed factors; Efron and Stein, "The jackknife
    estimate of variance", Annals of Statistics 9(3), 1981, for its upward bias;
    Bouthillier et al., "Accounting for variance in machine learning benchmarks", MLSys
    2021, for seeds and test data as sources of it.

    >>> rng = np.random.default_rng(0)
    >>> right = rng.random((2, 5, 300, 1)) < np.array([0.8, 0.7])[:, None, None, None]
    >>> parts = np.stack([right, np.ones_like(right)], -1)  # accuracy
    >>> crossed = seeds_and_items(*parts)
    >>> print(f"{crossed.mean:.3f}, {crossed.low:.3f} to {crossed.high:.3f}")
    0.072, 0.033 to 0.111

    Args:
      ours: [S, N, C, 2], see `score`.
      baseline: the same shape: the same seeds and sentences in the same order.
      level: 0.05 for a 95 % interval.

    Raises:
      ValueError: the shapes differ or are no such shape, there are fewer than 2 seeds
        or sentences, or a number is not finite.
    """
    return contrast([(ours, baseline)], [1.0], level=level)


def contrast(
    pairs: Sequence[tuple[ArrayLike, ArrayLike]],
    weights: Sequence[float],
    *,
    level: float = 0.05,
) -> CrossedDifference:
    """Compare a weighted sum of differences with 0, on the same seeds and sentences.

        sum_c weights[c] (score of ours[c] - score of baseline[c])

    Influences add up with the same weights, so that the interval is that of
    `seeds_and_items`. With the weights of least squares it is the slope of a gain over
    the size of the data.

    >>> rng = np.random.default_rng(0)
    >>> shares = np.array([[0.9, 0.7], [0.7, 0.7]])[..., None, None, None]
    >>> right = rng.random((2, 2, 5, 300, 1)) < shares
    >>> small, large = np.stack([right, np.ones_like(right)], -1)  # accuracy
    >>> crossed = contrast([small, large], [-1.0, 1.0])
    >>> print(f"{crossed.mean:.3f}, {crossed.low:.3f} to {crossed.high:.3f}")
    -0.195, -0.270 to -0.120

    Args:
      pairs: ours and the baseline for each c, [S, N, C, 2] each.
      weights: one for each c.
      level: 0.05 for a 95 % interval.

    Raises:
      ValueError: the same as of `seeds_and_items`.
    """
    parts = []
    for weight, (ours, baseline) in zip(weights, pairs, strict=True):
        ours, baseline = check_paired(ours, baseline, least_seeds=2)
        if ours.shape[1] < 2:
            raise ValueError("there is 1 sentence; it takes at least 2")
        our_scores, our_influence = _influences(ours)
        scores, influence = _influences(baseline)
        apart = our_scores - scores, our_influence - influence
        parts.append([weight * each for each in apart])
    shapes = {influence.shape for _, influence in parts}
    if len(shapes) != 1:
        raise ValueError(f"pairs differ in seeds or sentences: {sorted(shapes)}")
    columns = zip(*parts, strict=True)
    differences, influence = (functools.reduce(np.add, part) for part in columns)
    seeds, sentences = influence.shape
    by_sentence = influence.mean(0)
    # Mean squares over S N; the influences of a seed have the mean 0.
    between = by_sentence.var(ddof=1) / sentences
    size = (seeds - 1) * (sentences - 1) * seeds * sentences
    rest = np.square(influence - by_sentence).sum() / size
    return CrossedDifference(
        mean=float(differences.mean()),
        seeds=seeds,
        sentences=sentences,
        seed_error=float(differences.std(ddof=1)) / math.sqrt(seeds),
        sentence_error=math.sqrt(max(float(between - rest), 0.0)),
        same_seeds_error=math.sqrt(float(between)),
        freedom=float(seeds - 1),
        level=level,
    )


def shrink_variances(
    differences: Sequence[CrossedDifference],
) -> list[CrossedDifference]:
    """Shrink seed variances towards those of the other losses, within limits.

    With v_k the variance of one pair's difference of loss k, S_k - 1 = d_k its degrees
    of freedom, u the median of v over all m losses and d_0 = min(2, (m - 1) / 2),

        v~_k = (d_0 u + d_k v_k) / (d_0 + d_k)     where v_k <= u

    with d_0 + d_k degrees of freedom: with 3 seeds and 5 losses t is 2.8 where it was
    4.3. Losses with a larger variance keep their own. At most 5 % of simulated
    comparisons make a false claim, even where half of the losses vary 6 times as much
    as the others (`benchmarks/README.md`). Of three or more losses one that collapses
    with some seeds moves the mean, which would widen the intervals of all others, and
    not the median.

    >>> rng = np.random.default_rng(0)
    >>> right = rng.random((4, 5, 300, 1)) < 0.7
    >>> *ours, baseline = np.stack([right, np.ones_like(right)], -1)  # accuracy
    >>> alone = [seeds_and_items(runs, baseline) for runs in ours]
    >>> [difference.freedom for difference in shrink_variances(alone)]
    [5.0, 5.0, 4.0]

    Source: Smyth, "Linear models and empirical Bayes methods for assessing differential
    expression in microarray experiments", Statistical Applications in Genetics and
    Molecular Biology 3(1), 2004, there with d_0 estimated and the mean; for outliers
    Phipson et al., "Robust hyperparameter estimation protects against hypervariable
    genes", Annals of Applied Statistics 10(2), 2016.

    Args:
      differences: [m], each vs. the same baseline.
    """
    prior = min(PRIOR_FREEDOM, (len(differences) - 1) / 2)
    if prior <= 0:
        return list(differences)
    variances = [x.seed_error**2 * x.seeds for x in differences]
    median = float(np.median(variances))
    shrunk = []
    for difference, variance in zip(differences, variances, strict=True):
        if variance <= median:
            freedom = prior + difference.freedom
            variance = (prior * median + difference.freedom * variance) / freedom
            error = math.sqrt(variance / difference.seeds)
            made = dataclasses.replace(difference, seed_error=error)
            difference = dataclasses.replace(made, freedom=freedom)
        shrunk.append(difference)
    return shrunk


def _influences(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores, [S], and jackknife influences of sentences, [S, N].

    The influence is (N - 1) (mean of scores without a sentence - score without n): the
    pseudo-value less its mean.
    """
    scores, influences = [], []
    for run in runs:  # one at a time, since there may be many classes
        total = run.sum(0, dtype=np.float64)
        without = quotient_mean(total - run)
        scores.append(quotient_mean(total))
        influences.append((len(run) - 1) * (without.mean() - without))
    return np.array(scores), np.array(influences)
