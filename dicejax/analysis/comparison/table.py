"""The rows of a comparison for the terminal."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rich.table import Table

from dicejax.analysis.comparison.statistics import Row
from dicejax.metrics.scores import heading


def table(rows: Sequence[Row], title: str) -> Table:
    """Lay the rows out: mean and spread over seeds, in percent, and the verdict."""
    first = next(
        one.result["test"] for row in rows for one in row.outcomes if one.result
    )
    scores = [name for name, value in first.items() if isinstance(value, float)]
    seeds = max(len(row.outcomes) for row in rows)
    what = f"mean ± sd over {seeds} seeds" if seeds > 1 else "one seed"
    out = Table(title=title, caption=f"test split, {what}")
    out.add_column("loss")
    for name in scores:
        out.add_column(heading(name), justify="right")
    out.add_column(f"beside {rows[0].loss}")
    for row in rows:
        cells = [mean_and_spread(row.scores(name)) for name in scores]
        out.add_row(row.loss, *cells, _remark(row))
    return out


def mean_and_spread(values: Sequence[float]) -> str:
    """Write fractions as percent: mean and sample standard deviation.

    >>> mean_and_spread([0.5, 0.6])
    '55.00 ± 7.07'
    >>> mean_and_spread([0.5]), mean_and_spread([])
    ('50.00', '-')
    """
    if not values:
        return "-"
    percent = [100 * value for value in values]
    mean = f"{statistics.fmean(percent):.2f}"
    return f"{mean} ± {statistics.stdev(percent):.2f}" if len(percent) > 1 else mean


def _remark(row: Row) -> str:
    """The verdict, and the runs that do not stand behind it."""
    said = [] if row.against is None else [row.against.verdict.sentence]
    if row.summary.diverged:
        said.append(f"{row.summary.diverged} of {len(row.outcomes)} diverged")
    if row.missing:
        said.append(f"{row.missing} of {len(row.outcomes)} not finished")
    return "; ".join(said)
