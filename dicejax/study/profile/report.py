"""A profile as tables for the terminal, and as a plot."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from etils import epath
from rich import box
from rich.console import RenderableType
from rich.table import Table

from dicejax.errors import truncate
from dicejax.io.files import write_together
from dicejax.io.terminal import literal
from dicejax.study import figures
from dicejax.study.profile import imbalance
from dicejax.study.profile.measure import DataProfile, Lengths, Padding, to_json
from dicejax.study.sentences import sentences

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAR = 40  # characters of the longest bar
_NEGATIVE, _POSITIVE, _MARK = "#9A9A9A", "#0072B2", "#D55E00"
# With more labels, the most frequent and the rarest of those that occur are drawn, and
# the first and last are printed.
_MOST, _FREQUENT = 60, 20
_FEWEST = 8  # labels that there is room for: bars of two would be slabs
_LONGEST = 18  # characters of a label
_WIDEST = 80  # characters of a cell


def report(profile: DataProfile, split: str) -> Iterator[RenderableType]:
    """Yield the lines and tables for the terminal."""
    counts = profile.splits[split]
    yield _sizes(profile)
    yield _imbalance(profile)
    for output in counts.outputs:
        yield _labels(output, split)
        if output.sets is not None:
            sets = sentences("profile").label_sets(output.sets)
            yield literal(f"{split}: {sets}")
            pairs = [
                [" + ".join(x["labels"]), f"{x['together']:,}", f"{x['expected']:,.1f}"]
                for x in output.sets["pairs"]
            ]
            caption = f"of {output.sets['distinct']:,} different sets"
            caption += "; expected: if independent"
            title = f"labels that occur together, {split}"
            yield _table(title, ["pair"], ["texts", "expected"], pairs, caption=caption)
    yield _support(profile)
    if profile.classes:
        yield _classes(profile)
    if counts.lengths and counts.padding:
        yield _histogram(counts.lengths, split)
        yield _padding(_layouts(profile, counts.padding, "padded to"), split)


def _table(
    title: str,
    left: Sequence[str],
    right: Sequence[str],
    rows: Iterable[Iterable[str]],
    *,
    last: str | None = None,
    caption: str | None = None,
) -> Table:
    table = Table(
        title=literal(title),
        title_justify="left",
        title_style="bold",
        caption=caption,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in left:
        table.add_column(literal(name), overflow="fold")
    for name in right:
        table.add_column(literal(name), justify="right")
    if last is not None:
        table.add_column(last)
    lines, half = list(rows), _MOST // 2
    if len(lines) > _MOST:
        lines[half:-half] = [[f"... {len(lines) - 2 * half:,} more"]]
    for line in lines:
        table.add_row(*(literal(truncate(cell, _WIDEST)) for cell in line))
    return table


def _sizes(profile: DataProfile) -> Table:
    rows = []
    for name, split in profile.splits.items():
        numbers = [split.examples, split.sequences, split.pieces]
        if split.lengths:
            numbers += [*split.lengths.quantiles.values(), split.lengths.longest]
        rows.append([name, *(f"{number:,}" for number in numbers)])
    return _table(
        f"{profile.name}: {profile.task}, rows of {profile.max_length} pieces",
        ["split"],
        ["examples", "sequences", "pieces", "50%", "90%", "95%", "99%", "longest"],
        rows,
        caption="percentiles: so many sequences have at most so many pieces",
    )


def _imbalance(profile: DataProfile) -> Table:
    rows = []
    for name, split in profile.splits.items():
        for output in split.outputs:
            classes = f"{output.negative} : {output.positive}"
            if output.rule == "most and least":
                classes += " (most : least)"
            counts = f"{output.negatives:,}", f"{output.positives:,}"
            rows.append([output.output, name, classes, *counts, _ratio(output.ratio)])
    left = ["output", "split", "negatives : positives"]
    return _table("imbalance", left, ["negatives", "positives", "ratio"], rows)


def _labels(output: imbalance.OutputCounts, split: str) -> Table:
    weights = list(output.labels[0].weights) if output.labels else []
    caption = "the last columns are suggested class weights" if weights else None
    if output.sequences is not None:
        pieces = output.negatives + output.positives
        average = pieces / max(output.sequences, 1)
        caption = (
            f"{output.positives:,} of {output.sequences:,} sequences hold one, "
            f"of {average:.1f} pieces on average"
        )
    rows = []
    for x in output.labels:
        suggested = [f"{x.weights[name]:.4g}" for name in weights]
        counts = f"{x.positives:,}", f"{x.negatives:,}", _ratio(x.ratio)
        rows.append([x.label, *counts, *suggested])
    schemes = [name.replace("_", "\n") for name in weights]
    right = ["positives", "negatives", "ratio", *schemes]
    title = f"output {output.output}, {split}"
    return _table(title, ["label"], right, rows, caption=caption)


def _support(profile: DataProfile) -> Table:
    several = len({label.output for label in profile.support}) > 1
    rare = len(profile.rare_labels)
    title = f"{rare} of {len(profile.support)} labels are rare"
    reasons = {
        "few": f"fewer than {profile.rare} in train",
        "unseen": "not in train",
        "absent": "occurs nowhere",
    }
    rows = []
    for x in profile.support:
        counts = (f"{n:,}" for n in (x.train, x.dev, x.test))
        update = x.per_update
        expected = f"{update:,.0f}" if update >= 100 else f"{update:.3g}"
        names = [x.output, x.label] if several else [x.label]
        smooth = f"{profile.smooth.get(x.output, 0):g}"
        reasons["smooth"] = f"smooth of {profile.objective} is {smooth}"
        why = "; ".join(reasons[reason] for reason in x.reasons)
        rows.append([*names, *counts, expected, why])
    return _table(
        title if rare else "no label is rare",
        ["output", "label"] if several else ["label"],
        ["train", "dev", "test", "per update"],
        rows,
        last="rare because",
        caption=f"an update sees about {profile.batch_size} sequences",
    )


def _classes(profile: DataProfile) -> Table:
    rows = [
        [x.name, *(f"{n:,}" for n in (x.train, x.dev, x.test, x.gold)), x.measured]
        for x in profile.classes
    ]
    names = ["train", "dev", "test", "gold of test"]
    interval = "which measure (95% interval)"
    caption = "examples that have it; gold: its examples, or its spans or words"
    title = f"the rarest: {profile.rarest}" if profile.rarest else "examples by class"
    return _table(title, ["class"], names, rows, last=interval, caption=caption)


def _histogram(lengths: Lengths, split: str) -> Table:
    most = max(x["sequences"] for x in lengths.bins)
    rows = []
    for x in lengths.bins:
        first, last, count = x["first"], x["last"], x["sequences"]
        pieces = f"{first}-{last}" if last > first else str(first)
        bar = "█" * -(-_BAR * count // most)  # every count is visible
        rows.append([pieces, f"{count:,}", bar])
    title = f"sequences by pieces, {split}"
    return _table(title, [], ["pieces", "sequences"], rows, last="")


def _padding(layouts: Padding, split: str) -> Table:
    rows = (
        [name, f"{x['places']:,}", f"{100 * x['filled']:.1f}%", f"{x['factor']:.2f}"]
        for name, x in layouts.items()
    )
    to_row, *_ = layouts.values()
    title = f"padding, {split}: packing saves a factor of {to_row['factor']:.2f}"
    return _table(title, ["batches"], ["places", "filled", "times packed"], rows)


def _layouts(profile: DataProfile, padding: Padding, to: str) -> Padding:
    names = {
        "to_row": f"a row of {profile.max_length} each",
        "to_batch": f"{to} the longest of {profile.batch_size}",
        "packed": "packed",
    }
    return {names[layout]: fill for layout, fill in padding.items()}


def _ratio(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"


def write(profile: DataProfile, split: str, folder: str) -> None:
    """Write profile.json, profile.png and profile.svg.

    Raises:
      InputError: the folder or a file cannot be written.
    """
    texts = [label.label for o in profile.splits[split].outputs for label in o.labels]
    with figures.look([profile.name, *texts], figures.TITLED):
        content = figures.files([("profile", draw(profile, split))])
    content["profile.json"] = f"{to_json(profile)}\n".encode()
    write_together(epath.Path(folder), content)


def draw(profile: DataProfile, split: str) -> Figure:
    """Draw the labels of a split on the left, lengths and padding on the right."""
    from matplotlib.figure import Figure

    counts = profile.splits[split]
    bars = []
    for output in counts.outputs:
        for label in output.labels:
            unique = len(counts.outputs) == 1 or output.output in label.label.split()
            name = label.label if unique else f"{output.output}: {label.label}"
            if len(name) > _LONGEST:
                name = f"{name[: _LONGEST - 1]}…"
            bars.append((figures.plain(name), label))
    height = max(4.4, 1.2 + 0.21 * min(len(bars), _MOST))
    figure = Figure(figsize=(10, height), layout="constrained")
    title = figures.plain(f"{profile.name}, {split}")
    figure.suptitle(title, x=0.01, ha="left", size=13)
    grid = figure.add_gridspec(1, 2, width_ratios=(1, 1))
    _draw_labels(figure.add_subplot(grid[0]), bars)
    if counts.lengths and counts.padding:
        right = grid[1].subgridspec(2, 1, height_ratios=(1.7, 1))
        _draw_lengths(figure.add_subplot(right[0]), counts.lengths, profile.max_length)
        layouts = _layouts(profile, counts.padding, "to")
        _draw_padding(figure.add_subplot(right[1]), layouts)
    return figure


def _draw_labels(axes: Axes, bars: list[tuple[str, imbalance.LabelCount]]) -> None:
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
    axes.set_yticks(places, [name for name, _ in bars], size=8)
    axes.set_ylim(max(len(bars), _FEWEST) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_title(title)
    axes.set_xlabel("occurrences" + (", negatives grey" * (_NEGATIVE in colours)))


def _draw_lengths(axes: Axes, lengths: Lengths, max_length: int) -> None:
    starts = [x["first"] - 0.5 for x in lengths.bins]
    widths = [0.95 * (x["last"] - x["first"] + 1) for x in lengths.bins]
    counts = [x["sequences"] for x in lengths.bins]
    axes.bar(starts, counts, widths, align="edge", color=_POSITIVE)
    axes.axvline(max_length, color=_MARK, linewidth=1.4)
    axes.set_xlim(0, max_length * 1.32)
    top = max(counts) * 1.12
    axes.set_ylim(0, top)
    axes.text(max_length, top, f"row: {max_length} ", color=_MARK, ha="right", va="top")
    quantiles = "\n".join(f"{q}% up to {n}" for q, n in lengths.quantiles.items())
    # Next to the mark, behind which there is nothing.
    axes.text(max_length * 1.02, top, quantiles, va="top", size=7.5)
    axes.set_title("pieces per sequence")
    axes.set_ylabel("sequences")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y")


def _draw_padding(axes: Axes, layouts: Padding) -> None:
    places, height = range(len(layouts)), 0.62
    filled = [100 * x["filled"] for x in layouts.values()]
    axes.barh(places, 100, height, color="#E4E4E4")
    axes.barh(places, filled, height, color=_POSITIVE)
    for place, (name, layout) in enumerate(layouts.items()):
        text = f"{100 * layout['filled']:.1f}%"
        if name != "packed":
            text += f", {layout['factor']:.2f} × packed"
        axes.text(102, place, text, va="center", size=8)
    axes.set_yticks(places, list(layouts))
    axes.set_ylim(len(layouts) - 0.5, -0.5)
    axes.set_xlim(0, 195)
    axes.set_xticks(range(0, 101, 25), [f"{percent}%" for percent in range(0, 101, 25)])
    axes.tick_params(axis="y", length=0)
    axes.spines["bottom"].set_bounds(0, 100)
    axes.set_title("share of a batch that is not padding")
