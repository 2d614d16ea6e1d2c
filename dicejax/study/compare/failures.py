"""Runs that failed: diverged, learnt nothing, or scored far below the other runs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dicejax.study.compare.jobs import Outcome
from dicejax.study.significance import failure_limit


@dataclasses.dataclass(frozen=True)
class Failures:
    """Seeds of the failed runs of a loss, and numbers of runs that have ended.

    Finished are those that did not diverge. The median is that of the scores of runs
    that did not fail; None without any.
    """

    seeds: frozenset[int] = frozenset()
    runs: int = 0
    finished: int = 0
    learnt_nothing: int = 0
    median: float | None = None

    @property
    def is_unstable(self) -> bool:
        """Whether some runs failed, and not all."""
        return 0 < len(self.seeds) < self.runs

    @property
    def limit(self) -> float:
        """Largest share of runs that may fail, with a confidence of 95 %."""
        return failure_limit(len(self.seeds), self.runs)

    @property
    def sentence(self) -> str:
        """Number of failures with its limit, in words."""
        runs = f"{self.runs} run{'s' * (self.runs > 1)}"
        limit = f"up to {100 * self.limit:.0f}% may fail"
        if not self.seeds:
            return f"no failure in {runs}: {limit}"
        return f"failed in {len(self.seeds)} of {runs}, {limit}"

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries."""
        limit = self.limit if self.runs else None
        return {"seeds": sorted(self.seeds), "runs": self.runs, "limit": limit}


def failures_of(outcomes: Sequence[Outcome]) -> Failures:
    """Return the runs of a loss that diverged, learnt nothing or score far below.

    That is below half of the median of the runs that learnt something.
    """
    ended = [run for run in outcomes if run.status != "missing"]
    finished = [run for run in ended if run.result]
    learnt = [run for run in finished if not learnt_nothing(run)]
    usual = np.median([run.score for run in learnt]) if learnt else 0.0
    sound = [run for run in learnt if run.score >= usual - abs(usual) / 2]
    failed = {run.seed for run in ended} - {run.seed for run in sound}
    median = float(np.median([run.score for run in sound])) if sound else None
    counts = len(ended), len(finished), len(finished) - len(learnt)
    return Failures(frozenset(failed), *counts, median)


def learnt_nothing(run: Outcome) -> bool:
    """Return whether a finished run scores 0, or has one answer for all texts."""
    return bool(run.result) and (run.score == 0 or one_class(run.result["test"]))


def one_class(test: Mapping[str, Any]) -> bool:
    """Return whether texts of several classes were all classified alike."""
    counts = class_counts(test)
    total = counts.total()
    # All of the class are right, and it was predicted for every text.
    return any(
        x["recall"] == 1 and round(x["precision"] * total) == x["support"] < total
        for x in (test["per_type"][name] for name in counts)
    )


def class_counts(test: Mapping[str, Any]) -> Counter[str]:
    """Count the examples of each class; Matthews' correlation is of texts alone."""
    return support_of(test) if "matthews" in test else Counter()


def support_of(test: Mapping[str, Any]) -> Counter[str]:
    """Count the test examples of each class, or spans of each type."""
    entries = test.get("per_type", {}).items()
    return Counter({name: int(x["support"]) for name, x in entries if "support" in x})
