"""Statistics of each loss, and its comparison with the baseline."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dicejax import config
from dicejax.config import Experiment
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
from dicejax.study.compare.jobs import PLAIN, ScoredRun, Source, Status
from dicejax.study.compare.testing import (
    LEVEL,
    MARGIN,
    NAMES,
    Contrast,
    Look,
    baseline_name,
    contrasts,
    differences_of,
    finished_run,
    nothing_learnt,
    pairs_of,
    stack,
)
from dicejax.study.sentences import sentences
from dicejax.study.significance import CrossedDifference, Verdict


@dataclasses.dataclass(frozen=True)
class Row:
    """Statistics of one loss by the primary metric, vs. nothing for the baseline.

    Controls are baselines of another kind: class weights, or moved decisions. Each
    loss is compared with them, by name, over the seeds that both have. Settings are
    those of the first run's experiment, as `config.to_json` writes them.
    """

    loss: str
    runs: tuple[ScoredRun, ...]
    against: Contrast | None
    is_control: bool = False
    failures: Failures = Failures()
    versus: Mapping[str, Contrast] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, Any] | None = None

    @property
    def experiment(self) -> Experiment | None:
        """Experiment of the first run; None for moved decisions and other scores."""
        if self.settings is None:
            return None
        return config.from_json(json.dumps(self.settings))

    @property
    def claim(self) -> CrossedDifference:
        """The difference to the baseline where a claim is made of it."""
        assert self.against is not None
        return self.against.claim

    @property
    def name(self) -> str:
        """Name in a sentence."""
        if self.against is None:
            return baseline_name(self.loss)
        return NAMES.get(self.loss, self.loss)

    @property
    def finished(self) -> list[ScoredRun]:
        """Finished runs; the baseline has one at least."""
        return [run for run in self.runs if run.result]

    @property
    def results(self) -> list[Mapping[str, Any]]:
        """Results of the finished runs."""
        return [run.result for run in self.finished]

    @property
    def metric(self) -> str:
        """Display name of the primary metric, with the class that it is of."""
        return primary_name(self.results[0])

    @property
    def source(self) -> Source:
        """Where the scores are from."""
        return self.finished[0].source

    def scores(self, name: str) -> list[float]:
        """Return a score of the finished runs on the test set."""
        return [result["test"][name] for result in self.results]

    def class_scores(self, label: str, name: str) -> list[float]:
        """Return a score of one class in the finished runs on the test set."""
        rows = [result["test"].get("per_type", {}) for result in self.results]
        return [row[label][name] for row in rows if name in row.get(label, {})]

    @property
    def outcome(self) -> str:
        """Outcome of the verdict; "baseline" for the baseline."""
        return self.against.verdict.outcome if self.against else "baseline"

    @property
    def rise(self) -> float:
        """Rise of the mean dev score at the end, if best there, and in most runs."""
        curves = [run.dev[:, 1] for run in self.runs if len(run.dev) > 1]
        if not curves:
            return 0.0
        mean = np.mean([dev for dev in curves if len(dev) == len(curves[0])], axis=0)
        at_end = sum(dev[-1] > max(dev[:-1]) for dev in curves)
        is_best = mean[-1] > max(mean[:-1]) and at_end > len(curves) / 2
        return float(mean[-1] - mean[-2]) if is_best else 0.0

    @property
    def mean(self) -> float | None:
        """Mean of the primary metric over the finished runs, if there are any."""
        scores = [run.score for run in self.finished]
        return float(np.mean(scores)) if scores else None

    @property
    def sd(self) -> float | None:
        """Standard deviation of the sample, with n - 1; None below 2 finished runs."""
        scores = [run.score for run in self.finished]
        return float(np.std(scores, ddof=1)) if scores[1:] else None

    def count(self, status: Status) -> int:
        """Return the number of runs that are finished, diverged or missing."""
        return sum(run.status == status for run in self.runs)


def rows_of(
    scored: Sequence[ScoredRun],
    baseline: str,
    *,
    controls: Sequence[str] = (),
    looks: Sequence[Look] = (),
    margin: float = MARGIN,
) -> list[Row]:
    """Return the statistics of each loss vs. the baseline, which comes first.

    P-values hold over all looks, of which `looks` are the earlier ones, and are
    adjusted together by Holm's method: those of losses, those of controls, those of
    models that are no fine-tuned encoders, and those of all others vs. a control. Vs. a
    control with moved decisions, losses have theirs moved alike where each finished run
    was scored so. Where some runs of a loss or of the baseline failed, the comparison
    is unstable. Runs that are one run, or of few test examples, have no verdict.

    Raises:
      InputError: no run of the baseline is finished.
    """
    by_loss: dict[str, list[ScoredRun]] = {baseline: []}
    for run in scored:
        by_loss.setdefault(run.loss, []).append(run)
    if not any(run.result for run in by_loss[baseline]):
        raise InputError(
            f"no run of {baseline} is finished, so there is nothing to compare with"
        )
    # Losses that there is something to test of.
    sampled = {k for k, runs in by_loss.items() if not is_repeated(runs)}
    if baseline not in sampled or has_few_examples(finished_run(by_loss)):
        sampled = set()
    others_of = [k for k in by_loss if k != baseline and k in sampled]
    rivals = [k for k in others_of if k not in controls]
    moved = [k for k in others_of if k in controls]
    dropped = {loss for look in looks for loss in look} - {baseline, *others_of}
    over: dict[str, Any] = {"looks": looks, "margin": margin}
    tested: dict[str, Contrast] = {}
    # Each kind is a family of its own, so that none costs the others their verdicts.
    kinds = {k: (k in controls, k in PLAIN) for k in (*others_of, *dropped)}
    for kind in dict.fromkeys(kinds.values()):
        family = [k for k in others_of if kinds[k] == kind]
        borrowing = family if family == rivals else ()
        earlier = sum(kinds[k] == kind for k in dropped)
        options = over | {"dropped": earlier, "plans": True}
        tested |= contrasts(by_loss, baseline, family, borrowing, **options)
    versus: dict[str, dict[str, Contrast]] = {loss: {} for loss in by_loss}
    for control in moved:
        family = [k for k in others_of if k != control]
        alike = _decided_alike(by_loss, family, control)
        runs_alike = {**by_loss, **alike}
        to_control = contrasts(runs_alike, control, family, rivals, **over)
        for loss, contrast in to_control.items():
            is_alike = loss in alike if " + " in control else None
            contrast = dataclasses.replace(contrast, decided_alike=is_alike)
            versus[loss][control] = contrast
    rows, places = [], {}
    for loss, runs in by_loss.items():
        against = None
        if loss != baseline:
            against = tested.get(loss) or _untested(by_loss, loss, baseline)
        begun = next((x.experiment for x in runs if x.experiment is not None), None)
        row = Row(
            loss,
            tuple(runs),
            against,
            is_control=loss in controls,
            failures=failures_of(runs),
            versus=versus[loss],
            settings=None if begun is None else json.loads(config.to_json(begun)),
        )
        rows.append(row)
        mean = None if against is None else against.mean
        worst = math.inf if mean is None else -mean
        places[loss] = against is not None, loss in controls, worst, loss
    return sorted(rows, key=lambda row: places[row.loss])


def results_of(rows: Sequence[Row]) -> list[Mapping[str, Any]]:
    """Return the results of all finished runs."""
    return [result for row in rows for result in row.results]


def columns_of(rows: Sequence[Row]) -> dict[str, list[list[float]]]:
    """Return each row's scores on test by display name, the primary metric first.

    F1 and recall of the rarest class follow, unless the scores are its own.
    """
    result = rows[0].results[0]
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


def interval_of(rows: Sequence[Row]) -> str:
    """Describe the intervals of a comparison: level, sampling and looks."""
    items = items_of(rows)
    over = f"seeds and {items}" if items else "seeds"
    return f"95% CI over {over}, valid over all looks"


def items_of(rows: Sequence[Row]) -> str:
    """Return what else than seeds intervals are over, in words; empty for nothing."""
    first = rows[0].finished[0]
    if first.source == "run scores":
        return ""
    if first.groups is None:
        return "test examples"
    noun = "documents" if first.source == "run" else "groups of test examples"
    return f"{len(np.unique(first.groups)):,} {noun}"


def rivals_of(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that are neither the baseline nor controls, the best first."""
    return [row for row in rows if row.against and not row.is_control]


def apart(ours: Row, other: Row) -> CrossedDifference | None:
    """Return the difference of two losses, at the level of a loss vs. the baseline.

    Vs. a control with moved decisions a loss has its own moved alike. None for fewer
    than 3 common seeds, and where no claim is made of one of them.
    """
    if other.against is None:
        return None if ours.against is None else ours.against.crossed
    if other.loss in ours.versus:
        return ours.versus[other.loss].crossed
    failed = any(row.failures.seeds for row in (ours, other))
    tested = [x for y in (ours, other) if (x := y.against) and x.is_tested]
    if failed or len(tested) < 2:
        return None
    runs = {row.loss: row.runs for row in (ours, other)}
    pairs = pairs_of(runs, ours.loss, other.loss)
    if len(pairs) < significance.MIN_SEEDS:
        return None
    level = tested[0].level or LEVEL
    return significance.seeds_and_items(*stack(pairs, pairs), level=level)


def _decided_alike(
    by_loss: Mapping[str, Sequence[ScoredRun]], family: Sequence[str], control: str
) -> dict[str, list[ScoredRun]]:
    """Return the runs of a family with the moved decisions of a control.

    The control's loss and losses of which a finished run lacks them are left out.
    """
    loss_of_control, _, move = control.rpartition(" + ")
    alike: dict[str, list[ScoredRun]] = {}
    for loss in family if loss_of_control else ():
        runs = [run.with_move(move) for run in by_loss[loss]]
        if loss != loss_of_control and None not in runs:
            alike[loss] = [run for run in runs if run is not None]
    return alike


def _untested(
    by_loss: Mapping[str, Sequence[ScoredRun]], loss: str, baseline: str
) -> Contrast:
    """Return the contrast of a loss with the baseline that was not tested."""
    pairs = pairs_of(by_loss, loss, baseline)
    differences = differences_of(pairs)
    few = [run.example_count for run in by_loss[loss] if has_few_examples(run)]
    sentence = sentences("verdicts").untested(
        differences=differences,
        examples=few[0] if few else None,
        least_examples=FEWEST_EXAMPLES,
        repeated=[x for x in (loss, baseline) if is_repeated(by_loss[x])],
        least=significance.MIN_SEEDS,
        metric=primary_name(finished_run(by_loss).result),
    )
    failures = {name: failures_of(by_loss[name]) for name in (loss, baseline)}
    verdict = nothing_learnt(failures) or Verdict("no verdict", sentence)
    return Contrast(seeds=tuple(pairs), differences=differences, verdict=verdict)
