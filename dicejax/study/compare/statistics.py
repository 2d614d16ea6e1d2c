"""Statistics of each loss, and its comparison with the baseline."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dicejax.errors import InputError
from dicejax.metrics.scores import heading
from dicejax.study import significance
from dicejax.study.compare.jobs import Outcome, Source
from dicejax.study.significance import CrossedDifference, ScoreSummary, Verdict

MARGIN = 0.005
"""Differences within half a point do not matter in practice."""
LEVEL = 0.05
"""Chance of any false claim of a comparison, over all looks at it."""

Look = Mapping[str, Sequence[int]]
"""Seeds by loss, of one look at a comparison."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Test:
    """Test of a loss vs. the baseline, over seeds and test examples.

    Attributes:
      crossed: difference, with the interval of this look.
      randomisation: p-value over test examples, for these runs; None without examples.
      p_value: p-value over all looks, adjusted for the number of losses.
      p_alone: the same, not adjusted for the number of losses.
      p_equal: p-value for a difference within the margin, adjusted as `p_value`.
      seeds_needed: seeds to show the observed difference with power 0.8; None where no
        number suffices, infinite above 1,000.
      detectable: smallest difference that these runs show with power 0.8.
    """

    crossed: CrossedDifference
    randomisation: float | None
    p_value: float
    p_alone: float
    p_equal: float
    seeds_needed: int | float | None
    detectable: float


@dataclasses.dataclass(frozen=True)
class Against:
    """A loss vs. the baseline, over the seeds that both have ended.

    The differences are those of the primary metric by seed; a diverged run scores 0.
    There is no test of fewer than 3 seeds.
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
        """Difference over seeds and test examples; None for fewer than 3 seeds."""
        return self.test and self.test.crossed

    @property
    def needed(self) -> str:
        """Number of seeds needed, in words."""
        if self.test is None:
            return "-"
        if self.test.seeds_needed is None:
            return "never"
        if math.isinf(self.test.seeds_needed):
            return "> 1,000"
        return f"{self.test.seeds_needed:,}"

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries; infinity as a string."""
        test = dict.fromkeys(field.name for field in dataclasses.fields(Test))
        if self.test is not None:
            crossed: dict[str, Any] = self.test.crossed.to_json()
            if self.test.randomisation is None:
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

    Controls are baselines of another kind: class weights, or moved decisions.
    """

    loss: str
    outcomes: tuple[Outcome, ...]
    summary: ScoreSummary
    against: Against | None
    is_control: bool = False

    def scores(self, name: str) -> list[float]:
        """Return a score of the finished runs on the test set."""
        return [run.result["test"][name] for run in self.outcomes if run.result]

    @property
    def missing(self) -> int:
        """Number of runs that have not finished."""
        return sum(run.status == "missing" for run in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries, without per-example statistics."""
        return {
            "runs": [
                {
                    "seed": run.seed,
                    "folder": run.folder,
                    "status": run.status,
                    "test": run.result["test"] if run.result else None,
                }
                for run in self.outcomes
            ],
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

    P-values hold over all looks, of which `looks` are the earlier ones, and are
    adjusted together by Holm's method: those of losses, and apart from them those of
    controls. Differences within the margin do not matter in practice.

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
    nothing = finished[0].example_statistics * [0, 1]  # a diverged run scores 0
    ended: dict[str, dict[int, np.ndarray]] = {loss: {} for loss in by_loss}
    for run in sorted(outcomes, key=lambda run: run.seed):
        if run.status != "missing":
            counts = run.example_statistics
            ended[run.loss][run.seed] = nothing if counts is None else counts
    standard = ended.pop(baseline)
    pairs = {
        loss: {
            seed: (x, standard[seed]) for seed, x in runs.items() if seed in standard
        }
        for loss, runs in ended.items()
    }
    dropped = {loss for look in looks for loss in look} - set(by_loss)
    metric = heading(finished[0].result["primary_metric"])
    tested: dict[str, tuple[Test, Verdict]] = {}
    for is_control in (False, True):
        tested |= _compare_family(
            {k: v for k, v in pairs.items() if (k in controls) == is_control},
            looks,
            margin,
            metric=metric,
            source=finished[0].source,
            others=sum((loss in controls) == is_control for loss in dropped),
            borrows=not is_control,
        )
    rows, places = [], {}
    for loss, runs in by_loss.items():
        scores = [run.score for run in runs if run.result]
        summary = ScoreSummary.from_scores(
            scores, sum(run.status == "diverged" for run in runs)
        )
        versus = None
        if loss != baseline:
            both = {loss: runs, baseline: by_loss[baseline]}
            versus = _compare(pairs[loss], tested.get(loss), both, metric)
        rows.append(Row(loss, tuple(runs), summary, versus, loss in controls))
        mean = versus and versus.mean
        worst = math.inf if mean is None else -mean
        places[loss] = versus is not None, loss in controls, worst, loss
    return sorted(rows, key=lambda row: places[row.loss])


def results_of(rows: Sequence[Row]) -> list[Mapping[str, Any]]:
    """Return the results of all finished runs."""
    return [run.result for row in rows for run in row.outcomes if run.result]


def source_of(rows: Sequence[Row]) -> Source:
    """Return where the scores of a comparison are from."""
    return next(run.source for row in rows for run in row.outcomes if run.result)


def rivals_of(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that are neither the baseline nor controls, the best first."""
    return [row for row in rows if row.against and not row.is_control]


_Pairs = Mapping[int, tuple[np.ndarray, np.ndarray]]
"""Statistics of the test examples, [N, C, 2], of a loss and the baseline, by seed."""


def _compare_family(
    family: Mapping[str, _Pairs],
    looks: Sequence[Look],
    margin: float,
    *,
    metric: str,
    source: Source,
    others: int,
    borrows: bool,
) -> dict[str, tuple[Test, Verdict]]:
    """Test the losses of a family that have 3 seeds; `others` were dropped from it."""
    tested = {}
    crossed = _cross_at_looks(family, looks, borrows)
    # A look whose runs are gone has p-values of 1, as has a loss that was dropped.
    alone = [
        significance.sequential_p_value(
            [(x.p_value, x.p_equal(margin)) if x else (1.0, 1.0) for x in at.values()],
            list(at),
        )
        for at in crossed.values()
    ]
    columns = np.reshape([*alone, *[(1.0, 1.0)] * others], (-1, 2)).T
    adjusted = np.transpose([significance.holm(column) for column in columns]).tolist()
    names: dict[str, Any] = {"comparisons": len(adjusted), "level": LEVEL}
    for index, (loss, at) in enumerate(crossed.items()):
        seeds, last = list(at), list(at.values())[-1]
        if last is None:
            continue
        strict_level = significance.nominal_level(seeds, LEVEL / len(adjusted))
        difference = dataclasses.replace(
            last, level=significance.nominal_level(seeds, LEVEL)
        )
        p_value, p_equal = adjusted[index]
        randomisation = None
        if source != "run scores":
            randomisation = significance.approximate_randomisation(
                *_stack(family[loss], family[loss])
            )
        test = Test(
            crossed=difference,
            randomisation=randomisation,
            p_value=p_value,
            p_alone=float(alone[index][0]),
            p_equal=p_equal,
            seeds_needed=significance.seeds_needed(last, seeds, **names),
            detectable=significance.detectable(last, strict_level),
        )
        verdict = significance.verdict(
            difference, p_value, p_equal, margin=margin, metric=metric, **names
        )
        if verdict.outcome == "identical predictions" and source != "run":
            where = (
                "on all test examples" if randomisation is not None else "throughout"
            )
            verdict = Verdict("identical scores", f"identical scores {where}")
        tested[loss] = test, verdict
    return tested


def _cross_at_looks(
    family: Mapping[str, _Pairs], looks: Sequence[Look], borrows: bool
) -> dict[str, dict[int, CrossedDifference | None]]:
    """Return the differences by loss and number of seeds; None where runs are gone.

    Looks that had no more seeds of a loss than one before do not count.
    """
    schedules: dict[str, list[Sequence[int]]] = {}
    for loss, pairs in family.items():
        most = significance.MIN_SEEDS - 1
        for seeds in (*(look.get(loss, ()) for look in looks), list(pairs)):
            if len(seeds) > most:
                schedules.setdefault(loss, []).append(seeds)
                most = len(seeds)
    crossed: dict[str, dict[int, CrossedDifference | None]] = {k: {} for k in schedules}
    for j in range(max(map(len, schedules.values()), default=0)):
        at_look = {k: schedule[j] for k, schedule in schedules.items() if schedule[j:]}
        seen = {
            loss: significance.seeds_and_items(*_stack(family[loss], seeds))
            for loss, seeds in at_look.items()
            if set(seeds) <= set(family[loss])
        }
        if borrows:
            shrunk = significance.shrink_variances([*seen.values()])
            seen = dict(zip(seen, shrunk, strict=True))
        for loss, seeds in at_look.items():
            crossed[loss][len(seeds)] = seen.get(loss)
    return crossed


def _stack(pairs: _Pairs, seeds: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
    ours, baseline = zip(*(pairs[seed] for seed in seeds), strict=True)
    return np.stack(ours), np.stack(baseline)


def _compare(
    pairs: _Pairs,
    tested: tuple[Test, Verdict] | None,
    runs: Mapping[str, Sequence[Outcome]],
    metric: str,
) -> Against:
    """Compare a loss with the baseline; without a test there is no verdict.

    The sentence begins with the runs that learnt nothing.
    """
    differences = tuple(
        float(significance.score(ours) - significance.score(baseline))
        for ours, baseline in pairs.values()
    )
    numbers = ", ".join(significance.signed(100 * x) for x in differences)
    sentence = "no seed in common with the baseline"
    if pairs:
        sentence = (
            f"no verdict from {len(pairs)} seed{'s' * (len(pairs) > 1)}, which takes "
            f"{significance.MIN_SEEDS}: {numbers} {metric}"
        )
    test, verdict = tested or (None, Verdict("no verdict", sentence))
    counts, outcome, sentence = [], verdict.outcome, verdict.sentence
    for loss, outcomes in runs.items():
        finished = [run for run in outcomes if run.result]
        if untaught := sum(map(learnt_nothing, finished)):
            counts.append(f"{loss} in {untaught} of {len(finished)} runs")
            if untaught == len(finished):
                outcome = "nothing learnt"
    if counts:
        sentence = f"nothing learnt by {'; '.join(counts)}; {sentence}"
    verdict = Verdict(outcome, sentence)
    return Against(tuple(pairs), differences, test, verdict)


def learnt_nothing(outcome: Outcome) -> bool:
    """Return whether a finished run scores 0, or has one answer for all texts."""
    return bool(outcome.result) and (
        outcome.score == 0 or one_class(outcome.result["test"])
    )


def one_class(test: Mapping[str, Any]) -> bool:
    """Return whether texts of several classes were all classified alike."""
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
