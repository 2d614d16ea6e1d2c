"""Several finished comparisons in one statement on each loss."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from etils import epath
from scipy import stats

from dicejax.errors import Flaw, InputError
from dicejax.io.files import write_whole
from dicejax.io.json_text import field, read, value_of
from dicejax.study.compare.testing import LEVEL, baseline_name
from dicejax.study.significance import MIN_SEEDS, holm, signed
from dicejax.study.significance.several import AcrossSets, across_sets, holds_on

FILE = "several.json"


@dataclasses.dataclass(frozen=True)
class OfLoss:
    """A loss over several data sets, better and worse on at least so many, at 5 %.

    There is no estimate where all predictions on a set are the baseline's. The rank is
    the mean among all losses, the improvement the share of pairs of runs in which it is
    ahead, ties half.
    """

    loss: str
    estimate: AcrossSets | None
    p_holm: float | None
    better_on: int
    worse_on: int
    rank: float
    improvement: float

    @property
    def sentence(self) -> str:
        """Statement in words."""
        rank = f"mean rank {self.rank:.1f}, ahead in {100 * self.improvement:.0f}%"
        x = self.estimate
        if x is None:
            return f"no estimate; {rank} of the pairs of runs"
        mean, low, high = (signed(100 * end) for end in (x.mean, x.low, x.high))
        outcome = "inconclusive"
        if self.p_holm <= LEVEL:
            outcome = "better" if x.mean > 0 else "worse"
        return (
            f"{outcome}: {mean} points (95% CI {low} to {high}) over {x.sets} data "
            f"sets, SD between sets {100 * x.between:.2f}; better on at least "
            f"{self.better_on}, worse on at least {self.worse_on}; {rank} of the pairs "
            "of runs"
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries."""
        content = dataclasses.asdict(self)
        return {"found" if k == "estimate" else k: v for k, v in content.items()}


class _OnSet(NamedTuple):
    mean: float
    error: float
    p_value: float
    differences: list[float]


def several(folders: Sequence[str], out: str | None = None) -> tuple[str, list[OfLoss]]:
    """Combine comparisons by their `comparison.json`, and write `out/several.json`.

    Returned are the baseline's name and the losses that are in two comparisons or more.

    Raises:
      InputError: a comparison cannot be read or has no interval, baselines differ, or
        no loss is in two comparisons.
    """
    if len(folders) < 2:
        message = "--across combines two or more comparisons; name their folders"
        raise InputError(message)
    contents = [_content(folder) for folder in folders]
    tests: dict[str, str] = {}  # folders by the checksum of their test set
    for folder, (_, _, checksum) in zip(folders, contents, strict=True):
        if checksum in tests:
            raise InputError(
                f"{folder}: has the test set of {tests[checksum]}: both are one data "
                "set; name one of them"
            )
        if checksum is not None:
            tests[checksum] = folder
    baselines = dict.fromkeys(baseline for baseline, _, _ in contents)
    if len(baselines) > 1:
        raise InputError(
            f"comparisons with {' and '.join(baselines)} cannot be combined; report "
            "them with one --baseline"
        )
    sets = [losses for _, losses, _ in contents]
    names = dict.fromkeys(name for losses in sets for name in losses)
    names = [name for name in names if sum(name in losses for losses in sets) > 1]
    if not names:
        raise InputError(f"no loss is in two of {', '.join(folders)}")
    shared = [losses for losses in sets if all(name in losses for name in names)]
    means = [
        [losses[name].mean if name in losses else math.nan for name in names]
        for losses in shared or sets
    ]
    ranks = stats.rankdata(-np.array(means), axis=1, nan_policy="omit")
    ranks = np.nanmean(ranks, axis=0).tolist()
    by_loss = {name: [x[name] for x in sets if name in x] for name in names}
    estimates = {
        name: across_sets([x.mean for x in results], [x.error for x in results])
        for name, results in by_loss.items()
        if all(x.error > 0 for x in results)
    }
    p_holm = holm([estimate.p_value for estimate in estimates.values()]).tolist()
    adjusted = dict(zip(estimates, p_holm, strict=True))
    combined = []
    for (name, results), rank in zip(by_loss.items(), ranks, strict=True):
        better, worse = (
            holds_on([x.p_value / 2 if sign * x.mean > 0 else 1.0 for x in results])
            for sign in (1, -1)
        )
        ahead = [np.mean(np.sign(x.differences) / 2 + 0.5) for x in results]
        values = estimates.get(name), adjusted.get(name), better, worse, rank
        combined.append(OfLoss(name, *values, float(np.mean(ahead))))
    if out is not None:
        content = {
            "comparisons": list(folders),
            "losses": {result.loss: result.to_json() for result in combined},
        }
        write_whole(epath.Path(out), FILE, json.dumps(content, indent=2) + "\n")
    return next(iter(baselines)), combined


def lines(baseline: str, results: Sequence[OfLoss], sets: int) -> list[str]:
    """Return the statements as lines of text."""
    head = f"{sets} data sets as a sample of such sets, vs. {baseline_name(baseline)}"
    lines = [f"  {result.loss}: {result.sentence}" for result in results]
    return [f"{head} (for one look at each):", *lines]


def _content(folder: str) -> tuple[str, dict[str, _OnSet], str | None]:
    """Return the baseline's name, comparisons with an interval, and test's checksum."""
    file = epath.Path(folder) / "comparison.json"
    if not file.exists():
        raise InputError(f"{file}: missing; run dicejax report on the runs first")
    losses = {}
    try:
        content = read(file)
        for name, row in field(content, "losses", dict).items():
            against = value_of(row, dict).get("against_baseline")
            if against is None or value_of(against, dict).get("crossed") is None:
                continue
            crossed = field(against, "crossed", dict)
            p_alone = field(against, "p_alone", float)
            keys = "mean", "seed_error", "sentence_error"
            mean, *errors = (field(crossed, key, float) for key in keys)
            apart = [value_of(x, float) for x in field(against, "differences", list)]
            losses[name] = _OnSet(mean, math.hypot(*errors), p_alone, apart)
        baseline = field(content, "baseline", str)
        checksums = field(content, "checksums", dict, {})
        test = field(checksums, "test", str, "") or None
    except Flaw as flaw:
        raise flaw.at(file, flaw.line) from None
    if not losses:
        raise InputError(
            f"{file}: no loss has a confidence interval, which --across combines; "
            f"compare at least {MIN_SEEDS} seeds"
        )
    return baseline, losses, test
