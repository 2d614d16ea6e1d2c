"""Write the modules of `dicejax.objectives` that follow from declared losses."""

import inspect
import runpy
import subprocess
import sys
import textwrap
import typing
from pathlib import Path

import docstring_parser

from dicejax import losses
from dicejax.losses.declaration import REGISTRY

FOLDER = Path(__file__).parents[1] / "dicejax" / "objectives"
# Not imported, so that broken or outdated files of objectives can be replaced.
_presets = runpy.run_path(str(FOLDER / "presets.py"))
PRESETS, sentence = _presets["PRESETS"], _presets["sentence"]

HEAD = '''"""Objectives of losses over {}, and of the paper's presets of them.

Written by `python -m tests.write_objectives` from the declarations of the losses.
"""

from typing import Literal

from dicejax import losses
from dicejax.objectives.declared import of_loss
from dicejax.objectives.{}

# fmt: off
__all__ = [
{}
]
# fmt: on


'''
BASES = {
    "elements": "loss_objective import LossObjective",
    "sets": "sets import Reduction, SetObjective, Sets",
}
CLASS_COUNTS = "counts per class (multi-label: 0s, 1s); training data's if empty."
OF_SETS = {"over": "Sets | int", "classes": "tuple[str, ...]", "reduce": "Reduction"}


def sources():
    """Return the texts of the modules, by file."""
    return {FOLDER / f"of_{kind}.py": source(kind) for kind in BASES}


def source(kind):
    declarations = [
        declaration
        for declaration in REGISTRY.values()
        if (declaration.kind == "set") == (kind == "sets")
    ]
    short_names = {declaration.short_name for declaration in declarations}
    presets = [
        preset
        for preset in PRESETS.values()
        if preset.loss in short_names and preset.name != preset.loss
    ]
    names = [declared.class_name for declared in (*declarations, *presets)]
    names.sort(key=lambda name: (not name.isupper(), name))
    listed = textwrap.fill(", ".join(f'"{name}"' for name in names) + ",", 84)
    head = HEAD.format(kind, BASES[kind], textwrap.indent(listed, "    "))
    classes = [*map(of_declaration, declarations), *map(of_preset, presets)]
    return formatted(head + "".join(classes))


def of_declaration(declaration):
    """Return the source of a class with the settings of a loss."""
    function, settings = declaration.function, declaration.settings()
    assert getattr(losses, function.__name__) is function
    descriptions = {"class_counts": CLASS_COUNTS}
    for documented in filter(None, (function, declaration.initial_state)):
        for entry in docstring_parser.parse(inspect.getdoc(documented)).params:
            descriptions.setdefault(entry.arg_name, entry.description)
    summary = inspect.getdoc(function).partition("\n\n")[0]
    lines = [summary, *paragraph(sentence(declaration.short_name))]
    lines += ["", "Args:"] if settings else []
    for name in settings:
        line = " ".join(f"{name}: {descriptions[name]}".split())
        indents = {"initial_indent": "  ", "subsequent_indent": "    "}
        lines += textwrap.wrap(line, 84, break_on_hyphens=False, **indents)
    base = "SetObjective" if declaration.kind == "set" else "LossObjective"
    head = f"{declaration.class_name}({base})"
    fields = {n: (annotation(hint), value) for n, (hint, value) in settings.items()}
    return class_of(function.__name__, head, lines, fields)


def of_preset(preset):
    """Return the source of a class with other defaults of a loss."""
    declaration = REGISTRY[preset.loss]
    hints = {n: annotation(hint) for n, (hint, _) in declaration.settings().items()}
    hints = OF_SETS | hints
    text = f"{preset.source} of Li et al., ACL 2020. "
    text += f"The loss {preset.loss} with other defaults."
    return class_of(
        f'{declaration.function.__name__}, "{preset.name}"',
        f"{preset.class_name}({declaration.class_name})",
        [preset.line, *paragraph(text)],
        {name: (hints[name], value) for name, value in preset.settings.items()},
    )


def paragraph(text):
    return ["", *textwrap.wrap(text, 84)] if text else []


def class_of(loss, head, lines, fields):
    """Return the source of a class, with the type and default of each field."""
    raw = "r" * any("\\" in line for line in lines)
    ends = '"""' if len(lines) == 1 else '\n    """'
    docstring = textwrap.indent(f'{raw}"""' + "\n".join(lines), "    ") + ends
    lines = [f"@of_loss(losses.{loss})", f"class {head}:", docstring, ""]
    lines += [f"    {name}: {hint} = {v!r}" for name, (hint, v) in fields.items()]
    return "\n".join([*lines, ""])


def annotation(hint):
    """Return the source of a type."""
    if typing.get_origin(hint) is typing.Union:
        return " | ".join(map(annotation, typing.get_args(hint)))
    if hint is type(None):
        return "None"
    if isinstance(hint, type):
        return hint.__name__
    return repr(hint).removeprefix("typing.")


def formatted(text):
    command = [sys.executable, "-m", "ruff", "format", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    for file, text in sources().items():
        file.write_text(text)
