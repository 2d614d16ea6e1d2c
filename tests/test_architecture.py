"""Imports point one way, names are unique, files stay readable."""

import ast
import graphlib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dicejax"

# The rooms that each room may import from, besides itself and those at the bottom.
BOTTOM = {"errors", "io"}
ALLOWED = {
    "losses": "",
    "objectives": "losses",
    "models": "mesh",
    "data": "",
    "metrics": "data",
    "tasks": "data models metrics",
    "controls": "data tasks",
    "config": "data formats tasks objectives mesh models optimizers",
    "library": "data models tasks training",
    "formats": "data",
    "mesh": "",
    "optimizers": "models",
    "training": "config controls mesh optimizers data formats losses metrics models "
    "objectives tasks",
    "planning": "config mesh models objectives optimizers training",
    "study": "config mesh data formats losses metrics objectives tasks training",
    "init": "config data formats objectives study tasks training",
}


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def modules(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "dicejax":
            names |= {f"dicejax.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def imports(tree: ast.AST) -> set[str]:
    """Return the package's modules that a tree imports, as names below dicejax."""
    inner = {name for name in modules(tree) if name.startswith("dicejax.")}
    return {name.removeprefix("dicejax.") for name in inner}


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_imports_point_one_way(room):
    place = PACKAGE / room
    files = place.rglob("*.py") if place.is_dir() else [PACKAGE / f"{room}.py"]
    allowed = {*ALLOWED[room].split(), room} | BOTTOM
    if room == "losses":
        allowed = {room}
    for file in files:
        for name in imports(parsed(file)):
            fits = any(name == a or name.startswith(a + ".") for a in allowed)
            assert fits, f"{file.relative_to(ROOT)} imports dicejax.{name}"


def test_every_room_has_its_rule():
    rooms = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or p.is_dir()}
    rooms -= {"__init__", "__main__", "__pycache__", "cli"} | BOTTOM
    assert rooms == set(ALLOWED)


@pytest.mark.parametrize("folder", ["dicejax", "benchmarks"])
def test_files_do_not_import_each_other_in_a_circle(folder):
    files, is_package = {}, folder == "dicejax"
    for file in (ROOT / folder).rglob("*.py"):
        name = file.relative_to(ROOT if is_package else ROOT / folder).with_suffix("")
        files[".".join(name.parts).removesuffix(".__init__")] = file
    graph = {name: set() for name in files}
    for name, file in files.items():
        # In the package no function imports of it.
        for node in parsed(file).body if is_package else ast.walk(parsed(file)):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for module in modules(node):
                    names = [f"{module}.{alias.name}" for alias in node.names]
                    parts = [n for n in names if n in files]  # of a package
                    graph[name] |= set(parts) if parts else {module} & set(files)
    graphlib.TopologicalSorter(graph).prepare()  # raises where there is a circle


# Heavy rooms are imported when a command is given, so that --help is quick.
LAZY = set((PACKAGE / "cli").glob("*.py"))


def test_no_function_imports_from_the_package():
    for file in set(PACKAGE.rglob("*.py")) - LAZY:
        for node in ast.walk(parsed(file)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert not imports(node), f"{file.relative_to(ROOT)}:{node.lineno}"


def test_names_of_classes_are_unique():
    names = Counter(
        node.name
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not [name for name, count in names.items() if count > 1]


def test_files_can_be_read_in_one_sitting():
    for file in [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        assert len(file.read_text().splitlines()) <= 450, file


def test_only_models_know_flax_and_torch_is_never_needed():
    for file in PACKAGE.rglob("*.py"):
        names = {name.split(".")[0] for name in modules(parsed(file))}
        assert not names & {"torch", "tensorflow", "pickle"}, file
        assert "flax" not in names or PACKAGE / "models" in file.parents, file
