"""Statistics of each loss, and its comparison with the baseline."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from dicejax.comparison.jobs import Outcome
from dicejax.errors import InputError
from dicejax.metrics import significance
from dicejax.metrics.scores import heading
from dicejax.metrics.significance import (
    CrossedDifference,
    PairedDifference,
    ScoreSummary,
    Verdict,
)


@dataclasses.dataclass(frozen=True)
class Against:
    """A loss vs. the baseline, over the seeds that both have finished.

    Attributes:
      seeds: common seeds.
      over_seeds: paired difference on this test set.
      crossed: difference over seeds and test examples, on which the verdict is based.
      randomisation: p-value over test examples, for these runs.
      p_holm: p-value of `crossed`, adjusted for the number of losses.
      seeds_needed: number of seeds to detect the observed difference with power 0.8.
      verdict: outcome and sentence.
    """

    seeds: tuple[int, ...]
    over_seeds: PairedDifference | None
    crossed: CrossedDifference | None
    randomisation: float | None
    p_holm: float | None
    seeds_needed: int | None
    verdict: Verdict


@dataclasses.dataclass(frozen=True)
class Row:
    """Statistics of one loss.

    Attributes:
      loss: name of the loss.
      outcomes: outcomes of its runs, by seed.
      summary: summary of the primary metric.
      against: comparison with the baseline; None for the baseline.
    """

    loss: str
    outcomes: tuple[Outcome, ...]
    summary: ScoreSummary
    against: Against | None

    def scores(self, name: str) -> list[float]:
        """Return a score of the finished runs on the test set."""
        return [one.result["test"][name] for one in self.outcomes if one.result]

    @property
    def missing(self) -> int:
        """Number of runs that have not finished."""
        return sum(one.status == "missing" for one in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries, without per-example statistics."""
        runs = [
            {
                "seed": one.seed,
                "folder": one.folder,
                "status": one.status,
                "test": one.result["test"] if one.result else None,
            }
            for one in self.outcomes
        ]
        against = None if self.against is None else dataclasses.asdict(self.against)
        return {
            "runs": runs,
            "summary": dataclasses.asdict(self.summary),
            "against_baseline": against,
        }


def rows_of(outcomes: Sequence[Outcome], baseline: str) -> list[Row]:
    """Return the statistics of each loss vs. the baseline.

    P-values are adjusted together by Holm's method.

    Raises:
      InputError: no run of the baseline is finished.
    """
    by_loss: dict[str, list[Outcome]] = {baseline: []}
    for one in outcomes:
        by_loss.setdefault(one.loss, []).append(one)
    standard = {one.seed: one for one in by_loss[baseline] if one.result}
    if not standard:
        raise InputError(
            f"no run of {baseline} is finished, so there is nothing to compare with"
        )
    compared = {
        loss: _compared(runs, standard)
        for loss, runs in by_loss.items()
        if loss != baseline
    }
    tested = [loss for loss, one in compared.items() if one.crossed is not None]
    first = next(iter(standard.values()))
    metric = heading(first.result["primary_metric"])
    adjusted = significance.holm([compared[loss].crossed.p_value for loss in tested])
    for loss, p_value in zip(tested, adjusted.tolist(), strict=True):
        said = significance.verdict(
            compared[loss].crossed, p_value, comparisons=len(tested), metric=metric
        )
        compared[loss] = dataclasses.replace(
            compared[loss], p_holm=p_value, verdict=said
        )
    return [
        Row(loss, tuple(runs), _summary(runs), compared.get(loss))
        for loss, runs in by_loss.items()
    ]


def _summary(runs: Sequence[Outcome]) -> ScoreSummary:
    diverged = sum(one.status == "diverged" for one in runs)
    return ScoreSummary.of([one.score for one in runs if one.result], diverged)


def _compared(runs: Sequence[Outcome], standard: dict[int, Outcome]) -> Against:
    """Compare over common seeds, before Holm's adjustment."""
    both = [one for one in runs if one.result and one.seed in standard]
    pairs = [(one, standard[one.seed]) for one in both]
    seeds = tuple(ours.seed for ours, _ in pairs)
    if len(pairs) < 2:
        said = significance.verdict(None)
        return Against(seeds, None, None, None, None, None, said)
    ours, theirs = (
        np.stack([pair[side].example_statistics for pair in pairs]) for side in (0, 1)
    )
    scores = ([pair[side].score for pair in pairs] for side in (0, 1))
    over_seeds = significance.over_seeds(*scores)
    crossed = significance.seeds_and_items(ours, theirs)
    return Against(
        seeds=seeds,
        over_seeds=over_seeds,
        crossed=crossed,
        randomisation=significance.approximate_randomisation(ours, theirs),
        p_holm=None,
        seeds_needed=significance.seeds_needed(over_seeds.mean, over_seeds.sd),
        verdict=significance.verdict(crossed),
    )
