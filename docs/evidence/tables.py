"""Rows of a comparison, and tables of RESULTS.md, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dicejax.study.compare.failures import failures_of
from dicejax.study.compare.jobs import ScoredRun
from dicejax.study.compare.statistics import Row
from dicejax.study.compare.table import mean_and_spread
from dicejax.study.significance import (
    CrossedDifference,
    seeds_and_items,
    signed,
)
from dicejax.study.significance import (
    failure_limit as failure_limit,
)


def row_of(rows: Sequence[Row], loss: str) -> Row:
    """Return the statistics of a loss."""
    return next(row for row in rows if row.loss == loss)


def has_learnt(row: Row) -> bool:
    """Return whether a loss, and the baseline, have learnt anything."""
    return row.against.verdict.outcome != "nothing learnt"


def is_trained(row: Row) -> bool:
    """Return whether a row is of runs of its own, not of moved decisions."""
    return " + " not in row.loss


def gain(rows: Sequence[Row], loss: str) -> str:
    """Return the gain of a loss over the baseline, with its interval."""
    return with_interval(row_of(rows, loss).against.crossed)


def difference(rows: Sequence[Row], ours: str, other: str) -> str:
    """Return the difference of two losses of a comparison, as `between` does."""
    return between(row_of(rows, ours), row_of(rows, other))


def between(ours: Row, other: Row) -> str:
    """Return the difference of two losses, not corrected, with 95% CI.

    It is over the seeds that both have.
    """
    by_seed = [
        {run.seed: run.example_statistics for run in row.runs} for row in (ours, other)
    ]
    seeds = sorted(set.intersection(*map(set, by_seed)))
    pair = [np.stack([runs[seed] for seed in seeds]) for runs in by_seed]
    return with_interval(seeds_and_items(*pair))


def failures(row: Row) -> tuple[int, int]:
    """Return the number of runs that failed, and of all runs that have ended."""
    failed = failures_of(row.runs)
    return len(failed.seeds), failed.runs


def failed_of(outcomes: Sequence[ScoredRun]) -> str:
    """Return the number of failed runs, with the limit of their share."""
    failed = failures_of(outcomes)
    return f"{len(failed.seeds)} of {failed.runs}, ≤ {100 * failed.limit:.0f}%"


def comparison(
    rows: Sequence[Row],
    by_document: Sequence[Row] = (),
    over_part: Mapping[str, float] | None = None,
) -> str:
    """Return the table of a comparison.

    Args:
      rows: statistics of each loss, with sentences as items.
      by_document: the same with documents as items; without them there is no column.
      over_part: p-values adjusted over all primary comparisons of the part, by loss.
    """
    heading = "loss | n | test F1 | gain | CI over looks"
    heading += " | by document" * bool(by_document)
    heading += " | p (Holm) | detectable | failed | verdict"
    documents = {row.loss: row for row in by_document}
    return table(heading, [_cells_of(row, documents, over_part or {}) for row in rows])


def _cells_of(
    row: Row, documents: Mapping[str, Row], over_part: Mapping[str, float]
) -> list[str]:
    scores = mean_and_spread(row.scores("f1"))
    first = [f"`{row.loss}`", str(len(row.finished)), scores]
    failed_runs = failed_of(row.runs)
    beside = [""] if documents else []
    if row.against is None:
        return [*first, "", "", *beside, "", "", failed_runs, "baseline"]
    against = row.against
    mean, outcome = signed(100 * against.mean), against.verdict.outcome
    if against.crossed is None:  # too few seeds, or runs that failed
        beside = ["–"] if documents else []
        mean = "–" if outcome == "unstable" else mean
        return [*first, mean, "–", *beside, "–", "–", failed_runs, outcome]
    if documents:
        beside = [interval(documents[row.loss].against.crossed)]
    return [
        *first,
        mean,
        interval(against.crossed),
        *beside,
        p_value(over_part.get(row.loss, against.p_value)),
        f"{100 * against.detectable:.2f}",
        failed_runs,
        outcome_of(row, over_part),
    ]


def outcome_of(row: Row, over_part: Mapping[str, float]) -> str:
    """Return the verdict on a loss; a claim has to hold over the part."""
    outcome = row.against.verdict.outcome
    claims = outcome in ("better", "worse")
    return "inconclusive" if claims and over_part.get(row.loss, 0) > 0.05 else outcome


def marked(row: Row, over_part: Mapping[str, float] | None = None) -> str:
    """Return a gain with half of its interval: bold if decided, italic if equal."""
    if not has_learnt(row):
        return "–"
    outcome, crossed = outcome_of(row, over_part or {}), row.against.crossed
    if crossed is None:
        return "†"
    gain = f"{signed(100 * crossed.mean, 1)} ± {50 * (crossed.high - crossed.low):.1f}"
    mark = {"better": "**", "worse": "**", "practically equal": "*"}.get(outcome, "")
    return f"{mark}{gain}{mark}"


def with_interval(difference: CrossedDifference | None) -> str:
    """Return a difference with its interval, in points; "–" where none is claimed."""
    if difference is None:
        return "–"
    return estimate(difference.mean, difference.low, difference.high)


def estimate(mean: float, low: float, high: float) -> str:
    """Return a mean with its interval, fractions as points."""
    return f"{signed(100 * mean)} ({_range(low, high)})"


def interval(difference: CrossedDifference | None) -> str:
    """Return the interval of a difference, in points; "–" where none is claimed."""
    if difference is None:
        return "–"
    return _range(difference.low, difference.high)


def _range(low: float, high: float) -> str:
    return f"{signed(100 * low)} to {signed(100 * high)}"


def p_value(p: float) -> str:
    """Return a p-value with three decimals."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def table(heading: str, rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, its first column aligned to the left."""
    lines = [f"| {heading} |", "| --- " + "| ---: " * heading.count("|") + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
