"""Formulas of the site as MathML, which browsers show without a script or a font."""

import re
from typing import Any
from xml.sax.saxutils import unescape

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>',
    re.DOTALL,
)


def on_page_content(html: str, **rest: Any) -> str:
    """Replace what arithmatex has marked. MkDocs calls it with each page's HTML."""
    del rest
    return _FORMULA.sub(_mathml, html)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found["tag"] == "div" else "inline"
    return convert(unescape(found["tex"]), display=display)
