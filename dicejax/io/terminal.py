"""Text on a terminal: as it is, neither markup nor commands."""

from __future__ import annotations

from rich.text import Text

from dicejax.errors import visible


def show(text: str, keep: str = "\n") -> None:
    """Print lines to standard output, other control characters made visible."""
    print(visible(text, keep=keep))


def literal(text: str) -> Text:
    r"""Return a text for Rich, which would take brackets in a string for markup.

    >>> literal("[red]\x1b[0m").plain
    '[red]\\x1b[0m'
    """
    return Text(visible(text, keep="\n"))
