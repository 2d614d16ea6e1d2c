"""Test losses against a baseline or a control, over all looks at a comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dicejax.study import significance
from dicejax.study.compare.failures import Failures, compared_failures
from dicejax.study.compare.jobs import Source
from dicejax.study.significance import CrossedDifference, Verdict

MARGIN = 0.005
"""Differences within half a point do not matter in practice."""
LEVEL = 0.05
"""Chance of any false claim of a comparison, over all looks at it."""

Look = Mapping[str, Sequence[int]]
"""Seeds by loss, of one look at a comparison."""


@dataclasses.dataclass(frozen=True)
class Test:
    """Test of a loss vs. the baseline, with the interval of this look.

    P-values are those over all looks, adjusted for the number of losses, `p_alone` not
    adjusted, and `p_equal` for a difference within the margin. `randomisation` is that
    over test examples for these runs; None without examples. Fewest and most seeds are
    needed to show the true difference with power 0.8, at a confidence of 80 %; None
    where no number suffices, infinite above 1,000. These runs show the detectable
    difference with power 0.8.
    """

    crossed: CrossedDifference
    randomisation: float | None
    p_value: float
    p_alone: float
    p_equal: float
    seeds_needed: tuple[int | float | None, int | float | None]
    detectable: float


class Versus(NamedTuple):
    """A loss vs. a control, of which p-values are adjusted for all other losses.

    There is no interval where runs of either failed. It is decided alike if its
    decisions are moved as the control's are; None for a control whose decisions are
    not.
    """

    crossed: CrossedDifference | None
    verdict: Verdict
    decided_alike: bool | None = None


def baseline_name(loss: str) -> str:
    """Return the name of a baseline in a sentence.

    >>> baseline_name("ce"), baseline_name("focal")
    ('cross-entropy', 'focal')
    """
    return "cross-entropy" if loss == "ce" else loss


Pairs = Mapping[int, tuple[np.ndarray, np.ndarray]]
"""Statistics of the test examples, [N, C, 2], of a loss and the baseline, by seed."""


class _Tested(NamedTuple):
    """Difference with the interval of the last look, and p-values over all looks."""

    crossed: CrossedDifference
    seeds: list[int]  # at each look
    p_value: float
    p_alone: float
    p_equal: float
    comparisons: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tests:
    """Tests between the losses of a comparison, whose runs these are."""

    runs: Mapping[str, Mapping[int, np.ndarray]]
    failures: Mapping[str, Failures]
    looks: Sequence[Look]
    margin: float
    metric: str
    source: Source

    def pairs(
        self, loss: str, baseline: str
    ) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Return the statistics of both, by common seed."""
        ours, standard = self.runs[loss], self.runs[baseline]
        return {seed: (ours[seed], standard[seed]) for seed in ours if seed in standard}

    def against(
        self,
        baseline: str,
        family: Sequence[str],
        borrowing: Sequence[str],
        others: int,
    ) -> dict[str, tuple[Test, Verdict]]:
        """Test a family vs. the baseline; `others` were dropped from it."""
        results = {}
        verdicts = self.verdicts(baseline, family, borrowing, others)
        for loss, (result, verdict) in verdicts.items():
            crossed, seeds, *p_values, comparisons = result
            pairs, randomisation = self.pairs(loss, baseline), None
            if self.source != "run scores":
                stacked = _stack(pairs, pairs)
                randomisation = significance.approximate_randomisation(*stacked)
            needed = significance.seeds_range(
                crossed, seeds, comparisons=comparisons, level=LEVEL
            )
            level = significance.nominal_level(seeds, LEVEL / comparisons)
            least = significance.detectable(crossed, level)
            test = Test(crossed, randomisation, *p_values, needed, least)
            results[loss] = test, verdict
        return results

    def verdicts(
        self,
        baseline: str,
        family: Sequence[str],
        borrowing: Collection[str],
        others: int = 0,
    ) -> dict[str, tuple[_Tested, Verdict]]:
        """Return the tests of a family vs. a baseline, and verdicts with failed runs.

        Losses that borrow share variances; `others` were dropped from the family.
        """
        tested = self._test(baseline, family, borrowing, others)
        return {
            loss: (result, self._with_failures(self._verdict(result), loss, baseline))
            for loss, result in tested.items()
        }

    def _test(
        self,
        baseline: str,
        family: Sequence[str],
        borrowing: Collection[str],
        others: int,
    ) -> dict[str, _Tested]:
        """Test the losses of a family that have 3 seeds in common with a baseline."""
        pairs = {loss: self.pairs(loss, baseline) for loss in family}
        # Controls have looks too; the baseline's are those of its rivals.
        looks: list[Look] = []
        for look in self.looks:
            both = {k: set(look.get(baseline, v)) for k, v in look.items()}
            looks.append({k: [x for x in v if x in both[k]] for k, v in look.items()})
        crossed = _cross_at_looks(pairs, looks, borrowing)
        # A look whose runs are gone has p-values of 1, as has a loss that was dropped.
        alone = []
        for at in crossed.values():
            p_values = [
                (x.p_value, x.p_equal(self.margin)) if x else (1.0, 1.0)
                for x in at.values()
            ]
            alone.append(significance.sequential_p_value(p_values, list(at)))
        columns = np.reshape([*alone, *[(1.0, 1.0)] * others], (-1, 2)).T
        adjusted = np.transpose([significance.holm(column) for column in columns])
        tested = {}
        for index, (loss, at) in enumerate(crossed.items()):
            *_, last = at.values()
            if last is not None:
                level = significance.nominal_level(list(at), LEVEL)
                last = dataclasses.replace(last, level=level)
                p_value, p_equal = adjusted[index].tolist()
                p_values = p_value, float(alone[index][0]), p_equal
                tested[loss] = _Tested(last, list(at), *p_values, len(adjusted))
        return tested

    def _verdict(self, result: _Tested) -> Verdict:
        verdict = significance.verdict(
            result.crossed,
            result.p_value,
            result.p_equal,
            margin=self.margin,
            metric=self.metric,
            comparisons=result.comparisons,
            level=LEVEL,
        )
        if verdict.outcome == "identical predictions" and self.source != "run":
            alone = self.source == "run scores"
            where = "throughout" if alone else "on all test examples"
            verdict = Verdict("identical scores", f"identical scores {where}")
        return verdict

    def _with_failures(self, verdict: Verdict, loss: str, baseline: str) -> Verdict:
        """Return a verdict that counts failed runs.

        Where some of either failed the comparison is unstable: a difference of means
        would be that of the failures, so that medians and counts stand instead of it.
        """
        ours, theirs = self.failures[loss], self.failures[baseline]
        name = baseline_name(baseline)
        if not (ours.is_unstable or theirs.is_unstable):
            if verdict.outcome != "better":
                return verdict
            return Verdict("better", f"{verdict.sentence}; {ours.sentence}")
        counts = [ours.sentence] if ours.is_unstable or not theirs.seeds else []
        if theirs.seeds:
            counts.append(f"{name} {theirs.sentence}")
        p_value = compared_failures(ours, theirs)
        medians = [
            f"{who}{100 * failures.median:.1f}"
            for who, failures in (("", ours), (f"{name} ", theirs))
            if failures.median is not None
        ]
        return Verdict(
            "unstable",
            f"unstable: {'; '.join(counts)} (Clopper-Pearson, one-sided 95%; Fisher's "
            f"exact test of both: p = {p_value:.2g}); median {self.metric} of the "
            f"others {', '.join(medians)}",
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
            loss: significance.seeds_and_items(*_stack(family[loss], seeds))
            for loss, seeds in at_look.items()
            if set(seeds) <= set(family[loss])
        }
        lenders = [loss for loss in seen if loss in borrowing]
        shrunk = significance.shrink_variances([seen[loss] for loss in lenders])
        seen |= dict(zip(lenders, shrunk, strict=True))
        for loss, seeds in at_look.items():
            crossed[loss][len(seeds)] = seen.get(loss)
    return crossed


def _stack(pairs: Pairs, seeds: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
    ours, baseline = zip(*(pairs[seed] for seed in seeds), strict=True)
    return np.stack(ours), np.stack(baseline)
