"""Verdicts follow from the runs, and no run is dropped silently."""

import dataclasses
import math
import types

import numpy as np
import pytest
from etils import epath

from dicejax.errors import Diverged, InputError
from dicejax.objectives import CrossEntropy, Dice, Focal
from dicejax.study import compare as comparison
from dicejax.study import significance
from dicejax.study.compare.jobs import ScoredRun, scored
from dicejax.study.compare.same_data import require_one_data
from dicejax.study.compare.statistics import rows_of
from dicejax.study.compare.table import remarks
from dicejax.training.run_folder import Run

from .made_runs import (
    EXPERIMENT,
    in_record,
    made,
    outcome,
    record_of,
    run_of,
    statistics_of,
    write_setup,
)


def jobs(folder, seeds):
    return comparison.jobs_of(EXPERIMENT, (Dice(), Focal()), seeds, str(folder))


def by_loss(rows):
    return {row.loss: row for row in rows}


def evaluate(runs, folder):
    return by_loss(comparison.evaluate_runs(runs, str(folder)).rows)


@pytest.fixture
def runs(tmp_path):
    """Runs of cross-entropy and dice alike, and of focal much better."""
    return made(tmp_path, (Dice(), Focal()), 5, skill=(0.7, 0.7, 0.8))


def test_jobs_begin_with_cross_entropy_and_take_seed_after_seed(tmp_path):
    pairs = [(job.loss, job.seed) for job in jobs(tmp_path, seeds=2)]
    losses = "ce", "dice", "focal"
    assert pairs == [(loss, seed) for seed in (0, 1) for loss in losses]
    again = comparison.jobs_of(EXPERIMENT, (Focal(), CrossEntropy()), 1, "x")
    assert [job.loss for job in again] == ["focal", "ce"]


def test_shards_divide_the_jobs(tmp_path):
    all_jobs = jobs(tmp_path, seeds=3)
    parts = [comparison.shard_of(all_jobs, f"{i}/4") for i in (1, 2, 3, 4)]
    folders = sorted(job.folder for part in parts for job in part)
    assert folders == sorted(job.folder for job in all_jobs)
    for wrong in ("0/4", "5/4", "3", "a/b", "1/0"):
        with pytest.raises(InputError, match="want I/N"):
            comparison.shard_of(all_jobs, wrong)


def test_rows_say_what_the_statistics_say(runs, tmp_path):
    rows = evaluate(runs, tmp_path)
    assert list(rows) == ["ce", "focal", "dice"]  # the best first
    assert rows["ce"].against is None
    losses = "ce", "dice", "focal"
    ce, dice, focal = (statistics_of(rows[loss].runs) for loss in losses)
    direct = significance.shrink_variances(
        [significance.seeds_and_items(ours, ce) for ours in (dice, focal)]
    )
    # The only look is at 5 seeds, where 60 % of the error rate is spent.
    at_look = np.array([crossed.p_value for crossed in direct]) / 0.6
    adjusted = significance.holm(np.minimum(at_look, 1))
    for loss, crossed, p in zip(("dice", "focal"), direct, adjusted, strict=True):
        against = rows[loss].against
        level = pytest.approx(0.03)
        assert against.crossed == dataclasses.replace(crossed, level=level)
        assert against.p_value == pytest.approx(p, rel=1e-3)
        assert against.mean == pytest.approx(crossed.mean, abs=1e-12)
    assert rows["dice"].against.verdict.outcome == "inconclusive"
    assert rows["focal"].against.verdict.outcome == "better"
    assert rows["focal"].mean == pytest.approx(np.mean(significance.score(focal)))
    written = record_of(tmp_path)
    against = written["losses"]["focal"]["against_baseline"]
    assert against["p_value"] == rows["focal"].against.p_value
    assert written["looks"] == [{"dice": [0, 1, 2, 3, 4], "focal": [0, 1, 2, 3, 4]}]


def test_the_record_sums_up_the_scores_of_a_loss():
    right = (("ce", 2), ("ce", 3), ("ce", 4), ("ce", 3), ("dice", 2))
    runs = [outcome(k, n, np.arange(4) < x) for n, (k, x) in enumerate(right)]
    runs += [ScoredRun(loss, 8, "x", "diverged") for loss in ("ce", "gdice")]
    rows = in_record(rows_of(runs, "ce"))
    names = ("ce", "dice", "gdice")
    ours, single, none = ([*rows[k]["summary"].values()] for k in names)
    assert ours == [4, 0.75, pytest.approx(math.sqrt(1 / 24)), 0.75, 0.5, 1, 1]
    assert single == [1, 0.5, None, 0.5, 0.5, 0.5, 0]
    assert none == [0, None, None, None, None, None, 1]


def test_a_diverged_run_counts_as_a_failure_and_a_missing_one_not_at_all(
    runs, tmp_path
):
    (dice_1,) = (job for job in runs if job.loss == "dice" and job.seed == 1)
    (ce_2,) = (job for job in runs if job.loss == "ce" and job.seed == 2)
    for job in (dice_1, ce_2):
        (epath.Path(job.folder) / "result.json").unlink()
    run_of(dice_1).write_diverged("no finite loss")
    rows = evaluate(runs, tmp_path)
    assert len(rows["dice"].finished) == 4 and rows["dice"].count("diverged") == 1
    assert [rows[x].count("missing") for x in ("ce", "dice")] == [1, 0]
    assert comparison.unfinished(runs) == 1  # what diverged is not tried again
    assert rows["dice"].against.seeds == rows["focal"].against.seeds == (0, 1, 3, 4)
    ce_1 = rows["ce"].runs[1].score
    assert rows["dice"].against.differences[1] == pytest.approx(-ce_1)
    ce, focal, dice = remarks(list(rows.values()))
    assert ce == "ce: 1 of 5 not finished"
    assert dice.startswith("dice: unstable: failed in 1 of 5 runs, ")
    assert "; 1 of 5 diverged" in dice
    assert focal == f"focal: {rows['focal'].against.verdict}"


def test_adding_seeds_after_a_look_costs_and_the_same_look_again_does_not(
    runs, tmp_path
):
    def look(folder, seeds):
        some = [job for job in runs if job.seed < seeds]
        return evaluate(some, tmp_path / folder)["dice"].against

    at_once, first = look("a", 5), look("b", 3)
    assert look("b", 3) == first
    later = look("b", 5)
    assert at_once.crossed.level == pytest.approx(0.03)
    level = significance.nominal_level([3, 5], 0.05)
    assert later.crossed.level == pytest.approx(level)
    assert later.crossed.level < at_once.crossed.level
    assert later.crossed.high > at_once.crossed.high
    assert look("b", 5) == later
    looks = record_of(tmp_path / "b")["looks"]
    assert [len(seeds["dice"]) for seeds in looks] == [3, 5]


def test_a_loss_left_out_after_a_look_stays_in_the_family(runs, tmp_path):
    both = evaluate(runs, tmp_path / "a")["focal"].against
    others = [job for job in runs if job.loss != "dice"]
    dropped = evaluate(others, tmp_path / "a")["focal"].against
    alone = evaluate(others, tmp_path / "b")["focal"].against
    assert both.p_value > alone.p_value
    assert dropped.p_value == pytest.approx(2 * alone.p_value)


def test_controls_are_a_family_of_their_own(runs):
    outcomes = [scored(job) for job in runs]
    others = [outcome for outcome in outcomes if outcome.loss != "dice"]
    together = by_loss(rows_of(outcomes, "ce"))["focal"].against
    apart = by_loss(rows_of(outcomes, "ce", controls=["dice"]))
    assert apart["dice"].is_control and not apart["focal"].is_control
    alone = apart["focal"].against
    assert alone == by_loss(rows_of(others, "ce"))["focal"].against
    assert together.p_value > alone.p_value


@pytest.mark.parametrize("looks", ['"x"', "[3]", '[{"dice": 3}]', '[{"dice": ["a"]}]'])
def test_a_damaged_record_of_looks_is_one_line(runs, tmp_path, looks):
    (tmp_path / "comparison.json").write_text(f'{{"looks": {looks}}}')
    with pytest.raises(InputError, match=r"comparison\.json: .*; correct it"):
        evaluate(runs, tmp_path)


def test_runs_that_cannot_be_compared_are_refused(runs):
    without = [scored(job) for job in runs if job.loss != "ce"]
    with pytest.raises(InputError, match="no run of ce is finished"):
        rows_of(without, "ce")
    run = run_of(runs[4])
    run.write_result(run.result() | {"checksums": {"test": "2"}})
    with pytest.raises(InputError, match=r"^test of seed-1 of dice is not that of "):
        require_one_data([scored(job) for job in runs])
    file = epath.Path(runs[0].folder) / "test_statistics.npz"
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(InputError, match=r"test_statistics\.npz: has changed since"):
        scored(runs[0])


def test_a_run_that_diverges_does_not_end_the_others(tmp_path, monkeypatch):
    lines, tried, clock = [], [], [0]
    monkeypatch.setattr("time.monotonic", lambda: clock[-1])
    progress = types.SimpleNamespace(
        begin=lambda *_, **__: 0, advance=lambda _: None, say=lines.append
    )

    def train(experiment, out, *, overwrite, progress):
        tried.append(experiment.objective.short_name)
        clock.append(clock[-1] + 100)
        if experiment.objective.short_name == "dice":
            run = Run(epath.Path(out))
            write_setup(run, experiment)
            run.write_diverged("no finite loss")
            raise Diverged("no finite loss")
        return types.SimpleNamespace(best_step=1)

    monkeypatch.setattr("dicejax.study.compare.jobs.train", train)
    first = jobs(tmp_path, seeds=1)
    comparison.train_all(first, progress)
    assert tried == ["ce", "dice", "focal"]
    assert lines.pop(0) == "about 4 minutes for the other 2 runs"  # of 100 s each
    assert scored(first[1]).status == "diverged"
    # The next time it is not tried again, unless everything is.
    comparison.train_all(first, progress)
    assert tried == ["ce", "dice", "focal", "ce", "focal"]
    assert any("diverged before" in line for line in lines)
