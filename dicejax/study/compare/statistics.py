"""Statistics of each loss, and its comparison with the baseline."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dicejax.errors import InputError
from dicejax.metrics.scores import heading
from dicejax.study import significance
from dicejax.study.compare.jobs import Outcome
from dicejax.study.significance import CrossedDifference, ScoreSummary, Verdict

MARGIN = 0.005
"""Differences within half a point do not matter in practice."""
LEVEL = 0.05
"""Chance of any false claim of a comparison, over all looks at it."""

Look = Mapping[str, Sequence[int]]
"""Seeds by loss, of one look at a comparison."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Against:
    """A loss vs. the baseline, over the seeds that both have ended.

    Attributes:
      seeds: common seeds.
      differences: of the primary metric, by seed; a diverged run scores 0.
      crossed: difference over seeds and test examples, with the interval of this look;
        None for fewer than 3 seeds, as all below but the verdict.
      randomisation: p-value over test examples, for these runs.
      p_value: of `crossed`, valid over all looks, adjusted for the number of losses.
      p_alone: the same, not adjusted for the number of losses.
      p_equal: as `p_value`, of the difference being within the margin.
      seeds_needed: number of seeds to show the observed difference with power 0.8; None
        where no number suffices, infinite above 1,000.
      detectable: smallest difference that these runs show with power 0.8.
      verdict: outcome and sentence.
    """

    seeds: tuple[int, ...]
    differences: tuple[float, ...]
    crossed: CrossedDifference | None = None
    randomisation: float | None = None
    p_value: float | None = None
    p_alone: float | None = None
    p_equal: float | None = None
    seeds_needed: int | float | None = None
    detectable: float | None = None
    verdict: Verdict

    @property
    def mean(self) -> float | None:
        """Mean difference; None without a common seed."""
        return float(np.mean(self.differences)) if self.differences else None

    @property
    def needed(self) -> str:
        """Number of seeds needed, in words."""
        if self.crossed is None:
            return "-"
        if self.seeds_needed is None:
            return "never"
        if math.isinf(self.seeds_needed):
            return "> 1,000"
        return f"{self.seeds_needed:,}"

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries; infinity as a string."""
        crossed = None if self.crossed is None else self.crossed.to_json()
        return dataclasses.asdict(self) | {
            "crossed": crossed,
            "mean": self.mean,
            "seeds_needed": self.needed,
        }


@dataclasses.dataclass(frozen=True)
class Row:
    """Statistics of one loss.

    Attributes:
      loss: name of the loss.
      outcomes: outcomes of its runs, by seed.
      summary: summary of the primary metric.
      against: comparison with the baseline; None for the baseline.
      is_control: a baseline of another kind: class weights, or moved decisions.
    """

    loss: str
    outcomes: tuple[Outcome, ...]
    summary: ScoreSummary
    against: Against | None
    is_control: bool = False

    def scores(self, name: str) -> list[float]:
        """Return a score of the finished runs on the test set."""
        return [
            outcome.result["test"][name] for outcome in self.outcomes if outcome.result
        ]

    @property
    def missing(self) -> int:
        """Number of runs that have not finished."""
        return sum(outcome.status == "missing" for outcome in self.outcomes)

    @property
    def untaught(self) -> list[Outcome]:
        """Finished runs that learnt nothing."""
        return [outcome for outcome in self.outcomes if learnt_nothing(outcome)]

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries, without per-example statistics."""
        runs = [
            {
                "seed": outcome.seed,
                "folder": outcome.folder,
                "status": outcome.status,
                "test": outcome.result["test"] if outcome.result else None,
            }
            for outcome in self.outcomes
        ]
        return {
            "runs": runs,
            "summary": dataclasses.asdict(self.summary),
            "is_control": self.is_control,
            "against_baseline": self.against.to_json() if self.against else None,
        }


def rows_of(
    outcomes: Sequence[Outcome],
    baseline: str,
    *,
    controls: Sequence[str] = (),
    looks: Sequence[Look] = (),
    margin: float = MARGIN,
) -> list[Row]:
    """Return the statistics of each loss vs. the baseline, which comes first.

    P-values hold over all looks, and are adjusted together by Holm's method: those of
    losses, and apart from them those of controls.

    Args:
      outcomes: of all runs.
      baseline: name of the loss to compare with.
      controls: names of the losses that are controls.
      looks: earlier looks at this comparison, oldest first.
      margin: differences within it do not matter in practice.

    Raises:
      InputError: no run of the baseline is finished.
    """
    by_loss: dict[str, list[Outcome]] = {baseline: []}
    for outcome in outcomes:
        by_loss.setdefault(outcome.loss, []).append(outcome)
    standard = {
        outcome.seed: outcome
        for outcome in by_loss[baseline]
        if outcome.status != "missing"
    }
    finished = [outcome for outcome in standard.values() if outcome.result]
    if not finished:
        raise InputError(
            f"no run of {baseline} is finished, so there is nothing to compare with"
        )
    pairs = {
        loss: _Pairs.of(runs, standard, finished[0])
        for loss, runs in by_loss.items()
        if loss != baseline
    }
    metric = heading(finished[0].result["primary_metric"])
    against: dict[str, Against] = {}
    for is_control in (False, True):
        family = {k: v for k, v in pairs.items() if (k in controls) == is_control}
        dropped = {loss for look in looks for loss in look} - set(by_loss)
        others = len([loss for loss in dropped if (loss in controls) == is_control])
        against |= _compared(
            family, looks, margin, metric, others=others, may_borrow=not is_control
        )
    rows = [
        Row(loss, tuple(runs), _summary(runs), against.get(loss), loss in controls)
        for loss, runs in by_loss.items()
    ]
    return ordered([_with_nothing_learnt(row, rows[0]) for row in rows])


def results_of(rows: Sequence[Row]) -> list[Mapping[str, Any]]:
    """Return the results of all finished runs."""
    return [
        outcome.result for row in rows for outcome in row.outcomes if outcome.result
    ]


def ordered(rows: Sequence[Row]) -> list[Row]:
    """Return the baseline, the losses from the best to the worst, and the controls."""

    def place(row: Row) -> tuple[bool, bool, float, str]:
        mean = None if row.against is None else row.against.mean
        worst = math.inf if mean is None else -mean
        return row.against is not None, row.is_control, worst, row.loss

    return sorted(rows, key=place)


def look_of(rows: Sequence[Row]) -> dict[str, list[int]]:
    """Return the seeds of each loss that has a verdict."""
    return {
        row.loss: list(row.against.seeds)
        for row in rows
        if row.against and row.against.crossed
    }


@dataclasses.dataclass(frozen=True)
class _Pairs:
    """Runs of a loss and of the baseline, by common seed: statistics [N, C, 2]."""

    ours: dict[int, np.ndarray]
    baseline: dict[int, np.ndarray]

    @classmethod
    def of(
        cls, runs: Sequence[Outcome], standard: Mapping[int, Outcome], like: Outcome
    ) -> _Pairs:
        """Pair runs; a diverged one finds nothing."""

        def statistics(run: Outcome) -> np.ndarray:
            if run.example_statistics is not None:
                return run.example_statistics
            return like.example_statistics * [0, 1]

        both = sorted(
            (run for run in runs if run.status != "missing" and run.seed in standard),
            key=lambda run: run.seed,
        )
        ours = {run.seed: statistics(run) for run in both}
        return cls(ours, {seed: statistics(standard[seed]) for seed in ours})

    def stacked(self, seeds: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        ours = np.stack([self.ours[seed] for seed in seeds])
        return ours, np.stack([self.baseline[seed] for seed in seeds])


def _compared(
    family: Mapping[str, _Pairs],
    looks: Sequence[Look],
    margin: float,
    metric: str,
    *,
    others: int,
    may_borrow: bool,
) -> dict[str, Against]:
    """Compare the losses of a family; `others` were looked at before."""
    now = {loss: list(pairs.ours) for loss, pairs in family.items()}
    schedules = {loss: _growing([*looks, now], loss) for loss in family}
    crossed: dict[str, list[CrossedDifference | None]] = {k: [] for k in family}
    for j in range(max(map(len, schedules.values()), default=0)):
        seen = {
            loss: significance.seeds_and_items(*family[loss].stacked(schedule[j]))
            for loss, schedule in schedules.items()
            if j < len(schedule) and set(schedule[j]) <= set(family[loss].ours)
        }
        borrowed = significance.moderated([*seen.values()]) if may_borrow else None
        seen = dict(zip(seen, borrowed or seen.values(), strict=True))
        for loss, schedule in schedules.items():
            if j < len(schedule):
                crossed[loss].append(seen.get(loss))
    tested = [loss for loss, schedule in schedules.items() if schedule]
    comparisons = len(tested) + others
    over_looks = {
        loss: _over_looks(crossed[loss], schedules[loss], margin) for loss in tested
    }
    adjusted = [
        significance.holm([*values, *[1.0] * others])
        for values in zip(*over_looks.values(), strict=True)
    ] or [np.ones(0)] * 2
    judged = {loss: _unjudged(family[loss], metric) for loss in family}
    for loss, p_value, p_equal in zip(tested, *adjusted[:2], strict=False):
        if crossed[loss][-1] is None:
            continue
        at_looks = [len(seeds) for seeds in schedules[loss]]
        last = crossed[loss][-1]
        last = dataclasses.replace(
            last, level=significance.nominal_level(at_looks, LEVEL)
        )
        judged[loss] = dataclasses.replace(
            judged[loss],
            crossed=last,
            randomisation=significance.approximate_randomisation(
                *family[loss].stacked(now[loss])
            ),
            p_value=float(p_value),
            p_alone=over_looks[loss][0],
            p_equal=float(p_equal),
            seeds_needed=significance.seeds_needed(
                last, at_looks, comparisons=comparisons, level=LEVEL
            ),
            detectable=significance.detectable(
                last, significance.nominal_level(at_looks, LEVEL / comparisons)
            ),
            verdict=significance.verdict(
                last,
                float(p_value),
                float(p_equal),
                margin=margin,
                comparisons=comparisons,
                level=LEVEL,
                metric=metric,
            ),
        )
    return judged


def _growing(looks: Sequence[Look], loss: str) -> list[Sequence[int]]:
    """Return the seeds of a loss at looks that had more of them than any before."""
    growing: list[Sequence[int]] = []
    most = significance.MIN_SEEDS - 1
    for look in looks:
        seeds = look.get(loss, ())
        if len(seeds) > most:
            growing.append(seeds)
            most = len(seeds)
    return growing


def _over_looks(
    crossed: Sequence[CrossedDifference | None],
    schedule: Sequence[Sequence[int]],
    margin: float,
) -> tuple[float, float]:
    """Return both p-values over all looks; a look whose runs are gone has 1."""
    p_values = [
        (1.0, 1.0)
        if difference is None
        else (difference.p_value, difference.p_equal(margin))
        for difference in crossed
    ]
    p_overall = significance.sequential(p_values, [len(seeds) for seeds in schedule])
    return float(p_overall[0]), float(p_overall[1])


def _unjudged(pairs: _Pairs, metric: str) -> Against:
    """Return the differences by seed, without a verdict."""
    seeds = tuple(pairs.ours)
    differences = tuple(
        float(significance.score(pairs.ours[s]) - significance.score(pairs.baseline[s]))
        for s in seeds
    )
    if seeds:
        numbers = ", ".join(
            significance.signed(100 * difference) for difference in differences
        )
        sentence = (
            f"no verdict from {len(seeds)} seed{'s' * (len(seeds) > 1)}, which takes "
            f"{significance.MIN_SEEDS}: {numbers} {metric}"
        )
    else:
        sentence = "no seed in common with the baseline"
    verdict = Verdict("no verdict", sentence)
    return Against(seeds=seeds, differences=differences, verdict=verdict)


def _summary(runs: Sequence[Outcome]) -> ScoreSummary:
    diverged = sum(run.status == "diverged" for run in runs)
    return ScoreSummary.of([run.score for run in runs if run.result], diverged)


def _with_nothing_learnt(row: Row, baseline: Row) -> Row:
    """Say first that runs learnt nothing; without any that did there is no verdict."""
    if row.against is None:
        return row
    empty = [
        (either.loss, len(either.untaught), either.summary.n)
        for either in (row, baseline)
        if either.untaught
    ]
    if not empty:
        return row
    counts = "; ".join(f"{loss} in {n} of {total} runs" for loss, n, total in empty)
    verdict = row.against.verdict
    is_none = any(n == total for _, n, total in empty)
    first = Verdict(
        "nothing learnt" if is_none else verdict.outcome,
        f"nothing learnt by {counts}; {verdict.sentence}",
    )
    return dataclasses.replace(
        row, against=dataclasses.replace(row.against, verdict=first)
    )


def learnt_nothing(outcome: Outcome) -> bool:
    """Return whether a finished run scores 0, or has one answer for all texts."""
    return bool(outcome.result) and (
        outcome.score == 0 or one_class(outcome.result["test"])
    )


def one_class(test: Mapping[str, Any]) -> bool:
    """Return whether texts of several classes were all classified alike.

    >>> of = {"0": {"precision": 0.0, "recall": 0.0, "support": 346},
    ...       "1": {"precision": 0.654, "recall": 1.0, "support": 654}}
    >>> one_class({"matthews": 0.0, "per_type": of})
    True
    """
    counts = class_counts(test)
    return any(
        scores["recall"] == 1
        and scores["support"] < counts.total()
        # All of the class were found, and it was predicted for every text.
        and round(scores["precision"] * counts.total()) == scores["support"]
        for scores in (test["per_type"][name] for name in counts)
    )


def class_counts(test: Mapping[str, Any]) -> Counter[str]:
    """Count the examples of each class; Matthews' correlation is of texts alone."""
    if "matthews" not in test:
        return Counter()
    return Counter(
        {name: int(entry["support"]) for name, entry in test["per_type"].items()}
    )
