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

from dicejax import losses
from dicejax.losses import class_weights
from dicejax.losses.declaration import REGISTRY, Range
from dicejax.objectives import PRESETS, by_short_name
from dicejax.study.compare.spaces import declared_ranges

_DRAWN = {"linear": "", "log": ", log", "log from 1": ", log of 1 - value"}


KINDS = {
    "pointwise": "one value per element",
    "batch": "one value per element, which depends on the batch",
    "stateful": "one value per element, and a state for the next call",
    "set": "one value per class and set",
}
# No losses of a classifier, or parts of one.
_BESIDE = (
    losses.adjust_logits,
    losses.ghm_regression,
    losses.hard_negative_mask,
    class_weights.log_ratio,
    class_weights.inverse,
    class_weights.inverse_square_root,
    class_weights.effective_number,
    class_weights.f_measure,
)


def contents() -> Iterator[str]:
    """Yield a list of the losses of each kind, with links to their sections."""
    for kind, meaning in KINDS.items():
        page = "losses-sets.md" if kind == "set" else "losses-elements.md"
        names = [
            loss.function.__name__ for loss in REGISTRY.values() if loss.kind == kind
        ]
        linked = ", ".join(f"[`{name}`]({page}#{name})" for name in names)
        yield f"- **{kind.capitalize()}**, {meaning}: {linked}"


def sections(*kinds: str) -> Callable[[], Iterator[str]]:
    """Return what lists a section per loss: use, formula, pitfalls and source."""

    def lines() -> Iterator[str]:
        for kind in kinds:
            for loss in REGISTRY.values():
                if loss.kind == kind:
                    meaning = f"{kind.capitalize()}, `--losses {loss.short_name}`"
                    yield from _section(loss.function, meaning)

    return lines


def beside() -> Iterator[str]:
    """Yield a section per function that is no loss of a classifier."""
    for function in _BESIDE:
        yield from _section(function, "")


def _section(function: Callable[..., Any], kind: str) -> Iterator[str]:
    use, formula, pitfalls, source = described(function)
    reference = f"[API](api/losses.md#{_path(function)})"
    yield f"### `{function.__name__}` {{ #{function.__name__} }}\n"
    yield f"Use it {use}\n"
    yield f"$$\n{formula}\n$$\n"
    yield f"**Pitfalls:** {pitfalls}\n"
    if source:
        yield f"**Source:** {source}\n"
    yield f"{kind} · {reference}\n" if kind else f"{reference}\n"


def described(function: Callable[..., Any]) -> tuple[str, str, str, str]:
    """Return use, formula, pitfalls and source of a loss, from its docstring."""
    text = inspect.getdoc(function) or ""
    formula = re.search(r"\.\. math::(.*?)\n\n", text, re.DOTALL)
    tex = " ".join(formula[1].split()) if formula else ""
    use, pitfalls, source = (
        _paragraph(text, heading) for heading in ("Use it ", "Pitfalls: ", "Source: ")
    )
    return use, tex, pitfalls, re.sub(r"\((https?://\S+)\)", _named_link, source)


def _paragraph(text: str, start: str) -> str:
    match = re.search(rf"^{start}(.*?)(?:\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
    words = " ".join(match[1].split()) if match else ""
    return re.sub(r":math:`([^`]+)`", r"$\1$", words)


def _named_link(match: re.Match[str]) -> str:
    host, _, path = match[1].partition("://")[2].partition("/")
    number = path.removeprefix("abs/")
    return f"([{f'arXiv {number}' if host == 'arxiv.org' else host}]({match[1]}))"


def objectives() -> Iterator[str]:
    """Yield the table of objectives: what an experiment and the command line set."""
    yield from _row("objective", "`--losses`", "fields and their defaults")
    for name, cls in by_short_name().items():
        default = cls()
        values = [
            f"`{field.name}={getattr(default, field.name)!r}`"
            for field in dataclasses.fields(cls)
            if field.name != "output"
        ]
        anchor = f'<a id="dicejax.objectives.{cls.__name__}"></a>'
        name_cell = f"{anchor}`{cls.__name__}`"
        yield _cells(name_cell, f"`{name}`", ", ".join(values))


def presets() -> Iterator[str]:
    """Yield the table of the paper's losses and how they are set."""
    yield from _row("`--losses`", "source", "loss", "settings", "what it is")
    for name, cls in PRESETS.items():
        documentation = inspect.getdoc(cls) or ""
        # That of a loss that is a preset at its defaults is the function's.
        if name == cls.declaration.short_name:
            documentation = inspect.getdoc(cls.declaration.function) or ""
        source = documentation.partition("\n\nSource: ")[2].partition("\n\n")[0]
        source = " ".join(source.split()).removeprefix("Li et al., ACL 2020, ")
        source = source.partition(" (http")[0]
        settings = [
            f"`{field}={_plain(getattr(cls, field))}`"
            for field in cls.__annotations__
            if name != cls.declaration.short_name
        ]
        own = (
            "its defaults" if "loss_and_state" not in vars(cls) else "as its class says"
        )
        settings_cell = ", ".join(settings) or own
        loss, line = cls.declaration.short_name, documentation.partition("\n")[0]
        yield _cells(f"`{name}`", source, f"`{loss}`", settings_cell, line)


def _plain(value: Any) -> str:
    """Return a setting as the command line takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def ranges() -> Iterator[str]:
    """Yield the table of what tuning varies."""
    yield from _row("loss", "hyper-parameter", "range", "why")
    for name, cls in by_short_name().items():
        searched = declared_ranges(cls)
        for field, range_ in searched.items():
            yield _cells(
                f"`{name}`",
                _varied(field, range_),
                _values(range_),
                range_.why,
            )
        if not searched:
            yield _cells(f"`{name}`", "-", "-", "its learning rate alone")


def _varied(field: str, range_: Range) -> str:
    setting, *values = range_.only or ("",)
    only = f" with `{setting}={'`, `'.join(values)}`" if values else ""
    rest = f", `{range_.rest}` = 1 - `{field}`" if range_.rest else ""
    return f"`{field}`{only}{rest}"


def _values(range_: Range) -> str:
    whole = ", whole" if range_.whole else ""
    return f"{range_.low:g} to {range_.high:g}{_DRAWN[range_.scale]}{whole}"


def functions(*kinds: str) -> Callable[[], Iterator[str]]:
    """Return what lists the reference of the losses of some kinds."""

    def lines() -> Iterator[str]:
        for declared in REGISTRY.values():
            if declared.kind in kinds:
                yield f"::: {_path(declared.function)}\n"

    return lines


def _path(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__name__}"


def _row(*titles: str) -> Iterator[str]:
    yield _cells(*titles)
    yield _cells(*["---"] * len(titles))


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


MARKERS = {
    "<!-- losses -->": contents,
    "<!-- a section per loss of elements -->": sections(
        "pointwise", "batch", "stateful"
    ),
    "<!-- a section per loss of sets -->": sections("set"),
    "<!-- a section per function beside losses -->": beside,
    "<!-- objectives -->": objectives,
    "<!-- presets -->": presets,
    "<!-- ranges -->": ranges,
    "<!-- functions of elements -->": functions("pointwise"),
    "<!-- functions of the batch -->": functions("batch", "stateful"),
    "<!-- functions of sets -->": functions("set"),
}


UNBUILT = "*Listed here on the site:"
"""Begins the line behind a marker for those who read the file itself."""


class Markers(Preprocessor):
    """Fill the markers of a page."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines with what belongs in place of each marker."""
        filled: list[str] = []
        for line in lines:
            if line.startswith(UNBUILT):
                continue
            made = MARKERS[line]() if line in MARKERS else [line]
            filled += "\n".join(made).split("\n")
        return filled


class RegistryExtension(Extension):
    """Register the preprocessor."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Run before comments and fenced code are set aside."""
        md.preprocessors.register(Markers(md), "registry", priority=28)


def makeExtension(**settings: Any) -> RegistryExtension:
    """Return the extension, for Python-Markdown."""
    return RegistryExtension(**settings)
