"""Print notes and scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console

from dicejax.errors import quote, truncate, visible
from dicejax.io.terminal import literal

if TYPE_CHECKING:
    from dicejax.study.compare import Comparison

MOST_CLASSES = 12
"""Rows of a table of classes."""


def note_printer(console: Console) -> Callable[[str], None]:
    """Return a function that prints a note, without wrapping it."""
    return lambda text: console.print(literal(f"note: {text}"), soft_wrap=True)


def warn_of_cuts(console: Console, cut: Iterable[str] | None) -> None:
    """Print warnings of inputs that are cut off, if there are any."""
    for text in cut or ():
        console.print(literal(f"warning: {text}"), soft_wrap=True)


def scores(values: Mapping[str, Any], title: str) -> str:
    """Format scores in percent, with those of the rarest class if they are not its own.

    F1 over classes is called micro or macro, and that of one class names it.

    >>> scores({"f1": 0.5, "macro_f1": 0.25}, "test")
    'test: micro F1 50.00  macro F1 25.00'
    >>> print(scores({"f1": 0.5, "matthews": 0.1, "positive": "spam"}, "test"))
    test: F1 of 'spam' 50.00  matthews 10.00
    """
    from dicejax.metrics.scores import Scores, rarest_of

    split = Scores.from_json(values)
    floats = {name: x for name, x in split.values.items() if isinstance(x, float)}
    parts = [
        f"{'micro ' * ('macro_f1' in floats and name == 'f1')}"
        f"{split.name(name)} {100 * value:.2f}"
        for name, value in floats.items()
    ]
    if (rarest := rarest_of(values)) is not None:
        row = split.groups[rarest]
        parts.append(
            f"rarest {quote(rarest)}: F1 {100 * row['f1']:.2f}, "
            f"recall {100 * row['recall']:.2f}"
        )
    return f"{title}: {'  '.join(parts)}"


def score_lines(test: Mapping[str, Any], title: str, metric: str) -> list[str]:
    """Return scores as a line, and what a constant answer has where that is no less."""
    from dicejax.training.outcome import constant_answer

    constant = constant_answer(test, metric) if test else None
    return [scores(test, title), *([f"  {constant}"] if constant else [])]


def class_lines(groups: Mapping[str, Mapping[str, Any]]) -> list[str]:
    r"""Return the scores of each class and its support as a table, in lines.

    The most frequent class is first; of many, those between the most and the least
    frequent are left out, so that the table fits a screen.

    >>> rows = {"LOC": {"f1": 0.5, "support": 4}, "PER": {"f1": 1.0, "support": 20}}
    >>> print("\n".join(class_lines(rows)))
             F1  support
    PER  100.00       20
    LOC   50.00        4
    """
    from dicejax.metrics.scores import heading

    columns = list(dict.fromkeys(name for row in groups.values() for name in row))
    ranked = sorted(groups.items(), key=lambda item: -item[1].get("support", 0))
    table = [["", *map(heading, columns)]]
    for name, row in ranked:
        cells = (row.get(column) for column in columns)
        texts = (f"{100 * x:.2f}" if isinstance(x, float) else f"{x:,}" for x in cells)
        table.append([truncate(visible(name), 30), *texts])
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    lines = [
        "  ".join([name.ljust(widths[0]), *map(str.rjust, cells, widths[1:])])
        for name, *cells in table
    ]
    if len(ranked) > MOST_CLASSES:
        half = MOST_CLASSES // 2
        hidden = len(ranked) - 2 * half
        lines[half + 1 : -half] = [f"... {hidden} more classes"]
    return lines if groups else []


def duration(seconds: float) -> str:
    """Return a time in words, to two units at most.

    >>> duration(7.4), duration(59.6), duration(190), duration(7_290)
    ('7 s', '1 min 0 s', '3 min 10 s', '2 h 1 min')
    """
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    if not minutes:
        return f"{whole} s"
    hours, left = divmod(minutes, 60)
    return f"{hours} h {left} min" if hours else f"{minutes} min {rest} s"


def print_table(comparison: Comparison) -> None:
    """Print the scores of a comparison as a table that fits the terminal."""
    console = Console()
    room = console.width if console.is_terminal else None  # a file has no width
    console.width = room or 500
    console.print(comparison.table(room))
