"""metrics.jsonl and dashboards: no record lost, doubled, or left behind."""

import contextlib
import json
import os
import struct
import sys
from pathlib import Path
from typing import ClassVar
from unittest import mock

import jax.numpy as jnp
import numpy as np
import pytest
from etils import epath
from etils.epath import backend
from fsspec.implementations.memory import MemoryFileSystem
from tensorboardX.proto.event_pb2 import Event, SessionLog

from dicejax.errors import InputError
from dicejax.training.logging import (
    MetricsLog,
    TensorBoard,
    WeightsAndBiases,
    require_wandb,
)


@pytest.fixture
def folder(tmp_path):
    return epath.Path(tmp_path / "run")


def lines(folder):
    return (folder / "metrics.jsonl").read_text().splitlines()


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("step", "values", "record"),
    [
        (7, {"dev/f1": 0.5, "name": "dice"}, {"dev/f1": 0.5, "name": "dice"}),
        (1, {"a": NAN, "b": [-INF, 1.0]}, {"a": None, "b": [None, 1.0]}),
        (1, {"a": {"b": np.nan}}, {"a": {"b": None}}),
        (np.int64(3), {"a": np.float32(0.5), "b": jnp.int32(4)}, {"a": 0.5, "b": 4}),
        (np.int64(3), {"a": jnp.bfloat16(2)}, {"a": 2.0}),
    ],
)
def test_each_step_is_a_line_of_json(folder, step, values, record):
    with MetricsLog(folder) as log:
        log.write(step, **values)
    (line,) = lines(folder)
    assert line == json.dumps({"step": int(step)} | record, allow_nan=False)


def test_steps_go_forward_and_a_refused_record_leaves_no_half_line(folder):
    with MetricsLog(folder, after_step=4) as log:
        with pytest.raises(ValueError, match="step 4 is not after step 4"):
            log.write(4, loss=1.0)
        with pytest.raises(TypeError):
            log.write(5, loss=object())
        log.write(5, loss=1.0)
        for step in (5, 3):
            with pytest.raises(ValueError, match=f"step {step} is not after step 5"):
                log.write(step, loss=1.0)
    assert lines(folder) == ['{"step": 5, "loss": 1.0}']


KEPT = (
    b'{"step": 1,  "loss": NaN}\n'
    b"not ours\n"
    b'{"step":2, "name": "\xc3\xa9"}\n'
    b'{"note": 1}\n'
)


@pytest.mark.parametrize(
    "rest",
    [
        b"",
        b'{"step": 3}\n{"step": 4}\n',
        b'{"step": 3}\n{"step": 4, "lo',
        b'{"step": 2}',
        b'{"step": 3}\n{"step": 4, "lo\n',
        b"\x00\x00\x00",
        b"\xff\n",
    ],
)
@pytest.mark.parametrize(("before", "after_step"), [(KEPT, 2), (b"", 0)])
def test_a_continued_run_keeps_what_its_checkpoint_knows(
    folder, before, after_step, rest
):
    folder.mkdir()
    file = folder / "metrics.jsonl"
    file.write_bytes(before + rest)
    MetricsLog(folder, after_step=after_step).close()
    assert file.read_bytes() == before
    with MetricsLog(folder, after_step=after_step) as log:
        log.write(3, loss=1.0)
    assert file.read_bytes() == before + b'{"step": 3, "loss": 1.0}\n'


def test_the_file_is_there_while_it_is_replaced(folder, monkeypatch):
    folder.mkdir()
    file = folder / "metrics.jsonl"
    before = b'{"step": 1}\n{"step": 2}\n'
    file.write_bytes(before)
    moved, synced = [], []
    fsync = os.fsync

    def replace(source, target):
        assert file.read_bytes() == before
        assert Path(source).read_bytes() == b'{"step": 1}\n'
        assert Path(source).parent == Path(file).parent
        assert synced
        moved.append(target)
        raise OSError("killed here")

    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(fd) or fsync(fd))
    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(InputError, match="killed here"):
        MetricsLog(folder, after_step=1)
    assert moved == [os.fspath(file)]
    assert file.read_bytes() == before


def test_a_file_with_nothing_to_drop_is_not_rewritten(folder, monkeypatch):
    with MetricsLog(folder) as log:
        log.write(1, loss=1.0)
    monkeypatch.setattr(os, "replace", lambda *_: pytest.fail("rewritten"))
    MetricsLog(folder, after_step=1).close()
    assert len(lines(folder)) == 1


def test_a_record_is_in_the_file_when_it_has_been_written(folder):
    """A process that is killed then loses nothing."""
    with MetricsLog(folder) as log:
        for step in range(1, 101):
            log.write(step, loss=1 / step)
            assert json.loads(lines(folder)[-1]) == {"step": step, "loss": 1 / step}
    with MetricsLog(folder, after_step=60) as again:
        again.write(61, loss=0.0)
    assert [json.loads(line)["step"] for line in lines(folder)] == [*range(1, 62)]


def test_other_processes_write_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with MetricsLog(None) as log:
        log.write(1, loss=1.0)
        log.flush()
    log.close(failed=True)
    assert not list(tmp_path.iterdir())


# Object stores


class Store(MemoryFileSystem):
    """Object store without append."""

    store: ClassVar[dict] = {}
    pseudo_dirs: ClassVar[list] = [""]
    writes: ClassVar[list] = []

    def _open(self, path, mode="rb", **kwargs):
        assert "a" not in mode
        if "w" in mode:
            Store.writes.append(path)
        return super()._open(path, mode, **kwargs)


@pytest.fixture
def store(monkeypatch):
    """Replace gs:// by a fake store."""
    system = Store(skip_instance_cache=True)
    Store.store.clear()
    Store.writes.clear()
    monkeypatch.setenv("EPATH_USE_TF", "false")
    kind = type(backend.fsspec_backend)
    monkeypatch.setattr(kind, "fs", lambda self, path: system)
    return epath.Path("gs://bucket/run")


def test_in_a_store_the_whole_file_is_written_at_each_flush_and_at_the_end(store):
    (store / "metrics.jsonl").write_bytes(KEPT + b'{"step": 3}\n{"st')
    boards = [TensorBoard(store / "tensorboard")]
    with MetricsLog(store, after_step=2, boards=boards) as log:
        log.write(3, loss=0.5)
        log.flush()
        first = KEPT + b'{"step": 3, "loss": 0.5}\n'
        assert (store / "metrics.jsonl").read_bytes() == first
        log.write(4, loss=0.25)
        assert (store / "metrics.jsonl").read_bytes() == first
    whole = first + b'{"step": 4, "loss": 0.25}\n'
    assert (store / "metrics.jsonl").read_bytes() == whole
    assert sum(path.endswith("metrics.jsonl") for path in Store.writes) == 3
    assert drawn(store / "tensorboard") == [("loss", 3, 0.5), ("loss", 4, 0.25)]


# TensorBoard


def events(folder):
    """Parse all events by the format: length, its check, data, its check."""
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            yield Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]


def drawn(folder):
    return [
        (value.tag, event.step, value.simple_value)
        for event in events(folder)
        for value in event.summary.value
    ]


def test_tensorboard_gets_the_finite_numbers(folder):
    with MetricsLog(folder, boards=[TensorBoard(folder / "tensorboard")]) as log:
        log.write(1, loss=0.5, epoch=0, name="dice", skipped=True)
        log.write(2, loss=float("nan"), **{"dev/f1": np.float32(0.75)})
    assert drawn(folder / "tensorboard") == [
        ("loss", 1, 0.5),
        ("epoch", 1, 0),
        ("dev/f1", 2, 0.75),
    ]


def test_tensorboard_hides_what_lies_behind_the_checkpoint(folder):
    for after_step in (0, 2):
        board = TensorBoard(folder, after_step)
        for step in (after_step + 1, after_step + 2, after_step + 3):
            board.write(step, {"loss": 1.0})
        board.close()
    assert len(list(folder.iterdir())) == 2
    starts = [e for e in events(folder) if e.HasField("session_log")]
    assert [event.step for event in starts] == [1, 3]
    assert {event.session_log.status for event in starts} == {SessionLog.START}


# Weights & Biases


@pytest.fixture
def wandb(monkeypatch):
    module = mock.Mock(Error=type("Error", (Exception,), {}))
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def settings(wandb):
    """Return the settings of all runs that were begun."""
    return [call.kwargs for call in wandb.init.call_args_list]


def board(folder, project="f1"):
    folder.mkdir(parents=True, exist_ok=True)
    return WeightsAndBiases(project, folder, name="dice seed 0", config={"seed": 0})


@pytest.mark.parametrize("error", [None, RuntimeError("out of memory")])
def test_weights_and_biases_gets_each_record(folder, wandb, error):
    expected = pytest.raises(RuntimeError) if error else contextlib.nullcontext()
    with expected, MetricsLog(folder, boards=[board(folder)]) as log:
        log.write(1, loss=np.float32(0.5))
        log.write(2, loss=0.25)
        if error:
            raise error
    (begun,), sent = settings(wandb), wandb.init.return_value
    assert begun == {
        "project": "f1",
        "name": "dice seed 0",
        "id": begun["id"],
        "resume": "allow",
        "config": {"seed": 0},
        "dir": os.fspath(folder),
    }
    logged = [mock.call({"loss": 0.5}, step=1), mock.call({"loss": 0.25}, step=2)]
    assert sent.log.call_args_list == logged
    sent.finish.assert_called_once_with(exit_code=1 if error else 0)


@pytest.mark.parametrize("place", ["folder", "store"])
def test_a_continued_run_keeps_its_id_and_a_new_one_has_its_own(place, wandb, request):
    folder = request.getfixturevalue(place)
    for _ in range(2):
        board(folder).close()
    folder.rmtree()
    board(folder).close()
    first, second, third = settings(wandb)
    assert first == second and len(first["id"]) == 16
    assert third["id"] != first["id"]
    # From a store wandb keeps its own files elsewhere.
    assert first["dir"] == (None if place == "store" else os.fspath(folder))


def test_without_wandb_the_line_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match=r"^.*not installed; pip install wandb$"):
        require_wandb()
    (tmp_path / "wandb").mkdir()  # a folder of that name is not taken for it
    monkeypatch.delitem(sys.modules, "wandb")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="pip install wandb"):
        require_wandb()
    sys.modules.pop("wandb", None)


def test_what_wandb_refuses_is_one_line(folder, wandb):
    wandb.init.side_effect = wandb.Error("No API key configured.\nLog in.")
    with pytest.raises(InputError, match=r"No API key configured. Log in; run `wandb"):
        board(folder)
