"""Loss and gradients on pooled texts are independent of how a batch is divided."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from dicejax.data.pack import BatchLayout, fill
from dicejax.mesh import MeshShape
from dicejax.models.heads import SequenceHead
from dicejax.objectives import SelfAdjustingDice
from dicejax.training.accumulation import loss_and_gradient
from dicejax.training.sharding import global_batch, put, rows_here, to_host

from ..kinds import exhaustive_but
from ..models.small import network_of
from . import worker
from .making import ROWS, VOCABULARY, WIDTH, network
from .test_exactness import MESHES

OBJECTIVE = SelfAdjustingDice(alpha=0.5).reading("tags")
PLAIN = {"micro_batches": 1, "mesh": {"data": 1}}


def texts():
    """Return packed rows of one or two texts, and some empty ones."""
    rng, rows = np.random.default_rng(0), []
    layout = BatchLayout(
        tokens={"input_ids": 0, "token_type_ids": 0},
        sequences={"tags": -100},
        places={"summary_positions": -1},
    )
    for number in range(ROWS - 5):
        row = []
        for length in (5, 3) if number % 3 else (2,):
            ids = rng.integers(1, VOCABULARY, length)
            label = int(rng.random() < 0.2)
            item = {"input_ids": ids, "token_type_ids": 0 * ids, "tags": label}
            row.append(item | {"summary_positions": 0})
        rows.append(row)
    return fill(rows + [[]] * 5, WIDTH, layout, sequences=2)


@functools.partial(jax.jit, static_argnames=("network", "mesh", "micro_batches"))
def compute(params, batch, rng, **settings):
    gradient = loss_and_gradient(
        params,
        batch,
        OBJECTIVE,
        objective_state=OBJECTIVE.initial_state(),
        rng=rng,
        progress=0.4,
        **settings,
    )
    return gradient.loss, gradient.gradients


def results_of(jobs, pooling):
    """Return loss and gradients of each job by name, on all devices and processes."""
    encoder = dataclasses.replace(network().encoder, pooling=pooling)
    of_texts = network_of(encoder, SequenceHead(classes=2), precision="float64")
    results = {}
    for number, job in enumerate(jobs):
        mesh = MeshShape(**job["mesh"]).make()
        part = {name: x[rows_here(ROWS, mesh)] for name, x in texts().items()}
        with jax.enable_x64(True):
            drawn = jax.jit(of_texts.init)(jax.random.key(3))
            drawn = jax.tree.map(lambda x: np.asarray(x, np.float64), drawn)
            values = compute(
                put(drawn, mesh),
                global_batch(part, mesh, ROWS),
                jax.random.key(7),
                network=of_texts,
                mesh=mesh,
                micro_batches=job["micro_batches"],
            )
            values = to_host(values, mesh)
        for path, leaf in jax.tree_util.tree_leaves_with_path(values):
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            results[f"{number}:{name}"] = np.asarray(leaf)
    return results


# That processes give what devices do is tested on tags in `test_exactness.py`. Of the
# ways to pool, the mean alone divides by a count.
@pytest.mark.slow
@pytest.mark.parametrize("processes", exhaustive_but([1], [1, 2]))
@pytest.mark.parametrize("pooling", exhaustive_but(["mean"], ["mean", "max", "last"]))
def test_micro_batches_devices_and_processes_give_the_plain_step(
    pooling, processes, tmp_path
):
    expected = {name[2:]: x for name, x in results_of([PLAIN], pooling).items()}
    jobs = [{"micro_batches": n, "mesh": MESHES["mixed"]} for n in (2, 8)[:processes]]
    places = {"processes": processes, "devices": 8 // processes, "folder": tmp_path}
    results = worker.call(results_of, jobs, pooling, **places)
    assert {name[2:] for name in results} == expected.keys()
    for name, value in results.items():
        there = name[2:].replace("key/bias", "key/kernel")
        scale = max(np.abs(expected[there]).max(), 1e-3)
        error = np.abs(value - expected[name[2:]]).max() / scale
        assert error < 1e-10, (name, error)
