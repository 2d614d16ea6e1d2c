"""Loss and gradients are independent of how a batch is divided."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.mesh import MeshShape
from dicejax.objectives import (
    GHM,
    CrossEntropy,
    Dice,
    HardNegatives,
    LinearSchedule,
    LovaszSoftmax,
    Metro,
    Mined,
    Objective,
    SelfAdjustingDice,
    Tversky,
    WeightedSum,
)
from dicejax.objectives.objective import objective
from dicejax.training.accumulation import loss_and_gradient
from dicejax.training.sharding import global_batch, put, rows_here, shardings, to_host

from . import worker
from .making import ROWS, batch, network

# One of each kind.
OBJECTIVES = {
    "additive": CrossEntropy(label_smoothing=0.1),
    "weights of classes": Metro(beta=2.0, f=(0.3,)),
    "set of the batch": SelfAdjustingDice(alpha=0.5),
    "sets of three rows": Dice(over=3, exclude_class="negatives", squared=True),
    "sets of a row": Tversky(over="sequence", exclude_class="0", average="macro"),
    "state": GHM(),
    "sorted": LovaszSoftmax(),
    "chosen from the batch": HardNegatives(),
    "set of the chosen": Mined(of=Dice(), negatives_per_positive=1.0),
    "sum": WeightedSum(parts=(CrossEntropy(), Dice()), weights=(0.3, 1.0)),
    "schedule": LinearSchedule(begin=0.0, end=1.0),
}
OBJECTIVES = {name: x.reading("tags") for name, x in OBJECTIVES.items()}
PROGRESS = 0.4


TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
PLAIN = {"micro_batches": 1, "mesh": {"data": 1}, "one_pass": True}
MESHES = {
    "data": {"data": 8},
    "fsdp": {"data": 1, "fsdp": 8},
    "tensor": {"data": 1, "tensor": 8},
    "mixed": {"data": 2, "fsdp": 2, "tensor": 2},
}
MICRO_BATCHES = (1, 2, 8)
# --exhaustive takes everything with everything.
CHOSEN = ("additive", "set of the batch", "sets of three rows", "state")
CHOSEN += ("chosen from the batch", "weights of classes")
CELLS = {("float64", 2): [("mixed", 2)]}


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

    Where `one_pass` is None each has a program of its own; else they share a
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
    for number, job in enumerate(jobs):
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
                one_pass=job["one_pass"],
                names=tuple(job["objectives"]),
            )
            sharded = shardings(params, mesh)["encoder"]["layers"]["query"]["kernel"]
            assert sharded.is_fully_replicated == (
                job["mesh"].get("fsdp", 1) * job["mesh"].get("tensor", 1) == 1
            )
            values = to_host(values, mesh)
        for path, leaf in jax.tree_util.tree_leaves_with_path(values):
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            results[f"{number}:{name}"] = np.asarray(leaf)
    return results


def pytest_generate_tests(metafunc):
    if "cells" not in metafunc.fixturenames:
        return
    cells = CELLS
    if metafunc.config.getoption("exhaustive"):
        every = list(itertools.product(MESHES, MICRO_BATCHES))
        cells = dict.fromkeys(itertools.product(TOLERANCE, (1, 2, 4)), every)
    metafunc.parametrize(
        ("precision", "processes", "cells"),
        [(*key, value) for key, value in cells.items()],
        ids=[f"{precision}-{processes}" for precision, processes in cells],
    )


def computed(jobs, **places):
    """Return results of jobs in several processes, or in this one on one device."""
    results = worker.call(results_of, jobs, **places) if places else results_of(jobs)
    by_job = [{} for _ in jobs]
    for name, array in results.items():
        number, _, name = name.partition(":")
        by_job[int(number)][name] = array
    return by_job


@pytest.fixture(scope="module")
def objectives(request):
    exhaustive = request.config.getoption("exhaustive")
    return tuple(OBJECTIVES) if exhaustive else CHOSEN


@pytest.fixture(scope="module")
def plain(request, objectives):
    """Return the results of one device on the whole batch."""
    exhaustive = request.config.getoption("exhaustive")
    kinds = ("float64", "float32") if exhaustive else ("float64",)
    # Each has a program of its own, or by default those that may share one.
    shared = PLAIN | {"objectives": objectives, "one_pass": not exhaustive or None}
    results = computed([shared | {"precision": kind} for kind in kinds])
    return dict(zip(kinds, results, strict=True))


def check(results, expected, precision, objectives):
    assert results.keys() == expected.keys()
    kinds = {name.split("/")[0] for name in expected}
    assert kinds == set(objectives)
    for name, value in expected.items():
        # Relative to the largest number of the array: gradients cancel. That of a bias
        # of keys is rounding alone, since a softmax over keys does not see it.
        terms = expected[name.replace("key/bias", "key/kernel")]
        scale = max(np.abs(terms).max(), 1e-3)
        error = np.abs(results[name] - value).max() / scale
        assert error < TOLERANCE[precision], (name, error)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("precision", TOLERANCE)
def test_micro_batches_give_the_plain_step(plain, objectives, precision):
    shared = PLAIN | {"objectives": objectives, "precision": precision}
    jobs = [
        shared | {"micro_batches": parts, "one_pass": one_pass}
        for parts, one_pass in itertools.product(MICRO_BATCHES[1:], (True, False))
    ]
    for results in computed(jobs):
        check(results, plain[precision], precision, objectives)


@pytest.mark.slow
def test_devices_and_processes_give_the_plain_step(
    plain, objectives, precision, processes, cells, tmp_path
):
    shared = PLAIN | {"objectives": objectives, "precision": precision}
    jobs = [
        shared | {"micro_batches": parts, "mesh": MESHES[name]} for name, parts in cells
    ]
    places = {"processes": processes, "devices": 8 // processes, "folder": tmp_path}
    for results in computed(jobs, **places):
        check(results, plain[precision], precision, objectives)


def test_the_mean_of_micro_batches_is_wrong(objectives):
    """Averages fail the same check for all but means over elements."""
    net, rows = network(), batch()
    outputs = jax.jit(net.apply)(jax.jit(net.init)(jax.random.key(3)), rows)
    half = ROWS // 2

    @jax.jit
    def of_rows(*both):
        """Return the losses of both halves and of the whole."""
        results = {}
        for name in objectives:
            objective = OBJECTIVES[name]
            state, progress = objective.initial_state(), PROGRESS
            results[name] = [
                objective(*jax.tree.map(lambda x, r=part: x[r], both), state, progress)[
                    0
                ]
                for part in (slice(None, half), slice(half, None), slice(None))
            ]
        return results

    for name, losses in of_rows(outputs, rows).items():
        *parts, whole = map(float, losses)
        assert abs(np.mean(parts) - whole) > 100 * TOLERANCE["float32"] * whole, name
