"""Every loss trains every kind of output, but for the few that do not fit."""

import dataclasses
import re

import pytest

from dicejax import config
from dicejax.errors import InputError
from dicejax.objectives import by_short_name
from dicejax.training.setup import prepare

from .shrinking import ROOT, shrunk, trains_two_steps

# One experiment for each kind of output; the others have the same heads and targets.
KINDS = {
    "ner/conll03": {},
    "ner/cluener": {},
    "ner/conll03_mrc": {},
    "qa/squad1": {},
    "qa/squad1 over positions": {"form": "positions"},
    "paraphrase/mrpc": {},
}
# Positions have no classes to count or to compare; nothing else may be refused.
REFUSED = r"needs class counts, which|compares classes over the batch"


@pytest.fixture(scope="module", params=KINDS)
def kind(request, tmp_path_factory):
    """The name of an experiment, and what it is made of."""
    name, changes = request.param, KINDS[request.param]
    experiment = config.load(ROOT / f"{name.split()[0]}.py")
    task = dataclasses.replace(experiment.task, **changes)
    if name == "ner/conll03_mrc":
        task = dataclasses.replace(task, match_width=8)
    experiment = dataclasses.replace(experiment, task=task)
    experiment = shrunk(experiment, tmp_path_factory.mktemp("data"))
    return name, prepare(experiment, warn=lambda text: None)


@pytest.mark.slow
@pytest.mark.parametrize("loss", by_short_name())
def test_it_trains_two_steps_with_every_loss_that_fits(kind, loss):
    name, setup = kind
    try:
        trains_two_steps(setup, by_short_name()[loss]())
    except InputError as error:
        assert KINDS[name] and re.search(REFUSED, str(error)), error


@pytest.mark.parametrize("loss", ["dice", "wce"])
def test_what_does_not_fit_positions_is_refused(loss, tmp_path):
    experiment = shrunk(config.load(ROOT / "qa/squad1.py"), tmp_path)
    task = dataclasses.replace(experiment.task, form="positions")
    experiment = dataclasses.replace(
        experiment, task=task, objective=by_short_name()[loss]()
    )
    with pytest.raises(InputError, match=f"^objective {loss}.* output 'start'"):
        prepare(experiment, warn=lambda text: None)
