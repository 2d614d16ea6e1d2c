"""Defaults are the same for a loss, its objective and the command line."""

import dataclasses
import inspect
from pathlib import Path

import pytest

from dicejax import objectives
from dicejax.cli import parse
from dicejax.cli.choices import objective_named
from dicejax.losses.declaration import LAYOUT, REGISTRY
from dicejax.objectives import by_short_name

from . import write_objectives
from .kinds import NAMES

QUICKSTART = Path(__file__).parents[1] / "experiments" / "quickstart.py"


def test_every_registered_loss_has_an_objective_whose_documentation_names_its_fields():
    known = by_short_name()
    assert {one.short_name for one in REGISTRY.values()} <= set(known)
    for cls in known.values():
        assert getattr(objectives, cls.__name__) is cls
        # A field that is inherited is documented where it is declared, as for help.
        texts = [inspect.getdoc(base) or "" for base in cls.__mro__]
        for field in dataclasses.fields(cls):
            entries = [text.partition(f"\n  {field.name}: ")[2] for text in texts]
            assert any(text.partition("\n")[0] for text in entries), (cls, field.name)


def test_objectives_are_written_from_the_declarations():
    for file, text in write_objectives.sources().items():
        assert file.read_text() == text, "run python -m tests.write_objectives"
    for cls in by_short_name().values():
        assert f"class {cls.__name__}(" in inspect.getsource(cls)


@pytest.mark.parametrize("name", REGISTRY)
def test_function_objective_and_command_line_have_the_same_defaults(name):
    declared, cls = REGISTRY[name], by_short_name()[name]
    fields = {one.name: one.default for one in dataclasses.fields(cls)}
    of_functions = {
        parameter.name: parameter.default
        for function in (declared.function, declared.initial_state)
        if function is not None
        for parameter in inspect.signature(function).parameters.values()
    }
    of_sets = {"over": "batch", "classes": ("all",), "reduce": "mean"}
    for field, default in fields.items():
        if field == "class_counts":  # of the training data
            assert default == () and of_functions[field] in (None, inspect._empty)
        elif field in of_sets:  # the batch as one set, which is the function's axis
            assert default == of_sets[field] and declared.kind == "set"
        elif field != "output":
            assert default == of_functions[field], field
    assert (declared.kind == "set") == (fields.keys() >= of_sets.keys())
    left = of_functions.keys() - fields.keys() - {*LAYOUT, "logits", "labels", "state"}
    assert left <= {"class_weights"}
    assert objective_named(name) == cls()  # as --losses and --loss read it


@pytest.mark.parametrize("name", NAMES)
def test_the_flags_of_an_experiment_have_the_defaults_of_its_loss(name):
    command = parse(["train", str(QUICKSTART), "--loss", name])
    assert command.settings.objective == by_short_name()[name]()
