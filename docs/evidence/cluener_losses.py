"""The four losses of the article on CLUENER: training by update, scores by type.

`draw` makes the figure from the runs of that row, which `worker.py` archives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import archive
import numpy as np
import rows
from matplotlib.figure import Figure

from dicejax.study import figures

(ROW,) = (row for row in rows.ROWS if row.place[0] == "cluener")

EVERY = 20
"""Updates between two points."""
Points = Sequence[tuple[int, float]]
"""Updates, and the mean training loss of those since the point before."""


def finished() -> Mapping[str, Sequence[Points]]:
    """Return the points of each seed by the article's loss; nothing before the end."""
    return {
        loss: [result["losses"] for result in results]
        for loss, results in _results().items()
    }


def by_type() -> str:
    """Return the mean F1 over seeds by type and loss, in Markdown."""
    results = _results()
    lines = [["type", "in dev", *(f"`{loss}`" for loss in results)]]
    lines.append(["---", *("---:" for _ in lines[0][1:])])
    (first, *_), *_ = results.values()
    for name, of_first in first["test"]["per_type"].items():
        means = [
            np.mean([x["test"]["per_type"][name]["f1"] for x in some])
            for some in results.values()
        ]
        scores = (f"{100 * mean:.1f}" for mean in means)
        lines.append([name, str(of_first["support"]), *scores])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _results() -> dict[str, list[Mapping[str, Any]]]:
    if not rows.is_finished(ROW.cell):
        return {}
    (length,) = ROW.cell.data.samples
    runs = archive.read(ROW.cell.archive_of(length)).runs
    return {
        theirs: [run.result for run in runs if run.loss == ours]
        for theirs, ours in ROW.losses.items()
    }


def draw(curves: Mapping[str, Sequence[Points]]) -> Figure:
    """Draw each loss as a share of its first point: mean, least and most of its seeds.

    The losses have other scales, and that of GHM changes with its weights, so only how
    fast each falls is to be compared.
    """
    figure, (axes,) = figures.panels(1, 1)
    for number, (label, seeds) in enumerate(curves.items()):
        # Those at the end of an epoch, which comes at other updates, are left out.
        regular = [[x for x in seed if x[0] % EVERY == 0] for seed in seeds]
        shortest = min(map(len, regular))
        points = np.array([seed[:shortest] for seed in regular])
        updates, losses = points[0, :, 0], points[:, :, 1]
        shares = losses / losses[:, :1]
        look = figures.style(number)
        axes.plot(updates, shares.mean(axis=0), **look, label=label)
        low, high = shares.min(axis=0), shares.max(axis=0)
        axes.fill_between(updates, low, high, color=look["color"], alpha=0.15, lw=0)
    axes.set(xlabel="update", ylabel="loss, share of its first point", yscale="log")
    axes.legend(frameon=False)
    return figure
