"""Write the modules of `dicejax.objectives` that follow from declared losses."""

import inspect
import re
import subprocess
import sys
import textwrap
import typing
from pathlib import Path

import docstring_parser

from dicejax import losses
from dicejax.losses.declaration import REGISTRY

FOLDER = Path(__file__).parents[1] / "dicejax" / "objectives"

HEAD = '''"""Objectives of losses over {}.

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
    "sets": "sets import SetObjective",
}
CLASS_COUNTS = "counts per class (multi-label: 0s, 1s); training data's if empty."


def sources():
    return {FOLDER / f"of_{kind}.py": source(kind) for kind in BASES}


def source(kind):
    declarations = [
        declaration
        for declaration in REGISTRY.values()
        if (declaration.kind == "set") == (kind == "sets")
    ]
    names = [declaration.class_name for declaration in declarations]
    names.sort(key=lambda name: (not name.isupper(), name))
    listed = textwrap.fill(", ".join(f'"{name}"' for name in names) + ",", 84)
    head = HEAD.format(kind, BASES[kind], textwrap.indent(listed, "    "))
    text = head + "".join(map(of_declaration, declarations))
    command = [sys.executable, "-m", "ruff", "format", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def of_declaration(declaration):
    """Return the source of a class with the settings of a loss."""
    function, settings = declaration.function, declaration.settings()
    assert getattr(losses, function.__name__) is function
    descriptions = {"class_counts": CLASS_COUNTS}
    for documented in filter(None, (function, declaration.initial_state)):
        for entry in docstring_parser.parse(inspect.getdoc(documented)).params:
            descriptions.setdefault(entry.arg_name, entry.description)
    documentation = inspect.getdoc(function)
    lines = [documentation.partition("\n\n")[0], *of_presets(documentation)]
    lines += ["", "Args:"] if settings else []
    for name in settings:
        line = " ".join(f"{name}: {descriptions[name]}".split())
        indents = {"initial_indent": "  ", "subsequent_indent": "    "}
        lines += textwrap.wrap(line, 84, break_on_hyphens=False, **indents)
    raw = "r" * any("\\" in line for line in lines)
    ends = '"""' if len(lines) == 1 else '\n    """'
    docstring = textwrap.indent(f'{raw}"""' + "\n".join(lines), "    ") + ends
    base = "SetObjective" if declaration.kind == "set" else "LossObjective"
    head = f"class {declaration.class_name}({base}):"
    fields = [f"    {n}: {annotation(h)} = {v!r}" for n, (h, v) in settings.items()]
    decorator = f"@of_loss(losses.{function.__name__})"
    return "\n".join([decorator, head, docstring, "", *fields, ""])


def of_presets(documentation):
    """Return lines that relate a loss to the presets that its documentation names."""
    names = ", ".join(re.findall(r"the preset\s+`([\w-]+)`", documentation))
    if not names:
        return []
    if "At its defaults it is the" in documentation:
        return ["", f"The preset {names} at its defaults."]
    return ["", f"None of the paper at its defaults; see the presets {names}."]


def annotation(hint):
    if typing.get_origin(hint) is typing.Union:
        return " | ".join(map(annotation, typing.get_args(hint)))
    if hint is type(None):
        return "None"
    if isinstance(hint, type):
        return hint.__name__
    return repr(hint).removeprefix("typing.")


if __name__ == "__main__":
    for file, text in sources().items():
        file.write_text(text)
