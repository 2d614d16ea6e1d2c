"""The scores of all runs: a row for each loss, a mark for each seed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dicejax.comparison.report.chart import Strip, StripRow, axis_for
from dicejax.comparison.report.document import Figure, Table
from dicejax.comparison.statistics import Row
from dicejax.comparison.table import mean_and_spread
from dicejax.metrics.scores import heading

_WIDEST = 30  # characters of a line, beside which the mean has room on a phone


def strip(rows: Sequence[Row], primary_metric: str) -> Figure:
    """Draw the score of each run, the same seeds joined."""
    scores = [
        {one.seed: 100 * one.score for one in row.outcomes if one.result}
        for row in rows
    ]
    name = heading(primary_metric)
    x = axis_for([v for by_seed in scores for v in by_seed.values()], f"test {name}")
    means = [row.summary.mean for row in rows]
    placed = [None if mean is None else x.place(100 * mean) for mean in means]
    drawn = tuple(
        StripRow(
            name=wrapped(row.loss),
            told=mean_and_spread(list(row.scores(primary_metric))),
            marks=tuple(
                (x.place(score), f"{row.loss}, seed {seed}: {score:.2f}")
                for seed, score in by_seed.items()
            ),
            mean=place,
        )
        for row, by_seed, place in zip(rows, scores, placed, strict=True)
    )
    links = tuple(
        (number, x.place(score), number + 1, x.place(scores[number + 1][seed]))
        for number, by_seed in enumerate(scores[:-1])
        for seed, score in by_seed.items()
        if seed in scores[number + 1]
    )
    seeds = sorted({seed for by_seed in scores for seed in by_seed})
    told = "; ".join(
        f"{row.loss} {one.told}" for row, one in zip(rows, drawn, strict=True)
    )
    return Figure(
        title="Every run",
        caption=f"Across: {name} on test, in percent. Each row is a loss, each mark a "
        "seed; thin lines join the same seeds: parallel ones say that the seed, not "
        "the loss, makes the difference.",
        key=(
            ("loss", "a run"),
            ("mean-bar", "mean"),
            ("seed", "same seed"),
            ("baseline", f"mean of {rows[0].loss}"),
        ),
        panels=Strip(told=told, x=x, rows=drawn, links=links, baseline=placed[0]),
        numbers=Table(
            caption=f"{name} of each run on test, in percent",
            columns=("loss", *(f"seed {seed}" for seed in seeds)),
            rows=tuple(
                (
                    row.loss,
                    *(
                        f"{by_seed[seed]:.2f}" if seed in by_seed else "-"
                        for seed in seeds
                    ),
                )
                for row, by_seed in zip(rows, scores, strict=True)
            ),
        ),
    )


def wrapped(name: str, widest: int = _WIDEST) -> tuple[str, ...]:
    """Break a name where one of its settings ends.

    >>> wrapped("dsc-alpha=0.01-smooth=0.01-stop_gradient_weight=True", 30)
    ('dsc-alpha=0.01-smooth=0.01-', 'stop_gradient_weight=True')
    """
    lines = [""]
    for part in re.findall(rf".{{1,{widest}}}?(?:[- ]|$)|.{{{widest}}}", name):
        if lines[-1] and len(lines[-1]) + len(part) > widest:
            lines.append("")
        lines[-1] += part
    return tuple(line for line in lines if line)
