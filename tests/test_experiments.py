"""Every experiment file loads, has its header, and trains when made small."""

import dataclasses
from pathlib import Path

import jax
import pytest

from dicejax import config
from dicejax.data.sources import ConllFiles, SyntheticNER
from dicejax.training.setup import prepare
from dicejax.training.state import TrainState
from dicejax.training.step import train_step

ROOT = Path(__file__).parents[1] / "experiments"
FILES = sorted(f for f in ROOT.rglob("*.py") if "def get_config" in f.read_text())


def shrunk(experiment: config.Experiment) -> config.Experiment:
    """The same experiment with a corpus and an encoder made here, and small."""
    changes = {
        "encoder": config.ScratchEncoder(
            hidden_size=16, intermediate_size=32, vocab_size=99
        ),
        "training": dataclasses.replace(
            experiment.training, epochs=1, row_length=64, sentences_per_update=8
        ),
    }
    assert isinstance(experiment.data, ConllFiles | SyntheticNER)
    changes["data"] = SyntheticNER(train=24, dev=4, test=4, o_per_entity=5.0)
    return dataclasses.replace(experiment, **changes)


def test_there_are_experiments():
    assert {"quickstart.py", "conll03.py"} <= {file.name for file in FILES}


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_has_its_header_and_trains_two_steps(file):
    head = file.read_text().split('"""')[1]
    assert "command:" in head and "measured:" in head
    experiment = shrunk(config.load(file))
    for objective in {experiment.objective, *experiment.compared}:
        setup = prepare(experiment, warn=lambda text: None)
        batches = setup.batches(devices=1)
        state = TrainState.create(
            setup.initial_params(jax.random.key(0)),
            experiment.optimizer.transform(),
            total_steps=len(batches),
            rng=jax.random.key(1),
        )
        before = jax.device_get(state.params)
        for step in range(2):
            state, metrics = train_step(
                state,
                batches[step].arrays,
                objective,
                network=setup.network,
                optimizer=experiment.optimizer,
            )
            assert jax.numpy.isfinite(metrics["loss"])
        moved = jax.tree.map(lambda a, b: bool((a != b).any()), before, state.params)
        assert jax.tree.reduce(lambda a, b: a + b, moved) > 10
