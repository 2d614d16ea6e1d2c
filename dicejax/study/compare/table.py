"""Tables and lines of a comparison for the terminal."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from dicejax.io.terminal import literal
from dicejax.metrics.scores import heading
from dicejax.study.compare.statistics import Row, results_of

GAP = 3
"""Blanks between two columns."""
LOSS_WIDTH = 34
"""Longer names of losses are folded where the table is too wide."""


def table(rows: Sequence[Row], title: str, width: int | None = None) -> Table:
    """Return a table of means and spreads over seeds, in percent.

    Args:
      rows: rows of the losses.
      title: title of the table.
      width: width in characters; scores that do not fit are left out, the primary
        metric last, and named below. None shows all.
    """
    first = results_of(rows)[0]
    test, primary_metric = first["test"], first["primary_metric"]
    names = [name for name, value in test.items() if isinstance(value, float)]
    cells = {
        name: [mean_and_spread(row.scores(name)) for row in rows] for name in names
    }
    losses = max(len(row.loss) for row in rows)
    if width is not None:
        columns = {name: max(map(len, [heading(name), *cells[name]])) for name in names}
        losses = min(losses, LOSS_WIDTH)
        names = _names_that_fit(columns, primary_metric, width - losses - 4)
    left = [heading(name) for name in cells if name not in names]

    seeds = max(len(row.outcomes) for row in rows)
    what = f"mean ± SD over {seeds} seeds" if seeds > 1 else "one seed"
    more = f"; in the report: {', '.join(left)}" if left else ""
    caption = f"test set, {what}{more}"
    out = Table(title=literal(title), caption=caption, box=SIMPLE_HEAD)
    out.add_column("loss", width=losses, overflow="fold")
    for name in names:
        out.add_column(heading(name), justify="right", no_wrap=True)
    for row, *scores in zip(rows, *(cells[name] for name in names), strict=True):
        out.add_row(literal(row.loss), *scores)
    return out


def _names_that_fit(
    columns: Mapping[str, int], primary_metric: str, width: int
) -> list[str]:
    """Return the scores that fit, the primary metric among them.

    >>> _names_that_fit({"precision": 12, "recall": 12, "f1": 12}, "f1", 35)
    ['precision', 'f1']
    """
    room, names = width, set()
    for name in sorted(columns, key=lambda name: name != primary_metric):
        room -= columns[name] + GAP
        if room >= 0 or name == primary_metric:
            names.add(name)
    return [name for name in columns if name in names]


def baseline_name(loss: str) -> str:
    """Return the name of a baseline in a sentence.

    >>> baseline_name("ce"), baseline_name("focal")
    ('cross-entropy', 'focal')
    """
    return "cross-entropy" if loss == "ce" else loss


def remarks(rows: Sequence[Row]) -> list[str]:
    """Return the verdict on each loss, and its runs without a score."""
    lines = []
    for row in rows:
        parts = [] if row.against is None else [row.against.verdict.sentence]
        if row.summary.diverged:
            parts.append(f"{row.summary.diverged} of {len(row.outcomes)} diverged")
        if row.missing:
            parts.append(f"{row.missing} of {len(row.outcomes)} not finished")
        if parts:
            lines.append(f"{row.loss}: {'; '.join(parts)}")
    return lines


def mean_and_spread(values: Sequence[float]) -> str:
    """Format fractions as percent: mean and sample standard deviation.

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
