"""Text on a terminal: as it is, neither markup nor commands."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

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


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """Drop what libraries write to standard error past Python, such as logs.

    Their errors are raised as exceptions.
    """
    sys.stderr.flush()
    copy, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(copy, 2)
        os.close(copy)
        os.close(nowhere)
