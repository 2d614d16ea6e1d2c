"""How the site reads docstrings: doctests as code, formulas as formulas.

The plugin for Python loads it as an extension of Griffe. In the source a docstring is
for `help()`, where Markdown's fences and dollars would be noise.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import griffe

from dicejax import losses

# Decorators add arguments that are not in the source.
_LOSSES = {name: x for name, x in vars(losses).items() if inspect.isfunction(x)}
_FORMULA = re.compile(r"^\.\. math::(.*\n(?:[ ]+\S.*(?:\n|\Z))*)", re.MULTILINE)
_DOCTEST = re.compile(r"^([ ]*)>>> .*\n?(?:\1.*\S.*\n?)*", re.MULTILINE)
_INLINE = re.compile(r":math:`([^`]+)`")
_EXAMPLE = re.compile(r"^Example:\n(?=[ ]+>>>)", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Convert the parts of docstrings outside Google's sections to Markdown."""

    def on_object(self, *, obj: griffe.Object, **rest: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        del rest
        if isinstance(obj, griffe.Function) and obj.path.startswith("dicejax.losses."):
            _complete(obj)
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def _complete(obj: griffe.Function) -> None:
    """Add arguments that a decorator gives a loss, with their documentation."""
    function = _LOSSES.get(obj.name)
    if function is None or obj.docstring is None:
        return
    obj.docstring.value = inspect.getdoc(function) or ""
    written = {parameter.name: parameter for parameter in obj.parameters}
    obj.parameters = griffe.Parameters()
    for name, parameter in inspect.signature(function).parameters.items():
        has_default = parameter.default is not parameter.empty
        annotation = inspect.formatannotation(parameter.annotation)
        added = griffe.Parameter(
            name,
            annotation=annotation.replace("jax.jaxlib._jax.", ""),
            kind=griffe.ParameterKind.keyword_only
            if parameter.kind is parameter.KEYWORD_ONLY
            else griffe.ParameterKind.positional_or_keyword,
            default=repr(parameter.default) if has_default else None,
        )
        obj.parameters.add(written.get(name, added))


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
