"""An experiment as a Python file, to read, edit and run."""

from __future__ import annotations

import dataclasses
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from rich.pretty import pretty_repr

from dicejax.config import Experiment

OWN_FILE = "experiment_file"
INDENT, WIDTH = 4, 88


def experiment_file(experiment: Experiment, about: str) -> str:
    """Return a Python file whose `get_config` gives an experiment, every setting.

    >>> from dicejax.data.synthetic import SyntheticNER
    >>> text = experiment_file(Experiment(name="a", data=SyntheticNER()), "About.")
    >>> namespace = {}
    >>> exec(text, namespace)
    >>> namespace["get_config"]().data
    SyntheticNER(train=4000, dev=800, test=1600, o_per_entity=20.0, \
ambiguous_names=40, common_words=200, own_names=0, disputed=0.0, seed=0)

    A class of an experiment file is imported from a module that the user names.
    """
    modules = {cls.__name__: module_of(cls) for cls in map(type, parts_of(experiment))}
    imports = "\n".join(sorted(f"from {modules[x]} import {x}" for x in modules))
    mark = f"from {OWN_FILE} import"
    note = "# Put the name of the experiment file that defines it."
    imports = imports.replace(mark, f"{note}\n{mark}")
    code = f"return {pretty_repr(experiment, max_width=WIDTH - INDENT)}"
    return (
        f'"""{about}"""\n\n{imports}\n\n\n'
        f"def get_config() -> Experiment:\n{textwrap.indent(code, ' ' * INDENT)}\n"
    )


def parts_of(value: Any) -> Iterator[Any]:
    """Yield the dataclasses in a value, and the value if it is one."""
    if dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            yield from parts_of(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from parts_of(part)


def module_of(cls: type) -> str:
    """Return the module to import a class from: the package that exports it.

    >>> from dicejax.objectives import Dice
    >>> module_of(Dice)
    'dicejax.objectives'
    """
    if cls.__module__ not in sys.modules or cls.__module__ == "__main__":
        return OWN_FILE
    parts = cls.__module__.split(".")
    for end in range(2, len(parts)):
        package = ".".join(parts[:end])
        if getattr(sys.modules[package], cls.__name__, None) is cls:
            return package
    return cls.__module__
