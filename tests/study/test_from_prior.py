"""Losses whose runs begin at the class frequencies, as `ce+prior`."""

import dataclasses

import pytest

from dicejax import config
from dicejax.cli import parse
from dicejax.config import Training
from dicejax.data.synthetic import SyntheticNER
from dicejax.errors import InputError
from dicejax.objectives import (
    CrossEntropy,
    Dice,
    Focal,
    FromPrior,
    SelfAdjustingDice,
    names_of,
)
from dicejax.objectives.parsing import candidate_named, objective_named
from dicejax.study import compare as comparison
from dicejax.study.compare import baselines, spaces
from dicejax.study.compare.finding import jobs_from
from dicejax.tasks import QuestionAnswering
from dicejax.training.setup import prepare
from dicejax.training.train import default_folder

from .made_runs import EXPERIMENT, made, record_of

CE, DSC = FromPrior(CrossEntropy()), FromPrior(SelfAdjustingDice(alpha=1.0))


def jobs(experiment, losses, folder="x"):
    return comparison.jobs_of(experiment, losses, 1, str(folder))


def test_names_are_read_and_written():
    names = ["ce", "ce+prior", "dsc+prior-alpha=1.0"]
    assert names_of([CrossEntropy(), CE, DSC]) == names
    assert candidate_named("ce+prior") == CE
    assert candidate_named("dsc+prior:alpha=1") == DSC
    assert candidate_named("dsc:alpha=1") == DSC.objective
    message = "loss 'ce.prior' has another start and no other formula; take ce"
    with pytest.raises(InputError, match=message):
        objective_named("ce+prior")
    with pytest.raises(InputError, match="unknown loss 'cf'"):
        candidate_named("cf+prior")
    with pytest.raises(InputError, match="the same loss is named twice"):
        names_of([CE, CE])


def test_runs_differ_in_the_bias_and_the_rate_of_the_heads_alone():
    losses = CrossEntropy(), CE, DSC
    plain, ours, dice = jobs(EXPERIMENT, losses)
    assert [job.loss for job in (plain, ours, dice)] == names_of(losses)
    assert ours.folder == "x/ce+prior/seed-0"
    assert config.differences(plain.experiment, ours.experiment) == [
        "optimizer.head_learning_rate was null and is 10.0",
        'training.head_bias was "zeros" and is "prior"',
    ]
    assert dice.experiment.objective == DSC.objective
    five = dataclasses.replace(EXPERIMENT.optimizer, head_learning_rate=5.0)
    _, ours = jobs(dataclasses.replace(EXPERIMENT, optimizer=five), (CE,))
    assert ours.experiment.optimizer.head_learning_rate == 5.0
    # Tuning varies what it varies of the loss.
    free = [spaces.LEARNING_RATE, "objective.smooth"]
    assert [*spaces.ranges_of(dice.experiment)] == free
    changed = spaces.with_values(ours.experiment, {spaces.LEARNING_RATE: 0.1})
    assert changed.optimizer == dataclasses.replace(five, learning_rate=0.1)


def test_the_name_of_a_loss_says_how_it_begins():
    prior = dataclasses.replace(EXPERIMENT.training, head_bias="prior")
    everywhere = dataclasses.replace(EXPERIMENT, training=prior)
    losses = (CrossEntropy(), CE)
    assert jobs(everywhere, losses) == jobs(EXPERIMENT, losses)
    task = QuestionAnswering(form="positions")
    positions = dataclasses.replace(EXPERIMENT, task=task)
    with pytest.raises(InputError, match="'start' are positions; leave it"):
        jobs(positions, (CE,))


def test_a_loss_named_for_training_begins_as_its_name_says(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dicejax.config import *\n"
        "from dicejax.data.synthetic import SyntheticNER\n"
        "def get_config():\n    return Experiment(name='mine', data=SyntheticNER(),"
        " training=Training(head_bias='prior'))"
    )

    def trained(*words):
        experiment = parse(["train", str(file), *words]).settings
        return experiment, default_folder(experiment)

    for words in ((), ("--loss", "ce+prior")):
        experiment, folder = trained(*words)
        assert experiment.training.head_bias == "prior"
        assert folder == "runs/mine/ce+prior/seed-0"
    assert experiment.optimizer.head_learning_rate == 10.0
    experiment, folder = trained("--loss", "dice")
    assert (experiment.training.head_bias, folder) == ("zeros", "runs/mine/dice/seed-0")
    experiment, folder = trained("--loss", "dice", "--training.head_bias", "prior")
    assert experiment.training == dataclasses.replace(Training(), head_bias="prior")
    assert folder == "runs/mine/dice+prior/seed-0"


def test_experiments_hold_them(tmp_path):
    experiment = dataclasses.replace(EXPERIMENT, compared=(CE, Dice(), DSC))
    assert config.from_json(config.to_json(experiment)) == experiment


def test_reports_name_runs_by_how_they_begin(tmp_path):
    losses = (CrossEntropy(), CE, Dice(), FromPrior(Dice()))
    runs = made(tmp_path, losses, 3, skill=(0.6, 0.7, 0.7, 0.72))
    assert jobs_from([str(tmp_path)]) == sorted(runs, key=lambda j: (j.loss, j.seed))
    compared = comparison.compare_runs([str(tmp_path)], out=str(tmp_path))
    rows = {row.loss: row for row in compared.rows}
    assert set(rows) == {"ce", "ce+prior", "dice", "dice+prior"}
    assert rows["ce+prior"].is_control  # of a family of its own
    assert not rows["dice+prior"].is_control
    # The same losses again from the report.
    rerun = config.load(tmp_path / "rerun.py")
    assert set(rerun.compared) == set(losses)
    assert record_of(tmp_path)["rerun"]["differences"] == []
    page = (tmp_path / "report.md").read_text()
    assert "Heads begin at the class frequencies and learn faster" in page
    # Another baseline, and runs that all begin so.
    options = {"out": str(tmp_path / "b"), "baseline": "ce+prior"}
    against = comparison.compare_runs([str(tmp_path)], **options)
    assert against.rows[0].loss == "ce+prior"
    rerun = config.load(tmp_path / "b" / "rerun.py")
    assert rerun.training.head_bias == "zeros"
    all_prior = [str(tmp_path / name) for name in ("ce+prior", "dice+prior")]
    assert {job.loss for job in jobs_from(all_prior)} == {"ce+prior", "dice+prior"}


def test_other_settings_of_heads_are_not_compared(tmp_path):
    made(tmp_path, (CrossEntropy(), CE), 1)
    three = dataclasses.replace(EXPERIMENT.optimizer, head_learning_rate=3.0)
    other = dataclasses.replace(EXPERIMENT, optimizer=three)
    made(tmp_path / "b", (CrossEntropy(), FromPrior(Focal())), 1, experiment=other)
    folders = [str(tmp_path / "ce"), str(tmp_path / "ce+prior")]
    assert len(jobs_from(folders)) == 2
    with pytest.raises(InputError, match=r"head_learning_rate was 10.0 and is 3.0"):
        jobs_from([*folders, str(tmp_path / "b" / "focal+prior")])


def test_short_trainings_have_a_head_from_the_prior_beside(tmp_path, monkeypatch):
    data, folder = SyntheticNER(train=40, dev=4, test=4), str(tmp_path)
    experiment = dataclasses.replace(EXPERIMENT, data=data)
    setup = prepare(experiment, lambda text: None, weights=False)
    updates = len(setup.batches(experiment.mesh.make()))
    for most, added in ((updates, ()), (updates + 1, (CE,))):
        monkeypatch.setattr(baselines, "SHORT", most)
        losses = baselines.with_prior_head([Focal()], experiment, folder)
        assert losses == (Focal(), *added)
    assert baselines.with_prior_head([CE], experiment, folder) == (CE,)
