"""A profile as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table

from dicejax.io.terminal import literal
from dicejax.study.profile.imbalance import LabelSets, LabelSupport, OutputCounts
from dicejax.study.profile.measure import DataProfile, Lengths, Padding

_BAR = 40  # characters of the longest bar


def report(profile: DataProfile, split: str) -> Iterator[RenderableType]:
    """Yield the lines and tables for the terminal."""
    counts = profile.splits[split]
    yield _sizes(profile)
    yield _imbalance(profile)
    for output in counts.outputs:
        yield _labels(output, split)
        if output.sets is not None:
            yield literal(f"{split}: {output.sets}")
            yield _together(output.sets, split)
    yield _support(profile)
    if counts.lengths and counts.padding:
        yield _histogram(counts.lengths, split)
        yield _padding(counts.padding, profile.batch_size, split)


def _table(
    title: str,
    left: Sequence[str],
    right: Sequence[str],
    rows: Iterable[Iterable[str]],
    *,
    last: str | None = None,
    caption: str | None = None,
) -> Table:
    """Return a table with columns aligned left, right, and a last one."""
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
    for row in rows:
        table.add_row(*map(literal, row))
    return table


def _sizes(profile: DataProfile) -> Table:
    rows = []
    for name, split in profile.splits.items():
        lengths = split.lengths
        figures = (*lengths.quantiles.values(), lengths.longest) if lengths else ()
        numbers = (split.examples, split.sequences, split.pieces, *figures)
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


def _labels(output: OutputCounts, split: str) -> Table:
    weights = list(output.labels[0].weights) if output.labels else []
    caption = "the last columns are suggested class weights" if weights else None
    if output.sequences is not None:
        pieces = output.negatives + output.positives
        average = pieces / max(output.sequences, 1)
        caption = (
            f"{output.positives:,} of {output.sequences:,} sequences hold one, "
            f"of {average:.1f} pieces on average"
        )
    schemes = [name.replace("_", "\n") for name in weights]
    rows = (
        [
            label.label,
            f"{label.positives:,}",
            f"{label.negatives:,}",
            _ratio(label.ratio),
            *(f"{label.weights[name]:.4g}" for name in weights),
        ]
        for label in output.labels
    )
    title, heads = (
        f"output {output.output}, {split}",
        ["positives", "negatives", "ratio"],
    )
    return _table(title, ["label"], [*heads, *schemes], rows, caption=caption)


def _together(sets: LabelSets, split: str) -> Table:
    return _table(
        f"labels that occur together, {split}",
        ["pair"],
        ["texts", "expected"],
        (
            [" + ".join(pair.labels), f"{pair.together:,}", f"{pair.expected:,.1f}"]
            for pair in sets.pairs
        ),
        caption=f"of {sets.distinct:,} different sets; expected: if independent",
    )


def _support(profile: DataProfile) -> Table:
    several = len({label.output for label in profile.support}) > 1
    rare = len(profile.too_rare)
    title = f"{rare} of {len(profile.support)} labels are too rare to learn"
    rows = []
    for label in profile.support:
        counts = (f"{n:,}" for n in (label.train, label.dev, label.test))
        update = label.per_update
        expected = f"{update:,.0f}" if update >= 100 else f"{update:.3g}"
        names = [label.output, label.label] if several else [label.label]
        rows.append([*names, *counts, expected, why(label, profile)])
    return _table(
        title if rare else "no label is too rare to learn",
        ["output", "label"] if several else ["label"],
        ["train", "dev", "test", "per update"],
        rows,
        last="too rare because",
        caption=f"an update sees about {profile.batch_size} sequences",
    )


def why(label: LabelSupport, profile: DataProfile) -> str:
    """Return the reasons why a label is too rare to learn; empty if it is not."""
    smooth = profile.smooth.get(label.output, 0)
    texts = {
        "few": f"fewer than {profile.rare} in train",
        "unseen": "not in train",
        "absent": "occurs nowhere",
        "not in every update": "less than 1 per update",
        "smooth": f"smooth of {profile.objective} is {smooth:g}",
    }
    return "; ".join(texts[reason] for reason in label.reasons)


def _histogram(lengths: Lengths, split: str) -> Table:
    most = max(interval.sequences for interval in lengths.bins)
    rows = []
    for interval in lengths.bins:
        first, last = interval.first, interval.last
        pieces = f"{first}-{last}" if last > first else str(first)
        bar = "█" * -(-_BAR * interval.sequences // most)  # every count is visible
        rows.append([pieces, f"{interval.sequences:,}", bar])
    title = f"sequences by pieces, {split}"
    return _table(title, [], ["pieces", "sequences"], rows, last="")


def _padding(padding: Padding, per_batch: int, split: str) -> Table:
    layouts = {
        f"a row of {padding.max_length} each": padding.to_row,
        f"padded to the longest of {per_batch}": padding.to_batch,
        "packed": padding.packed,
    }
    return _table(
        f"padding, {split}: packing saves a factor of {padding.to_row.factor:.2f}",
        ["batches"],
        ["places", "filled", "times packed"],
        (
            [name, f"{x.places:,}", f"{100 * x.filled:.1f}%", f"{x.factor:.2f}"]
            for name, x in layouts.items()
        ),
    )


def _ratio(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"
