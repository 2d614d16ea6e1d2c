"""The report as one HTML page, with everything in it."""

from __future__ import annotations

import functools
import re

import jinja2
from markupsafe import Markup

from dicejax.comparison.report.chart import Panel, Point
from dicejax.comparison.report.document import Document

_MARKS = {"better": "▲", "worse": "▼", "no evidence": "≈", "unknown": "?"}


def page(document: Document) -> str:
    """Write a report as HTML; every text is escaped."""
    return _templates().get_template("page.html.jinja").render(document=document)


@functools.cache
def _templates() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("dicejax.comparison.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {
        "share": share,
        "points": points,
        "summary": summary,
        "breaking": breaking,
        "inline": inline,
    }
    found.globals["marks"] = _MARKS
    return found


def share(value: float) -> str:
    """Write a share of a panel.

    >>> share(0.12345), share(1.0)
    ('12.35%', '100%')
    """
    return f"{100 * value:.2f}".rstrip("0").rstrip(".") + "%"


def points(line: tuple[Point, ...]) -> str:
    """Write points in thousandths of a panel.

    >>> points(((0.0, 1.0), (0.5, 0.1234)))
    '0,1000 500,123'
    """
    return " ".join(f"{1000 * x:.0f},{1000 * y:.0f}" for x, y in line)


def summary(panel: Panel) -> str:
    """Say what a panel shows, for those who do not see it."""
    axes = f"{panel.y.label} by {panel.x.label}"
    return f"{panel.told}; {axes}" if panel.told else axes


def breaking(text: str) -> Markup:
    """Let a name break where one of its settings or words ends.

    >>> breaking("dsc-stop_gradient<b>")
    Markup('dsc-<wbr>stop_<wbr>gradient&lt;b&gt;')
    """
    return Markup("<wbr>").join(re.split(r"(?<=[-_])(?=\w)", text))


def inline(svg: str, key: str) -> Markup:
    """Take a file of SVG into a page: no prologue, and names that no other picture has.

    >>> inline('<?xml version="1.0"?><svg><g id="a"/><use href="#a"/></svg>', "fig")
    Markup('<svg><g id="fig-a"/><use href="#fig-a"/></svg>')
    """
    element = svg[svg.index("<svg") :]
    return Markup(re.sub(r"""(\bid=["']|href=["']#|url\(#)""", rf"\1{key}-", element))
