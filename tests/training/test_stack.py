"""Runs that one program steps together end as they end one by one."""

import dataclasses
import json
import os
import shutil
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from etils import epath
from rich.console import Console

from dicejax.config import Experiment, Recording, ScratchEncoder, Training
from dicejax.data.sources import LabelFirstFiles, SyntheticNER
from dicejax.errors import Diverged
from dicejax.objectives import CrossEntropy, SelfAdjustingDice, WeightedSum
from dicejax.optimizers import AdamW
from dicejax.tasks import Classification
from dicejax.training.checkpoint import restore_params
from dicejax.training.loop import train, train_stack
from dicejax.training.member import Member
from dicejax.training.plan import planned
from dicejax.training.progress import TrainingProgress
from dicejax.training.run_folder import Run
from dicejax.training.runs.companions import FILE, Companions
from dicejax.training.setup import describe
from dicejax.training.sharding import path_name
from dicejax.training.signals import Stopped
from dicejax.training.step import train_step
from dicejax.training.steps.stack import train_steps

from ..tiny import fitting

SEEDS = range(8)
# What takes no part in the result, such as the speed.
TIMES = ("tokens_per_s", "wait_share", "memory_gib")
SMALL = Experiment(
    name="small",
    # Epochs of some seeds have one step more than those of others.
    data=SyntheticNER(train=100, dev=12, test=40, o_per_entity=5.0),
    encoder=ScratchEncoder(
        vocab_size=200,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        dropout=0.1,
    ),
    optimizer=AdamW(learning_rate=3e-3),
    training=Training(
        epochs=2, batch_size=3, max_length=32, log_every=1, max_consecutive_skips=3
    ),
    recording=Recording(checkpoint_every=25),
)


def of_seed(seed, experiment=SMALL, **changes):
    training = dataclasses.replace(experiment.training, seed=seed)
    return dataclasses.replace(experiment, training=training, **changes)


def quiet():
    return TrainingProgress(Console(quiet=True))


def alone(experiment, folder):
    return train(experiment, Run.create(str(folder), experiment), quiet())


def together(experiments, folders):
    runs = [
        Run.create(str(folder), experiment)
        for folder, experiment in zip(folders, experiments, strict=True)
    ]
    return train_stack(experiments, runs, quiet())


def records(folder):
    return [
        {name: value for name, value in json.loads(line).items() if name not in TIMES}
        for line in (folder / "metrics.jsonl").read_text().splitlines()
    ]


def losses(folder):
    return np.array([record["loss"] for record in records(folder)])


def files(folder):
    """The names of what a run leaves, but for those that hold a time or are drawn.

    Nor that which tells with what others it was stepped.
    """
    found = [
        str(f.relative_to(folder)) for f in folder.rglob("*") if "/d/" not in str(f)
    ]
    return sorted({name.split("tfevents")[0] for name in found} - {FILE})


def last_weights(folder):
    """The last weights by their paths, but for biases of keys.

    These add one number to all scores of a query, which the softmax takes away again:
    their gradient is 0 but for rounding, which Adam makes a step of full length.
    """
    run = Run.open(str(folder))
    step, params = restore_params(epath.Path(run.checkpoints), run.network(), "last")
    leaves = jax.tree_util.tree_leaves_with_path(params)
    named = {path_name(path): leaf for path, leaf in leaves}
    del named["encoder/layers/key/bias"]
    return step, named


def same_end(ours, theirs):
    assert files(ours) == files(theirs)
    one, other = records(ours), records(theirs)
    assert [sorted(record) for record in one] == [sorted(record) for record in other]
    for name in ("step", "epoch", "sentences", "skipped"):
        assert [r[name] for r in one] == [r[name] for r in other]
    np.testing.assert_allclose(losses(ours), losses(theirs), rtol=0, atol=1e-5)
    one, other = (json.loads((f / "result.json").read_text()) for f in (ours, theirs))
    assert list(one) == list(other)
    for name in ("steps", "test", "test_at_last_step", "best_step", "test_data"):
        assert one[name] == other[name], name
    np.testing.assert_array_equal(
        *(Run.open(str(f)).example_statistics() for f in (ours, theirs))
    )
    (step, ours), (wanted, theirs) = last_weights(ours), last_weights(theirs)
    assert step == wanted
    for name, one in ours.items():
        np.testing.assert_allclose(one, theirs[name], rtol=0, atol=1e-4, err_msg=name)


@pytest.fixture(scope="module")
def stacked(tmp_path_factory):
    folders = [tmp_path_factory.mktemp("stack") / str(seed) for seed in SEEDS]
    before = train_steps._cache_size()
    together([of_seed(seed) for seed in SEEDS], folders)
    assert train_steps._cache_size() == before + 1
    return folders


@pytest.fixture(scope="module")
def separate(tmp_path_factory):
    folders = [tmp_path_factory.mktemp("alone") / str(seed) for seed in SEEDS]
    for seed, folder in zip(SEEDS, folders, strict=True):
        alone(of_seed(seed), folder)
    return folders


@pytest.fixture
def stop_at(monkeypatch):
    """A signal to this process when a line of a step is written."""

    def at(step, number=signal.SIGTERM):
        real = Member.write

        def write(self, now, *rest, **scores):
            real(self, now, *rest, **scores)
            if now == step:
                monkeypatch.setattr(Member, "write", real)
                os.kill(os.getpid(), number)

        monkeypatch.setattr(Member, "write", write)

    return at


@pytest.mark.slow
def test_seeds_in_one_program_equal_separate_runs(stacked, separate):
    lengths, first = set(), set()
    for ours, theirs in zip(stacked, separate, strict=True):
        assert len(losses(ours)) > 50
        np.testing.assert_allclose(
            losses(ours)[:50], losses(theirs)[:50], rtol=0, atol=1e-5
        )
        same_end(ours, theirs)
        lengths.add(len(losses(ours)))
        first.add(losses(ours)[0])
    assert len(lengths) > 1  # some end while others go on
    assert len(first) == len(SEEDS)


@pytest.mark.slow
def test_runs_pass_from_a_stack_to_themselves_and_back(separate, tmp_path, stop_at):
    folders = [tmp_path / str(seed) for seed in range(3)]
    stop_at(20)
    with pytest.raises(Stopped) as stopped:
        alone(of_seed(0), folders[0])
    stop_at(20)
    with pytest.raises(Stopped):
        together([of_seed(1), of_seed(2)], folders[1:])
    assert stopped.value.step in (20, 21)
    at = {last_step(folder) for folder in folders}
    assert at == {stopped.value.step}  # more than any checkpoint in between
    alone(of_seed(2), folders[2])
    together([of_seed(0), of_seed(1)], folders[:2])
    for ours, theirs in zip(folders, separate, strict=False):
        same_end(ours, theirs)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A stack whose epochs end at other steps: 30 and 60, 29 and 58."""
    parent = tmp_path_factory.mktemp("two")
    folders = [parent / str(seed) for seed in (5, 4)]
    together([of_seed(5), of_seed(4)], folders)
    assert [records(folder)[-1]["step"] for folder in folders] == [60, 58]
    return folders


def same_bits(ours, theirs):
    assert files(ours) == files(theirs)
    assert records(ours) == records(theirs)
    one, other = (json.loads((f / "result.json").read_text()) for f in (ours, theirs))
    for name in one.keys() - set(TIMES):
        assert one[name] == other[name], name
    np.testing.assert_array_equal(
        *(Run.open(str(f)).example_statistics() for f in (ours, theirs))
    )
    (step, ours), (wanted, theirs) = last_weights(ours), last_weights(theirs)
    assert step == wanted
    for name, one in ours.items():
        np.testing.assert_array_equal(one, theirs[name], err_msg=name)


def go_on(folders, seeds):
    """Go on with runs as the stack they were begun in."""
    experiments = [of_seed(seed) for seed in seeds]
    runs = [
        Run.create(str(folder), experiment)
        for folder, experiment in zip(folders, experiments, strict=True)
    ]
    (companions,) = {Companions.noted(run) for run in runs}
    before = train_step._cache_size()
    train_stack(experiments, runs, quiet(), companions=companions)
    assert train_step._cache_size() == before  # never the program of one


@pytest.mark.slow
def test_a_stack_stopped_at_the_end_of_an_epoch_goes_on(two, tmp_path, stop_at):
    folders = [tmp_path / str(seed) for seed in (5, 4)]
    stop_at(29)  # while dev of the second is scored and before that of the first
    with pytest.raises(Stopped):
        together([of_seed(5), of_seed(4)], folders)
    # One of them a step back, as a kill between two checkpoints leaves it.
    shutil.rmtree(folders[1] / "checkpoints" / str(last_step(folders[1])))
    assert [last_step(folder) for folder in folders] == [29, 25]
    go_on(folders, (5, 4))
    for ours, theirs in zip(folders, two, strict=True):
        same_bits(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("cut", [[0], [1], [0, 1]])
def test_a_stack_cut_off_at_its_end_goes_on_as_the_same_program(two, tmp_path, cut):
    """Others are over by then, or wait for the end with nothing left to step."""
    folders = [tmp_path / folder.name for folder in two]
    for ours, theirs in zip(folders, two, strict=True):
        shutil.copytree(theirs, ours)
        (ours / "result.json").unlink()
    for number in cut:
        shutil.rmtree(folders[number] / "checkpoints" / str(last_step(folders[number])))
        assert last_step(folders[number]) == 50
    if cut == [0]:  # the other has its result
        shutil.copy(two[1] / "result.json", folders[1])
        go_on(folders[:1], (5,))
    else:
        go_on(folders, (5, 4))
    for ours, theirs in zip(folders, two, strict=True):
        same_bits(ours, theirs)


def last_step(folder):
    names = [file.name for file in (folder / "checkpoints").iterdir()]
    return max(int(name) for name in names if name.isdigit())


@pytest.mark.slow
def test_an_alpha_sweep_is_one_program(tmp_path):
    dice = [SelfAdjustingDice(alpha=alpha, smooth=1.0) for alpha in (0.01, 0.3, 1.0)]
    sweep = [of_seed(0, objective=one) for one in dice]
    before = train_steps._cache_size(), train_step._cache_size()
    folders = [tmp_path / str(number) for number in range(len(dice))]
    together(sweep, folders)
    after = train_steps._cache_size(), train_step._cache_size()
    assert np.subtract(after, before).tolist() == [1, 0]
    alone(sweep[1], tmp_path / "alone")
    same_end(folders[1], tmp_path / "alone")
    assert len({losses(folder)[-1] for folder in folders}) == len(dice)


@pytest.mark.slow
def test_a_run_that_diverges_is_recorded_and_the_others_go_on(separate, tmp_path):
    def times(weight):
        return WeightedSum(parts=(CrossEntropy(),), weights=(weight,))

    runs = [of_seed(1, objective=times(weight)) for weight in (3e38, 1.0)]
    folders = [tmp_path / "diverges", tmp_path / "goes"]
    outcomes = together(runs, folders)
    assert isinstance(outcomes[0], Diverged)
    run = Run.create(str(folders[0]), runs[0])
    assert run.diverged() == str(outcomes[0])
    assert "in 3 steps in a row, 1 to 3" in run.diverged()
    assert not run.is_finished
    assert (folders[0] / "not_finite_step_1.npz").exists()
    assert [record["skipped"] for record in records(folders[0])] == [1, 2]
    assert outcomes[1]["skipped"] == 0
    np.testing.assert_allclose(
        losses(folders[1]), losses(separate[1]), rtol=0, atol=1e-5
    )


def test_room_for_more_sequences_changes_no_loss(tmp_path):
    """Rows of some seeds hold more sequences, for which all in a stack have room."""
    task = Classification()
    experiment = dataclasses.replace(
        SMALL, task=task, data=fitting(LabelFirstFiles(dir=""), task, tmp_path)
    )
    setup = describe(experiment, warn=lambda text: None)
    mesh, objective = experiment.mesh.make(jax.devices()[:1]), setup.objective()
    own, found = setup.batches(mesh), []
    for batches in (own, own.holding(own.sequences + 1)):
        state = setup.initial_state(objective, mesh, len(own))
        arrays = batches[0].arrays
        found.append(train_step(state, arrays, objective, **setup.step_settings(mesh)))
    (_, metrics), (_, others) = found
    for name, value in metrics.items():
        np.testing.assert_allclose(value, others[name], rtol=1e-6, atol=0)
    for name in ("summary_positions", "label"):
        shapes = {batches[0].arrays[name].shape for batches in (own, own.holding(9))}
        assert len(shapes) == 2


def test_the_memory_of_one_step_tells_that_of_many():
    setup = describe(SMALL, warn=lambda text: None)
    mesh = SMALL.mesh.make(jax.devices()[:1])
    one, runs = planned(setup, mesh), 4
    batch = setup.batches(mesh)[0].arrays
    state = setup.abstract_state(setup.objective())
    settings = setup.step_settings(mesh)
    del settings["mesh"]

    def wide(leaf):
        leaf = jax.ShapeDtypeStruct(np.shape(leaf), jnp.result_type(leaf))
        return jax.ShapeDtypeStruct((runs, *leaf.shape), leaf.dtype)

    arguments = jax.tree.map(wide, (state, batch, setup.objective()))
    memory = train_steps.lower(*arguments, **settings).compile().memory_analysis()
    total = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    assert total <= runs * one.total * 1.1
