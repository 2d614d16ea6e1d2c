"""Formulas of the site as MathML, which browsers show without a script or a font."""

import re
from typing import Any
from xml.sax.saxutils import unescape

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>',
    re.DOTALL,
)


class Formulas(Postprocessor):
    """Replace what arithmatex has marked, of pages and of docstrings alike."""

    def run(self, text: str) -> str:
        """Return the HTML with MathML for TeX."""
        return _FORMULA.sub(_mathml, text)


def _mathml(match: re.Match[str]) -> str:
    display = "block" if match["tag"] == "div" else "inline"
    tex = unescape(match["tex"])
    if "&" in tex and r"\begin" not in tex:  # lines that are aligned
        tex = rf"\begin{{align*}}{tex}\end{{align*}}"
    return convert(tex, display=display)


class FormulaExtension(Extension):
    """Register the postprocessor."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Run after all others: they restore what was set aside."""
        md.postprocessors.register(Formulas(md), "formulas", priority=-10)


def makeExtension(**settings: Any) -> FormulaExtension:
    """Return the extension, for Python-Markdown."""
    return FormulaExtension(**settings)
