"""Print notes and scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console

from dicejax.terminal import literal


def noting(console: Console) -> Callable[[str], None]:
    """Return a function that prints a note, without wrapping it."""
    return lambda text: console.print(literal(f"note: {text}"), soft_wrap=True)


def scores(values: Mapping[str, Any], what: str) -> str:
    """Format scores in percent."""
    from dicejax.metrics.scores import heading

    shown = [
        f"{heading(name)} {100 * value:.2f}"
        for name, value in values.items()
        if isinstance(value, float)
    ]
    return f"{what}: {'  '.join(shown)}"
