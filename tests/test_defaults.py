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
    assert REGISTRY.keys() <= by_short_name().keys()
    for cls in by_short_name().values():
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
def test_an_objective_has_the_defaults_and_settings_of_its_function(name):
    declared, cls = REGISTRY[name], by_short_name()[name]
    fields = {field.name: field.default for field in dataclasses.fields(cls)}
    parameters = {
        parameter.name: parameter.default
        for function in filter(None, (declared.initial_state, declared.function))
        for parameter in inspect.signature(function).parameters.values()
    }
    # Class counts are those of the training data.
    names = (fields.keys() & parameters.keys()) - {"class_counts"}
    assert all(fields[name] == parameters[name] for name in names)
    unset = parameters.keys() - fields.keys() - {*LAYOUT, "logits", "labels", "state"}
    assert unset <= {"class_weights"}
    assert objective_named(name) == cls()  # as --losses and --loss read it


@pytest.mark.parametrize("name", NAMES)
def test_the_flags_of_an_experiment_have_the_defaults_of_its_loss(name):
    command = parse(["train", str(QUICKSTART), "--loss", name])
    assert command.settings.objective == by_short_name()[name]()
