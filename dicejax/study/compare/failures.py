"""Runs that failed: diverged, learnt nothing, or scored far below the other runs.

And runs that are no sample: one that was repeated, or of too few test examples.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from dicejax.metrics.scores import are_of_texts, unanswered
from dicejax.study.compare.jobs import PLAIN, ScoredRun
from dicejax.study.significance import MIN_SEEDS, failure_limit

FEWEST_EXAMPLES = 10
"""Of fewer test examples each is over ten points, and nothing is decided."""
FAR_BELOW = 0.25
"""Share of the median that a run lacks at least which failed by its distance."""


@dataclasses.dataclass(frozen=True)
class Failures:
    """Seeds of the failed runs of a loss, and numbers of runs that have ended.

    Finished are those that did not diverge. The median is that of the scores of runs
    that did not fail; None without any. Runs that are not seeded are all the same, and
    say nothing of how often others would fail.
    """

    seeds: frozenset[int] = frozenset()
    runs: int = 0
    finished: int = 0
    learnt_nothing: int = 0
    median: float | None = None
    are_seeded: bool = True

    @property
    def is_unstable(self) -> bool:
        """Whether some runs failed, and not all."""
        return 0 < len(self.seeds) < self.runs

    @property
    def has_learnt_nothing(self) -> bool:
        """Whether no finished run has learnt anything."""
        return 0 < self.finished == self.learnt_nothing

    @property
    def share(self) -> float:
        """Share of the runs that failed."""
        return len(self.seeds) / max(self.runs, 1)

    @property
    def limit(self) -> float | None:
        """Largest share of runs that may fail, with a confidence of 95 %."""
        return failure_limit(len(self.seeds), self.runs) if self.runs else None


def failures_of(runs: Sequence[ScoredRun]) -> Failures:
    """Return the runs of a loss that diverged, learnt nothing or score far below.

    That is below half of the median of the runs that learnt something; or a quarter
    below it, as fewer than half of them are, and further below the other runs than
    these lie apart. A spread of three runs says too little to be the only measure.
    """
    ended = [run for run in runs if run.status != "missing"]
    finished = [run for run in ended if run.result]
    learnt = [run for run in finished if not learnt_nothing(run)]
    low = far_below([run.score for run in learnt])
    sound = [run for run, is_low in zip(learnt, low, strict=True) if not is_low]
    failed = {run.seed for run in ended} - {run.seed for run in sound}
    median = float(np.median([run.score for run in sound])) if sound else None
    counts = len(ended), len(finished), len(finished) - len(learnt)
    are_seeded = all(map(is_seeded, runs))
    return Failures(frozenset(failed), *counts, median, are_seeded)


def is_seeded(run: ScoredRun) -> bool:
    """Return whether another seed would give another model."""
    return run.loss not in PLAIN and not run.result.get("unseeded")


def far_below(scores: ArrayLike) -> np.ndarray:
    """Return which scores of a loss are far below the others, bool `[..., S]`.

    >>> far_below([0.72, 0.70, 0.48, 0.71]).tolist()
    [False, False, True, False]

    Args:
      scores: `[..., S]`, of the runs of a loss that learnt something.
    """
    scores = np.asarray(scores, np.float64)
    if not scores.shape[-1]:
        return np.zeros(scores.shape, bool)
    ordered = np.sort(scores)
    middle = (scores.shape[-1] - 1) // 2
    usual = (ordered[..., middle] + ordered[..., -1 - middle]) / 2  # the median
    size = np.abs(usual)
    least = usual - size / 2
    for low in range(1, middle + 1):
        below, others = ordered[..., low - 1], ordered[..., low:]
        is_apart = others[..., 0] - below > others[..., -1] - others[..., 0]
        is_apart &= usual - below > FAR_BELOW * size
        least = np.where(is_apart, np.maximum(least, others[..., 0]), least)
    return scores < least[..., None]


def compared_failures(ours: Failures, others: Failures) -> float:
    """Return the p-value of Fisher's exact test that two losses fail as often.

    >>> few, many = Failures(runs=10), Failures(seeds=frozenset(range(9)), runs=10)
    >>> round(compared_failures(few, many), 5)
    0.00012
    """
    table = [[len(x.seeds), x.runs - len(x.seeds)] for x in (ours, others)]
    return float(np.asarray(stats.fisher_exact(table))[1])


def is_repeated(runs: Sequence[ScoredRun]) -> bool:
    """Return whether runs are one: of three or more seeds, all of the same scores.

    Where all is right, or nothing, seeds make no difference, nor do they to controls
    that are no encoders: these are the same for the same training data.
    """
    finished = [run for run in runs if run.result]
    if len(finished) < MIN_SEEDS or not 0 < finished[0].score < 1:
        return False
    if not is_seeded(finished[0]):
        return False
    first, *others = (np.asarray(run.item_statistics) for run in finished)
    return all(np.array_equal(first, other) for other in others)


def has_few_examples(run: ScoredRun) -> bool:
    """Return whether a run was scored on too few test examples to decide anything."""
    counts = run.example_statistics
    if counts is None or run.source == "run scores":
        return False
    return len(counts) < FEWEST_EXAMPLES


def learnt_nothing(run: ScoredRun) -> bool:
    """Return whether a finished run scores 0, or has one answer for all texts.

    Or has no question right that has an answer, where some have none. With few test
    examples that is no sign of it, nor of a control that is no encoder.
    """
    if not run.result or has_few_examples(run) or run.loss in PLAIN:
        return False
    test = run.result["test"]
    return run.score == 0 or one_class(test) or unanswered(test) > 0


def one_class(test: Mapping[str, Any]) -> bool:
    """Return whether texts of several classes were all classified alike."""
    if not are_of_texts(test):
        return False
    counts = support_of(test)
    total = counts.total()
    # All of the class are right, and it was predicted for every text.
    return any(
        x["recall"] == 1 and round(x["precision"] * total) == x["support"] < total
        for x in (test["per_type"][name] for name in counts)
    )


def support_of(test: Mapping[str, Any]) -> Counter[str]:
    """Count the test examples of each class, or spans of each type."""
    entries = test.get("per_type", {}).items()
    return Counter({name: int(x["support"]) for name, x in entries if "support" in x})
