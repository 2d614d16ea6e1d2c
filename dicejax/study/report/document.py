"""Parts of a report, and its rendering as HTML and as Markdown."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape

from dicejax.errors import visible
from dicejax.study import figures
from dicejax.study.compare.statistics import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST_WORD = 24
"""Characters of a name without a place to break the line."""
MARKS = {
    "better": "▲",
    "worse": "▼",
    "practically equal": "=",
    "identical predictions": "=",
    "identical scores": "=",
    "inconclusive": "?",
    "unstable": "!",
    "nothing learnt": "∅",
    "no verdict": "?",
}


Lines = Sequence[Mapping[str, str]]
"""Cells of each line of a table, by column."""
PROSE = re.compile("text|gold|models say|kind|copies say|.* predicted")
"""Columns of prose, whatever their cells."""


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure of one panel or several.

    Attributes:
      key: classes of the style sheet with their descriptions.
      panels: the figure of each panel, by its name.
      notes: a line on each panel, which is shown with its name; without any neither is.
      data: the numbers by caption; empty where a file of the run has them.
      about: description of the only panel; others are described by their axes.
    """

    title: str
    caption: str
    key: Mapping[str, str]
    panels: Mapping[str, Figure]
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    data: Mapping[str, Lines] = dataclasses.field(default_factory=dict)
    about: str = ""

    def description(self, name: str) -> str:
        """Describe a panel for screen readers."""
        if self.about:
            return self.about
        axes = self.panels[name].axes[0]
        return f"{self.notes[name]}; {axes.get_ylabel()} by {axes.get_xlabel()}"


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of the report, with tables by caption; left out without content."""

    key: str
    title: str
    text: Sequence[str] = ()
    tables: Mapping[str, Lines] = dataclasses.field(default_factory=dict)
    pictures: Sequence[Picture] = ()
    code: Mapping[str, str] = dataclasses.field(default_factory=dict)


def page(document: Mapping[str, Any]) -> str:
    """Return a report as one HTML page, with its figures and its style sheet.

    Args:
      document: title, heading of the verdict, context by name, verdict, warnings,
        sections, and keys of those that are folded; of a comparison also what losses
        are by name, the verdict on each (claims), and the picture of differences
        (forest).
    """
    document = {"losses": {}, "claims": {}, "forest": None, **document}
    is_drawn = document["forest"] or any(x.pictures for x in document["sections"])
    with figures.look() if is_drawn else contextlib.nullcontext():
        template = _templates().get_template("page.html.jinja")
        return template.render(document, marks=MARKS)


def markdown(document: Mapping[str, Any]) -> str:
    """Return a report as Markdown, with tables in the place of figures."""
    template = _templates().get_template("page.md.jinja")
    return _without_gaps(template.render(document, marks=MARKS))


def markdown_of(sections: Sequence[Section]) -> str:
    """Return sections as Markdown."""
    macros: Any = _templates().get_template("sections.md.jinja").module
    return _without_gaps(macros.in_sections(sections))


def _without_gaps(text: str) -> str:
    """Return Markdown with one blank line between two blocks."""
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


@functools.cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dicejax.study.report", "."),
        autoescape=lambda name: name == "page.html.jinja",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Python's own markup, such as figures, has no control characters.
        finalize=lambda value: visible(value, "\n") if type(value) is str else value,
    )
    environment.filters |= {
        "breaking": breaking,
        "code": lambda text: escape(visible(text, "\n")),
        "plain": plain,
        "svg": figures.element,
        "wordy": wordy,
    }
    return environment


def wordy(lines: Lines) -> set[str]:
    """Return the columns of prose, those with a cell of over 24 characters too."""
    cells = [cell for line in lines for cell in list(line.items())[1:]]
    return {name for name, text in cells if PROSE.fullmatch(name) or len(text) > 24}


def breaking(text: str) -> Markup:
    """Allow line breaks in a name between its settings or words, and in long words.

    >>> breaking("dsc-stop_gradient<b>")
    Markup('dsc-<wbr>stop_<wbr>gradient&lt;b&gt;')
    """
    places = rf"(?<=[-_])(?=\w)|(?<=[^\s_-]{{{LONGEST_WORD}}})(?=\w)"
    return Markup("<wbr>").join(re.split(places, visible(text)))


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


def scores_of_runs(rows: Sequence[Row]) -> dict[str, Lines]:
    """Return the test score of each run, a line per loss and a column per seed."""
    scores = [{r.seed: 100 * r.score for r in x.finished} for x in rows]
    seeds = sorted({seed for by_seed in scores for seed in by_seed})
    lines = [
        {"loss": row.loss, **{f"seed {s}": number(by_seed.get(s)) for s in seeds}}
        for row, by_seed in zip(rows, scores, strict=True)
    ]
    return {f"Test {rows[0].metric} (%) of each run": lines}


def number(value: float | None) -> str:
    """Format a number in a table; "-" for None."""
    return "-" if value is None else f"{value:.2f}"
