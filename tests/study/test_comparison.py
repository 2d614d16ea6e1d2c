"""Verdicts follow from the runs, and no run is dropped silently."""

import dataclasses
import json
import types

import numpy as np
import pytest
from etils import epath

from dicejax import config
from dicejax.data.sources import SyntheticNER
from dicejax.errors import Diverged, InputError
from dicejax.io.files import write_checked
from dicejax.objectives import CrossEntropy, Dice, Focal
from dicejax.study import compare as comparison
from dicejax.study import significance
from dicejax.study.compare.jobs import (
    Job,
    outcome_of,
    require_one_test_set,
)
from dicejax.study.compare.statistics import rows_of
from dicejax.training.run_folder import Run

from .made_runs import write_setup

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
    rows = by_loss(comparison.evaluate_runs(runs, str(tmp_path)))
    assert list(rows) == ["ce", "focal", "dice"]  # the best first
    assert rows["ce"].against is None
    stacked = {
        loss: np.stack([one.example_statistics for one in row.outcomes])
        for loss, row in rows.items()
    }
    direct = significance.shrink_variances(
        [
            significance.seeds_and_items(stacked[loss], stacked["ce"])
            for loss in ("dice", "focal")
        ]
    )
    # The only look is at 5 seeds, where 60 % of the error rate is spent.
    at_look = np.array([one.p_value for one in direct]) / 0.6
    adjusted = significance.holm(np.minimum(at_look, 1))
    for loss, one, p_value in zip(("dice", "focal"), direct, adjusted, strict=True):
        found = rows[loss].against
        assert found.crossed == dataclasses.replace(one, level=pytest.approx(0.03))
        assert found.test.p_value == pytest.approx(p_value, rel=1e-3)
        assert found.mean == pytest.approx(one.mean, abs=1e-12)
    assert rows["dice"].against.verdict.outcome == "inconclusive"
    assert rows["focal"].against.verdict.outcome == "better"
    mean = np.mean([significance.score(one) for one in stacked["focal"]])
    assert rows["focal"].summary.mean == pytest.approx(mean)
    written = json.loads((tmp_path / "comparison.json").read_text())
    focal = written["losses"]["focal"]["against_baseline"]
    assert focal["p_value"] == rows["focal"].against.test.p_value
    assert written["looks"] == [{"dice": [0, 1, 2, 3, 4], "focal": [0, 1, 2, 3, 4]}]


def test_a_diverged_run_counts_as_a_failure_and_a_missing_one_not_at_all(
    runs, tmp_path
):
    (dice_1,) = (job for job in runs if job.loss == "dice" and job.seed == 1)
    (ce_2,) = (job for job in runs if job.loss == "ce" and job.seed == 2)
    for job in (dice_1, ce_2):
        (epath.Path(job.folder) / "result.json").unlink()
    Run(epath.Path(dice_1.folder)).write_diverged("no finite loss")
    rows = by_loss(comparison.evaluate_runs(runs, str(tmp_path)))
    assert rows["dice"].summary.n == 4 and rows["dice"].summary.diverged == 1
    assert rows["ce"].missing == 1 and rows["dice"].missing == 0
    assert comparison.unfinished(runs) == 1  # what diverged is not tried again
    assert rows["dice"].against.seeds == rows["focal"].against.seeds == (0, 1, 3, 4)
    ce_1 = rows["ce"].outcomes[1].score
    assert rows["dice"].against.differences[1] == pytest.approx(-ce_1)
    ce, focal, dice = comparison.remarks(list(rows.values()))
    assert ce == "ce: 1 of 5 not finished"
    assert dice.startswith("dice: inconclusive: ") and dice.endswith(
        "; 1 of 5 diverged"
    )
    assert focal == f"focal: {rows['focal'].against.verdict}"


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_have_differences_and_no_verdict(tmp_path, seeds):
    rng = np.random.default_rng(1)
    found = jobs(tmp_path, seeds=seeds)
    for job in found:
        finished(job.folder, example_statistics_of(rng, 0.7))
    rows = by_loss(comparison.evaluate_runs(found, str(tmp_path)))
    dice = rows["dice"].against
    apart = np.subtract(rows["dice"].scores("f1"), rows["ce"].scores("f1"))
    assert dice.differences == pytest.approx(apart)
    assert dice.verdict.outcome == "no verdict" and dice.crossed is None
    shown = ", ".join(significance.signed(100 * one) for one in apart)
    assert str(dice.verdict).endswith(f"which takes 3: {shown} F1")
    assert json.loads((tmp_path / "comparison.json").read_text())["looks"] == []


def evaluated_with(folder, runs, seeds):
    found = [job for job in runs if job.seed < seeds]
    return by_loss(comparison.evaluate_runs(found, str(folder)))


def test_adding_seeds_after_a_look_costs_and_the_same_look_again_does_not(
    runs, tmp_path
):
    at_once = evaluated_with(tmp_path / "a", runs, 5)["dice"].against
    first = evaluated_with(tmp_path / "b", runs, 3)["dice"].against
    assert evaluated_with(tmp_path / "b", runs, 3)["dice"].against == first
    later = evaluated_with(tmp_path / "b", runs, 5)["dice"].against
    assert at_once.crossed.level == pytest.approx(0.03)
    assert later.crossed.level == pytest.approx(
        significance.nominal_level([3, 5], 0.05)
    )
    assert later.crossed.level < at_once.crossed.level
    assert later.crossed.high > at_once.crossed.high
    again = evaluated_with(tmp_path / "b", runs, 5)["dice"].against
    assert again == later
    looks = json.loads((tmp_path / "b" / "comparison.json").read_text())["looks"]
    assert [len(one["dice"]) for one in looks] == [3, 5]


def test_a_loss_left_out_after_a_look_stays_in_the_family(runs, tmp_path):
    both = evaluated_with(tmp_path / "a", runs, 5)["focal"].against
    kept = [job for job in runs if job.loss != "dice"]
    dropped = by_loss(comparison.evaluate_runs(kept, str(tmp_path / "a")))[
        "focal"
    ].against
    alone = by_loss(comparison.evaluate_runs(kept, str(tmp_path / "b")))[
        "focal"
    ].against
    assert both.test.p_value > alone.test.p_value
    assert dropped.test.p_value == pytest.approx(2 * alone.test.p_value)


def test_controls_are_a_family_of_their_own(runs, tmp_path):
    outcomes = [outcome_of(job) for job in runs]
    together = by_loss(rows_of(outcomes, "ce"))
    apart = by_loss(rows_of(outcomes, "ce", controls=["dice"]))
    assert apart["dice"].is_control and not apart["focal"].is_control
    only = by_loss(rows_of([one for one in outcomes if one.loss != "dice"], "ce"))
    assert apart["focal"].against == only["focal"].against
    assert together["focal"].against.test.p_value > apart["focal"].against.test.p_value


def test_runs_that_find_nothing_are_named_before_any_verdict(tmp_path):
    rng = np.random.default_rng(1)
    found = jobs(tmp_path, seeds=3)
    for job in found:
        shares = example_statistics_of(rng, 0.7)
        finds = job.loss == "ce" or (job.loss == "focal" and job.seed)
        finished(job.folder, shares if finds else shares * [0, 1])
    rows = by_loss(comparison.evaluate_runs(found, str(tmp_path)))
    dice, focal = rows["dice"].against.verdict, rows["focal"].against.verdict
    assert dice.outcome == "nothing learnt"
    assert str(dice).startswith("nothing learnt by dice in 3 of 3 runs; worse: ")
    assert focal.outcome == "inconclusive"
    assert str(focal).startswith("nothing learnt by focal in 1 of 3 runs; ")


def test_identical_predictions_are_called_that(tmp_path):
    found = jobs(tmp_path, seeds=3)
    for job in found:
        rng = np.random.default_rng(job.seed)
        finished(job.folder, example_statistics_of(rng, 0.7))
    rows = by_loss(comparison.evaluate_runs(found, str(tmp_path)))
    assert rows["dice"].against.verdict.outcome == "identical predictions"


@pytest.mark.parametrize(("margin", "outcome"), [(0.5, "inconclusive"), (9, None)])
def test_the_margin_decides_on_practical_equality(runs, tmp_path, margin, outcome):
    rows = comparison.evaluate_runs(runs, str(tmp_path), margin=margin / 100)
    found = by_loss(rows)["dice"].against
    assert found.verdict.outcome == (outcome or "practically equal")
    inside = -margin < 100 * found.crossed.low and 100 * found.crossed.high < margin
    assert inside == (outcome is None)


@pytest.mark.parametrize("looks", ['"x"', "[3]", '[{"dice": 3}]', '[{"dice": ["a"]}]'])
def test_a_damaged_record_of_looks_is_one_line(runs, tmp_path, looks):
    (tmp_path / "comparison.json").write_text(f'{{"looks": {looks}}}')
    with pytest.raises(InputError, match=r"comparison\.json: .*; correct it"):
        comparison.evaluate_runs(runs, str(tmp_path))


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
            write_setup(run, experiment)
            run.write_diverged("no finite loss")
            raise Diverged("no finite loss")
        return types.SimpleNamespace(best_step=1)

    monkeypatch.setattr("dicejax.study.compare.jobs.train", train)
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
