r"""Decision thresholds that keep a bound on new data, with a stated probability.

The threshold with the best F1 on dev promises nothing. A `Constraint` such as recall of
at least 0.95 holds on new data unless dev was drawn by bad luck, of probability delta:

.. math:: P_{dev}(recall(t) \geq 0.95) \geq 1 - \delta

It assumes that examples of dev and new ones are independent draws from one
distribution, and that dev had no part in training; a bad network costs precision.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dicejax.errors import quote
from dicejax.metrics import arrays
from dicejax.metrics.thresholds import between, describe

MEASURES = {
    "recall": "positives",
    "precision": "positives",
    "fpr": "negatives",
    "complete": "examples with spans",
}
"""What a constraint may bound, and the examples of dev that it needs."""

_LOG_ODDS = np.linspace(8, -6, 281)
GRID = special.expit(_LOG_ODDS)
"""Thresholds for precision, from the strictest: log-odds 8 to -6 in steps of 0.05."""
STARTS = np.arange(0, len(GRID), 10)[:-1]
"""Where tests of precision begin in `GRID`, each half a unit of log-odds."""


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
        raise ValueError(f"{hits} of {total} is no share")
    low = special.betaincinv(hits, rest + 1, 0.025) if hits else 0.0
    high = special.betaincinv(hits + 1, rest, 0.975) if rest else 1.0
    return float(low), float(high)


@dataclasses.dataclass(frozen=True)
class Constraint:
    r"""A bound on a measure that a threshold keeps on new data.

    - recall: at least the bound. The threshold is the order statistic of the positives'
      scores that `tolerance_rank` gives, the highest that any sample allows.
    - fpr: the share of negatives that are accepted is at most the bound; the same with
      the scores of negatives from above.
    - precision: at least the bound. "Learn then test" over `GRID`, which is fixed
      before dev is seen: of m accepted examples k are right, and
      :math:`P(Binomial(m, p) \geq k)` is an exact p-value of "precision below p" given
      m. Neighbouring thresholds accept nearly the same examples, so that Bonferroni
      over the grid would pay for 281 tests where there are hardly more than a few. A
      fixed sequence from strict to loose pays nothing: it ends at the first test that
      is not significant. As scales of scores differ, there are several sequences, which
      begin at `STARTS` and share delta; one that reaches the next start adds its share
      (fallback procedure). The lowest accepted threshold has the highest recall.
      Precision need not rise with the threshold.
    - complete: a share of at least the bound of the examples with spans has all of them
      found. An example is a positive of the lowest score of its spans, so that spans
      may depend on each other in any way.

    Source: Angelopoulos, Bates, Candès, Jordan and Lei, "Learn then test: calibrating
    predictive algorithms to achieve risk control", 2021 (arXiv:2110.01052); Wiens, "A
    fixed sequence Bonferroni procedure for testing multiple endpoints", Pharmaceutical
    Statistics 2(3), 2003.

    >>> scores, gold = np.linspace(0, 1, 200), np.arange(200) >= 100
    >>> round(Constraint("recall", 0.9).choose(scores, gold), 3)
    0.525

    Attributes:
      measure: a key of `MEASURES`.
      bound: above 0 and below 1.
      delta: probability of a dev sample with which the promise is broken.

    Raises:
      ValueError: the measure is unknown, or a number is not between 0 and 1.
    """

    measure: str
    bound: float
    delta: float = 0.1

    def __post_init__(self):
        if self.measure not in MEASURES:
            raise ValueError(
                f"{quote(self.measure)} is no measure; want {', '.join(MEASURES)}"
            )
        for name, value in (("bound", self.bound), ("delta", self.delta)):
            if not 0 < value < 1:
                raise ValueError(f"{name} is {value:g}; want it between 0 and 1")

    @classmethod
    def parse(cls, text: str, delta: float = 0.1) -> Constraint:
        """Read a constraint as it is written in settings.

        >>> Constraint.parse("recall:0.95")
        Constraint(measure='recall', bound=0.95, delta=0.1)

        Raises:
          ValueError: the text is none, or as `Constraint`.
        """
        measure, _, number = text.partition(":")
        try:
            bound = float(number)
        except ValueError:
            raise ValueError(f"want it as recall:0.95, not {quote(text)}") from None
        return cls(measure, bound, delta)

    @property
    def name(self) -> str:
        """The measure in sentences."""
        return "complete examples" if self.measure == "complete" else self.measure

    def __str__(self) -> str:
        limit = "at most" if self.measure == "fpr" else "at least"
        return f"{self.name} {limit} {self.bound:g}"

    def among(self, count: int) -> Constraint:
        """Return it at delta / count, so that all of them hold at once (Bonferroni)."""
        return dataclasses.replace(self, delta=self.delta / count)

    @property
    def required(self) -> int:
        """The number of positives, or for fpr of negatives, that it takes at least.

        For precision they must be accepted, and nothing else; others are enough.

        >>> [Constraint(name, 0.95).required for name in ("recall", "precision")]
        [45, 110]
        """
        if self.measure == "fpr":
            return least_count(self.bound, self.delta)
        delta = self.delta / (len(STARTS) if self.measure == "precision" else 1)
        return least_count(1 - self.bound, delta)

    def available(self, gold: ArrayLike) -> int:
        """Return the number of positives, or for fpr of negatives."""
        truths = arrays.truths(gold, "gold")
        return int((~truths if self.measure == "fpr" else truths).sum())

    def choose(self, scores: ArrayLike, gold: ArrayLike) -> float | None:
        """Return the threshold that keeps the constraint; None where none is shown to.

        Scores that are not below it are accepted. It is halfway between two scores,
        where that is as safe, so that the rounding of a score decides nothing.

        Args:
          scores: [N]; for precision probabilities.
          gold: [N], 1 or True for positives.

        Raises:
          ValueError: a score is NaN, or gold holds other values than 0 and 1.
        """
        scores, gold = arrays.numbers(scores, "scores"), arrays.truths(gold, "gold")
        if self.measure == "precision":
            p_values, _, _ = self._tests(scores, gold)
            level, lowest, starts = 0.0, None, set(STARTS.tolist())
            for place, p_value in enumerate(p_values.tolist()):
                if place in starts:
                    level += self.delta / len(STARTS)
                if p_value <= level:
                    lowest = float(GRID[place])
                else:
                    level = 0.0
            return lowest
        is_rate = self.measure == "fpr"
        sample = -scores[~gold] if is_rate else scores[gold]
        share = self.bound if is_rate else 1 - self.bound
        rank = tolerance_rank(len(sample), share, self.delta)
        limit = np.partition(sample, rank - 1)[rank - 1] if rank else -np.inf
        if limit == -np.inf:
            return None
        if is_rate:
            floor = float(-limit)  # the highest negative score that is not accepted
            return between(floor, float(scores[scores > floor].min(initial=np.inf)))
        lower = float(scores[scores < limit].max(initial=-np.inf))
        return between(lower, float(limit))

    def _tests(
        self, scores: np.ndarray, gold: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return p-values, right and accepted examples by threshold of the grid."""
        accepted = len(scores) - np.searchsorted(np.sort(scores), GRID)
        right = gold.sum() - np.searchsorted(np.sort(scores[gold]), GRID)
        return special.bdtrc(right - 1, accepted, self.bound), right, accepted

    def shortfall(self, scores: ArrayLike, gold: ArrayLike) -> str:
        """Say why `choose` returns None."""
        scores, gold = arrays.numbers(scores, "scores"), arrays.truths(gold, "gold")
        if self.measure == "precision":
            p_values, right, accepted = self._tests(scores, gold)
            best = int(p_values[STARTS].argmin())
            m, k = accepted[STARTS][best], right[STARTS][best]
            return f"at best {k} of {m} accepted on dev are right"
        if self.measure == "complete":
            lost = int((scores[gold] == -np.inf).sum())
            return f"{lost} of {gold.sum()} examples with spans have one never proposed"
        return self.lack(gold) or "scores are infinite"

    def lack(self, gold: ArrayLike) -> str | None:
        """Say that there are too few examples for any scores; None if there are not."""
        number, noun = self.available(gold), MEASURES[self.measure]
        if number >= self.required:
            return None
        need = "at least " * (self.measure == "precision")
        return f"{number} {noun} on dev, and it takes {need}{self.required}"

    def observe(
        self, scores: ArrayLike, gold: ArrayLike, threshold: float
    ) -> Observation:
        """Return the measure of a threshold on examples that it was not chosen from."""
        accepted = arrays.numbers(scores, "scores") >= threshold
        truths = arrays.truths(gold, "gold")
        if self.measure == "fpr":
            return Observation(int((accepted & ~truths).sum()), int((~truths).sum()))
        total = accepted if self.measure == "precision" else truths
        return Observation(int((accepted & truths).sum()), int(total.sum()))


class Observation(NamedTuple):
    """A share that is observed: k of n.

    >>> print(Observation(178, 186))
    0.957 (0.917 to 0.981)
    """

    hits: int
    total: int

    @property
    def value(self) -> float | None:
        """The share; None of nothing."""
        return self.hits / self.total if self.total else None

    def to_json(self) -> dict[str, Any]:
        """Return the counts, the share and its interval."""
        low, high = clopper_pearson(*self)
        return {**self._asdict(), "value": self.value, "low": low, "high": high}

    def __str__(self) -> str:
        if self.value is None:
            return "of no example"
        low, high = clopper_pearson(*self)
        return f"{self.value:.3f} ({low:.3f} to {high:.3f})"


@dataclasses.dataclass(frozen=True)
class GuaranteedThreshold:
    """A threshold that keeps a constraint, or one for each label that keep theirs.

    Attributes:
      threshold: number, or by label; None where nothing could be promised.
      measure: bounded measure.
      bound: its bound on new data.
      delta: probability of a dev sample with which the promise is broken, of all labels
        together.
      checkpoints: number of checkpoints of which dev chose one; delta is divided by it.
      default_threshold: decides where nothing could be promised.
      unattained: by label, why nothing could be promised.
    """

    threshold: float | Mapping[str, float] | None
    measure: str
    bound: float
    delta: float
    checkpoints: int
    default_threshold: float
    unattained: Mapping[str, str]

    @property
    def constraint(self) -> Constraint:
        """What is promised."""
        return Constraint(self.measure, self.bound, self.delta)

    @property
    def warnings(self) -> list[str]:
        """What could not be promised."""
        of_label = isinstance(self.threshold, Mapping) or len(self.unattained) > 1
        return [
            f"{self.constraint}{f' of {quote(label)}' * of_label} cannot be promised: "
            f"{why}; the default threshold {self.default_threshold:g} decides"
            for label, why in self.unattained.items()
        ]

    def __str__(self) -> str:
        if self.threshold is None:
            return "; ".join(self.warnings)
        each = " of each label" * isinstance(self.threshold, Mapping)
        text = f"{describe(self.threshold)}, {self.constraint}{each} on new data with "
        return "; ".join([f"{text}probability {1 - self.delta:g}", *self.warnings])

    def compare(self, observed: Mapping[str, Observation]) -> str:
        """Return what the test split shows of the promise, of labels the worst.

        >>> chosen = GuaranteedThreshold(0.2, "recall", 0.95, 0.1, 1, 0.5, {})
        >>> chosen.compare({"spam": Observation(178, 186)})
        'recall on test 0.957 (0.917 to 0.981); promised 0.95'
        """
        sign = -1 if self.measure == "fpr" else 1
        label, worst = min(
            observed.items(),
            key=lambda pair: 2 if pair[1].value is None else sign * pair[1].value,
        )
        text = f"{self.constraint.name} on test {worst}"
        if isinstance(self.threshold, Mapping):
            text = f"{text}, worst of {len(observed)} labels, {quote(label)}"
        return f"{text}; promised {self.bound:g}"


def guarantee_of(record: Mapping[str, Any] | None) -> GuaranteedThreshold | None:
    """Return a threshold of a result that keeps a constraint; None of a tuned one."""
    if record is None or "bound" not in record:
        return None
    return GuaranteedThreshold(**record)
