"""How the site reads docstrings: doctests as code, formulas as formulas.

The plugin for Python loads it as an extension of Griffe. In the source a docstring is
for `help()`, where Markdown's fences and dollars would be noise.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_FORMULA = re.compile(r"^\.\. math::(.*\n(?:[ ]+\S.*(?:\n|\Z))*)", re.MULTILINE)
_DOCTEST = re.compile(r"^([ ]*)>>> .*\n?(?:\1.*\S.*\n?)*", re.MULTILINE)
_INLINE = re.compile(r":math:`([^`]+)`")
_EXAMPLE = re.compile(r"^Example:\n(?=[ ]+>>>)", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Convert the parts of docstrings outside Google's sections to Markdown."""

    def on_object(self, *, obj: griffe.Object, **rest: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        del rest
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """Return a docstring whose examples and formulas are Markdown's."""
    text = _FORMULA.sub(
        lambda match: f"$$\n{' '.join(match[1].split())}\n$$\n", docstring
    )
    text = _INLINE.sub(r"$\1$", text)
    return _DOCTEST.sub(_fenced, _EXAMPLE.sub("", text))


def _fenced(match: re.Match[str]) -> str:
    lines = [line.removeprefix(match[1]) for line in match[0].splitlines()]
    return "\n".join(["```pycon", *lines, "```", ""])
