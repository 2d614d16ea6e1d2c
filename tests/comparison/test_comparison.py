"""Verdicts follow from the runs, and no run is dropped silently."""

import dataclasses
import json
import types

import numpy as np
import pytest
from etils import epath

from dicejax import comparison, config
from dicejax.comparison.jobs import Job, outcome_of, require_one_test_set
from dicejax.comparison.statistics import rows_of
from dicejax.data.sources import SyntheticNER
from dicejax.errors import Diverged, InputError
from dicejax.files import write_checked
from dicejax.metrics import significance
from dicejax.objectives import CrossEntropy, Dice, Focal
from dicejax.training.run_folder import Run

EXPERIMENT = config.Experiment(
    name="some", data=SyntheticNER(), encoder=config.ScratchEncoder()
)
SENTENCES = 400


def example_statistics_of(rng, skill):
    """Return right, predicted and gold entities of each sentence."""
    gold = rng.integers(0, 4, SENTENCES)
    right = rng.binomial(gold, skill)
    predicted = right + rng.binomial(gold, 1 - skill)
    return np.stack([2 * right, predicted + gold], axis=-1)[:, None].astype(float)


def finished(folder, shares, **more):
    run = Run(epath.Path(folder))
    write_checked(run.path, "labels.json", "[]")
    f1 = float(significance.score(shares))
    run.write_statistics(shares)
    run.write_result(
        {"primary_metric": "f1", "test_data": 1, "test": {"f1": f1}} | more
    )


def jobs(folder, seeds=5):
    losses = (Dice(), Focal())
    return comparison.jobs_of(EXPERIMENT, losses, seeds, str(folder))


@pytest.fixture
def runs(tmp_path):
    """Runs of cross-entropy and dice alike, and of focal much better."""
    rng = np.random.default_rng(0)
    found = jobs(tmp_path)
    for job in found:
        skill = {"ce": 0.7, "dice": 0.7, "focal": 0.8}[job.loss]
        finished(job.folder, example_statistics_of(rng, skill))
    return found


def by_loss(rows):
    return {row.loss: row for row in rows}


def test_jobs_begin_with_cross_entropy_and_take_seed_after_seed(tmp_path):
    found = jobs(tmp_path, seeds=2)
    assert [(job.loss, job.seed) for job in found] == [
        (loss, seed) for seed in (0, 1) for loss in ("ce", "dice", "focal")
    ]
    assert {job.experiment.training.seed for job in found} == {0, 1}
    again = comparison.jobs_of(EXPERIMENT, (Focal(), CrossEntropy()), 1, "x")
    assert [job.loss for job in again] == ["focal", "ce"]


def test_shards_divide_the_jobs(tmp_path):
    found = jobs(tmp_path, seeds=3)
    parts = [comparison.shard_of(found, f"{i}/4") for i in (1, 2, 3, 4)]
    assert sorted(j.folder for part in parts for j in part) == sorted(
        j.folder for j in found
    )
    for wrong in ("0/4", "5/4", "3", "a/b", "1/0"):
        with pytest.raises(InputError, match="want I/N"):
            comparison.shard_of(found, wrong)


def test_rows_say_what_the_statistics_say(runs, tmp_path):
    rows = by_loss(comparison.evaluated(runs, str(tmp_path)))
    assert list(rows) == ["ce", "dice", "focal"]
    assert rows["ce"].against is None
    stacked = {
        loss: np.stack([one.example_statistics for one in row.outcomes])
        for loss, row in rows.items()
    }
    direct = [
        significance.seeds_and_items(stacked[loss], stacked["ce"])
        for loss in ("dice", "focal")
    ]
    adjusted = significance.holm([one.p_value for one in direct])
    for loss, one, p_value in zip(("dice", "focal"), direct, adjusted, strict=True):
        assert rows[loss].against.crossed == one
        assert rows[loss].against.p_holm == p_value
    assert rows["dice"].against.verdict.outcome == "inconclusive"
    assert rows["focal"].against.verdict.outcome == "better"
    mean = np.mean([significance.score(one) for one in stacked["focal"]])
    assert rows["focal"].summary.mean == pytest.approx(mean)
    written = json.loads((tmp_path / "comparison.json").read_text())
    assert written["losses"]["focal"]["against_baseline"]["p_holm"] == adjusted[1]


def test_diverged_and_missing_runs_are_counted_and_left_out_in_pairs(runs, tmp_path):
    (dice_1,) = (job for job in runs if job.loss == "dice" and job.seed == 1)
    (ce_2,) = (job for job in runs if job.loss == "ce" and job.seed == 2)
    for job in (dice_1, ce_2):
        (epath.Path(job.folder) / "result.json").unlink()
    Run(epath.Path(dice_1.folder)).write_diverged("no finite loss")
    rows = by_loss(comparison.evaluated(runs, str(tmp_path)))
    assert rows["dice"].summary.n == 4 and rows["dice"].summary.diverged == 1
    assert rows["ce"].missing == 1 and rows["dice"].missing == 0
    assert comparison.unfinished(runs) == 1  # what diverged is not tried again
    assert rows["dice"].against.seeds == (0, 3, 4)
    assert rows["focal"].against.seeds == (0, 1, 3, 4)
    ce, dice, focal = comparison.remarks(list(rows.values()))
    assert ce == "ce: 1 of 5 not finished"
    assert dice.startswith("dice: inconclusive: ") and dice.endswith(
        "; 1 of 5 diverged"
    )
    assert focal == f"focal: {rows['focal'].against.verdict}"


def test_one_seed_is_no_statement(tmp_path):
    rng = np.random.default_rng(1)
    found = jobs(tmp_path, seeds=1)
    for job in found:
        finished(job.folder, example_statistics_of(rng, 0.7))
    rows = by_loss(comparison.evaluated(found, str(tmp_path)))
    assert rows["dice"].against.verdict.sentence == "no verdict from one seed"
    assert rows["dice"].against.crossed is None


def test_runs_on_other_test_sets_are_refused(runs):
    run = Run(epath.Path(runs[4].folder))
    run.write_result(run.result() | {"test_data": 2})
    with pytest.raises(InputError, match="another test data than"):
        require_one_test_set([outcome_of(job) for job in runs])


def test_without_a_baseline_there_is_no_comparison(runs):
    outcomes = [outcome_of(job) for job in runs if job.loss != "ce"]
    with pytest.raises(InputError, match="no run of ce is finished"):
        rows_of(outcomes, "ce")


def test_a_damaged_file_of_statistics_is_one_line(runs):
    file = epath.Path(runs[0].folder) / "test_statistics.npz"
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(InputError, match=r"test_statistics\.npz: has changed since"):
        outcome_of(runs[0])


def test_a_run_that_diverges_does_not_end_the_others(tmp_path, monkeypatch):
    said = []

    class Silent:
        def begin(self, *_, **__):
            return 0

        def advance(self, _):
            pass

        def say(self, text):
            said.append(text)

    tried = []

    def train(experiment, out, *, overwrite, progress):
        tried.append(experiment.objective.short_name)
        if experiment.objective.short_name == "dice":
            run = Run(epath.Path(out))
            run.path.mkdir(parents=True)
            write_checked(run.path, "experiment.json", config.to_json(experiment))
            run.write_diverged("no finite loss")
            raise Diverged("no finite loss")
        return types.SimpleNamespace(best_step=1)

    monkeypatch.setattr("dicejax.comparison.jobs.train", train)
    found = jobs(tmp_path, seeds=1)
    comparison.train_all(found, Silent())
    assert tried == ["ce", "dice", "focal"]
    assert outcome_of(found[1]).status == "diverged"
    # The next time it is not tried again, unless everything is.
    comparison.train_all(found, Silent())
    assert tried == ["ce", "dice", "focal", "ce", "focal"]
    assert any("diverged before" in text for text in said)


def test_a_job_knows_its_seed():
    training = dataclasses.replace(EXPERIMENT.training, seed=7)
    job = Job("ce", dataclasses.replace(EXPERIMENT, training=training), "x")
    assert job.seed == 7
