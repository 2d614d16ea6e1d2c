r"""The report as Markdown: tables in the place of pictures.

Texts that come from data, such as labels, are shown as they are: what Markdown or HTML
would take for a sign of theirs is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dicejax.comparison.report.document import Document, Section, Table


def markdown(document: Document) -> str:
    """Write a report as Markdown."""
    lines = [f"# {plain(document.title)}", "", plain(document.about), ""]
    for warning in document.warnings:
        lines += [f"> **Note:** {plain(warning)}", ""]
    lines += [
        f"- **{plain(one.loss)}**: {plain(one.sentence)}" for one in document.claims
    ]
    lines.append("")
    for section in document.sections:
        lines += _section(section)
    return "\n".join(lines).rstrip() + "\n"


def _section(section: Section) -> Iterator[str]:
    yield from (f"## {plain(section.title)}", "")
    for text in section.text:
        yield from (plain(text), "")
    if section.items:
        yield from (f"- {plain(item)}" for item in section.items)
        yield ""
    for table in section.tables:
        yield from _table(table)
    for figure in section.figures:
        yield from (f"### {plain(figure.title)}", "", plain(figure.caption), "")
        yield from ("The picture is in report.html; its numbers:", "")
        yield from _table(figure.numbers)
    for drawing in section.drawings:
        yield from (f"### {plain(drawing.title)}", "", plain(drawing.caption), "")
        yield from ("The picture is in report.html.", "")
    for name, code in section.code:
        fence = _fence(code)
        yield from (f"{plain(name)}:", "", fence, *code.splitlines(), fence, "")


def _table(table: Table) -> Iterator[str]:
    yield from (f"{plain(table.caption)}:", "")
    yield _line(table.columns)
    yield _line(("---", *("---:" for _ in table.columns[1:])), raw=True)
    yield from map(_line, table.rows)
    yield ""


def _line(cells: tuple[str, ...], *, raw: bool = False) -> str:
    return f"| {' | '.join(cell if raw else plain(cell) for cell in cells)} |"


def _fence(code: str) -> str:
    """More backticks than there are together in what they enclose."""
    longest = max(map(len, re.findall("`+", code)), default=0)
    return "`" * max(3, longest + 1)


def plain(text: str) -> str:
    r"""Escape what would be taken for Markdown or HTML, and join lines.

    >>> print(plain("<script>alert(1)</script> a|b *c* _d_ stop_gradient"))
    &lt;script&gt;alert(1)&lt;/script&gt; a\|b \*c\* \_d\_ stop_gradient
    """
    text = " ".join(text.split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*|~\[\]])", r"\\\1", text)
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\_", text)
    # At the start of a line these would begin a heading or a list.
    return re.sub(r"^(#|[-+](?= )|\d+(?=[.)] ))", r"\\\1", text)
