"""Several finished comparisons in one statement on each loss."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from etils import epath
from scipy import stats

from dicejax.errors import Flaw, InputError
from dicejax.io.files import write_whole
from dicejax.io.json_text import field, read, value_of
from dicejax.study.compare.statistics import LEVEL
from dicejax.study.compare.table import baseline_name
from dicejax.study.significance import holm, signed
from dicejax.study.significance.several import AcrossSets, across_sets, holds_on

FILE = "several.json"


@dataclasses.dataclass(frozen=True)
class OfLoss:
    """A loss over several data sets.

    Attributes:
      loss: name.
      found: mean difference to the baseline over sets; None with fewer than two, or
        where all predictions are the baseline's.
      p_holm: p-value of `found`, adjusted for the number of losses.
      better_on: number of sets on which it is better, at least, at 5 %.
      worse_on: number of sets on which it is worse, at least, at 5 %.
      rank: mean rank over the sets among all losses, 1 the best.
      improvement: share of pairs of runs in which it is ahead, ties half, mean over
        sets.
    """

    loss: str
    found: AcrossSets | None
    p_holm: float | None
    better_on: int
    worse_on: int
    rank: float
    improvement: float

    @property
    def sentence(self) -> str:
        """Statement in words."""
        rank = f"mean rank {self.rank:.1f}, ahead in {100 * self.improvement:.0f}%"
        if self.found is None:
            return f"no estimate; {rank} of the pairs of runs"
        one = self.found
        mean, low, high = (signed(100 * x) for x in (one.mean, one.low, one.high))
        outcome = "inconclusive"
        if self.p_holm <= LEVEL:
            outcome = "better" if one.mean > 0 else "worse"
        return (
            f"{outcome}: {mean} points (95% CI {low} to {high}) over {one.sets} data "
            f"sets, SD between sets {100 * one.between:.2f}; better on at least "
            f"{self.better_on}, worse on at least {self.worse_on}; {rank} of the pairs "
            "of runs"
        )


def several(folders: Sequence[str], out: str | None = None) -> tuple[str, list[OfLoss]]:
    """Combine comparisons, and write `several.json`.

    Args:
      folders: of finished comparisons, each with a `comparison.json`.
      out: output directory; nothing is written by default.

    Returns:
      Name of the baseline, and the losses that are in two comparisons or more.

    Raises:
      InputError: there are fewer than two, one cannot be read, baselines differ, or no
        loss is in two of them.
    """
    if len(folders) < 2:
        raise InputError(
            "--across combines two or more comparisons; name their folders"
        )
    contents = [_content(folder) for folder in folders]
    baselines = dict.fromkeys(baseline for baseline, _ in contents)
    if len(baselines) > 1:
        raise InputError(
            f"comparisons with {' and '.join(baselines)} cannot be combined; report "
            "them with one --baseline"
        )
    sets = [losses for _, losses in contents]
    names = dict.fromkeys(name for losses in sets for name in losses)
    names = [name for name in names if sum(name in one for one in sets) > 1]
    if not names:
        raise InputError(f"no loss is in two of {', '.join(folders)}")
    shared = [one for one in sets if all(name in one for name in names)] or sets
    ranks = _ranks(shared, names)
    made = [_of_loss(name, sets, ranks.get(name, math.nan)) for name in names]
    tested = [one for one in made if one.found is not None]
    adjusted = dict(
        zip(
            (one.loss for one in tested),
            holm([one.found.p_value for one in tested]).tolist(),
            strict=True,
        )
    )
    made = [dataclasses.replace(o, p_holm=adjusted.get(o.loss)) for o in made]
    if out is not None:
        content = {
            "comparisons": list(folders),
            "losses": {one.loss: dataclasses.asdict(one) for one in made},
        }
        write_whole(epath.Path(out), FILE, json.dumps(content, indent=2) + "\n")
    return next(iter(baselines)), made


def lines(baseline: str, made: Sequence[OfLoss], sets: int) -> list[str]:
    """Return the statements as lines of text."""
    head = (
        f"{sets} data sets as a sample of such sets, vs. "
        f"{baseline_name(baseline)} (for one look at each):"
    )
    return [head, *(f"  {one.loss}: {one.sentence}" for one in made)]


def _content(folder: str) -> tuple[str, dict[str, Any]]:
    """Return the baseline's name and the comparisons with it that have an interval."""
    file = epath.Path(folder) / "comparison.json"
    if not file.exists():
        raise InputError(f"{file}: missing; run dicejax report on the runs first")
    try:
        content = read(file)
        found = {}
        for name, row in field(content, "losses", dict).items():
            against = value_of(row, dict).get("against_baseline")
            crossed = None if against is None else field(against, "crossed", dict, {})
            if not crossed:
                continue
            p_alone = field(against, "p_alone", float)
            mean, seed, sentence = (
                field(crossed, key, float)
                for key in ("mean", "seed_error", "sentence_error")
            )
            differences = [
                value_of(one, float) for one in field(against, "differences", list)
            ]
            error = math.hypot(seed, sentence)
            found[name] = (mean, error, p_alone, differences)
        return field(content, "baseline", str), found
    except Flaw as flaw:
        raise flaw.at(file, flaw.line) from None


def _ranks(sets: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, float]:
    """Return mean ranks over the sets, by the mean difference."""
    table = [
        [one[name][0] if name in one else math.nan for name in names] for one in sets
    ]
    ranks = stats.rankdata(-np.array(table), axis=1, nan_policy="omit")
    return dict(zip(names, np.nanmean(ranks, axis=0).tolist(), strict=True))


def _of_loss(name: str, sets: Sequence[dict[str, Any]], rank: float) -> OfLoss:
    rows = [one[name] for one in sets if name in one]
    means, errors = np.array([row[0] for row in rows]), np.array([r[1] for r in rows])
    found = across_sets(means, errors) if (errors > 0).all() else None
    sided = {
        sign: [p / 2 if sign * mean > 0 else 1.0 for mean, _, p, _ in rows]
        for sign in (1, -1)
    }
    ahead = [np.mean([(d > 0) + (d == 0) / 2 for d in row[3]]) for row in rows]
    return OfLoss(
        loss=name,
        found=found,
        p_holm=None,
        better_on=holds_on(sided[1]),
        worse_on=holds_on(sided[-1]),
        rank=rank,
        improvement=float(np.mean(ahead)),
    )
