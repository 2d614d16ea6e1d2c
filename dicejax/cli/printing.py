"""Print notes and scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console

from dicejax.io.terminal import literal

if TYPE_CHECKING:
    from dicejax.study.compare import Comparison


def note_printer(console: Console) -> Callable[[str], None]:
    """Return a function that prints a note, without wrapping it."""
    return lambda text: console.print(literal(f"note: {text}"), soft_wrap=True)


def warn_of_cuts(console: Console, cut: Iterable[str] | None) -> None:
    """Print warnings of inputs that are cut off, if there are any."""
    for text in cut or ():
        console.print(literal(f"warning: {text}"), soft_wrap=True)


def scores(values: Mapping[str, Any], what: str) -> str:
    """Format scores in percent; F1 is called micro where macro F1 is another.

    >>> scores({"f1": 0.5, "macro_f1": 0.25}, "test")
    'test: micro F1 50.00  macro F1 25.00'
    """
    from dicejax.metrics.scores import heading

    names = {"f1": "micro_f1"} if "macro_f1" in values else {}
    parts = [
        f"{heading(names.get(name, name))} {100 * value:.2f}"
        for name, value in values.items()
        if isinstance(value, float)
    ]
    return f"{what}: {'  '.join(parts)}"


def print_table(comparison: Comparison) -> None:
    """Print the scores of a comparison as a table that fits the terminal."""
    console = Console()
    room = console.width if console.is_terminal else None  # a file has no width
    console.width = room or 500
    console.print(comparison.table(room))
