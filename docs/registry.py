"""Sections, tables and lists of the site that follow from the registry of losses.

A page holds a marker such as `<!-- losses -->` on a line of its own; this extension of
Python-Markdown replaces it.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

from dicejax.comparison.spaces import declared_ranges
from dicejax.losses.declaration import REGISTRY, Declaration, Range
from dicejax.objectives import PRESETS, by_short_name

_DRAWN = {"linear": "", "log": ", log", "log from 1": ", log of 1 - value"}


def losses() -> Iterator[str]:
    """Yield the table of losses: what their docstrings say, shortened."""
    yield from _row("loss", "kind", "formula", "use it", "pitfalls", "source")
    for declared in REGISTRY.values():
        name, short = declared.function.__name__, declared.short_name
        linked = f"[`{name}`](api/losses.md#{_path(declared)})"
        linked += "" if short == name else f", `{short}`"
        yield _cells(linked, declared.kind, *described(declared))


def described(declared: Declaration) -> tuple[str, str, str, str]:
    """Return formula, use, pitfalls and source of a loss, from its docstring."""
    text = inspect.getdoc(declared.function) or ""
    formula = re.search(r"\.\. math::(.*?)\n\n", text, re.DOTALL)
    found = [_paragraph(text, one) for one in ("Use it ", "Pitfalls: ", "Source: ")]
    linked = re.sub(r"\((https?://\S+)\)", r"([link](\1))", found.pop())
    tex = " ".join(formula[1].split()).replace("|", r"\vert ") if formula else ""
    if "&" in tex:
        tex = rf"\begin{{aligned}} {tex} \end{{aligned}}"
    return (f"${tex}$" if tex else "", *found, linked)


def _paragraph(text: str, start: str) -> str:
    found = re.search(rf"^{start}(.*?)(?:\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
    words = " ".join(found[1].split()) if found else ""
    return re.sub(r":math:`([^`]+)`", r"$\1$", words).replace("|", r"\vert ")


def objectives() -> Iterator[str]:
    """Yield the table of objectives: what an experiment and the command line set."""
    yield from _row("objective", "`--losses`", "fields and their defaults")
    for name, cls in by_short_name().items():
        default = cls()
        values = [
            f"`{one.name}={getattr(default, one.name)!r}`"
            for one in dataclasses.fields(cls)
            if one.name != "output"
        ]
        anchor = f'<a id="dicejax.objectives.{cls.__name__}"></a>'
        shown = f"{anchor}`{cls.__name__}`"
        yield _cells(shown, f"`{name}`", ", ".join(values))


def presets() -> Iterator[str]:
    """Yield the table of the paper's losses and how they are set."""
    yield from _row("`--losses`", "source", "loss", "settings", "what it is")
    for one in PRESETS.values():
        settings = [f"`{name}={_plain(given)}`" for name, given in one.settings.items()]
        shown = ", ".join(settings) or "its defaults"
        yield _cells(f"`{one.name}`", one.source, f"`{one.loss}`", shown, one.line)


def _plain(value: Any) -> str:
    """Return a setting as the command line takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def ranges() -> Iterator[str]:
    """Yield the table of what tuning varies."""
    yield from _row("loss", "hyper-parameter", "range", "why")
    for name, cls in by_short_name().items():
        found = declared_ranges(cls)
        for field, one in found.items():
            yield _cells(f"`{name}`", _varied(field, one), _values(one), one.why)
        if not found:
            yield _cells(f"`{name}`", "-", "-", "its learning rate alone")


def _varied(field: str, one: Range) -> str:
    only = f" with `{one.only[0]}={one.only[1]}`" if one.only else ""
    rest = f", `{one.rest}` = 1 - `{field}`" if one.rest else ""
    return f"`{field}`{only}{rest}"


def _values(one: Range) -> str:
    whole = ", whole" if one.whole else ""
    return f"{one.low:g} to {one.high:g}{_DRAWN[one.scale]}{whole}"


def functions(*kinds: str) -> Callable[[], Iterator[str]]:
    """Return what lists the reference of the losses of some kinds."""

    def lines() -> Iterator[str]:
        for declared in REGISTRY.values():
            if declared.kind in kinds:
                yield f"::: {_path(declared)}\n"

    return lines


def _path(declared: Declaration) -> str:
    return f"{declared.function.__module__}.{declared.function.__name__}"


def _row(*titles: str) -> Iterator[str]:
    yield _cells(*titles)
    yield _cells(*["---"] * len(titles))


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


MARKERS = {
    "<!-- losses -->": losses,
    "<!-- objectives -->": objectives,
    "<!-- presets -->": presets,
    "<!-- ranges -->": ranges,
    "<!-- functions of elements -->": functions("pointwise"),
    "<!-- functions of the batch -->": functions("batch", "stateful"),
    "<!-- functions of sets -->": functions("set"),
}


class Markers(Preprocessor):
    """Fill the markers of a page."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines with what belongs in place of each marker."""
        filled: list[str] = []
        for line in lines:
            made = MARKERS[line]() if line in MARKERS else [line]
            filled += "\n".join(made).split("\n")
        return filled


class RegistryExtension(Extension):
    """Register the preprocessor."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Run before comments and fenced code are set aside."""
        md.preprocessors.register(Markers(md), "registry", priority=28)


def makeExtension(**settings: Any) -> RegistryExtension:  # noqa: N802
    """Return the extension, for Python-Markdown."""
    return RegistryExtension(**settings)
