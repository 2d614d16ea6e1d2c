"""Which runs of a comparison are trained together, and that it ends the same."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from etils import epath

from dicejax import comparison, config
from dicejax.cli import run
from dicejax.comparison import stacks
from dicejax.data.sources import SyntheticNER
from dicejax.errors import InputError
from dicejax.objectives import Dice, Focal, SelfAdjustingDice, by_short_name
from dicejax.objectives.combining import Combination
from dicejax.training.run_folder import EXPERIMENT as EXPERIMENT_FILE
from dicejax.training.run_folder import Run
from dicejax.training.runs.companions import Companions
from dicejax.training.setup import describe
from dicejax.training.stack_size import CPU_GAINS_UP_TO, stack_size, step_flops

from ..small_project import fails

EXPERIMENT = config.Experiment(
    name="some",
    data=SyntheticNER(train=40, dev=4, test=4),
    encoder=config.ScratchEncoder(
        hidden_size=16, num_hidden_layers=1, intermediate_size=32, num_attention_heads=2
    ),
    training=config.Training(batch_size=4, max_length=32),
)
LOSSES = (Dice(), SelfAdjustingDice(alpha=0.01), SelfAdjustingDice(alpha=1.0), Focal())


def jobs(seeds=2, experiment=EXPERIMENT):
    return comparison.jobs_of(experiment, LOSSES, seeds, "folder")


def told(found):
    return [[(job.loss, job.seed) for job in together] for together in found]


def test_runs_of_one_program_are_taken_together_the_first_first():
    assert told(stacks.in_turn(jobs(), 3)) == [
        [("ce", 0), ("ce", 1)],
        [("dice", 0), ("dice", 1)],
        [("dsc", 0), ("dsc-alpha=1.0", 0), ("dsc", 1)],
        [("focal", 0), ("focal", 1)],
        [("dsc-alpha=1.0", 1)],
    ]


@pytest.mark.parametrize("stack", ["off", 1])
def test_without_stacks_the_order_is_kept(stack):
    found = jobs()
    assert list(stacks.in_turn(found, stack)) == [[job] for job in found]


def test_what_a_step_is_compiled_for_is_not_stacked():
    changes = {
        "training": {"precision": "bfloat16"},
        "optimizer": {"learning_rate": 1e-3},
        "encoder": {"dropout": 0.5},
    }
    program = stacks.program_of(EXPERIMENT)
    for name, change in changes.items():
        part = dataclasses.replace(getattr(EXPERIMENT, name), **change)
        other = dataclasses.replace(EXPERIMENT, **{name: part})
        assert stacks.program_of(other) != program, name
    squared = dataclasses.replace(EXPERIMENT, objective=Dice(squared=True))
    plain = dataclasses.replace(EXPERIMENT, objective=Dice(squared=False))
    assert stacks.program_of(squared) != stacks.program_of(plain)


def test_seeds_with_batches_of_several_widths_are_not_stacked():
    training = dataclasses.replace(EXPERIMENT.training, batching="buckets")
    experiment = dataclasses.replace(EXPERIMENT, training=training)
    found = told(stacks.in_turn(jobs(experiment=experiment), 8))
    assert [("dsc", 0), ("dsc-alpha=1.0", 0)] in found
    assert all(len({seed for _, seed in together}) == 1 for together in found)


def test_auto_stacks_small_steps_on_a_cpu_and_no_large_ones():
    assert stack_size(EXPERIMENT) > 1
    wide = dataclasses.replace(
        EXPERIMENT.encoder, hidden_size=128, num_hidden_layers=2, intermediate_size=512
    )
    training = dataclasses.replace(EXPERIMENT.training, batch_size=32, max_length=128)
    large = dataclasses.replace(EXPERIMENT, encoder=wide, training=training)
    assert stack_size(large) == 1
    found = [step_flops(describe(one, print)) for one in (EXPERIMENT, large)]
    assert found[0] < CPU_GAINS_UP_TO < found[1]
    # Forward and backward: 6 operations for each entry of a layer's kernels and token.
    rows = describe(large, print).batches(large.mesh.make()).rows
    kernels = 2 * (4 * 128**2 + 2 * 128 * 512)
    assert found[1] == pytest.approx(6 * kernels * rows * 128, rel=0.1)


def test_several_devices_go_one_by_one(monkeypatch):
    mesh = SimpleNamespace(size=2)
    monkeypatch.setattr(config.MeshShape, "make", lambda self: mesh)
    assert stack_size(EXPERIMENT) == 1
    with pytest.raises(InputError, match="a stack is for one device and the mesh has"):
        list(stacks.in_turn(jobs(), 2))


@pytest.mark.parametrize(
    "own",
    [
        {"recording": config.Recording(wandb_project="mine")},
        {"analysis": config.Analysis(every=50)},
    ],
)
def test_what_takes_one_run_at_a_time_goes_one_by_one(own):
    experiment = dataclasses.replace(EXPERIMENT, **own)
    found = jobs(experiment=experiment)
    assert list(stacks.in_turn(found, "auto")) == [[job] for job in found]
    with pytest.raises(InputError, match="takes one run at a time"):
        list(stacks.in_turn(found, 2))


def test_losses_of_other_classes_have_programs_of_their_own():
    losses = [kind() for kind in by_short_name().values() if not _needs_parts(kind)]
    programs = [
        stacks.program_of(dataclasses.replace(EXPERIMENT, objective=loss))
        for loss in losses
    ]
    assert len(losses) > 20
    for number, program in enumerate(programs):
        assert programs.index(program) == number, losses[number]


def _needs_parts(kind):
    return issubclass(kind, Combination)


@pytest.fixture
def begun(tmp_path):
    """Folders of jobs as a kill leaves them, of a stack of three one of which is over.

    The second was not reached when companions were noted, the fourth has not begun.
    """
    found = comparison.jobs_of(EXPERIMENT, LOSSES[1:2], 4, str(tmp_path / "cmp"))
    found = [job for job in found if job.loss == "dsc"]
    runs = {}
    for job in found[:3]:
        folder = epath.Path(job.folder)
        folder.mkdir(parents=True)
        (folder / EXPERIMENT_FILE).write_text(config.to_json(job.experiment))
    for job in found:
        runs[job.folder] = Run.create(job.folder, job.experiment)
    companions = Companions.of([runs[job.folder] for job in found[:3]], 7)
    companions.note(runs[found[0].folder])
    return found, runs, companions


def test_runs_go_on_in_the_stack_they_were_begun_in(begun):
    found, runs, companions = begun
    left = [found[0], found[1], found[3]]
    noted = stacks.begun_stacks(left, runs, "auto")
    assert noted == {job.folder: companions for job in left[:2]}
    assert list(stacks.in_turn(left, "auto", noted)) == [left[:2], left[2:]]
    assert list(stacks.in_turn(left[1:], "auto", noted)) == [[found[1]], [found[3]]]


@pytest.mark.parametrize(
    ("stack", "goes_on"), [("off", False), (2, False), (3, True), (4, True)]
)
def test_another_size_asked_for_begins_the_stack_anew(begun, stack, goes_on):
    found, runs, _ = begun
    noted = stacks.begun_stacks(found[:2], runs, stack)
    assert bool(noted) is goes_on
    together = list(stacks.in_turn(found[:2], stack, noted))
    assert together == ([[found[0]], [found[1]]] if stack == "off" else [found[:2]])


def test_folders_that_are_moved_together_know_each_other(begun):
    found, runs, companions = begun
    folder = epath.Path(found[0].folder)
    moved = folder.parent.parent.rename(folder.parent.parent.parent / "moved")
    run = Run(moved / "dsc" / folder.name)
    paths = [str(moved / "dsc" / f"seed-{seed}") for seed in range(3)]
    assert Companions.noted(run) == Companions(tuple(paths), companions.sequences)
    assert [companions.place(runs[job.folder]) for job in found[:3]] == [0, 1, 2]


@pytest.mark.parametrize("content", ["{", "[]", '{"runs": 3, "sequences": 1}', "{}"])
def test_companions_that_cannot_be_read_are_one_line(begun, content):
    found, runs, _ = begun
    file = epath.Path(found[0].folder) / "companions.json"
    file.write_text(content)
    with pytest.raises(InputError, match=r"companions.json: damaged: .*; delete it"):
        stacks.begun_stacks(found[:2], runs, "auto")


@pytest.mark.parametrize("wrong", ["0", "-1", "all", "2.5"])
def test_another_word_is_one_line(project, capsys, wrong):
    argv = ["compare", "mine.py", f"--stack={wrong}"]
    fails(capsys, argv, "--stack is", "want a number from 1, auto or off")
    assert not (project / "runs").exists()


def compared(stack, folder=None):
    argv = ["compare", "mine.py", "--losses", "focal", "--seeds", "2", "--no-baselines"]
    argv += ["--stack", stack, "--out", folder or f"of-{stack}"]
    argv += ["--training.epochs", "3"]
    return [*argv, "--recording.checkpoint_every", "2", "--training.log_every", "1"]


def killed_at_a_step(argv, folders, step):
    """Begin a comparison in a process, and kill it when all runs have this line."""
    words = [sys.executable, "-c", "from dicejax.cli import main; main()", *argv]
    environment = os.environ | {"DICEJAX_HUGE_PAGES": "0"}
    process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE)
    logs = [folder / "metrics.jsonl" for folder in folders]
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        if all(log.exists() and log.read_text().count("\n") >= step for log in logs):
            break
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert all(log.exists() for log in logs)


def losses(folder):
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [(line["step"], line["loss"]) for line in lines]


@pytest.mark.slow
def test_a_comparison_in_stacks_that_is_killed_says_the_same(project, capsys):
    assert run(compared("off")) == 0
    alone = capsys.readouterr().out
    seeds = [project / "of-2" / "ce" / f"seed-{seed}" for seed in (0, 1)]
    killed_at_a_step(compared("2"), seeds, 4)
    assert not any((folder / "result.json").exists() for folder in seeds)
    # One of them at a checkpoint before the other's, as a kill in between leaves it.
    steps = [int(f.name) for f in (seeds[1] / "checkpoints").iterdir()]
    shutil.rmtree(seeds[1] / "checkpoints" / str(max(steps)))
    assert run(compared("2")) == 0
    printed = capsys.readouterr()
    assert printed.out.replace("of-2", "of-off") == alone
    assert "going on from step" in printed.err
    found = json.loads((project / "of-2/comparison.json").read_text())
    assert set(found["losses"]) == {"ce", "focal"}
    assert run(compared("2", "whole")) == 0
    capsys.readouterr()
    for folder in seeds:
        whole = project / "whole" / folder.relative_to(project / "of-2")
        assert losses(folder) == losses(whole)  # all digits: the program was the same
        assert [step for step, _ in losses(folder)] == list(range(1, 13))
    # What is finished is used again, however it was trained.
    shutil.copytree(project / "of-2", project / "of-off", dirs_exist_ok=True)
    assert run(compared("off")) == 0
    assert capsys.readouterr().err.count("used again") == 4
