"""Training commands, stopped or in subprocesses, their ports and their output."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import dicejax.training.train as training
from dicejax.cli import run
from dicejax.training.checkpoint import restore_params
from dicejax.training.run_folder import CHECKPOINTS, Run

QUICKSTART = Path(__file__).parents[2] / "experiments" / "quickstart.py"
# What takes no part in the result, such as the speed.
TIMES = ("tokens_per_s", "wait_share", "memory_gib", "seconds")
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
SMALL = {
    "--data.train": 160,
    "--data.dev": 20,
    "--data.test": 20,
    "--training.epochs": 4,
    "--training.log_every": 1,
    "--training.batch_size": 10,
    "--recording.checkpoint_every": 10,  # each takes as long as 20 steps
    "--encoder.hidden_size": 32,
    "--encoder.intermediate_size": 64,
    "--encoder.num_hidden_layers": 1,
}


def words(out, **more):
    """Return the arguments of `dicejax` for a small training."""
    flags = SMALL | {"--out": out} | more
    return ["train", str(QUICKSTART)] + [str(x) for pair in flags.items() for x in pair]


def command(out, **more):
    start = "from dicejax.cli import main; main()"
    return [sys.executable, "-c", start, *words(out, **more)]


def finished_here(out, **more):
    """Train in this process."""
    assert run(words(out, **more)) == 0


def stop_at(step, number, argv):
    """Train until a signal comes in the middle of a step."""
    real, calls = training.train_step, []

    def stopping(*inputs, **settings):
        calls.append(1)
        if len(calls) == step:
            signal.raise_signal(number)
        return real(*inputs, **settings)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(training, "train_step", stopping)
        assert run(argv) == 128 + number


def begin(out, cache, **more):
    environment = os.environ | {
        "DICEJAX_HUGE_PAGES": "0",  # no second start, so that the process is known
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    return subprocess.Popen(command(out, **more), **PIPES, env=environment)


def finished(out, cache, **more):
    process = begin(out, cache, **more)
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors[-3000:]
    return printed + errors


def records(out, file="metrics.jsonl"):
    lines = (out / file).read_text().splitlines()
    return [
        {name: value for name, value in json.loads(line).items() if name not in TIMES}
        for line in lines
    ]


def result(out):
    """Return the result of a finished run, without times."""
    values = json.loads((out / "result.json").read_text())
    return {name: value for name, value in values.items() if name not in TIMES}


def weights(out, which):
    trained = Run.open(str(out))
    return restore_params(trained.path / CHECKPOINTS, trained.network(), which)


def same_end(out, other_out):
    assert records(out) == records(other_out)
    for which in ("best", "last"):
        (step, ours), (other, theirs) = weights(out, which), weights(other_out, which)
        assert step == other
        for a, b in zip(*map(jax.tree.leaves, (ours, theirs)), strict=True):
            np.testing.assert_array_equal(a, b)
    ours, theirs = result(out), result(other_out)
    for name in ("test", "test_at_last_step", "best_step", "best_dev_score"):
        assert ours[name] == theirs[name]


def wait_for_step(out, step, process):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        file = out / "metrics.jsonl"
        if file.exists() and file.read_text().count("\n") >= step:
            return
        time.sleep(0.005)


# XLA starts independent collectives of a CPU program as threads become free, so two
# processes may start them in different orders, and wait for each other forever.
IN_ORDER = "--xla_cpu_multi_thread_eigen=false"


def begin_together(count, argv, cwd=None, **more):
    """Start the processes of one command; `more` is their environment."""
    port, settings = free_port(), environment(DICEJAX_HUGE_PAGES="0", **more)
    flags = ["--processes.coordinator", f"127.0.0.1:{port}", "--processes.count"]
    return [
        subprocess.Popen(
            [*argv, *flags, str(count), "--processes.index", str(index)],
            **PIPES,
            cwd=cwd,
            env=settings,
        )
        for index in range(count)
    ]


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def environment(**more):
    """Return the environment of one of several processes.

    Without a compilation cache: the one that finds a program there waits for another
    that does not, and gives up after 30 seconds.
    """
    flags = f"{os.environ.get('XLA_FLAGS', '')} {IN_ORDER}"
    settings = {"XLA_FLAGS": flags, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    return os.environ | settings | more
