"""Tables of texts in HTML, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def html_table(rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose first column holds the names of its rows.

    >>> html_table([("", "F1"), ("a<b", "0.5")])
    '<table><tr><th></th><td>F1</td></tr><tr><th>a&lt;b</th><td>0.5</td></tr></table>'
    """
    body = "".join(
        f"<tr><th>{html.escape(name)}</th>"
        + "".join(f"<td>{html.escape(text)}</td>" for text in texts)
        + "</tr>"
        for name, *texts in rows
    )
    return f"<table>{body}</table>"
