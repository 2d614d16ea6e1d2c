"""Two processes train as one, and survive a kill and a signal."""

import contextlib
import types

import jax
import pytest

from dicejax.errors import Stopped
from dicejax.training import processes

from .commands import (
    begin_together,
    command,
    finished,
    records,
    result,
    same_end,
    wait_for_step,
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


def begin_two(out, devices, **more):
    """Start two processes of one training, each with its devices."""
    return begin_together(2, command(out, **more), JAX_NUM_CPU_DEVICES=str(devices))


def finished_together(out, devices, **more):
    begun = begin_two(out, devices, **more)
    printed = [process.communicate(timeout=600) for process in begun]
    assert [process.returncode for process in begun] == [0, 0], printed
    return printed


# Easy and short, so that the test score is neither 0 nor 1 after few steps.
LEARNT = {
    "--data.train": 1600,
    "--data.dev": 50,
    "--data.test": 200,
    "--data.o_per_entity": 5,
    "--data.ambiguous_names": 10,
    "--data.common_words": 40,
    "--training.epochs": 5,
    "--training.batch_size": 64,
    "--optimizer.learning_rate": 4e-3,
    "--encoder.hidden_size": 128,
    "--encoder.intermediate_size": 512,
    "--encoder.num_hidden_layers": 2,
}


@pytest.mark.exhaustive
def test_eight_devices_of_two_processes_end_with_the_score_of_one(cache, tmp_path):
    finished(tmp_path / "one", cache, **LEARNT)
    printed = finished_together(tmp_path / "two", 4, **LEARNT)
    alone, both = result(tmp_path / "one"), result(tmp_path / "two")
    assert both["devices"] == 8 and alone["devices"] == 1
    assert 0.2 < alone["test"]["f1"] < 1
    assert both["test"]["f1"] == pytest.approx(alone["test"]["f1"], abs=0.005)
    pairs = zip(records(tmp_path / "one"), records(tmp_path / "two"), strict=True)
    for ours, theirs in list(pairs)[:20]:
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
    # One of them speaks for both.
    assert "F1" in printed[0][0] and "F1" not in printed[1][0]


SHORT = {"--training.epochs": 2}


@pytest.mark.exhaustive
@pytest.mark.parametrize("killed", [0, 1])
def test_a_kill_of_one_of_two_changes_nothing(uninterrupted, tmp_path, killed):
    out = tmp_path / "killed"
    begun = begin_two(out, 1, **SHORT)
    wait_for_step(out, 10, begun[0])
    begun[killed].kill()
    other = begun[1 - killed]
    _, errors = other.communicate(timeout=300)
    begun[killed].communicate()
    assert other.returncode != 0, errors
    printed = finished_together(out, 1, **SHORT)
    assert "resuming from step" in printed[0][1]
    same_end(out, uninterrupted)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "together"
    finished_together(out, 1, **SHORT)
    return out


@pytest.mark.exhaustive
def test_two_processes_train_without_the_preemption_service(
    uninterrupted, tmp_path, monkeypatch
):
    monkeypatch.setenv("JAX_ENABLE_PREEMPTION_SERVICE", "false")
    finished_together(tmp_path / "out", 1, **SHORT)
    same_end(tmp_path / "out", uninterrupted)


@pytest.mark.parametrize("service", [True, False])
def test_the_preemption_service_is_asked_where_it_is_on(monkeypatch, service):
    # JAX raises an error where it is off.
    reached = {True: lambda step: step == 2, False: pytest.fail}[service]
    utils = types.SimpleNamespace(reached_preemption_sync_point=reached)
    monkeypatch.setattr(processes, "multihost_utils", utils)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(type(jax.config), "jax_enable_preemption_service", service)
    stop = processes.StopRequest(0)
    stop.after(1)
    with pytest.raises(Stopped) if service else contextlib.nullcontext():
        stop.after(2)
