"""Losses are compared with moved decisions by their own, moved in the same way."""

import dataclasses
from unittest import mock

import numpy as np
import pytest

from dicejax.objectives import Dice
from dicejax.study import significance
from dicejax.study.compare.advice import headline, recommended, versus_controls
from dicejax.study.compare.baselines import THRESHOLD, scored_runs
from dicejax.study.compare.statistics import rows_of
from dicejax.training.run_folder import Run

from .made_runs import EXPERIMENT, in_record, made, outcome, statistics_of
from .test_significance_simulated import exhaustive, most_of

MOVED = f"ce + {THRESHOLD}"
CONTROLS = ["wce", MOVED]
SKILLS = {"ce": (0.6, 0.8), "wce": (0.7, 0.75), "dsc": (0.75, 0.7), "dl": (0.8, 0.9)}
"""Shares of right answers of a loss, without and with moved decisions."""
BETTER = dict.fromkeys(("ce", "wce", "dsc", "dl", "focal"), (0.8, 0.8))


def drawn(skills, seeds=5, n=1000, spread=0.01, draw=0):
    """Draw runs with their moved decisions, which have nearly the same right answers.

    Runs of a seed share half of its effect.
    """
    outcomes = []
    for seed in range(seeds):
        shared = np.random.default_rng([99, seed + 1000 * draw]).normal()
        for place, (loss, (plain, moved)) in enumerate(skills.items()):
            rng = np.random.default_rng([place, seed + 1000 * draw])
            effect = spread * (shared + rng.normal()) / np.sqrt(2)
            chance, flip = rng.random((2, n))
            run = outcome(loss, seed, chance < plain + effect)
            ease = np.where(flip < 0.02, flip / 0.02, chance)
            other = outcome(loss, seed, ease < moved + effect, control={"value": 1.0})
            scored = {THRESHOLD: (other.result, other.example_statistics)}
            outcomes.append(dataclasses.replace(run, moved=scored))
            if loss == "ce":
                outcomes.append(dataclasses.replace(other, loss=MOVED))
    return outcomes


def compared(outcomes):
    return {row.loss: row for row in rows_of(outcomes, "ce", controls=CONTROLS)}


def with_changed_dsc(outcomes, **changes):
    """Change the run of dsc with seed 3."""
    return [
        dataclasses.replace(x, **changes) if (x.loss, x.seed) == ("dsc", 3) else x
        for x in outcomes
    ]


def shares(outcomes, loss, is_moved):
    """Return the shares of right answers, [S, N], in float64."""
    runs = [run for run in outcomes if run.loss == loss]
    arrays = [
        run.moved[THRESHOLD][1] if is_moved else run.example_statistics for run in runs
    ]
    return np.stack(arrays)[:, :, 0, 0]


@pytest.mark.parametrize(("control", "is_moved"), [(MOVED, True), ("wce", False)])
def test_the_difference_to_moved_decisions_is_that_of_moved_decisions(
    control, is_moved
):
    outcomes = drawn(SKILLS)
    rows = compared(outcomes)
    other = shares(outcomes, "ce" if is_moved else "wce", is_moved)
    for loss in ("dsc", "dl"):
        versus = rows[loss].versus[control]
        difference = shares(outcomes, loss, is_moved) - other
        assert versus.crossed.mean == pytest.approx(difference.mean(), rel=1e-12)
        assert versus.decided_alike is (True if is_moved else None)
        # Not that of the rows.
        unmoved = shares(outcomes, loss, is_moved=False).mean()
        moved_away = unmoved - rows[control].mean - difference.mean()
        assert (abs(moved_away) > 0.04) == is_moved
    record = in_record(rows.values())["dl"]["against_controls"]
    assert [record[name]["decided_alike"] for name in CONTROLS] == [None, True]


def test_the_interval_is_that_of_seeds_and_examples():
    outcomes = drawn({k: SKILLS[k] for k in ("ce", "dsc")})
    crossed = compared(outcomes)["dsc"].versus[MOVED].crossed
    expected = significance.seeds_and_items(
        np.stack([run.moved[THRESHOLD][1] for run in outcomes if run.loss == "dsc"]),
        statistics_of(run for run in outcomes if run.loss == MOVED),
        level=0.03,  # of a first look at five seeds
    )
    assert (crossed.low, crossed.high) == pytest.approx((expected.low, expected.high))


def test_losses_of_which_a_run_lacks_moved_decisions_keep_their_own():
    outcomes = drawn(SKILLS)
    rows = compared(with_changed_dsc(outcomes, moved={}))
    versus, alike = (rows[loss].versus[MOVED] for loss in ("dsc", "dl"))
    plain = shares(outcomes, "dsc", is_moved=False) - shares(outcomes, "ce", True)
    assert versus.crossed.mean == pytest.approx(plain.mean(), rel=1e-12)
    assert versus.decided_alike is False and alike.decided_alike is True


def test_a_diverged_run_has_failed_whatever_its_decisions():
    nothing = {"status": "diverged", "result": {}, "example_statistics": None}
    outcomes = with_changed_dsc(drawn(SKILLS), **nothing, moved={})
    versus = compared(outcomes)["dsc"].versus[MOVED]
    assert versus.decided_alike and versus.verdict.outcome == "unstable"
    assert versus.verdict.sentence.startswith("unstable: failed in 1 of 5 runs")
    assert versus.crossed is None


def test_families_and_all_other_tests_are_those_of_plain_decisions():
    outcomes = drawn(SKILLS)
    plain = [dataclasses.replace(run, moved={}) for run in outcomes]
    sizes, rows = [], []
    for runs in (outcomes, plain):
        with mock.patch.object(significance, "holm", wraps=significance.holm) as holm:
            rows.append(compared(runs))
        sizes.append([len(call.args[0]) for call in holm.call_args_list])
    assert sizes[0] == sizes[1] and max(sizes[0]) == 3
    for loss, row in rows[0].items():
        other = rows[1][loss]
        assert row.against == other.against
        assert (row.mean, row.sd) == (other.mean, other.sd)
        assert set(row.versus) == set(other.versus)
        assert row.versus.get("wce") == other.versus.get("wce")


def test_the_loss_of_a_control_is_not_made_the_control():
    rows = {row.loss: row for row in rows_of(drawn(SKILLS), "dl", controls=CONTROLS)}
    versus = rows["ce"].versus[MOVED]
    assert versus.crossed.mean < -0.1 and versus.decided_alike is False


def test_texts_say_that_both_are_decided_alike():
    rows = rows_of(drawn(SKILLS), "ce", controls=CONTROLS)
    text = headline(rows)
    assert " It beats ce + tuned threshold (both with a tuned threshold)" in text
    best, differences = versus_controls(rows)
    assert best == "dl" and "both" not in differences["wce"]
    assert differences[MOVED].endswith("), both with a tuned threshold")
    # What is ahead of the control with cross-entropy's decisions alone is not advised;
    # a loss may beat the control that gains nothing without moved decisions.
    for dsc, end in (((0.8, 0.7), "No loss"), ((0.6, 0.8), "dsc")):
        outcomes = drawn({"ce": (0.6, 0.7), "dsc": dsc})
        rows = rows_of(outcomes, "ce", controls=[MOVED])
        text = headline(rows)
        assert "dicejax predict" not in text  # scores from elsewhere have no runs
        assert text.startswith(f"Use {MOVED}: +")
        trained = [dataclasses.replace(x, experiment=EXPERIMENT) for x in outcomes]
        advised = headline(rows_of(trained, "ce", controls=[MOVED]))
        command = "dicejax predict RUN --decisions 'tuned threshold'"
        assert f" To predict so: {command}, where RUN is a run of ce. " in advised
        assert f" dsc vs. {MOVED}, both with a tuned threshold: " in text
        assert f" {end} is shown to beat {MOVED}." in text


def test_moved_decisions_are_read_from_the_folder_of_each_run(tmp_path):
    jobs = made(tmp_path, [Dice()], 3)
    for job in jobs:
        run = Run.open(job.folder)
        control = {"value": -0.5, "dev_score": 0.5, "test": run.result()["test"]}
        control |= {"example_statistics": run.example_statistics() + 1}
        run.write_baselines({THRESHOLD: control})
    outcomes, controls = scored_runs(jobs)
    losses = [run.loss for run in outcomes]
    assert sorted(set(losses)) == ["ce", MOVED, "dice"] and controls == [MOVED]
    for run in outcomes:
        if run.loss == "dice":
            moved = run.with_move(THRESHOLD)
            assert moved.result["control"] == {"value": -0.5, "dev_score": 0.5}
            added = moved.example_statistics - run.example_statistics
            np.testing.assert_array_equal(added, np.ones_like(added))
            assert run.with_move("logit adjustment") is None


@pytest.mark.parametrize("comparisons", [8, *exhaustive(2000)])
@pytest.mark.parametrize(
    ("skills", "best"),
    [
        (dict.fromkeys(BETTER, (0.7, 0.7)), None),
        # All gain by other decisions alone, and moved they are equal.
        (BETTER | {"ce": (0.6, 0.8), "wce": (0.7, 0.8)}, MOVED),
    ],
)
def test_at_most_5_percent_of_the_advice_is_wrong(
    comparisons, skills, best, monkeypatch
):
    # No verdict reads the p-value over examples alone, which takes most of the time.
    monkeypatch.setattr(significance, "approximate_randomisation", lambda *pair: 1.0)
    wrong = 0
    for draw in range(comparisons):
        runs = drawn(skills, n=150, spread=0.02, draw=draw)
        advised = recommended(rows_of(runs, "ce", controls=CONTROLS))
        wrong += (advised and advised.loss) != best
    print(f"{wrong} of {comparisons}")
    assert wrong <= most_of(comparisons)
