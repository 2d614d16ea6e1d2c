"""Test losses against a baseline or a control, over all looks at a comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dicejax.metrics.scores import primary_name
from dicejax.study import significance
from dicejax.study.compare.failures import Failures, compared_failures, failures_of
from dicejax.study.compare.jobs import ScoredRun
from dicejax.study.sentences import sentences
from dicejax.study.significance import CrossedDifference, Verdict

MARGIN = 0.005
"""Differences within half a point do not matter in practice."""
LEVEL = 0.05
"""Chance of any false claim of a comparison, over all looks at it."""

Look = Mapping[str, Sequence[int]]
"""Seeds by loss, of one look at a comparison."""


NO_CLAIM = ("unstable", "nothing learnt", "no verdict")
"""Outcomes without an interval, which would be that of what went wrong."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contrast:
    """A loss vs. the baseline or a control, by the primary metric and common seed.

    P-values are those over all looks; they are None where nothing was tested, as of
    fewer than 3 seeds.

    Attributes:
      seeds: seeds that both have.
      differences: difference of each; a diverged run scores 0.
      crossed: difference over seeds and test examples, with the interval of this look;
        None where no claim is made.
      level: an interval of this look has at least the coverage 1 - level.
      p_value: adjusted for the number of losses.
      p_alone: not adjusted.
      p_equal: for a difference within the margin, adjusted.
      randomisation: over test examples for these runs; None without examples.
      seeds_needed: fewest and most seeds that show the true difference with power 0.8,
        at a confidence of 80 %; None where no number suffices, infinite above 1,000.
      detectable: difference that these runs show with power 0.8.
      decided_alike: whether decisions are moved as the control's are; None for a
        control whose decisions are not moved.
    """

    seeds: tuple[int, ...]
    differences: tuple[float, ...]
    verdict: Verdict
    crossed: CrossedDifference | None = None
    level: float | None = None
    p_value: float | None = None
    p_alone: float | None = None
    p_equal: float | None = None
    randomisation: float | None = None
    seeds_needed: tuple[int | float | None, int | float | None] | None = None
    detectable: float | None = None
    decided_alike: bool | None = None

    @property
    def mean(self) -> float | None:
        """Mean difference; None without a common seed."""
        return float(np.mean(self.differences)) if self.differences else None

    @property
    def claim(self) -> CrossedDifference:
        """`crossed` where a claim is made."""
        assert self.crossed is not None
        return self.crossed

    @property
    def is_tested(self) -> bool:
        """Whether there is a test, though it may make no claim."""
        return self.p_value is not None


def baseline_name(loss: str) -> str:
    """Return the name of a baseline in a sentence.

    >>> baseline_name("ce"), baseline_name("focal")
    ('cross-entropy', 'focal')
    """
    return "cross-entropy" if loss == "ce" else loss


# Names of controls in a sentence.
NAMES = {
    "wce": "class weights (wce)",
    "majority": "the most frequent class (majority)",
    "tfidf": "a logistic regression on words (tfidf)",
    "frozen": "a logistic regression on the encoder as it is (frozen)",
}


Pairs = Mapping[int, tuple[np.ndarray, np.ndarray]]
"""Statistics of the test examples, [N, C, 2], of a loss and the baseline, by seed."""


def pairs_of(
    by_loss: Mapping[str, Sequence[ScoredRun]], loss: str, baseline: str
) -> Pairs:
    """Return the statistics of a loss and the baseline, by the seeds that both have."""
    # A diverged run scores 0.
    nothing = np.asarray(finished_run(by_loss).item_statistics) * [0, 1]

    def by_seed(runs: Sequence[ScoredRun]) -> dict[int, np.ndarray]:
        ended = [run for run in runs if run.status != "missing"]
        items = ((run.seed, run.item_statistics) for run in ended)
        return {seed: nothing if x is None else x for seed, x in items}

    ours, standard = by_seed(by_loss[loss]), by_seed(by_loss[baseline])
    common = sorted(ours.keys() & standard.keys())
    return {seed: (ours[seed], standard[seed]) for seed in common}


def finished_run(by_loss: Mapping[str, Sequence[ScoredRun]]) -> ScoredRun:
    """Return the first finished run of the first loss that has one."""
    return next(run for runs in by_loss.values() for run in runs if run.result)


def contrasts(
    by_loss: Mapping[str, Sequence[ScoredRun]],
    baseline: str,
    family: Sequence[str],
    borrowing: Collection[str],
    *,
    looks: Sequence[Look] = (),
    margin: float = MARGIN,
    dropped: int = 0,
    plans: bool = False,
) -> dict[str, Contrast]:
    """Test the losses of a family that have 3 seeds in common with a baseline.

    Args:
      by_loss: runs of a comparison by loss.
      baseline: name of the baseline or of a control.
      family: losses whose p-values are adjusted together.
      borrowing: losses that share variances.
      looks: seeds by loss at earlier looks.
      margin: differences within it do not matter in practice.
      dropped: number of losses that an earlier look had in the family.
      plans: whether to say what these and further seeds show.
    """
    first = finished_run(by_loss)
    pairs = {loss: pairs_of(by_loss, loss, baseline) for loss in family}
    # Controls have looks too; the baseline's are those of its rivals.
    common: list[Look] = []
    for look in looks:
        both = {k: set(look.get(baseline, v)) for k, v in look.items()}
        common.append({k: [x for x in v if x in both[k]] for k, v in look.items()})
    crossed = _cross_at_looks(pairs, common, borrowing)
    # A look whose runs are gone has p-values of 1, as has a loss that was dropped.
    alone: dict[str, np.ndarray] = {}
    for loss, at in crossed.items():
        p_values = [
            (x.p_value, x.p_equal(margin)) if x else (1.0, 1.0) for x in at.values()
        ]
        alone[loss] = significance.sequential_p_value(p_values, list(at))
    p_value, p_equal = (
        significance.holm([*(x[kind] for x in alone.values()), *[1.0] * dropped])
        for kind in (0, 1)
    )
    made = {}
    for index, (loss, at) in enumerate(crossed.items()):
        *_, last = at.values()
        if last is None:
            continue
        level = significance.nominal_level(list(at), LEVEL)
        last = dataclasses.replace(last, level=level)
        values = float(p_value[index]), float(p_equal[index])
        verdict = significance.verdict(
            last,
            *values,
            margin=margin,
            metric=primary_name(first.result),
            comparisons=len(p_value),
            level=LEVEL,
        )
        if verdict.outcome == "identical predictions" and first.source != "run":
            is_alone = first.source == "run scores"
            where = "throughout" if is_alone else "on all test examples"
            verdict = Verdict("identical scores", f"identical scores {where}")
        verdict = _with_failures(verdict, by_loss, loss, baseline)
        plan: dict[str, Any] = {}
        if plans:
            family_level = significance.nominal_level(list(at), LEVEL / len(p_value))
            plan["detectable"] = significance.detectable(last, family_level)
            plan["seeds_needed"] = significance.seeds_range(
                last, list(at), comparisons=len(p_value), level=LEVEL
            )
            if first.source != "run scores":
                stacked = stack(pairs[loss], pairs[loss])
                plan["randomisation"] = significance.approximate_randomisation(*stacked)
        made[loss] = Contrast(
            seeds=tuple(pairs[loss]),
            differences=differences_of(pairs[loss]),
            verdict=verdict,
            crossed=None if verdict.outcome in NO_CLAIM else last,
            level=level,
            p_value=values[0],
            p_alone=float(alone[loss][0]),
            p_equal=values[1],
            **plan,
        )
    return made


def _with_failures(
    verdict: Verdict,
    by_loss: Mapping[str, Sequence[ScoredRun]],
    loss: str,
    baseline: str,
) -> Verdict:
    """Return a verdict that counts failed runs.

    Where all of either learnt nothing there is nothing to compare. Where some of either
    failed the comparison is unstable: a difference of means would be that of the
    failures, so that medians and counts stand instead of it.
    """
    failures = {name: failures_of(by_loss[name]) for name in (loss, baseline)}
    if (untaught := nothing_learnt(failures)) is not None:
        return untaught
    ours, theirs = failures.values()
    texts = sentences("verdicts")
    if ours.is_unstable or theirs.is_unstable:
        sentence = texts.unstable(
            ours=ours,
            theirs=theirs,
            baseline=baseline_name(baseline),
            p=compared_failures(ours, theirs),
            metric=primary_name(finished_run(by_loss).result),
        )
        return Verdict("unstable", sentence)
    if verdict.outcome != "better" or not ours.are_seeded:
        return verdict
    return Verdict("better", f"{verdict.sentence}; {texts.failures(ours)}")


def nothing_learnt(failures: Mapping[str, Failures]) -> Verdict | None:
    """Return the verdict where all runs of one of the losses learnt nothing."""
    untaught = {name: x for name, x in failures.items() if x.has_learnt_nothing}
    if not untaught:
        return None
    text = sentences("verdicts").nothing_learnt(failures=untaught)
    return Verdict("nothing learnt", text)


def differences_of(pairs: Pairs) -> tuple[float, ...]:
    """Return the difference of the scores of each pair."""
    return tuple(
        float(significance.score(ours) - significance.score(standard))
        for ours, standard in pairs.values()
    )


def _cross_at_looks(
    family: Mapping[str, Pairs], looks: Sequence[Look], borrowing: Collection[str]
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
            loss: significance.seeds_and_items(*stack(family[loss], seeds))
            for loss, seeds in at_look.items()
            if set(seeds) <= set(family[loss])
        }
        lenders = [loss for loss in seen if loss in borrowing]
        shrunk = significance.shrink_variances([seen[loss] for loss in lenders])
        seen |= dict(zip(lenders, shrunk, strict=True))
        for loss, seeds in at_look.items():
            crossed[loss][len(seeds)] = seen.get(loss)
    return crossed


def stack(pairs: Pairs, seeds: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the statistics of a loss and the baseline for some seeds."""
    ours, baseline = zip(*(pairs[seed] for seed in seeds), strict=True)
    return np.stack(ours), np.stack(baseline)
