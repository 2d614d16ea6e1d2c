"""Experiments made small enough to train in a test."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
import numpy as np

from dicejax import config
from dicejax.mesh import MeshShape
from dicejax.models.network import Params
from dicejax.objectives import Objective
from dicejax.training.setup import Setup
from dicejax.training.step import train_step

from . import tiny

ROOT = Path(__file__).parents[1] / "experiments"
FILES = sorted(f for f in ROOT.rglob("*.py") if "def get_config" in f.read_text())
NAMES = [str(file.relative_to(ROOT).with_suffix("")) for file in FILES]


def shrunk(experiment: config.Experiment, folder: Path) -> config.Experiment:
    """Return the experiment with a small generated corpus and a small encoder."""
    return dataclasses.replace(
        experiment,
        data=tiny.fitting(experiment.data, experiment.task, folder),
        encoder=config.ScratchEncoder(
            hidden_size=8,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            vocab_size=99,
        ),
        training=dataclasses.replace(
            experiment.training, epochs=2, max_length=64, batch_size=4
        ),
    )


def trains_two_steps(setup: Setup, objective: Objective) -> None:
    """Take two steps with an objective: the loss is finite, the parameters move."""
    experiment = dataclasses.replace(setup.experiment, objective=objective)
    setup = dataclasses.replace(setup, experiment=experiment)
    mesh = MeshShape().make(jax.devices()[:1])
    objective, batches = setup.objective, setup.batches(mesh)
    state = setup.initial_state(mesh, len(batches))
    before = jax.device_get(state.params)
    for step in range(2):
        state, metrics = train_step(
            state,
            batches[step].arrays,
            objective,
            network=setup.network,
            optimizer=experiment.optimizer,
            task=experiment.task,
        )
        assert np.isfinite(metrics["loss"])
    assert moved(before, jax.device_get(state.params)) > 10


def traces_a_step(setup: Setup) -> None:
    """Trace a step without compiling it: the loss is a scalar, the state its shape."""
    mesh = MeshShape().make(jax.devices()[:1])
    state, batch = setup.abstract_state(), setup.batches(mesh)[0].arrays
    after, metrics = train_step.eval_shape(
        state, batch, setup.objective, **setup.step_settings(mesh)
    )
    assert metrics["loss"].shape == ()
    assert jax.tree.structure(after) == jax.tree.structure(state)


def moved(before: Params, after: Params) -> int:
    """Return how many arrays of parameters differ."""
    differ = jax.tree.map(lambda a, b: bool((a != b).any()), before, after)
    return sum(jax.tree.leaves(differ))
