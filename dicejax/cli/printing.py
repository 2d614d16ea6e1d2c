"""How the commands print notes and scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console

from dicejax.metrics.scores import heading


def noting(console: Console) -> Callable[[str], None]:
    """Return what prints a note, wrapped by nothing but the terminal."""
    return lambda text: console.print(
        f"note: {text}", highlight=False, markup=False, soft_wrap=True
    )


def scores(values: Mapping[str, Any], what: str) -> str:
    """Write scores in percent."""
    shown = [
        f"{heading(name)} {100 * value:.2f}"
        for name, value in values.items()
        if isinstance(value, float)
    ]
    return f"{what}: {'  '.join(shown)}"
