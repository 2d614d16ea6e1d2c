"""One of several processes that compute losses and gradients; see test_exactness.py.

usage: exact_worker.py PORT PROCESSES INDEX DEVICES_HERE JOBS.json OUT.npz
"""

from __future__ import annotations

import functools
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

from dicejax.data.pack import Layout, fill
from dicejax.models.bert import BertConfig
from dicejax.models.heads import TokenHead
from dicejax.models.network import Network
from dicejax.objectives import (
    GHM,
    CrossEntropy,
    Dice,
    HardNegatives,
    LinearSchedule,
    LovaszSoftmax,
    SelfAdjustingDice,
    Tversky,
    WeightedSum,
)
from dicejax.training.accumulation import LossOfBatch
from dicejax.training.mesh import MeshShape
from dicejax.training.sharding import global_batch, put, rows_here, shardings, to_host

ROWS, WIDTH, CLASSES = 64, 8, 4
OBJECTIVES = {
    "additive": CrossEntropy(label_smoothing=0.1),
    "set of the batch": Dice(squared=True, smooth=0.01),
    "self-adjusting": SelfAdjustingDice(alpha=0.5),
    "ratio of counts": Tversky(),
    "state": GHM(),
    "sorted": LovaszSoftmax(),
    "chosen from the batch": HardNegatives(),
    "sum": WeightedSum(parts=(CrossEntropy(), Dice()), weights=(0.3, 1.0)),
    "schedule": LinearSchedule(begin=0.0, end=1.0),
}
OBJECTIVES = {name: one.reading(("tags",)) for name, one in OBJECTIVES.items()}
PROGRESS = 0.4


def network(precision):
    config = BertConfig(
        vocab_size=24,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=8,
        intermediate_size=32,
        max_position_embeddings=WIDTH,
        hidden_dropout_prob=0.2,
        attention_probs_dropout_prob=0.2,
        initializer_range=0.3,
    )
    heads = (("tags", TokenHead(classes=CLASSES)),)
    return Network(encoder=config, heads=heads, precision=precision)


def batch():
    """Rows of very different content: the last ones have no label and few tokens."""
    rng = np.random.default_rng(0)
    layout = Layout(tokens={"input_ids": 0, "token_type_ids": 0, "tags": -100})
    rows = []
    for number in range(ROWS - 5):
        lengths = (5, 3) if number % 3 else (2,)
        row = []
        for length in lengths:
            tags = rng.choice(CLASSES, length, p=(0.85, 0.1, 0.04, 0.01))
            tags[rng.random(length) < number / ROWS] = -100
            row.append(
                {
                    "input_ids": rng.integers(1, 24, length),
                    "token_type_ids": np.zeros(length, int),
                    "tags": tags,
                }
            )
        rows.append(row)
    return fill(rows + [[]] * 5, WIDTH, layout, sequences=2)


# Compiling is what the test costs; the order of sums is the same.
QUICKLY = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}


@functools.partial(
    jax.jit,
    static_argnames=("network", "micro_batches", "one_pass"),
    compiler_options=QUICKLY,
)
def all_gradients(params, batch, rng, *, network, micro_batches, one_pass):
    """The loss and the gradients of each kind of objective, in one program."""
    found = {}
    for name, objective in OBJECTIVES.items():
        loss = LossOfBatch(
            network=network,
            task=None,
            objective=objective,
            objective_state=objective.initial_state(),
            progress=PROGRESS,
            rng=rng,
        )
        whole = None if one_pass else False
        gradient = loss.gradient(
            params, batch, micro_batches=micro_batches, one_pass=whole
        )
        state = jax.tree.leaves(gradient.objective_state)
        found[name] = (gradient.loss, gradient.gradients, state)
    return found


def main():
    port, processes, index, devices, jobs, out = sys.argv[1:]
    jax.config.update("jax_num_cpu_devices", int(devices))
    jax.config.update("jax_enable_x64", True)
    if int(processes) > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", int(processes), int(index))
    assert jax.device_count() == int(processes) * int(devices)
    results = {}
    for job in json.loads(jobs):
        net = network(job["precision"])
        dtype = jnp.dtype(job["precision"])
        mesh = MeshShape(**job["mesh"]).make()
        params = jax.tree.map(
            lambda x, dtype=dtype: np.asarray(x).astype(dtype),
            jax.jit(net.init)(jax.random.key(3)),
        )
        part = {name: x[rows_here(ROWS, mesh)] for name, x in batch().items()}
        with jax.enable_x64(job["precision"] == "float64"):
            found = all_gradients(
                put(params, mesh),
                global_batch(part, mesh, ROWS),
                jax.random.key(7),
                network=net,
                micro_batches=job["micro_batches"],
                one_pass=job["one_pass"],
            )
            sharded = shardings(params, mesh)["encoder"]["layers"]["query"]["kernel"]
            assert sharded.is_fully_replicated == (
                job["mesh"].get("fsdp", 1) * job["mesh"].get("tensor", 1) == 1
            )
            found = to_host(found, mesh)
        for path, leaf in jax.tree_util.tree_leaves_with_path(found):
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            results[f"{job['name']}:{name}"] = np.asarray(leaf)
    if int(index) == 0:
        np.savez(out, **results)


if __name__ == "__main__":
    main()
