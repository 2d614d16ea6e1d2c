"""Several processes started on one folder: one trains, the others say which."""

import random
import time

import pytest

from dicejax.cli import run

from ..training.commands import begin
from .commands import TINY, end, tiny


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return the end of a run that no other process disturbs."""
    out = tmp_path_factory.mktemp("alone") / "run"
    assert run(tiny(out)) == 0
    return end(out)


@pytest.mark.exhaustive
@pytest.mark.parametrize("trial", range(20))
@pytest.mark.parametrize("count", [2, 4])
def test_one_of_several_processes_trains(alone, tmp_path, count, trial):
    out, rng = tmp_path / "run", random.Random(f"{count} {trial}")
    # The first trials at once, the others up to five seconds apart.
    processes = []
    for _ in range(count):
        processes.append(begin(out, tmp_path / "programs", **TINY))
        time.sleep(rng.random() * min(5, trial))
    ended = [(*process.communicate(), process.returncode) for process in processes]
    trained = [errors for _, errors, _ in ended if "epoch 1" in errors]
    assert len(trained) == 1, ended
    for _, errors, status in ended:
        assert "Traceback" not in errors
        if errors in trained or "already finished" in errors:
            assert status == 0, errors
            continue
        (line,) = [line for line in errors.splitlines() if "dicejax: " in line]
        assert status == 2 and "trains here" in line, errors
        assert any(f"process {process.pid} on" in line for process in processes)
    assert end(out) == alone
