"""Checkpoints: round trips, and retention of the last and the best."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from etils import epath

from dicejax.errors import InputError
from dicejax.models.heads import TokenHead
from dicejax.models.network import Network
from dicejax.objectives import CrossEntropy
from dicejax.optimizers import AdamW
from dicejax.training.checkpoint import Checkpoints, restore_params
from dicejax.training.state import TrainState
from dicejax.training.step import train_step


@pytest.fixture
def network(small_bert):
    return Network(encoder=small_bert, heads=(("tags", TokenHead(classes=5)),))


def test_the_best_and_the_last_are_kept_exactly(network, tmp_path):
    folder = epath.Path(tmp_path / "checkpoints")
    params = network.init(jax.random.key(0))
    checkpoints = Checkpoints(folder, keep_last=1)
    for step, score in ((1, 0.2), (2, 0.9), (3, 0.4), (4, 0.5)):
        state = TrainState.create(
            jax.tree.map(lambda x, s=step: x + jnp.float32(s), params),
            AdamW(),
            total_steps=9,
            rng=jax.random.key(1),
        )
        checkpoints.save(step, state, score)
    checkpoints.close()
    assert sorted(p.name for p in folder.iterdir() if p.name.isdigit()) == ["2", "4"]
    for which, expected in (("best", 2), ("last", 4)):
        step, restored = restore_params(folder, network, which)
        assert step == expected
        jax.tree.map(
            lambda a, b, s=step: np.testing.assert_array_equal(a, b + np.float32(s)),
            restored,
            params,
        )


def test_steps_taken_while_a_checkpoint_is_written_do_not_reach_it(network, tmp_path):
    folder = epath.Path(tmp_path / "checkpoints")
    optimizer = AdamW(learning_rate=0.1)
    state = TrainState.create(
        network.init(jax.random.key(0)),
        optimizer,
        total_steps=20,
        rng=jax.random.key(1),
    )
    ids = np.ones((4, 16), np.int32)
    names = ("input_ids", "segment_ids", "position_ids", "token_type_ids", "tags")
    batch = dict.fromkeys(names, ids)

    def step(state):
        return train_step(
            state, batch, CrossEntropy(), network=network, optimizer=optimizer
        )[0]

    state = step(state)
    before = jax.tree.map(np.array, state.params)
    checkpoints = Checkpoints(folder)
    checkpoints.save(1, state, 0.5)
    for _ in range(10):
        state = step(state)  # gives the saved state's buffers to the next one
    checkpoints.close()
    _, restored = restore_params(folder, network)
    jax.tree.map(np.testing.assert_array_equal, restored, before)


def test_a_folder_without_checkpoints_is_named(network, tmp_path):
    with pytest.raises(InputError, match="holds no checkpoint"):
        restore_params(epath.Path(tmp_path / "none"), network)


def test_a_checkpoint_of_another_architecture_is_named(network, tmp_path):
    folder = epath.Path(tmp_path / "checkpoints")
    checkpoints = Checkpoints(folder)
    state = TrainState.create(
        network.init(jax.random.key(0)),
        AdamW(),
        total_steps=1,
        rng=jax.random.key(1),
    )
    checkpoints.save(1, state, 0.5)
    checkpoints.close()
    wider = Network(encoder=network.encoder, heads=(("tags", TokenHead(classes=7)),))
    with pytest.raises(InputError, match=r"heads/tags/dense/kernel is \(24, 5\)"):
        restore_params(folder, wider)
