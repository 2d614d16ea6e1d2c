r"""Decision thresholds that keep a bound on new data, with a stated probability.

The threshold with the best F1 on dev promises nothing. A `Constraint` such as recall of
at least 0.95 holds on new data unless dev was drawn by bad luck, of probability delta:

.. math:: P_{dev}(recall(t) \geq 0.95) \geq 1 - \delta

It assumes that examples of dev and new ones are independent draws from one
distribution, and that dev had no part in training; a bad network costs precision.
Where examples come in units such as documents, these are the independent draws, and a
measure is the mean over units of their shares, whose size then does not matter.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dicejax.errors import quote
from dicejax.metrics import arrays
from dicejax.metrics.bounds import (
    Observation,
    hoeffding_bentkus,
    least_count,
    running_shares,
    tolerance_rank,
    unit_shares,
)
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

    With units the loss of a unit is its share of missed positives, of accepted
    negatives, or of wrong ones among the accepted; units without any are left out. The
    exact tests give way to `hoeffding_bentkus`. Losses of recall and fpr rise with the
    threshold, or fall, so that no correction is due. Conformal risk control would bound
    the expectation over dev sets, and breaks the bound with every second one.

    Source: Angelopoulos, Bates, Candès, Jordan and Lei, "Learn then test: calibrating
    predictive algorithms to achieve risk control", 2021 (arXiv:2110.01052); Wiens, "A
    fixed sequence Bonferroni procedure for testing multiple endpoints", Pharmaceutical
    Statistics 2(3), 2003.

    >>> scores, gold = np.linspace(0, 1, 200), np.arange(200) >= 100
    >>> round(Constraint("recall", 0.9).choose(scores, gold), 3)
    0.525
    >>> round(Constraint("recall", 0.9).choose(scores, gold, np.arange(200) // 2), 3)
    0.51

    Attributes:
      measure: a key of `MEASURES`.
      bound: above 0 and below 1.
      delta: probability of a dev sample with which the promise is broken.
      label: the only label or type that it is for; empty for all.

    Raises:
      ValueError: the measure is unknown, or a number is not between 0 and 1.
    """

    measure: str
    bound: float
    delta: float = 0.1
    label: str = ""

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise ValueError(
                f"{quote(self.measure)} is not a measure; want {', '.join(MEASURES)}"
            )
        for name, value in (("bound", self.bound), ("delta", self.delta)):
            if not 0 < value < 1:
                raise ValueError(f"{name} is {value:g}; want it between 0 and 1")

    @classmethod
    def parse(cls, text: str, delta: float = 0.1) -> Constraint:
        """Read a constraint as it is written in settings.

        >>> Constraint.parse("recall:0.95"), Constraint.parse("recall:0.95:PER").label
        (Constraint(measure='recall', bound=0.95, delta=0.1, label=''), 'PER')

        Raises:
          ValueError: the text is none, or as `Constraint`.
        """
        measure, number, label = (*text.split(":", 2), "", "")[:3]
        try:
            bound = float(number)
        except ValueError:
            raise ValueError(f"want it as recall:0.95, not {quote(text)}") from None
        return cls(measure, bound, delta, label)

    @property
    def name(self) -> str:
        """The measure in sentences."""
        return "complete examples" if self.measure == "complete" else self.measure

    @property
    def leaves_precision(self) -> bool:
        """Whether it leaves precision open, and not recall."""
        return self.measure in ("recall", "complete")

    @property
    def other(self) -> str:
        """Name of the score that it leaves open.

        >>> Constraint("recall", 0.95).other, Constraint("fpr", 0.01, label="x").other
        ('precision_at_recall_0.95', 'recall_at_fpr_0.01_of_x')
        """
        open_ = "precision" if self.leaves_precision else "recall"
        label = f"_of_{self.label}" * bool(self.label)
        return f"{open_}_at_{self.measure}_{self.bound:g}{label}"

    def __str__(self) -> str:
        limit = "at most" if self.measure == "fpr" else "at least"
        return f"{self.name} {limit} {self.bound:g}" + (
            f" of {quote(self.label)}" * bool(self.label)
        )

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

    def available(self, gold: ArrayLike, units: np.ndarray | None = None) -> int:
        """Return the number of positives, for fpr of negatives, or of their units."""
        truths = arrays.truths(gold, "gold")
        among = ~truths if self.measure == "fpr" else truths
        return int(among.sum() if units is None else np.unique(units[among]).size)

    def choose(
        self, scores: ArrayLike, gold: ArrayLike, units: np.ndarray | None = None
    ) -> float | None:
        """Return the threshold that keeps the constraint; None where none is shown to.

        Scores that are not below it are accepted. It is halfway between two scores,
        where that is as safe, so that the rounding of a score decides nothing.

        Args:
          scores: [N]; for precision probabilities.
          gold: [N], 1 or True for positives.
          units: [N], int from 0, the unit of each; None where examples are the units.

        Raises:
          ValueError: a score is NaN, or gold holds other values than 0 and 1.
        """
        scores, gold = arrays.numbers(scores, "scores"), arrays.truths(gold, "gold")
        if self.measure == "precision":
            p_values, _, _ = self._tests(scores, gold, units)
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
        if units is None:
            rank = tolerance_rank(len(sample), share, self.delta)
        else:
            places = units[~gold if is_rate else gold][np.argsort(sample)]
            rank = self._rank(places, share)
        limit = np.partition(sample, rank - 1)[rank - 1] if rank else -np.inf
        if limit == -np.inf:
            return None
        if is_rate:
            floor = float(-limit)  # the highest negative score that is not accepted
            upper = float(scores[scores > floor].min(initial=np.inf))
            # Above all scores: a threshold of infinity could not be written.
            least = float(np.nextafter(floor, np.inf))
            return between(floor, upper) if upper < np.inf else least
        lower = float(scores[scores < limit].max(initial=-np.inf))
        return between(lower, float(limit))

    def _rank(self, units: np.ndarray, share: float) -> int:
        """Return as `tolerance_rank`, for units in the order of their scores."""
        _, owners, sizes = np.unique(units, return_inverse=True, return_counts=True)
        lost = np.append(0.0, np.cumsum(1 / sizes[owners])) / max(len(sizes), 1)
        return bisect.bisect_right(
            lost[:-1], self.delta, key=lambda m: hoeffding_bentkus(m, len(sizes), share)
        )

    def _tests(
        self, scores: np.ndarray, gold: np.ndarray, units: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return p-values, right and accepted ones by threshold of the grid."""
        if units is not None:
            order = np.argsort(-scores)
            counts = len(scores) - np.searchsorted(np.sort(scores), GRID)
            sums = running_shares(gold[order], units[order])
            right, accepted = (column[counts] for column in sums)
            wrong = 1 - right / np.maximum(accepted, 1)
            p_values = hoeffding_bentkus(wrong, accepted, 1 - self.bound)
            return p_values, right, accepted
        accepted = len(scores) - np.searchsorted(np.sort(scores), GRID)
        right = gold.sum() - np.searchsorted(np.sort(scores[gold]), GRID)
        return special.bdtrc(right - 1, accepted, self.bound), right, accepted

    def shortfall(
        self, scores: ArrayLike, gold: ArrayLike, units: np.ndarray | None = None
    ) -> str:
        """Say why `choose` returns None."""
        scores, gold = arrays.numbers(scores, "scores"), arrays.truths(gold, "gold")
        if self.measure == "precision":
            p_values, right, accepted = self._tests(scores, gold, units)
            best = int(p_values[STARTS].argmin())
            m, k = accepted[STARTS][best], right[STARTS][best]
            if units is not None:
                return f"at best {k:.4g} of {m}, by the shares of each, are right"
            return f"at best {k} of {m} accepted on dev are right"
        lost = int((scores[gold] == -np.inf).sum())
        if self.measure == "complete":
            return f"{lost} of {gold.sum()} examples with spans have one never proposed"
        if scarce := self.lack(gold, units):
            return scarce
        if units is None:
            return "scores are infinite"
        return f"{lost} of {gold.sum()} {MEASURES[self.measure]} were never proposed"

    def lack(
        self, gold: ArrayLike, units: np.ndarray | None = None, noun: str = ""
    ) -> str | None:
        """Say that there are too few examples for any scores; None if there are not."""
        number, examples = self.available(gold, units), MEASURES[self.measure]
        if number >= self.required:
            return None
        need = "at least " * (self.measure == "precision")
        among = f"{noun} with " * (units is not None)
        return f"{number} {among}{examples} on dev, and it takes {need}{self.required}"

    def observe(
        self,
        scores: ArrayLike,
        gold: ArrayLike,
        threshold: float,
        units: np.ndarray | None = None,
        noun: str = "",
    ) -> Observation:
        """Return the measure of a threshold on examples that it was not chosen from."""
        accepted = arrays.numbers(scores, "scores") >= threshold
        truths = arrays.truths(gold, "gold")
        hits, among = (
            (truths, accepted)
            if self.measure == "precision"
            else (accepted, ~truths if self.measure == "fpr" else truths)
        )
        if units is None:
            return Observation(int((hits & among).sum()), int(among.sum()))
        shares = unit_shares(hits, among, units)
        return Observation(float(shares.sum()), len(shares), noun)


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
      label: the only label that the promise is for; empty for all.
    """

    threshold: float | Mapping[str, float] | None
    measure: str
    bound: float
    delta: float
    checkpoints: int
    default_threshold: float
    unattained: Mapping[str, str]
    label: str = ""

    @property
    def constraint(self) -> Constraint:
        """The promised bound."""
        return Constraint(self.measure, self.bound, self.delta, self.label)

    @property
    def _is_several(self) -> bool:
        """Whether labels have a promise each."""
        return isinstance(self.threshold, Mapping) and not self.label

    @property
    def warnings(self) -> list[str]:
        """Bounds that could not be promised, in words."""
        of_label = self._is_several or len(self.unattained) > 1
        return [
            f"{self.constraint}{f' of {quote(label)}' * of_label} cannot be promised: "
            f"{why}; the default threshold {self.default_threshold:g} decides"
            for label, why in self.unattained.items()
        ]

    def __str__(self) -> str:
        if self.threshold is None:
            return "; ".join(self.warnings)
        each = " of each label" * self._is_several
        text = f"{describe(self.threshold)}, {self.constraint}{each} on new data with "
        return "; ".join([f"{text}probability {1 - self.delta:g}", *self.warnings])

    def compare(self, observed: Mapping[str, Observation]) -> str:
        """Return what the test split shows of the promise, of labels the worst.

        >>> chosen = GuaranteedThreshold(0.2, "recall", 0.95, 0.1, 1, 0.5, {})
        >>> chosen.compare({"spam": Observation(178, 186)})
        "recall of 'spam' on test 0.957 (0.917 to 0.981); promised 0.95"
        """
        sign = -1 if self.measure == "fpr" else 1
        label, worst = min(
            observed.items(),
            key=lambda pair: 2 if pair[1].value is None else sign * pair[1].value,
        )
        named = "" if self._is_several else self.label or label
        name = f" of {quote(named)}" * bool(named)
        text = f"{self.constraint.name}{name} on test {worst}"
        if self._is_several:
            text = f"{text}, worst of {len(observed)} labels, {quote(label)}"
        return f"{text}; promised {self.bound:g}"


def guarantee_of(record: Mapping[str, Any] | None) -> GuaranteedThreshold | None:
    """Return a threshold of a result that keeps a constraint; None of a tuned one."""
    if record is None or "bound" not in record:
        return None
    return GuaranteedThreshold(**record)
