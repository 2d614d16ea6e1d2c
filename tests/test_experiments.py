"""Every experiment file loads and traces; every loss trains every kind of output."""

import dataclasses
import re

import jax
import numpy as np
import optax
import pytest

from dicejax import config
from dicejax.errors import InputError
from dicejax.mesh import MeshShape
from dicejax.objectives import PositionCrossEntropy, by_short_name
from dicejax.training.setup import prepare
from dicejax.training.step import train_step

from .kinds import CHOSEN, exhaustive_but
from .shrinking import FILES, NAMES, ROOT, shrunk

# Every data set of the paper; steps of the latter are like those of the former, which
# have their tasks and forms of data.
TRACED = """
ablations/qqp_imbalance ablations/sst2 ablations/tversky_alpha ner/msra pos/ctb5
pos/tweets pos/ud14 qa/quoref qa/squad2 quickstart
"""
LIKE_OTHERS = """
ablations/sst5 ablations/tversky_alpha_quoref ner/cluener ner/conll03 ner/conll03_mrc
ner/ontonotes4 ner/ontonotes5 paraphrase/mrpc paraphrase/qqp pos/ctb6 pos/wsj qa/squad1
several_labels
"""
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
REFUSED = (
    r"needs class\w*( counts)?, which|compares classes over the batch|"
    r"chooses negatives"
)


def test_every_data_set_of_the_paper_has_its_file():
    assert {*TRACED.split(), *LIKE_OTHERS.split()} <= set(NAMES)


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_it_has_its_header_and_survives_its_record(file):
    head = file.read_text().split('"""')[1]
    fields = re.findall(r"^(\w+):", head, re.MULTILINE)
    assert {"command", "measured"} <= set(fields)
    assert "paper" in fields or file.stem in ("quickstart", "several_labels")
    assert f"experiments/{file.relative_to(ROOT)}" in head
    experiment = config.load(file)
    assert experiment.name == file.stem
    assert config.from_json(config.to_json(experiment)) == experiment


def prepare_small(experiment, folder):
    return prepare(shrunk(experiment, folder), warn=lambda text: None)


@pytest.mark.parametrize(
    "name", exhaustive_but({*NAMES} - {*LIKE_OTHERS.split()}, NAMES)
)
def test_its_step_can_be_traced(name, tmp_path):
    setup = prepare_small(config.load(ROOT / f"{name}.py"), tmp_path)
    mesh = MeshShape().make(jax.devices()[:1])
    state, batch = setup.abstract_state(), setup.batches(mesh)[0].arrays
    after, metrics = train_step.eval_shape(
        state, batch, setup.objective, **setup.step_settings(mesh)
    )
    assert metrics["loss"].shape == ()
    assert jax.tree.structure(after) == jax.tree.structure(state)


class Trainer:
    """A small experiment whose step is compiled except for the loss."""

    def __init__(self, experiment, folder):
        self.setup = prepare_small(experiment, folder)
        network, key = self.setup.network, jax.random.key(1)
        mesh = MeshShape().make(jax.devices()[:1])
        self.params = self.setup.initial_state(mesh, 1).params
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
        moved = jax.tree.map(lambda a, b: bool((a != b).any()), self.params, params)
        assert sum(jax.tree.leaves(moved)) > 10


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_it_trains_two_steps(file, tmp_path):
    experiment = config.load(file)
    Trainer(experiment, tmp_path).two_steps(experiment.objective)


def experiment_of_kind(name, loss):
    experiment = config.load(ROOT / f"{name.split()[0]}.py")
    task = dataclasses.replace(experiment.task, **KINDS.get(name, {}))
    objective = by_short_name()[loss]()
    return dataclasses.replace(experiment, task=task, objective=objective)


@pytest.fixture(scope="module")
def trainer(request, tmp_path_factory):
    experiment = experiment_of_kind(request.param, "ce")
    return Trainer(experiment, tmp_path_factory.mktemp("data"))


def pairs():
    """Each kind of loss on the first output, one on the others; the rest exhaustive."""
    for head in KINDS:
        chosen = ("ce",) if "over positions" in head else ("dice",)
        if head == next(iter(KINDS)):
            chosen = CHOSEN
        elif head == "several_labels":  # with counts of the 0s and 1s of each label
            chosen = ("dice", "distribution_balanced")
        for loss, cls in by_short_name().items():
            if issubclass(cls, PositionCrossEntropy) and "over positions" not in head:
                continue  # another form of the task, see tests/tasks
            marks = [] if loss in chosen else [pytest.mark.exhaustive]
            yield pytest.param(head, loss, marks=marks, id=f"{head}-{loss}")


@pytest.mark.slow
@pytest.mark.parametrize(("trainer", "loss"), list(pairs()), indirect=["trainer"])
def test_every_loss_that_fits_trains_two_steps(trainer, loss, request):
    try:
        trainer.two_steps(by_short_name()[loss]())
    except InputError as error:
        assert "over positions" in request.node.name
        assert re.search(REFUSED, str(error)), error


@pytest.mark.parametrize(
    ("name", "loss", "message"),
    [
        ("qa/squad1 over positions", "dice", "output 'start'"),
        ("qa/squad1 over positions", "wce", "output 'start'"),
        (
            "qa/squad1 over positions",
            "metro",
            "needs classes, but the labels of output",
        ),
        ("pos/tweets", "metro", "no class of output 'tags' is negative"),
    ],
)
def test_a_loss_that_does_not_fit_the_labels_is_refused(name, loss, message, tmp_path):
    experiment = experiment_of_kind(name, loss)
    with pytest.raises(InputError, match=f"^objective {loss}.* {message}"):
        prepare_small(experiment, tmp_path)
