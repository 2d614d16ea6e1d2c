"""An experiment as a Python file, to read, edit and run."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

from dicejax.config import Experiment

WIDTH = 88


def experiment_file(experiment: Experiment, about: str) -> str:
    """Return a Python file whose `get_config` gives an experiment, every setting.

    >>> from dicejax.data.synthetic import SyntheticNER
    >>> text = experiment_file(Experiment(name="a", data=SyntheticNER()), "About.")
    >>> namespace = {}
    >>> exec(text, namespace)
    >>> namespace["get_config"]().data
    SyntheticNER(train=4000, dev=800, test=1600, o_per_entity=20.0, \
ambiguous_names=40, common_words=200, seed=0)

    A class of an experiment file is imported from a module that the user names.
    """
    names: dict[str, set[str]] = {}
    for cls in {type(part) for part in parts_of(experiment)}:
        names.setdefault(module_of(cls), set()).add(cls.__name__)
    imports = []
    for module, classes in sorted(names.items()):
        line = f"from {module} import {', '.join(sorted(classes))}"
        if len(line) > WIDTH:
            rows = "".join(f"    {name},\n" for name in sorted(classes))
            line = f"from {module} import (\n{rows})"
        if module == OWN_FILE:
            line = f"# Put the name of the experiment file that defines it.\n{line}"
        imports.append(line)
    code = source_of_value(experiment, 4, len("return "))
    return (
        f'"""{about}"""\n\n' + "\n".join(imports) + "\n\n\n"
        f"def get_config() -> Experiment:\n    return {code}\n"
    )


OWN_FILE = "experiment_file"


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
    packages = (".".join(parts[:end]) for end in range(2, len(parts)))
    return next(
        (
            name
            for name in packages
            if getattr(sys.modules[name], cls.__name__, None) is cls
        ),
        cls.__module__,
    )


def source_of_value(value: Any, indent: int, before: int = 0) -> str:
    """Return an expression for a value, in lines of at most 88 characters.

    It is indented by so many blanks, and its first line begins after `before` more.
    """
    if isinstance(value, str):
        text = repr(value)  # which escapes what is not printable
        is_plain = text[0] == "'" and '"' not in text
        return f'"{text[1:-1]}"' if is_plain else text
    if dataclasses.is_dataclass(value):
        ends = f"{type(value).__name__}(", ")"
        fields = [field for field in dataclasses.fields(value) if field.init]
        items = [(f"{field.name}=", getattr(value, field.name)) for field in fields]
    elif isinstance(value, tuple | list):
        ends = ("(", ",)" if len(value) == 1 else ")")
        ends = ends if isinstance(value, tuple) else ("[", "]")
        items = [("", part) for part in value]
    else:
        return repr(value)
    row = ", ".join(f"{name}{source_of_value(part, 0)}" for name, part in items)
    line = f"{ends[0]}{row}{ends[1]}"
    if indent + before + len(line) < WIDTH and "\n" not in line:
        return line
    inner = indent + 4
    rows = [
        f"{' ' * inner}{name}{source_of_value(part, inner, len(name))},\n"
        for name, part in items
    ]
    return f"{ends[0]}\n{''.join(rows)}{' ' * indent}{ends[1].lstrip(',')}"
