"""Write the module of `dicejax.objectives` that follows from declared losses."""

import inspect
import re
import subprocess
import sys
import textwrap
import typing
from pathlib import Path

from dicejax import losses
from dicejax.losses.declaration import REGISTRY

FOLDER = Path(__file__).parents[1] / "dicejax" / "objectives"
# File, base class, and what it holds: the objectives of set losses, and the others.
FILES = {
    FOLDER / "of_losses.py": ("loss_objective", "LossObjective", "losses"),
    FOLDER / "of_set_losses.py": ("sets", "SetObjective", "set losses"),
}
ARGUMENT = re.compile(r"^  (\w+): (.*(?:\n    .+)*)", re.MULTILINE)

HEAD = '''"""Objectives of the {kind}, whose functions document the fields.

Written by `python -m tests.write_objectives` from the declarations of the losses.
"""

from typing import Literal

from dicejax import losses
from dicejax.objectives.declared import of_loss
from dicejax.objectives.{module} import {base}

# fmt: off
__all__ = [
{names}
]
# fmt: on


'''


def source(file):
    module, base, kind = FILES[file]
    declarations = [
        declaration
        for declaration in REGISTRY.values()
        if (declaration.kind == "set") is (base == "SetObjective")
    ]
    names = [declaration.class_name for declaration in declarations]
    names.sort(key=lambda name: (not name.isupper(), name))
    listed = textwrap.fill(", ".join(f'"{name}"' for name in names) + ",", 84)
    names = textwrap.indent(listed, "    ")
    head = HEAD.format(module=module, base=base, kind=kind, names=names)
    text = head + "".join(map(of_declaration, declarations))
    command = [sys.executable, "-m", "ruff", "format", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def of_declaration(declaration):
    """Return the source of a class with the settings of a loss."""
    function = declaration.function
    assert getattr(losses, function.__name__) is function
    documentation = inspect.getdoc(function)
    lines = [documentation.partition("\n\n")[0], *of_presets(documentation)]
    lines += of_fields(declaration)
    text = "\n".join(lines) + "\n" * (len(lines) > 1)
    docstring = "r" * ("\\" in text) + f'"""{text}"""'
    base = "SetObjective" if declaration.kind == "set" else "LossObjective"
    fields = [
        f"    {name}: {annotation(hint)} = {default!r}"
        for name, (hint, default) in declaration.settings().items()
    ]
    return "\n".join(
        [
            f"@of_loss(losses.{function.__name__})",
            f"class {declaration.class_name}({base}):",
            textwrap.indent(docstring, "    "),
            "",
            *fields,
            "",
        ]
    )


def of_fields(declaration):
    """Return the functions' documentation of the arguments that are fields."""
    texts = {
        "class_counts": "counts per class (multi-label: 0s, 1s); training data's if"
        " empty."
    }
    for function in filter(None, (declaration.function, declaration.initial_state)):
        for name, text in ARGUMENT.findall(inspect.getdoc(function)):
            texts.setdefault(name, text)
    fields = [f"  {name}: {texts[name]}" for name in declaration.settings()]
    return ["", "Args:", *fields] if fields else []


def of_presets(documentation):
    """Return lines that relate a loss to the presets that its documentation names."""
    names = ", ".join(re.findall(r"the preset\s+`([\w-]+)`", documentation))
    if not names:
        return []
    if "At its defaults it is the" in documentation:
        return ["", f"The preset {names} at its defaults."]
    return ["", f"Not a loss of the paper; its losses are the presets {names}."]


def annotation(hint):
    if typing.get_origin(hint) is typing.Union:
        return " | ".join(map(annotation, typing.get_args(hint)))
    if hint is type(None):
        return "None"
    if isinstance(hint, type):
        return hint.__name__
    return repr(hint).removeprefix("typing.")


if __name__ == "__main__":
    for file in FILES:
        file.write_text(source(file))
