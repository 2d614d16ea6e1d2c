"""Parts of a report, and its rendering as HTML and Markdown by templates.

Text from the data, such as labels, is escaped.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import jinja2
import markupsafe
from markupsafe import Markup

from dicejax.errors import visible
from dicejax.study import figures
from dicejax.study.significance import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = {
    "better": "▲",
    "worse": "▼",
    "practically equal": "=",
    "identical predictions": "=",
    "inconclusive": "?",
    "nothing learnt": "∅",
    "no verdict": "?",
}


@dataclasses.dataclass(frozen=True)
class TextTable:
    """A table of texts."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Panel:
    """One Matplotlib figure, drawn within `dicejax.study.figures.look`.

    Attributes:
      name: heading, such as the loss.
      note: short summary of its numbers.
      figure: the drawing.
      axes: axes in words, for screen readers.
    """

    name: str
    note: str
    figure: Figure
    axes: str


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure of the report: one panel or several side by side, and its data.

    Attributes:
      title: heading.
      caption: how to read the figure.
      key: legend: classes of the style sheet, with their descriptions.
      panels: the drawings.
      data: numbers drawn; None if they are in a file of the run.
    """

    title: str
    caption: str
    key: tuple[tuple[str, str], ...]
    panels: tuple[Panel, ...]
    data: TextTable | None = None


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of the report; a folded one opens at its heading."""

    key: str
    title: str
    text: tuple[str, ...] = ()
    bullets: tuple[str, ...] = ()
    tables: tuple[TextTable, ...] = ()
    pictures: tuple[Picture, ...] = ()
    code: tuple[tuple[str, str], ...] = ()
    folded: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing but the heading."""
        content = (self.text, self.bullets, self.tables, self.pictures, self.code)
        return not any(content)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Document:
    """A whole report.

    Attributes:
      title: heading.
      context: data, task, encoder, training, seeds, hardware, by name.
      losses: each name with a description of the loss.
      verdict: the outcome in one line.
      forest: differences to the baseline; None without any.
      warnings: sentences, the gravest first.
      claims: verdict on each loss.
      sections: the rest.
    """

    title: str
    context: tuple[tuple[str, str], ...]
    losses: tuple[tuple[str, str], ...]
    verdict: str
    forest: Picture | None
    warnings: tuple[str, ...]
    claims: tuple[tuple[str, Verdict], ...]
    sections: tuple[Section, ...]


def page(document: Document) -> str:
    """Return a report as one HTML page, with its figures and its style sheet."""
    return _rendered("page.html.jinja", document, _visible)


def markdown(document: Document) -> str:
    """Return a report as Markdown, with tables in the place of figures."""
    text = _rendered("page.md.jinja", document, lambda text: Markup(plain(text)))
    return text.rstrip() + "\n"


def _rendered(template: str, document: Document, escape: Callable[[str], str]) -> str:
    """Fill a template, where `escape` is done before the template escapes HTML."""

    def finalize(value: object) -> object:
        is_plain = isinstance(value, str) and not isinstance(value, Markup)
        return escape(value) if is_plain else value

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dicejax.study.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=finalize,
    )
    environment.filters |= {
        "breaking": breaking,
        "svg": _svg,
        "verbatim": lambda text: markupsafe.escape(_visible(text)),
    }
    return environment.get_template(template).render(document=document, marks=MARKS)


def _visible(text: str) -> str:
    return visible(text, keep="\n")


def _svg(panel: Panel, key: str) -> Markup:
    about = f"{panel.note}; {panel.axes}".strip("; ")
    with figures.look():
        return Markup(figures.element(panel.figure, key, panel.name, about))


def breaking(text: str) -> Markup:
    """Allow line breaks in a name between its settings or words.

    >>> breaking("dsc-stop_gradient<b>")
    Markup('dsc-<wbr>stop_<wbr>gradient&lt;b&gt;')
    """
    return Markup("<wbr>").join(re.split(r"(?<=[-_])(?=\w)", visible(text)))


def plain(text: str) -> str:
    r"""Escape Markdown, HTML and control characters, and join lines.

    >>> print(plain("<script>alert(1)</script> a|b *c* _d_ stop_gradient"))
    &lt;script&gt;alert(1)&lt;/script&gt; a\|b \*c\* \_d\_ stop_gradient
    """
    text = " ".join(visible(text, keep="\n\t").split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*|~\[\]])", r"\\\1", text)
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\_", text)
    text = re.sub(r"(?<= )(#+)$", r"\\\1", text)  # a heading may end in these
    # At the start of a line these would begin a heading, a list or a rule.
    return re.sub(r"^(\d*)([.)+-](?= |$)|-(?=[- ]+$)|#)", r"\1\\\2", text)
