"""A profile as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table

from dicejax.io.terminal import literal
from dicejax.study.profile.imbalance import LabelSupport, OutputCounts
from dicejax.study.profile.measure import DataProfile, Lengths, Padding
from dicejax.study.profile.together import LabelSets

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
    yield from _support(profile)
    if counts.lengths and counts.padding:
        yield _histogram(counts.lengths, split)
        yield _padding(counts.padding, profile.batch_size, split)


def _table(title: str, left: Sequence[str], right: Sequence[str], **options) -> Table:
    table = Table(
        title=literal(title),
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        **options,
    )
    for name in left:
        table.add_column(literal(name), overflow="fold")
    for name in right:
        table.add_column(literal(name), justify="right")
    return table


def _sizes(profile: DataProfile) -> Table:
    table = _table(
        f"{profile.name}: {profile.task}, rows of {profile.max_length} pieces",
        ["split"],
        ["examples", "sequences", "pieces", "50%", "90%", "95%", "99%", "longest"],
        caption="percentiles: so many sequences have at most so many pieces",
    )
    for name, split in profile.splits.items():
        lengths = split.lengths
        figures = (*lengths.quantiles.values(), lengths.longest) if lengths else ()
        numbers = (split.examples, split.sequences, split.pieces, *figures)
        table.add_row(name, *(f"{number:,}" for number in numbers))
    return table


def _imbalance(profile: DataProfile) -> Table:
    table = _table(
        "imbalance",
        ["output", "split", "negatives : positives"],
        ["negatives", "positives", "ratio"],
    )
    for name, split in profile.splits.items():
        for output in split.outputs:
            classes = f"{output.negative} : {output.positive}"
            if output.rule == "most and least":
                classes += " (most : least)"
            table.add_row(
                literal(output.output),
                name,
                literal(classes),
                f"{output.negatives:,}",
                f"{output.positives:,}",
                _ratio(output.ratio),
            )
    return table


def _labels(output: OutputCounts, split: str) -> Table:
    weights = list(output.labels[0].weights) if output.labels else []
    title = f"output {output.output}, {split}"
    caption = "the last columns are suggested class weights" if weights else None
    if output.sequences is not None:
        pieces = output.negatives + output.positives
        average = pieces / max(output.sequences, 1)
        caption = (
            f"{output.positives:,} of {output.sequences:,} sequences hold one, "
            f"of {average:.1f} pieces on average"
        )
    schemes = [name.replace("_", "\n") for name in weights]
    heads = ["positives", "negatives", "ratio", *schemes]
    table = _table(title, ["label"], heads, caption=caption)
    for label in output.labels:
        table.add_row(
            literal(label.label),
            f"{label.positives:,}",
            f"{label.negatives:,}",
            _ratio(label.ratio),
            *(f"{label.weights[name]:.4g}" for name in weights),
        )
    return table


def _together(sets: LabelSets, split: str) -> Table:
    table = _table(
        f"labels that occur together, {split}",
        ["pair"],
        ["texts", "expected"],
        caption=f"of {sets.distinct:,} different sets; expected: if independent",
    )
    for pair in sets.pairs:
        names = literal(" + ".join(pair.labels))
        table.add_row(names, f"{pair.together:,}", f"{pair.expected:,.1f}")
    return table


def _support(profile: DataProfile) -> Iterator[RenderableType]:
    several = len({label.output for label in profile.support}) > 1
    rare = len(profile.too_rare)
    what = f"{rare} of {len(profile.support)} labels are too rare to learn"
    if not rare:
        what = "no label is too rare to learn"
    table = _table(
        what,
        [*(["output"] if several else []), "label"],
        ["train", "dev", "test", "per update"],
        caption=f"an update sees about {profile.batch_size} sequences",
    )
    table.add_column("too rare because")
    for label in profile.support:
        table.add_row(
            *([literal(label.output)] if several else []),
            literal(label.label),
            *(f"{n:,}" for n in (label.train, label.dev, label.test)),
            _expected(label.per_update),
            literal(why(label, profile)),
        )
    yield table


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
    table = _table(f"sequences by pieces, {split}", [], ["pieces", "sequences"])
    table.add_column("")
    most = max(interval.sequences for interval in lengths.bins)
    for interval in lengths.bins:
        # Every positive count is visible.
        bar = -(-_BAR * interval.sequences // most)
        pieces = (
            f"{interval.first}-{interval.last}"
            if interval.last > interval.first
            else str(interval.first)
        )
        table.add_row(pieces, f"{interval.sequences:,}", "█" * bar)
    return table


def _padding(padding: Padding, per_batch: int, split: str) -> Table:
    factor = padding.to_row.factor
    table = _table(
        f"padding, {split}: packing saves a factor of {factor:.2f}",
        ["batches"],
        ["places", "filled", "times packed"],
    )
    rows = {
        f"a row of {padding.max_length} each": padding.to_row,
        f"padded to the longest of {per_batch}": padding.to_batch,
        "packed": padding.packed,
    }
    for name, way in rows.items():
        table.add_row(
            name, f"{way.places:,}", f"{100 * way.filled:.1f}%", f"{way.factor:.2f}"
        )
    return table


def _expected(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"
