"""Rooms keep to their lines of code, the package to its number of concepts.

Signatures and docstrings are the interface and are not counted, nor are comments.
"""

import ast
import io
import re
import tokenize
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from dicejax.objectives.objective import Objective
from dicejax.tasks.task import Task

ROOT = Path(__file__).parents[1]
BUDGET = tomllib.loads((ROOT / "tests" / "budget.toml").read_text())
# Words that do not say what a value is.
DIALECT = "one found wanted known said kept given own here told shown of what do"
# Tokens without code.
BLANK = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def lines_of_code(text: str) -> int:
    """Count the lines that hold code, without docstrings and imports."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in BLANK:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        # Texts that are statements document a module, function, class or attribute.
        is_text = (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, (ast.Import, ast.ImportFrom)):
            lines -= {*range(node.lineno, node.end_lineno + 1)}
    return len(lines)


def test_lines_of_code_are_those_that_do_something():
    text = """\
\"\"\"Module.\"\"\"

import ast  # gone
from io import (
    StringIO,
)

# A comment.
LONG = \'\'\'a
b\'\'\'
\"\"\"Attribute.\"\"\"


def add(
    a,
    b,
):
    \"\"\"Add.

    Two lines.
    \"\"\"

    return a + b  # the sum
"""
    assert lines_of_code(text) == 7


def by_room(folder: str) -> dict[str, list[Path]]:
    """Return the files of each folder in `dicejax/` or `tests/`."""
    rooms = defaultdict(list)
    for file in sorted((ROOT / folder).rglob("*.py")):
        inner = file.relative_to(ROOT / folder).parts
        rooms[inner[0] if len(inner) > 1 else "top_level"].append(file)
    return rooms


@pytest.mark.parametrize("folder", ["dicejax", "tests"])
def test_rooms_stay_within_their_lines_of_code(folder):
    rooms, budget = by_room(folder), BUDGET[folder]
    assert set(budget) == set(rooms), f"[{folder}] of tests/budget.toml names the rooms"
    for room, files in rooms.items():
        lines = sum(lines_of_code(file.read_text()) for file in files)
        assert lines <= budget[room], (
            f"{folder}/{room} has {lines} lines of code, its budget is {budget[room]}: "
            "cut, or have its line in tests/budget.toml raised by who sets the limits"
        )


def classes(room: str = "") -> list[ast.ClassDef]:
    """Return the classes of the package, or of a folder of it."""
    files = (ROOT / "dicejax" / room).rglob("*.py")
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    return [node for node in nodes if isinstance(node, ast.ClassDef)]


def is_record(node: ast.ClassDef) -> bool:
    """Return whether a class is a dataclass or a named tuple."""
    heads = map(ast.unparse, [*node.decorator_list, *node.bases])
    return any(re.search(r"\bdataclass\b|NamedTuple", head) for head in heads)


def public_methods(cls: type) -> set[str]:
    """Return the names that whoever reads or extends a class meets."""
    methods = {name for base in cls.__mro__[:-1] for name in vars(base)}
    return {n for n in methods if not n.startswith("_") and callable(getattr(cls, n))}


def test_concepts_stay_within_their_number():
    concepts = {
        "public_classes": sum(not node.name.startswith("_") for node in classes()),
        "records_of_study": sum(map(is_record, classes("study"))),
        "bases_of_task": len(Task.__mro__) - 2,  # without itself and object
        "bases_of_objective": len(Objective.__mro__) - 2,
        "methods_of_task": len(public_methods(Task)),
        "methods_of_objective": len(public_methods(Objective)),
    }
    assert set(concepts) == set(BUDGET["concepts"])
    for name, count in concepts.items():
        assert count <= BUDGET["concepts"][name], (
            f"{name.replace('_', ' ')}: {count}; the budget is "
            f"{BUDGET['concepts'][name]}: do without a new one"
        )


def bindings(file: Path) -> list[tuple[str, int]]:
    """Return the names that a file binds, and their lines; attributes are not names."""
    names = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.id, node.lineno))
        elif isinstance(node, ast.arg):
            names.append((node.arg, node.lineno))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append((node.name, node.lineno))
    return names


def test_names_are_words_of_the_field():
    rooms, budget = by_room("dicejax"), BUDGET["dialect"]
    assert set(budget) <= set(rooms), "[dialect] of tests/budget.toml names the rooms"
    for room, files in rooms.items():
        places = [
            f"{file.relative_to(ROOT)}:{line} {name}"
            for file in files
            for name, line in bindings(file)
            if name in DIALECT.split()
        ]
        assert len(places) <= budget.get(room, 0), (
            f"dicejax/{room} has {len(places)} of these bindings, its budget is "
            f"{budget.get(room, 0)}: name the thing\n" + "\n".join(places)
        )
