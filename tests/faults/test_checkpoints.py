"""Faults that would lose a checkpoint, or restore another state than was saved."""

import functools
import platform
import random
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from etils import epath

from dicejax.cli import run
from dicejax.cli.process import _KEPT
from dicejax.errors import InputError
from dicejax.mesh import MeshShape
from dicejax.models.heads import TokenHead
from dicejax.objectives import CrossEntropy
from dicejax.optimizers import AdamW
from dicejax.training import checkpoint
from dicejax.training.checkpoint import Checkpoints, restore_params
from dicejax.training.sharding import with_shardings
from dicejax.training.state import TrainState
from dicejax.training.step import train_step

from ..models.small import encoder_of, network_of
from ..subprocesses import python
from .commands import limited, tiny
from .mutations import BYTES, damage

NAMES = ["odd[1]", "a*b", "back\\slash", "-ü\n😀'\"% ", "x.__lock"]


@pytest.fixture(scope="module")
def network():
    sizes = {"heads": 2, "depth": 1, "vocab": 11, "max_position_embeddings": 8}
    return network_of(encoder_of("bert", 8, 8, **sizes), TokenHead(classes=2))


@pytest.fixture(scope="module")
def state_at(network):
    """Return a function from a step to a state that no other step has."""
    params = network.init(jax.random.key(0))

    def state(step):
        moved = jax.tree.map(lambda x: x + np.float32(step), params)
        return TrainState.create(moved, AdamW(), total_steps=9, rng=jax.random.key(1))

    return state


def saved(folder, state_at, scores, **keep):
    """Save a checkpoint per dev score, at steps 1, 2 and so on."""
    checkpoints = Checkpoints(epath.Path(folder), **keep)
    for step, score in enumerate(scores, start=1):
        checkpoints.save(step, state_at(step), score, {"step": step})
    checkpoints.close()


def shapes(state_at):
    mesh = MeshShape().make(jax.local_devices()[:1])
    return with_shardings(jax.eval_shape(lambda: state_at(0)), mesh)


def restored(folder, state_at):
    """Return the state, the notes and the warnings."""
    warnings, checkpoints = [], Checkpoints(epath.Path(folder))
    pair = checkpoints.restore(shapes(state_at), warnings.append)
    checkpoints.close()
    return (*(pair or (None, None)), warnings)


def same(ours, theirs):
    jax.tree.map(np.testing.assert_array_equal, ours.params, theirs.params)


def content(folder):
    return {str(p): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", NAMES)
def test_a_bracket_in_the_path_loses_no_checkpoint(tmp_path, network, state_at, name):
    folder, sibling = tmp_path / name, tmp_path / "aXb"
    saved(sibling, state_at, [0.5])
    before = content(sibling)
    saved(folder, state_at, [None, 0.9, 0.5])
    assert {p.name for p in tmp_path.iterdir()} == {name, "aXb"}
    state, notes, warnings = restored(folder, state_at)
    same(state, state_at(3))
    assert notes == {"step": 3} and not warnings
    step, params = restore_params(epath.Path(folder), network)
    assert step == 2
    jax.tree.map(np.testing.assert_array_equal, params, state_at(2).params)
    assert content(sibling) == before


def test_the_best_and_the_last_are_kept(tmp_path, network, state_at):
    saved(tmp_path, state_at, [0.2, 0.9, 0.4, 0.5], keep_last=1)
    assert {p.name for p in tmp_path.iterdir()} == {"2", "4"}
    for which, expected in (("best", 2), ("last", 4)):
        step, params = restore_params(epath.Path(tmp_path), network, which)
        assert step == expected
        jax.tree.map(np.testing.assert_array_equal, params, state_at(step).params)


def test_steps_taken_while_a_checkpoint_is_written_do_not_reach_it(
    tmp_path, network, state_at
):
    names = ("input_ids", "segment_ids", "position_ids", "token_type_ids", "tags")
    batch = dict.fromkeys(names, np.ones((4, 8), np.int32))
    settings = {"network": network, "optimizer": AdamW()}
    state, _ = train_step(state_at(0), batch, CrossEntropy(), **settings)
    before = jax.tree.map(np.array, state.params)
    checkpoints = Checkpoints(epath.Path(tmp_path))
    checkpoints.save(1, state, 0.5)
    for _ in range(8):  # gives the saved state's buffers to the next one
        state, _ = train_step(state, batch, CrossEntropy(), **settings)
    checkpoints.close()
    _, params = restore_params(epath.Path(tmp_path), network)
    jax.tree.map(np.testing.assert_array_equal, params, before)


def test_where_no_checkpoint_can_be_read_none_is_deleted(tmp_path, state_at):
    saved(tmp_path, state_at, [None, None])
    for step in (1, 2):
        (tmp_path / str(step) / "record").write_text("{}")
    before = content(tmp_path)
    with pytest.raises(InputError, match=r"2: record.*; 1: record.*--overwrite"):
        restored(tmp_path, state_at)
    assert content(tmp_path) == before


def test_one_complete_checkpoint_exists_at_every_deletion(
    tmp_path, network, state_at, monkeypatch
):
    delete, alone = checkpoint.delete, tmp_path / "alone"
    deleted = []

    def checked(place):
        shutil.copytree(tmp_path / "run", alone)
        shutil.rmtree(alone / place.name)
        same(restored(alone, state_at)[0], state_at(int(place.name) + 1))
        shutil.rmtree(alone)
        deleted.append(int(place.name))
        delete(place)

    monkeypatch.setattr(checkpoint, "delete", checked)
    saved(tmp_path / "run", state_at, [None] * 4, keep_last=1)
    assert deleted == [1, 2, 3]


def test_a_dev_score_is_added_without_writing_the_arrays_again(
    tmp_path, network, state_at
):
    saved(tmp_path, state_at, [0.5, None])
    arrays = {p: p.stat().st_mtime_ns for p in (tmp_path / "2" / "rest").rglob("*")}
    checkpoints = Checkpoints(epath.Path(tmp_path), keep_last=1)
    state, _ = checkpoints.restore(shapes(state_at), pytest.fail)
    checkpoints.save(2, state, 0.9, {"step": 2, "scored": True})
    checkpoints.close()
    assert [p.name for p in tmp_path.iterdir()] == ["2"]
    assert {p: p.stat().st_mtime_ns for p in arrays} == arrays
    assert restored(tmp_path, state_at)[1] == {"step": 2, "scored": True}
    assert restore_params(epath.Path(tmp_path), network)[0] == 2


DAMAGES = {
    "flip": lambda rng, content: BYTES["flip"](content, rng),
    "cut": lambda rng, content: content[: rng.randrange(len(content))],
    "other": lambda rng, content: b'{"a": [' * 9999,
}


@pytest.mark.parametrize(
    "kind", [*DAMAGES, "missing", "pipe", "link to a device", "folder"]
)
def test_a_damaged_file_is_named_and_the_checkpoint_before_is_taken(
    tmp_path, network, state_at, kind, request
):
    whole, folder, rng = tmp_path / "whole", tmp_path / "damaged", random.Random(0)
    saved(whole, state_at, [0.1, 0.2])
    files = [p for p in (whole / "2/params").rglob("*") if p.is_file()]
    files += [whole / "2/record"] * 4
    if not request.config.getoption("exhaustive"):
        files = files[::3]
    for file in files:
        shutil.copytree(whole, folder)
        change = functools.partial(DAMAGES[kind], rng) if kind in DAMAGES else kind
        damage(folder / file.relative_to(whole), change)
        with limited(seconds=60, memory=8 << 30):
            with pytest.raises(InputError, match=r"\A.*/2: damaged: .*\Z"):
                restore_params(epath.Path(folder), network)
            state, notes, warnings = restored(folder, state_at)
        same(state, state_at(1))
        assert notes == {"step": 1}
        assert "2: damaged" in warnings[0] and "the previous" in warnings[0]
        if kind in ("pipe", "link to a device", "folder"):
            name = file.relative_to(whole / "2")
            assert f"2: damaged: {name} is " in warnings[0]
        assert [p.name for p in folder.iterdir()] == ["1"]
        shutil.rmtree(folder)


def test_checkpoints_of_another_architecture_or_of_none_are_named(
    tmp_path, network, state_at
):
    with pytest.raises(InputError, match="holds no checkpoint"):
        restore_params(epath.Path(tmp_path / "none"), network)
    saved(tmp_path, state_at, [0.1])
    wider = network_of(network.encoder, TokenHead(classes=7))
    with pytest.raises(InputError, match=r"heads/tags/dense/kernel is \(8, 2\)"):
        restore_params(epath.Path(tmp_path), wider)


def test_no_other_file_of_a_checkpoint_is_needed_to_predict(
    tmp_path, network, state_at
):
    saved(tmp_path, state_at, [0.1])
    for place in (tmp_path / "1").iterdir():
        if place.is_dir() and place.name != "params":
            shutil.rmtree(place)
        elif place.is_file() and place.name != "record":
            place.write_bytes(b"{{{")
    _, params = restore_params(epath.Path(tmp_path), network)
    jax.tree.map(np.testing.assert_array_equal, params, state_at(1).params)


@pytest.mark.slow
def test_a_run_in_a_folder_of_any_name_resumes_and_predicts(tmp_path, capsys):
    out = tmp_path / "[1]*?\\ '\"\n-ü"
    assert run(tiny(out, **{"--training.epochs": 1})) == 0
    (out / "result.json").unlink()
    capsys.readouterr()
    assert run(tiny(out, **{"--training.epochs": 1})) == 0
    assert "resuming from step 6 of 6" in capsys.readouterr().err
    assert run(["predict", str(out), "Anna met Otto"]) == 0
    assert sorted(p.name for p in (out / "checkpoints").iterdir()) == ["3", "6"]
    assert [p.name for p in tmp_path.iterdir()] == [out.name]


def test_orbax_1_opens_a_checkpoint(tmp_path, state_at):
    # Its own handlers replace those of 0.x some day.
    v1 = pytest.importorskip("orbax.checkpoint.experimental.v1")
    saved(tmp_path, state_at, [0.5])
    like = shapes(state_at).params
    params = v1.load(tmp_path / "1", like, checkpointable_name="params")
    jax.tree.map(np.testing.assert_array_equal, params, state_at(1).params)


HOLES = """
import gc, resource, sys
import numpy as np
from etils import epath
from dicejax.training.checkpoint import Checkpoints

def resident():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * resource.getpagesize() / 2**20  # MiB

checkpoints = Checkpoints(epath.Path(sys.argv[1]))
pairs = [(np.ones(2**17), np.ones(500)) for _ in range(200)]  # 1 MiB, 4 kB
between_holes = [small for _, small in pairs]
full = resident()
del pairs
gc.collect()
before = resident()
checkpoints.wait()
print(full - before, before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the heap is glibc's")
def test_a_heap_that_keeps_what_is_freed_loses_its_holes_with_a_checkpoint(tmp_path):
    settings = ":".join(f"glibc.malloc.{setting}" for setting in _KEPT)
    done = python("-c", HOLES, tmp_path, GLIBC_TUNABLES=settings)
    freed, trimmed = map(float, done.stdout.split())
    assert freed < 20 and trimmed > 180  # MiB of 200
