"""Plot of a profile: label counts, sequence lengths, padding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dicejax.study import figures
from dicejax.study.profile.imbalance import LabelCount
from dicejax.study.profile.measure import DataProfile, Lengths, Padding, to_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NEGATIVE, _POSITIVE, _MARK = "#9A9A9A", "#0072B2", "#D55E00"
_SETTINGS = {
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.alpha": 0.3,
    "axes.axisbelow": True,
}
# With more labels, the most frequent and the rarest of those that occur are drawn.
_MOST, _FREQUENT = 60, 20
_FEWEST = 8  # labels that there is room for: bars of two would be slabs
_LONGEST = 18  # characters of a label


def write(profile: DataProfile, split: str, folder: str) -> None:
    """Write profile.json, profile.png and profile.svg.

    Raises:
      InputError: the folder or a file cannot be written.
    """
    texts = [label.label for o in profile.splits[split].outputs for label in o.labels]
    content = {"profile.json": (to_json(profile) + "\n").encode()}
    with figures.look([profile.name, *texts], _SETTINGS):
        figure = draw(profile, split)
        for kind in ("png", "svg"):
            content[f"profile.{kind}"] = figures.rendered(figure, kind)
    figures.write(figures.make_folder(folder), content)


def draw(profile: DataProfile, split: str) -> Figure:
    """Draw the labels of a split on the left, lengths and padding on the right."""
    from matplotlib.figure import Figure

    counts = profile.splits[split]
    bars = []
    for output in counts.outputs:
        for label in output.labels:
            unique = len(counts.outputs) == 1 or output.output in label.label.split()
            text = label.label if unique else f"{output.output}: {label.label}"
            bars.append((text, label))
    height = max(4.4, 1.2 + 0.21 * min(len(bars), _MOST))
    figure = Figure(figsize=(10, height), layout="constrained")
    figure.suptitle(
        figures.plain(f"{profile.name}, {split}"), x=0.01, ha="left", size=13
    )
    left, right = figure.add_gridspec(1, 2, width_ratios=(1, 1))
    _draw_labels(figure.add_subplot(left), bars)
    if counts.lengths and counts.padding:
        above, below = right.subgridspec(2, 1, height_ratios=(1.7, 1))
        _draw_lengths(figure.add_subplot(above), counts.lengths, profile.max_length)
        _draw_padding(figure.add_subplot(below), counts.padding, profile.batch_size)
    return figure


def _draw_labels(axes: Axes, bars: list[tuple[str, LabelCount]]) -> None:
    bars = sorted(bars, key=lambda bar: -bar[1].positives)
    title = "how often each label occurs"
    if len(bars) > _MOST:
        bars = [bar for bar in bars if bar[1].positives]
    if len(bars) > _MOST:
        rarest = _MOST - _FREQUENT
        title += f": {_FREQUENT} most frequent and {rarest} rarest of {len(bars)}"
        bars = bars[:_FREQUENT] + bars[-rarest:]
    counts = [label.positives for _, label in bars]
    colours = [_NEGATIVE if label.is_negative else _POSITIVE for _, label in bars]
    places = range(len(bars))
    axes.barh(places, counts, color=colours, height=0.72)
    axes.set_xscale("log")
    # On a log axis bars have no natural start: half of one, below which only 0 is. The
    # longest leaves room for its number.
    first, last = math.log10(0.5), math.log10(max(*counts, 10))
    axes.set_xlim(10**first, 10 ** (first + (last - first) / 0.84))
    for place, count in zip(places, counts, strict=True):
        axes.text(max(count, 0.5) * 1.12, place, f"{count:,}", va="center", size=7.5)
    names = [
        figures.plain(x if len(x) <= _LONGEST else f"{x[: _LONGEST - 1]}…")
        for x, _ in bars
    ]
    axes.set_yticks(places, names, size=8)
    axes.set_ylim(max(len(bars), _FEWEST) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_title(title)
    axes.set_xlabel("occurrences" + (", negatives grey" * (_NEGATIVE in colours)))


def _draw_lengths(axes: Axes, lengths: Lengths, max_length: int) -> None:
    starts = [interval.first - 0.5 for interval in lengths.bins]
    widths = [0.95 * (interval.last - interval.first + 1) for interval in lengths.bins]
    counts = [interval.sequences for interval in lengths.bins]
    axes.bar(starts, counts, widths, align="edge", color=_POSITIVE)
    axes.axvline(max_length, color=_MARK, linewidth=1.4)
    axes.set_xlim(0, max_length * 1.32)
    top = max(counts) * 1.12
    axes.set_ylim(0, top)
    axes.text(max_length, top, f"row: {max_length} ", color=_MARK, ha="right", va="top")
    quantiles = [f"{q}% up to {n}" for q, n in lengths.quantiles.items()]
    axes.set_title("pieces per sequence")
    # Next to the mark, behind which there is nothing.
    axes.text(max_length * 1.02, top, "\n".join(quantiles), va="top", size=7.5)
    axes.set_ylabel("sequences")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y")


def _draw_padding(axes: Axes, padding: Padding, per_batch: int) -> None:
    rows = {
        f"a row of {padding.max_length} each": padding.to_row,
        f"to the longest of {per_batch}": padding.to_batch,
        "packed": padding.packed,
    }
    places = range(len(rows))
    filled = [100 * way.filled for way in rows.values()]
    axes.barh(places, [100] * len(rows), color="#E4E4E4", height=0.62)
    axes.barh(places, filled, color=_POSITIVE, height=0.62)
    for place, way in zip(places, rows.values(), strict=True):
        text = f"{100 * way.filled:.1f}%"
        if way is not padding.packed:
            text += f", {way.factor:.2f} × packed"
        axes.text(102, place, text, va="center", size=8)
    axes.set_yticks(places, list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, 195)
    axes.set_xticks(range(0, 101, 25), [f"{percent}%" for percent in range(0, 101, 25)])
    axes.tick_params(axis="y", length=0)
    axes.spines["bottom"].set_bounds(0, 100)
    axes.set_title("share of a batch that is not padding")
