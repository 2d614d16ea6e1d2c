"""Statistics of each loss, and its comparison with the baseline."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dicejax.errors import InputError, quote
from dicejax.metrics.scores import heading, primary_name, rarest_of
from dicejax.study import significance
from dicejax.study.compare.failures import (
    FEWEST_EXAMPLES,
    Failures,
    failures_of,
    has_few_examples,
    is_repeated,
)
from dicejax.study.compare.jobs import Outcome, Source
from dicejax.study.compare.testing import MARGIN, Look, Test, Tests, Versus
from dicejax.study.significance import CrossedDifference, ScoreSummary, Verdict

NO_CLAIM = ("unstable", "nothing learnt", "no verdict")
"""Outcomes without an interval, which would be that of what went wrong."""


@dataclasses.dataclass(frozen=True)
class Against:
    """A loss vs. the baseline: differences of the primary metric by common seed.

    A diverged run scores 0. There is no test of fewer than 3 seeds.
    """

    seeds: tuple[int, ...]
    differences: tuple[float, ...]
    test: Test | None
    verdict: Verdict

    @property
    def mean(self) -> float | None:
        """Mean difference; None without a common seed."""
        return float(np.mean(self.differences)) if self.differences else None

    @property
    def crossed(self) -> CrossedDifference | None:
        """Difference over seeds and test examples; None where no claim is made."""
        if self.test is None or self.verdict.outcome in NO_CLAIM:
            return None
        return self.test.crossed

    @property
    def needed(self) -> str:
        """Range of the number of seeds needed, in words."""
        if self.test is None or self.crossed is None:
            return "-"
        fewest, most = self.test.seeds_needed
        if fewest is None:
            return "never"
        if math.isinf(fewest):
            return "> 1,000"
        if most is None or math.isinf(most):
            return f"{fewest:,} or more"
        return f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries; infinity as a string."""
        test = dict.fromkeys(field.name for field in dataclasses.fields(Test))
        if self.test is not None:
            crossed = self.crossed and self.crossed.to_json()
            if crossed and self.test.randomisation is None:
                crossed["sentences"] = None
            test = vars(self.test) | {"crossed": crossed}
        return {
            "seeds": self.seeds,
            "differences": self.differences,
            **test,
            "seeds_needed": self.needed,
            "verdict": dataclasses.asdict(self.verdict),
            "mean": self.mean,
        }


@dataclasses.dataclass(frozen=True)
class Row:
    """Statistics of one loss by the primary metric, vs. nothing for the baseline.

    Controls are baselines of another kind: class weights, or moved decisions. Each
    loss is compared with them, by name, over the seeds that both have.
    """

    loss: str
    outcomes: tuple[Outcome, ...]
    summary: ScoreSummary
    against: Against | None
    is_control: bool = False
    failures: Failures = Failures()
    versus: Mapping[str, Versus] = dataclasses.field(default_factory=dict)

    def scores(self, name: str) -> list[float]:
        """Return a score of the finished runs on the test set."""
        return [run.result["test"][name] for run in self.outcomes if run.result]

    def class_scores(self, label: str, name: str) -> list[float]:
        """Return a score of one class in the finished runs on the test set."""
        rows = [result["test"].get("per_type", {}) for result in results_of([self])]
        return [row[label][name] for row in rows if name in row.get(label, {})]

    @property
    def outcome(self) -> str:
        """Outcome of the verdict; "baseline" for the baseline."""
        return self.against.verdict.outcome if self.against else "baseline"

    @property
    def rise(self) -> float:
        """Rise of the mean dev score at the end, if best there, and in most runs."""
        curves = [run.dev for run in self.outcomes if len(run.dev) > 1]
        if not curves:
            return 0.0
        mean = np.mean([dev for dev in curves if len(dev) == len(curves[0])], axis=0)
        at_end = sum(dev[-1] > max(dev[:-1]) for dev in curves)
        is_best = mean[-1] > max(mean[:-1]) and at_end > len(curves) / 2
        return float(mean[-1] - mean[-2]) if is_best else 0.0

    @property
    def missing(self) -> int:
        """Number of runs that have not finished."""
        return sum(run.status == "missing" for run in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries, without per-example statistics."""
        return {
            "runs": [
                {key: getattr(run, key) for key in ("seed", "folder", "status")}
                | {"test": run.result["test"] if run.result else None}
                for run in self.outcomes
            ],
            "summary": dataclasses.asdict(self.summary),
            "is_control": self.is_control,
            "failures": self.failures.to_json(),
            "against_baseline": self.against.to_json() if self.against else None,
            "against_controls": {
                control: versus._asdict()
                | {
                    "crossed": versus.crossed and versus.crossed.to_json(),
                    "verdict": vars(versus.verdict),
                }
                for control, versus in self.versus.items()
            },
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

    P-values hold over all looks, of which `looks` are the earlier ones, and are
    adjusted together by Holm's method: those of losses, those of controls, and those of
    all others vs. a control. Vs. a control with moved decisions, losses have theirs
    moved alike where each finished run was scored so. Where some runs of a loss or of
    the baseline failed, the comparison is unstable. Runs that are one run, or of few
    test examples, have no verdict.

    Raises:
      InputError: no run of the baseline is finished.
    """
    by_loss: dict[str, list[Outcome]] = {baseline: []}
    for run in outcomes:
        by_loss.setdefault(run.loss, []).append(run)
    finished = [run for run in by_loss[baseline] if run.result]
    if not finished:
        raise InputError(
            f"no run of {baseline} is finished, so there is nothing to compare with"
        )
    tests = Tests(
        runs=_statistics_of(outcomes, finished[0]),
        failures={loss: failures_of(runs) for loss, runs in by_loss.items()},
        looks=looks,
        margin=margin,
        metric=primary_name(finished[0].result),
        source=finished[0].source,
    )
    # Losses that there is something to test of.
    sampled = {k for k, runs in by_loss.items() if not is_repeated(runs)}
    if baseline not in sampled or has_few_examples(finished[0]):
        sampled = set()
    others_of = [k for k in by_loss if k != baseline and k in sampled]
    rivals = [k for k in others_of if k not in controls]
    moved = [k for k in others_of if k in controls]
    dropped = {loss for look in looks for loss in look} - {baseline, *others_of}
    tested: dict[str, tuple[Test, Verdict]] = {}
    for family, borrowing in ((rivals, rivals), (moved, ())):
        others = sum((k in controls) == (family is moved) for k in dropped)
        tested |= tests.against(baseline, family, borrowing, others)
    versus: dict[str, dict[str, Versus]] = {loss: {} for loss in by_loss}
    for control in moved:
        family = [k for k in others_of if k != control]
        alike = _decided_alike(by_loss, family, control)
        ended = [run for runs in alike.values() for run in runs]
        runs = {**tests.runs, **_statistics_of(ended, finished[0])}
        failures = {**tests.failures, **{k: failures_of(alike[k]) for k in alike}}
        equal = dataclasses.replace(tests, runs=runs, failures=failures)
        for loss, (test, verdict) in equal.verdicts(control, family, rivals).items():
            is_alike = loss in alike if " + " in control else None
            crossed = None if verdict.outcome in NO_CLAIM else test.crossed
            versus[loss][control] = Versus(crossed, verdict, is_alike)
    rows, places = [], {}
    for loss, runs in by_loss.items():
        scores = [run.score for run in runs if run.result]
        diverged = sum(run.status == "diverged" for run in runs)
        summary = ScoreSummary.from_scores(scores, diverged)
        against = None
        if loss != baseline:
            against = _compare(tests, by_loss, loss, baseline, tested.get(loss))
        counted = loss in controls, tests.failures[loss], versus[loss]
        rows.append(Row(loss, tuple(runs), summary, against, *counted))
        mean = against and against.mean
        worst = math.inf if mean is None else -mean
        places[loss] = against is not None, loss in controls, worst, loss
    return sorted(rows, key=lambda row: places[row.loss])


def results_of(rows: Sequence[Row]) -> list[Mapping[str, Any]]:
    """Return the results of all finished runs."""
    return [run.result for row in rows for run in row.outcomes if run.result]


def metric_of(rows: Sequence[Row]) -> str:
    """Return the display name of the primary metric, with the class that it is of."""
    return primary_name(results_of(rows)[0])


def columns_of(rows: Sequence[Row]) -> dict[str, list[list[float]]]:
    """Return each row's scores on test by display name, the primary metric first.

    F1 and recall of the rarest class follow, unless the scores are its own.
    """
    result = results_of(rows)[0]
    test, primary = result["test"], result["primary_metric"]
    names = [name for name, value in test.items() if isinstance(value, float)]
    names.sort(key=lambda name: name != primary)
    columns = {
        heading(x, test.get("positive")): [row.scores(x) for row in rows] for x in names
    }
    if (rarest := rarest_of(test)) is None:
        return columns
    of_rarest = {
        f"{heading(x)} of {quote(rarest)}": [
            row.class_scores(rarest, x) for row in rows
        ]
        for x in ("f1", "recall")
    }
    (first, values), *others = columns.items()
    return {first: values, **of_rarest, **dict(others)}


def source_of(rows: Sequence[Row]) -> Source:
    """Return where the scores of a comparison are from."""
    return next(run.source for row in rows for run in row.outcomes if run.result)


def interval_of(rows: Sequence[Row]) -> str:
    """Describe the intervals of a comparison: level, sampling and looks."""
    return f"95% CI over {samples_of(rows)}, valid over all looks"


def samples_of(rows: Sequence[Row]) -> str:
    """Return what the intervals of a comparison are over, in words."""
    first = next(run for row in rows for run in row.outcomes if run.result)
    if first.source == "run scores":
        return "seeds"
    if first.groups is None:
        return "seeds and test examples"
    noun = "documents" if first.source == "run" else "groups of test examples"
    return f"seeds and {len(np.unique(first.groups)):,} {noun}"


def rivals_of(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that are neither the baseline nor controls, the best first."""
    return [row for row in rows if row.against and not row.is_control]


def apart(ours: Row, other: Row) -> CrossedDifference | None:
    """Return the difference of two losses, at the level of a loss vs. the baseline.

    Vs. a control with moved decisions a loss has its own moved alike. None for fewer
    than 3 common seeds, and where no claim is made of one of them.
    """
    if other.against is None:
        return ours.against.crossed
    if other.loss in ours.versus:
        return ours.versus[other.loss].crossed
    pair = [{x.seed: x.item_statistics for x in y.outcomes} for y in (ours, other)]
    seeds = sorted(pair[0].keys() & pair[1].keys())
    tests = [row.against.test for row in (ours, other)]
    failed = any(row.failures.seeds for row in (ours, other))
    if failed or None in tests or len(seeds) < significance.MIN_SEEDS:
        return None
    stacked = (np.stack([runs[seed] for seed in seeds]) for runs in pair)
    return significance.seeds_and_items(*stacked, level=tests[0].crossed.level)


def _decided_alike(
    by_loss: Mapping[str, Sequence[Outcome]], family: Sequence[str], control: str
) -> dict[str, list[Outcome]]:
    """Return the runs of a family with the moved decisions of a control.

    The control's loss and losses of which a finished run lacks them are left out.
    """
    loss_of_control, _, move = control.rpartition(" + ")
    alike: dict[str, list[Outcome]] = {}
    for loss in family if loss_of_control else ():
        runs = [run.with_move(move) for run in by_loss[loss]]
        if loss != loss_of_control and None not in runs:
            alike[loss] = [run for run in runs if run is not None]
    return alike


def _statistics_of(
    outcomes: Sequence[Outcome], finished: Outcome
) -> dict[str, dict[int, np.ndarray]]:
    """Return the statistics of each run that has ended, by loss and seed."""
    nothing = finished.item_statistics * [0, 1]  # a diverged run scores 0
    ended: dict[str, dict[int, np.ndarray]] = {run.loss: {} for run in outcomes}
    for run in sorted(outcomes, key=lambda run: run.seed):
        if run.status != "missing":
            counts = run.item_statistics
            ended[run.loss][run.seed] = nothing if counts is None else counts
    return ended


def _compare(
    tests: Tests,
    by_loss: Mapping[str, Sequence[Outcome]],
    loss: str,
    baseline: str,
    tested: tuple[Test, Verdict] | None,
) -> Against:
    """Compare a loss with the baseline; without a test there is no verdict."""
    pairs = tests.pairs(loss, baseline)
    differences = tuple(
        float(significance.score(ours) - significance.score(standard))
        for ours, standard in pairs.values()
    )
    numbers = ", ".join(significance.signed(100 * x) for x in differences)
    repeated = [name for name in (loss, baseline) if is_repeated(by_loss[name])]
    few = [run for run in by_loss[loss] if has_few_examples(run)]
    sentence = "no seed in common with the baseline"
    if few:
        count = len(few[0].example_statistics)
        sentence = f"no verdict from {count} test example{'s' * (count > 1)}, which "
        sentence += f"takes {FEWEST_EXAMPLES}"
    elif repeated:
        sentence = f"no verdict: all seeds of {' and of '.join(repeated)} have the same"
        sentence += " scores, so they are one run"
    elif pairs:
        sentence = (
            f"no verdict from {len(pairs)} seed{'s' * (len(pairs) > 1)}, which takes "
            f"{significance.MIN_SEEDS}: {numbers} {tests.metric}"
        )
    test, verdict = tested or (None, Verdict("no verdict", sentence))
    untaught = [
        f"{name} in {failed.learnt_nothing} of {failed.finished} runs"
        for name in (loss, baseline)
        if (failed := tests.failures[name]).has_learnt_nothing
    ]
    if untaught:
        sentence = f"nothing learnt by {'; '.join(untaught)}"
        verdict = Verdict("nothing learnt", sentence)
    return Against(tuple(pairs), differences, test, verdict)
