"""Rows of a comparison, and tables of RESULTS.md, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from dicejax.study.compare.statistics import Row
from dicejax.study.compare.table import mean_and_spread
from dicejax.study.significance import CrossedDifference, signed


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


def comparison(rows: Sequence[Row]) -> str:
    """Return the table of a comparison."""
    return table(
        "loss | n | test F1 | gain | 95% CI | p (Holm) | detectable | verdict",
        [_cells_of(row) for row in rows],
    )


def _cells_of(row: Row) -> list[str]:
    scores = mean_and_spread(row.scores("f1"))
    first = [f"`{row.loss}`", str(row.summary.n), scores]
    if row.against is None:
        return [*first, "", "", "", "", "baseline"]
    against, test = row.against, row.against.test
    mean, outcome = signed(100 * against.mean), against.verdict.outcome
    if test is None:  # too few seeds
        return [*first, mean, "–", "–", "–", outcome]
    return [
        *first,
        mean,
        interval(test.crossed),
        p_value(test.p_value),
        f"{100 * test.detectable:.2f}",
        outcome,
    ]


def with_interval(difference: CrossedDifference) -> str:
    """Return a difference with its interval, in points."""
    return estimate(difference.mean, difference.low, difference.high)


def estimate(mean: float, low: float, high: float) -> str:
    """Return a mean with its interval, fractions as points."""
    return f"{signed(100 * mean)} ({_range(low, high)})"


def interval(difference: CrossedDifference) -> str:
    """Return the interval of a difference, in points."""
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
