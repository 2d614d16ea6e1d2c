"""Loss and gradients are independent of how a batch is divided."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from . import exact_worker
from .commands import environment, free_port

WORKER = Path(__file__).with_name("exact_worker.py")
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
PLAIN = {"data": 1, "fsdp": 1, "tensor": 1}
MESHES = {
    "data": {"data": 8},
    "fsdp": {"data": 1, "fsdp": 8},
    "tensor": {"data": 1, "tensor": 8},
    "mixed": {"data": 2, "fsdp": 2, "tensor": 2},
}
MICRO_BATCHES = (1, 2, 8)
# The number of micro-batches, and whether means over elements take one pass.
ALL_WAYS = tuple(itertools.product(MICRO_BATCHES[1:], (True, False)))
# --exhaustive takes everything with everything.
CHOSEN = ("additive", "set of the batch", "sets of three rows", "state")
CHOSEN += ("chosen from the batch",)
CELLS = {("float64", 2): [("mixed", 2)]}


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


def computed(jobs, folder, processes=1, devices=1):
    """Return results of jobs in several processes, or in this one on one device."""
    jobs = [job | {"name": str(number)} for number, job in enumerate(jobs)]
    if processes == devices == 1:
        return by_job(exact_worker.results_of(jobs), len(jobs))
    out, port = folder / f"{processes}x{devices}.npz", free_port()
    root = str(WORKER.parents[2])
    usual = environment() if processes > 1 else os.environ
    begun = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.training.exact_worker"]
            + [str(x) for x in (port, processes, n, devices, json.dumps(jobs), out)],
            stderr=subprocess.PIPE,
            cwd=root,
            env=usual | {"PYTHONPATH": root},
            text=True,
        )
        for n in range(processes)
    ]
    errors = [process.communicate(timeout=3000)[1] for process in begun]
    assert all(process.returncode == 0 for process in begun), errors[0][-3000:]
    with np.load(out) as results:
        return by_job(results, len(jobs))


def by_job(results, number_of_jobs):
    """Return the arrays of each job by their names."""
    return [
        {
            name.partition(":")[2]: results[name]
            for name in results
            if name.startswith(f"{number}:")
        }
        for number in range(number_of_jobs)
    ]


@pytest.fixture(scope="module")
def objectives(request):
    exhaustive = request.config.getoption("exhaustive")
    return tuple(exact_worker.OBJECTIVES) if exhaustive else CHOSEN


def job(
    precision, objectives, micro_batches=1, mesh=None, one_pass=True, together=True
):
    return {
        "objectives": objectives,
        "together": together,
        "precision": precision,
        "micro_batches": micro_batches,
        "mesh": PLAIN if mesh is None else mesh,
        "one_pass": one_pass,
    }


@pytest.fixture(scope="module")
def plain(request, objectives, tmp_path_factory):
    """Return the results of one device on the whole batch."""
    folder = tmp_path_factory.mktemp("plain")
    exhaustive = request.config.getoption("exhaustive")
    kinds = ("float64", "float32") if exhaustive else ("float64",)
    results = computed(
        [job(kind, objectives, together=False) for kind in kinds], folder
    )
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
@pytest.mark.parametrize(
    ("precision", "ways"),
    [
        pytest.param("float64", ALL_WAYS, marks=pytest.mark.exhaustive),
        pytest.param("float32", ALL_WAYS, marks=pytest.mark.exhaustive),
    ],
    ids=["float64", "float32"],
)
def test_micro_batches_give_the_plain_step(
    plain, objectives, precision, ways, tmp_path
):
    jobs = [
        job(precision, objectives, parts, one_pass=one_pass) for parts, one_pass in ways
    ]
    for results in computed(jobs, tmp_path):
        check(results, plain[precision], precision, objectives)


@pytest.mark.slow
def test_devices_and_processes_give_the_plain_step(
    plain, objectives, precision, processes, cells, tmp_path
):
    jobs = [job(precision, objectives, parts, MESHES[name]) for name, parts in cells]
    for results in computed(jobs, tmp_path, processes, 8 // processes):
        check(results, plain[precision], precision, objectives)


def test_the_mean_of_micro_batches_is_wrong(objectives):
    """Averages fail the same check for all but means over elements."""
    network, batch = exact_worker.network("float32"), exact_worker.batch()
    outputs = jax.jit(network.apply)(jax.jit(network.init)(jax.random.key(3)), batch)
    half = exact_worker.ROWS // 2

    @jax.jit
    def of_rows(*both):
        """Return the losses of both halves and of the whole."""
        results = {}
        for name in objectives:
            objective = exact_worker.OBJECTIVES[name]
            state, progress = objective.initial_state(), exact_worker.PROGRESS
            results[name] = [
                objective(*jax.tree.map(lambda x, r=rows: x[r], both), state, progress)[
                    0
                ]
                for rows in (slice(None, half), slice(half, None), slice(None))
            ]
        return results

    for name, losses in of_rows(outputs, batch).items():
        *parts, whole = map(float, losses)
        assert abs(np.mean(parts) - whole) > 100 * TOLERANCE["float32"] * whole, name
