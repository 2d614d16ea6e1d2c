"""Every loss trains every kind of output, except the few that do not fit."""

import dataclasses
import re

import jax
import numpy as np
import optax
import pytest

from dicejax import config
from dicejax.errors import InputError
from dicejax.mesh import MeshShape
from dicejax.objectives import by_short_name
from dicejax.training.setup import prepare

from .kinds import CHOSEN
from .shrinking import ROOT, moved, shrunk

# One experiment for each kind of output; the others have the same heads and targets.
KINDS = {
    "ner/conll03": {},
    "ner/cluener": {},
    "ner/conll03_mrc": {"match_width": 8},
    "qa/squad1": {},
    "qa/squad1 over positions": {"form": "positions"},
    "paraphrase/mrpc": {},
    "several_labels": {},
}
# Positions have no classes to count, to compare or to choose from; nothing else may be
# refused.
REFUSED = r"needs class counts, which|compares classes over the batch|chooses negatives"


class Trainer:
    """A small experiment whose step is compiled except for the loss."""

    def __init__(self, name, folder):
        experiment = config.load(ROOT / f"{name.split()[0]}.py")
        task = dataclasses.replace(experiment.task, **KINDS[name])
        plain = by_short_name()["ce"]()
        experiment = dataclasses.replace(experiment, task=task, objective=plain)
        experiment = shrunk(experiment, folder)
        self.name, self.setup = name, prepare(experiment, warn=lambda text: None)
        network, key = self.setup.network, jax.random.key(1)
        mesh = MeshShape().make(jax.devices()[:1])
        self.params = self.setup.initial_params(jax.random.key(0), mesh)
        batches = self.setup.batches(mesh)
        self.batches = [batches[step].arrays for step in (0, 1)]
        self.forward = jax.jit(lambda params, batch: network.apply(params, batch, key))

        def update(params, batch, cotangents):
            _, pull = jax.vjp(lambda p: network.apply(p, batch, key), params)
            (gradient,) = pull(cotangents)
            return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient), gradient

        self.update = jax.jit(update)

    def two_steps(self, objective):
        """Check that losses and gradients are finite, and that parameters move."""
        changed = dataclasses.replace(self.setup.experiment, objective=objective)
        objective = dataclasses.replace(self.setup, experiment=changed).objective
        task = changed.task

        @jax.jit
        def loss_gradient(outputs, batch, state, progress):
            def loss(outputs):
                return objective(*task.loss_inputs(outputs, batch), state, progress)

            return jax.value_and_grad(loss, has_aux=True)(outputs)

        params, state = self.params, objective.initial_state()
        for step, batch in enumerate(self.batches):
            outputs = self.forward(params, batch)
            (value, state), by_logits = loss_gradient(outputs, batch, state, step / 2)
            params, gradient = self.update(params, batch, by_logits)
            assert np.isfinite(value)
            assert np.isfinite(optax.tree.norm(gradient))
        assert moved(self.params, params) > 10


@pytest.fixture(scope="module")
def trainer(request, tmp_path_factory):
    return Trainer(request.param, tmp_path_factory.mktemp("data"))


def pairs():
    """Each kind of loss on the first output, one on the others; the rest exhaustive."""
    for head in KINDS:
        chosen = ("ce",) if "over positions" in head else ("dice",)
        if head == next(iter(KINDS)):
            chosen = CHOSEN
        elif head == "several_labels":  # with counts of the 0s and 1s of each label
            chosen = ("dice", "distribution_balanced")
        for loss, cls in by_short_name().items():
            if cls.reads_positions and "over positions" not in head:
                continue  # another form of the task, see tests/tasks
            marks = [] if loss in chosen else [pytest.mark.exhaustive]
            yield pytest.param(head, loss, marks=marks, id=f"{head}-{loss}")


@pytest.mark.slow
@pytest.mark.parametrize(("trainer", "loss"), list(pairs()), indirect=["trainer"])
def test_every_loss_that_fits_trains_two_steps(trainer, loss):
    try:
        trainer.two_steps(by_short_name()[loss]())
    except InputError as error:
        assert "positions" in trainer.name and re.search(REFUSED, str(error)), error


@pytest.mark.parametrize("loss", ["dice", "wce"])
def test_what_does_not_fit_positions_is_refused(loss, tmp_path):
    experiment = shrunk(config.load(ROOT / "qa/squad1.py"), tmp_path)
    task = dataclasses.replace(experiment.task, form="positions")
    experiment = dataclasses.replace(
        experiment, task=task, objective=by_short_name()[loss]()
    )
    with pytest.raises(InputError, match=f"^objective {loss}.* output 'start'"):
        prepare(experiment, warn=lambda text: None)
