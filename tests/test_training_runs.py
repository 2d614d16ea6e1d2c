"""Whole trainings through the command line, for each option of the engine."""

import json
import os

import jax
import numpy as np
import pytest
from etils import epath

import dicejax.training.train as training
from dicejax.cli import run
from dicejax.mesh import MeshShape
from dicejax.training.run_folder import Run
from dicejax.training.setup import prepare

from .small_project import fails


def result(project, out="run"):
    return json.loads((project / out / "result.json").read_text())


def records(project, out="run"):
    lines = (project / out / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    "flags",
    [
        ["--training.precision", "float16", "--optimizer.ema_decay", "0.9"],
        *(
            pytest.param(flags, marks=pytest.mark.exhaustive)
            for flags in (
                ["--training.batching", "buckets", "--training.buckets", "2"],
                ["--training.rows_per_update", "4", "--training.micro_batches", "2"],
                ["--optimizer.frozen_layers", "1", "--optimizer.freeze_embeddings"],
            )
        ),
    ],
    ids=lambda flags: " ".join(flags[:2]),
)
def test_each_way_to_train_learns_the_corpus(project, flags):
    assert run(["train", "mine.py", "--out", "run", *flags]) == 0
    losses = [record["loss"] for record in records(project)]
    assert losses[-1] < 0.3 * losses[0]
    f1 = result(project)["test"]["f1"]
    assert f1 > 0.9
    above, below = Run(epath.Path("run")).example_statistics().sum(axis=(0, 1))
    assert above / below == pytest.approx(f1)
    assert result(project)["skipped"] == 0
    if "float16" in flags:
        assert {record["loss_scale"] for record in records(project)} == {2.0**15}


def test_a_run_that_diverges_stops_and_keeps_the_batch(project, capsys):
    argv = ["train", "mine.py", "--out", "run", "--training.max_consecutive_skips", "3"]
    assert run([*argv, "--optimizer.learning_rate", "1e30"]) == 1
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert "no finite loss or gradient in 3 steps in a row, " in line
    assert "lower --optimizer.learning_rate" in line
    first = int(line.partition("in a row, ")[2].split()[0])
    with np.load(project / f"run/not_finite_step_{first}.npz") as kept:
        setup = prepare(Run(epath.Path("run")).experiment(), warn=print)
        wanted = setup.batches(MeshShape().make())[first - 1].arrays
        assert set(kept.files) == set(wanted)
        for name in kept.files:
            np.testing.assert_array_equal(kept[name], wanted[name])
    assert not (project / "run/result.json").exists()
    assert Run(epath.Path("run")).diverged() in line


def test_a_transfer_outside_the_batch_is_an_error(project, monkeypatch):
    """The transfer guard rejects a host array within a step."""
    real = training.train_step
    calls = []

    def stray(state, arrays, objective, **fixed):
        calls.append(1)
        if len(calls) == 4:
            arrays = arrays | {"input_ids": np.asarray(arrays["input_ids"])}
        return real(state, arrays, objective, **fixed)

    monkeypatch.setattr(training, "train_step", stray)
    with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed host-to-device"):
        run(["train", "mine.py", "--out", "run"])
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (
            ["--mesh.data", "3"],
            ["data 3 x fsdp 1 x tensor 1 takes 3 devices", "leave --mesh.data out"],
        ),
        (["--mesh.tensor", "2"], ["--mesh.tensor is 2 and must be one of 1"]),
        (
            ["--training.rows_per_update", "5", "--training.micro_batches", "2"],
            ["rows_per_update 5 does not divide into", "2 micro-batches; take 4 or 6"],
        ),
    ],
    ids=lambda value: " ".join(value),
)
def test_what_does_not_fit_the_devices_is_one_line(project, capsys, flags, parts):
    fails(capsys, ["train", "mine.py", "--out", "run", *flags], *parts)
    assert not (project / "run").exists()


def test_a_folder_that_cannot_be_made_is_one_line(project, capsys):
    (project / "file").write_text("")
    fails(capsys, ["train", "mine.py", "--out", "file/run"], "file/run")
    if os.path.isdir("/proc/self"):  # the kernel's: root may not write there either
        fails(capsys, ["train", "mine.py", "--out", "/proc/run"], "/proc/run")
