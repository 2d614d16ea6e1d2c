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

from dicejax.data.pack import BatchLayout, fill
from dicejax.mesh import MeshShape
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
    Mined,
    Objective,
    SelfAdjustingDice,
    Tversky,
    WeightedSum,
)
from dicejax.objectives.objective import objective
from dicejax.training.accumulation import loss_and_gradient
from dicejax.training.sharding import (
    global_batch,
    put,
    rows_here,
    shardings,
    to_host,
)

ROWS, WIDTH, CLASSES = 64, 8, 4
# One of each kind.
OBJECTIVES = {
    "additive": CrossEntropy(label_smoothing=0.1),
    "set of the batch": SelfAdjustingDice(alpha=0.5),
    "sets of three rows": Dice(over=3, classes="positive", squared=True),
    "sets of a row": Tversky(over="sequence", classes="1,2", reduce="sum"),
    "state": GHM(),
    "sorted": LovaszSoftmax(),
    "chosen from the batch": HardNegatives(),
    "set of the chosen": Mined(of=Dice(), negatives_per_positive=1.0),
    "sum": WeightedSum(parts=(CrossEntropy(), Dice()), weights=(0.3, 1.0)),
    "schedule": LinearSchedule(begin=0.0, end=1.0),
}
OBJECTIVES = {name: one.bind_outputs(("tags",)) for name, one in OBJECTIVES.items()}
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
    """Return rows of very different content; the last have no label and few tokens."""
    rng = np.random.default_rng(0)
    layout = BatchLayout(tokens={"input_ids": 0, "token_type_ids": 0, "tags": -100})
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


@objective
class OneOf(Objective):
    """One of several objectives, chosen by the state, so the encoder compiles once."""

    parts: tuple[Objective, ...] = ()

    def __call__(self, outputs, targets, state=(), progress=0.0):
        chosen, states = state

        def run(number):
            loss, new = self.parts[number](outputs, targets, states[number], progress)
            return loss, (*states[:number], new, *states[number + 1 :])

        branches = [functools.partial(run, n) for n in range(len(self.parts))]
        loss, states = jax.lax.switch(chosen, branches)
        return loss, (chosen, states)

    def initial_state(self):
        return tuple(part.initial_state() for part in self.parts)


# The order of sums is the same without.
QUICKLY = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
STATIC = ("network", "mesh", "micro_batches", "one_pass", "names")


@functools.partial(jax.jit, static_argnames=STATIC, compiler_options=QUICKLY)
def compute(params, batch, rng, *, network, mesh, micro_batches, one_pass, names):
    """Return loss, gradients and state of each kind of objective.

    Without `one_pass` being a bool each has a program of its own; else they share a
    loop, but additive objectives take one pass where it is true.
    """
    settings = {"network": network, "rng": rng, "mesh": mesh, "progress": PROGRESS}
    settings |= {"micro_batches": micro_batches}
    chosen, results = {name: OBJECTIVES[name] for name in names}, {}
    if one_pass is None:
        alone = chosen
    else:
        alone = {n: o for n, o in chosen.items() if one_pass and o.is_additive}
    for name, each in alone.items():
        state = each.initial_state()
        gradient = loss_and_gradient(
            params, batch, each, objective_state=state, one_pass=one_pass, **settings
        )
        states = jax.tree.leaves(gradient.objective_state)
        results[name] = gradient.loss, gradient.gradients, states
    looped = {name: each for name, each in chosen.items() if name not in alone}
    if looped:
        one_of = OneOf(parts=tuple(looped.values()))

        def compute_one(number):
            state = number, one_of.initial_state()
            gradient = loss_and_gradient(
                params, batch, one_of, objective_state=state, **settings
            )
            return gradient.loss, gradient.gradients, gradient.objective_state[1]

        loss, gradients, states = jax.lax.map(compute_one, jnp.arange(len(looped)))
        for number, name in enumerate(looped):
            values = loss, gradients, jax.tree.leaves(states[number])
            results[name] = jax.tree.map(lambda x, n=number: x[n], values)
    return results


def results_of(jobs):
    """Return the arrays of all jobs by their names, on the devices of all processes."""
    with jax.enable_x64(True):
        drawn = jax.jit(network("float64").init)(jax.random.key(3))
    results, drawn = {}, jax.tree.map(np.asarray, drawn)
    for job in jobs:
        net = network(job["precision"])
        dtype = jnp.dtype(job["precision"])
        mesh = MeshShape(**job["mesh"]).make()
        params = jax.tree.map(lambda x, dtype=dtype: x.astype(dtype), drawn)
        part = {name: x[rows_here(ROWS, mesh)] for name, x in batch().items()}
        with jax.enable_x64(job["precision"] == "float64"):
            values = compute(
                put(params, mesh),
                global_batch(part, mesh, ROWS),
                jax.random.key(7),
                network=net,
                mesh=mesh,
                micro_batches=job["micro_batches"],
                one_pass=job["one_pass"] if job["together"] else None,
                names=tuple(job["objectives"]),
            )
            sharded = shardings(params, mesh)["encoder"]["layers"]["query"]["kernel"]
            assert sharded.is_fully_replicated == (
                job["mesh"].get("fsdp", 1) * job["mesh"].get("tensor", 1) == 1
            )
            values = to_host(values, mesh)
        for path, leaf in jax.tree_util.tree_leaves_with_path(values):
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            results[f"{job['name']}:{name}"] = np.asarray(leaf)
    return results


def main():
    port, processes, index, devices, jobs, out = sys.argv[1:]
    jax.config.update("jax_num_cpu_devices", int(devices))
    jax.config.update("jax_enable_x64", True)
    if int(processes) > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", int(processes), int(index))
    assert jax.device_count() == int(processes) * int(devices)
    results = results_of(json.loads(jobs))
    if int(index) == 0:
        np.savez(out, **results)


if __name__ == "__main__":
    main()
