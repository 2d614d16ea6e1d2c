"""Part S of the protocol: gains over cross-entropy by the share of positives.

Statistics, table and the figure, for `results.py`, from the archives.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import archive
from curve import LOSSES, draw_gains
from matplotlib.figure import Figure

from dicejax.study.compare.statistics import Row

# Percent of positives, in the order of the protocol.
SHARES = (50, 25, 10, 5, 2)
PRIMARY = 10
THRESHOLD = "ce + tuned threshold"


@dataclasses.dataclass(frozen=True)
class Share:
    """A finished comparison.

    Attributes:
      percent: share of positives.
      updates: per run, mean over seeds.
      positives: of the training sample, mean over seeds.
      tested: positive test sentences.
      hours: of training, of all runs.
      rows: statistics of each loss vs. cross-entropy.
      over_threshold: statistics of each loss vs. cross-entropy with a tuned threshold.
    """

    percent: int
    updates: float
    positives: float
    tested: int
    hours: float
    rows: tuple[Row, ...]
    over_threshold: tuple[Row, ...]


@functools.cache
def share(percent: int) -> Share:
    """Read an archive."""
    runs = archive.read(name_of(percent))
    names = {run.loss for run in runs.outcomes}
    (tested,) = {
        run.result["test"]["per_type"]["1"]["support"]
        for run in runs.outcomes
        if run.result
    }
    return Share(
        percent,
        runs.updates,
        runs.mean_positives,
        tested,
        runs.hours,
        tuple(runs.rows()),
        tuple(runs.rows(THRESHOLD, without=names - {*LOSSES, THRESHOLD})),
    )


def finished() -> list[Share]:
    """Return the shares that have the seeds of a look."""
    return [
        share(percent) for percent in SHARES if archive.read(name_of(percent)).seeds
    ]


def name_of(percent: int) -> str:
    """Return the name of a share's archive."""
    return f"thinned/{percent}"


def draw(shares: Sequence[Share]) -> Figure:
    """Draw the gain of each loss by the share, with intervals over looks.

    Over cross-entropy on the left, over its tuned threshold on the right.
    """
    figure = Figure(figsize=(11, 5), layout="constrained", facecolor="white")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    titles = ("minus ce", f"minus {THRESHOLD}")
    for axes, rows, title in zip(
        panels, ("rows", "over_threshold"), titles, strict=True
    ):
        draw_gains(axes, {share_.percent: getattr(share_, rows) for share_ in shares})
        axes.set_xscale("log", base=2)
        axes.set_xticks([share_.percent for share_ in shares])
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}%")
        axes.set_xlabel("share of positives")
        axes.set_title(title)
    panels[0].set_ylabel("difference in test F1 (points, CI over looks)")
    panels[0].legend(frameon=False)
    return figure
