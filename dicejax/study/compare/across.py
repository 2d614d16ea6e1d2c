"""Finished comparisons on several data sets in one statement on each loss."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from etils import epath
from scipy import stats

from dicejax.errors import InputError
from dicejax.io.files import write_whole
from dicejax.study.compare.record import FILE as RECORD
from dicejax.study.compare.record import read
from dicejax.study.compare.statistics import Row
from dicejax.study.compare.testing import LEVEL, Contrast, baseline_name
from dicejax.study.sentences import sentences
from dicejax.study.significance import MIN_SEEDS, holm
from dicejax.study.significance.across import across_sets, holds_on
from dicejax.training.identity import test_checksum

FILE = "several.json"


def combined(folders: Sequence[str], out: str | None = None) -> list[str]:
    """Combine comparisons by their `comparison.json`, and say what that tells.

    `out/several.json` has the same of each loss that is in two comparisons or more: its
    mean over such sets, with a p-value of all losses together; none where all of its
    predictions on a set are the baseline's. It is better and worse on at least so many
    sets, at 5 %. The rank is the mean among all losses, the improvement the share of
    pairs of runs in which it is ahead, ties half.

    Raises:
      InputError: a comparison cannot be read or has no interval, baselines differ, or
        no loss is in two comparisons.
    """
    if len(folders) < 2:
        message = "--across combines two or more comparisons; name their folders"
        raise InputError(message)
    comparisons = {folder: read(folder) for folder in folders}
    sets = [_tested(folder, each.rows) for folder, each in comparisons.items()]
    tests: dict[str | int, str] = {}  # folders by the checksum of their test set
    for folder, comparison in comparisons.items():
        checksum = test_checksum(comparison.rows[0].results[0])
        if checksum in tests:
            raise InputError(
                f"{folder}: has the test set of {tests[checksum]}: both are one data "
                "set; name one of them"
            )
        if checksum is not None:
            tests[checksum] = folder
    baselines = dict.fromkeys(each.rows[0].loss for each in comparisons.values())
    if len(baselines) > 1:
        raise InputError(
            f"comparisons with {' and '.join(baselines)} cannot be combined; report "
            "them with one --baseline"
        )
    every = dict.fromkeys(name for losses in sets for name in losses)
    names = [name for name in every if sum(name in losses for losses in sets) > 1]
    if not names:
        raise InputError(f"no loss is in two of {', '.join(folders)}")
    shared = [losses for losses in sets if all(name in losses for name in names)]
    means = [
        [losses[name].claim.mean if name in losses else math.nan for name in names]
        for losses in shared or sets
    ]
    ranks = stats.rankdata(-np.array(means), axis=1, nan_policy="omit")
    ranks = np.nanmean(ranks, axis=0).tolist()
    by_loss = {name: [x[name] for x in sets if name in x] for name in names}
    estimates = {
        name: across_sets([x.claim.mean for x in results], [_error(x) for x in results])
        for name, results in by_loss.items()
        if all(_error(x) > 0 for x in results)
    }
    p_holm = holm([estimate.p_value for estimate in estimates.values()]).tolist()
    adjusted = dict(zip(estimates, p_holm, strict=True))
    losses: dict[str, dict[str, Any]] = {}
    for (name, results), rank in zip(by_loss.items(), ranks, strict=True):
        better, worse = (
            holds_on([_one_sided(x, sign) for x in results]) for sign in (1, -1)
        )
        ahead = [np.mean(np.sign(x.differences) / 2 + 0.5) for x in results]
        losses[name] = {
            "loss": name,
            "estimate": estimates.get(name),
            "p_holm": adjusted.get(name),
            "better_on": better,
            "worse_on": worse,
            "rank": rank,
            "improvement": float(np.mean(ahead)),
        }
    if out is not None:
        content = {"comparisons": list(folders), "losses": losses}
        text = json.dumps(content, indent=2, default=dataclasses.asdict) + "\n"
        write_whole(epath.Path(out), FILE, text)
    texts, (baseline,) = sentences("across"), baselines
    statements = [
        f"  {x}: {texts.statement(loss, LEVEL)}" for x, loss in losses.items()
    ]
    heading = texts.heading(sets=len(folders), baseline=baseline_name(baseline))
    return [heading, *statements]


def _tested(folder: str, rows: Sequence[Row]) -> dict[str, Contrast]:
    """Return what the losses of a comparison are that have an interval."""
    pairs = ((row.loss, row.against) for row in rows if row.against)
    contrasts = {loss: against for loss, against in pairs if against.crossed}
    if not contrasts:
        raise InputError(
            f"{epath.Path(folder) / RECORD}: no loss has a confidence interval, which "
            f"--across combines; it takes {MIN_SEEDS} seeds without a failure"
        )
    return contrasts


def _error(contrast: Contrast) -> float:
    """Return the standard error of a difference, for new seeds and test examples."""
    return math.hypot(contrast.claim.seed_error, contrast.claim.sentence_error)


def _one_sided(contrast: Contrast, sign: int) -> float:
    """Return the p-value of a difference with a sign."""
    return (contrast.p_alone or 0.0) / 2 if sign * contrast.claim.mean > 0 else 1.0
