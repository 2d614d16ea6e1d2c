"""Checkpoints: what is saved is what is restored, the best and the last are kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from etils import epath

from dicejax.errors import InputError
from dicejax.models.heads import TokenHead
from dicejax.models.network import Network
from dicejax.training.checkpoint import Checkpoints, restore_params
from dicejax.training.optimizers import AdamW
from dicejax.training.state import TrainState


@pytest.fixture
def network(small_bert):
    return Network(encoder=small_bert, heads=(("tags", TokenHead(classes=5)),))


def test_the_best_and_the_last_are_kept_exactly(network, tmp_path):
    folder = epath.Path(tmp_path / "checkpoints")
    params = network.init(jax.random.key(0))
    checkpoints = Checkpoints(folder)
    for step, score in ((1, 0.2), (2, 0.9), (3, 0.4), (4, 0.5)):
        state = TrainState.create(
            jax.tree.map(lambda x, s=step: x + jnp.float32(s), params),
            AdamW().transform(),
            total_steps=9,
            rng=jax.random.key(1),
        )
        checkpoints.save(step, state, score)
    checkpoints.close()
    assert sorted(p.name for p in folder.iterdir() if p.name.isdigit()) == ["2", "4"]
    for which, wanted in (("best", 2), ("last", 4)):
        step, restored = restore_params(folder, network, which)
        assert step == wanted
        jax.tree.map(
            lambda a, b, s=step: np.testing.assert_array_equal(a, b + np.float32(s)),
            restored,
            params,
        )


def test_a_folder_without_checkpoints_is_named(network, tmp_path):
    with pytest.raises(InputError, match="holds no checkpoint"):
        restore_params(epath.Path(tmp_path / "none"), network)


def test_a_checkpoint_of_another_architecture_is_named(network, tmp_path):
    folder = epath.Path(tmp_path / "checkpoints")
    checkpoints = Checkpoints(folder)
    state = TrainState.create(
        network.init(jax.random.key(0)),
        AdamW().transform(),
        total_steps=1,
        rng=jax.random.key(1),
    )
    checkpoints.save(1, state, 0.5)
    checkpoints.close()
    wider = Network(encoder=network.encoder, heads=(("tags", TokenHead(classes=7)),))
    with pytest.raises(InputError, match="1: cannot be restored"):
        restore_params(folder, wider)
