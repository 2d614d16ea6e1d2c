"""The advice is the cheapest loss or control that nothing is shown to beat."""

import numpy as np
import pytest

from dicejax.objectives import Dice, Focal
from dicejax.study import compare as comparison
from dicejax.study.compare.advice import cost, headline, recommended, still_rising
from dicejax.study.compare.baselines import ADJUSTED, THRESHOLD, scored_runs
from dicejax.study.compare.statistics import rows_of
from dicejax.study.significance import seeds_and_items, signed

from .made_runs import compared, in_record, made, outcome, statistics_of
from .test_significance_simulated import exhaustive, most_of

MOVED = f"ce + {THRESHOLD}"
SHIFTED = f"ce + {ADJUSTED}"
CONTROLS = ["wce", "ce+prior", MOVED, SHIFTED]
FAILS = [0.9] * 4 + [0.1]
NOISY = [0.70, 0.90, 0.72, 0.91, 0.75]  # by seed: ahead on average, not shown


@pytest.mark.parametrize(
    ("skills", "best", "sentence"),
    [
        # Each of them is better than cross-entropy; the cheapest is enough.
        ({"wce": 0.8, MOVED: 0.8, "dsc": 0.8}, MOVED, f"Use {MOVED}: +"),
        ({"ce+prior": 0.8, "wce": 0.8, "dsc": 0.8}, "wce", "Use class weights (wce): "),
        # A cheaper control that another beats is not.
        ({"ce+prior": 0.85, "wce": 0.75, "dsc": 0.85}, "ce+prior", "Use ce+prior: +"),
        # The loss beats all of them, or one that is behind the baseline.
        ({"ce+prior": 0.8, "wce": 0.75, "dsc": 0.9}, "dsc", "Use dsc: +"),
        ({"wce": 0.6, "dsc": 0.9}, "dsc", "Use dsc: +"),
        # A control that is ahead of cross-entropy, and not shown to be.
        ({"wce": NOISY, "dsc": 0.82}, "wce", "Try class weights (wce) first: dsc is n"),
        # A loss that fails is never advised, nor does it beat a control.
        ({"wce": 0.75, "dsc": FAILS}, "wce", "Use class weights (wce): +"),
        ({"dsc": FAILS}, None, "Undecided: every other loss failed "),
        ({"wce": 0.7, "dsc": 0.7}, None, "Undecided: no loss is shown to beat"),
        # Of what failed in some runs nothing is known.
        (
            {"dsc": FAILS, "focal": 0.3},
            None,
            "Keep cross-entropy: no loss is shown to ",
        ),
    ],
)
def test_the_cheapest_that_nothing_is_shown_to_beat_is_advised(skills, best, sentence):
    rows = compared({"ce": 0.7} | skills, controls=CONTROLS)
    advised = recommended(rows)
    assert (advised and advised.loss) == best
    assert headline(rows).startswith(sentence)


def test_a_control_that_gains_no_more_than_the_margin_is_passed_over():
    rows = compared({"ce": 0.7, "wce": NOISY, "dsc": 0.82}, controls=CONTROLS)
    gain = next(row.against.crossed.mean for row in rows if row.loss == "wce")
    assert recommended(rows, margin=gain - 0.01).loss == "wce"
    assert recommended(rows, margin=gain).loss == "dsc"


def test_the_order_of_costs():
    names = ("dsc", "ce+prior", "wce", SHIFTED, MOVED)
    rows = compared({"ce": 0.7} | dict.fromkeys(names, 0.7), n=50, controls=CONTROLS)
    costs = {row.loss: cost(row) for row in rows}
    assert costs == {"ce": 0, MOVED: 1, SHIFTED: 2, "wce": 2, "ce+prior": 3, "dsc": 4}


def test_the_best_loss_is_compared_with_each_control_seed_by_seed():
    rows = compared({"ce": 0.7, "dsc": 0.8, "wce": 0.8}, controls=CONTROLS)
    by_loss = {row.loss: row for row in rows}
    dsc, wce = (statistics_of(by_loss[loss].runs) for loss in ("dsc", "wce"))
    expected = seeds_and_items(dsc, wce, level=0.03)  # of a first look at five seeds
    ends = expected.mean, expected.low, expected.high
    crossed = by_loss["dsc"].versus["wce"].crossed
    assert (crossed.mean, crossed.low, crossed.high) == pytest.approx(ends, rel=1e-9)
    sentence = "dsc vs. class weights (wce): {} F1 (95% CI {} to {}). No loss is shown "
    assert sentence.format(*(signed(100 * x) for x in ends)) in headline(rows)
    assert not by_loss["wce"].versus and not by_loss["ce"].versus
    record = in_record(rows)["dsc"]["against_controls"]["wce"]
    assert record["crossed"]["mean"] == crossed.mean


@pytest.mark.parametrize("comparisons", [8, *exhaustive(1000)])
@pytest.mark.parametrize(
    ("skills", "best"),
    [
        (dict.fromkeys(("wce", MOVED, "ce+prior", "dsc", "focal"), 0.7), None),
        # All else is beaten, and nothing shown to be the best of these is.
        ({"wce": 0.7, MOVED: 0.9, "dsc": 0.9, "focal": 0.9}, MOVED),
    ],
)
def test_at_most_5_percent_of_the_advice_is_dearer_than_it_need_be(
    comparisons, skills, best
):
    wrong, settings = 0, {"spread": 0.02, "n": 150, "controls": CONTROLS}
    for draw in range(comparisons):
        rows = compared({"ce": 0.7} | skills, draw=draw, **settings)
        advised = recommended(rows)
        wrong += (advised and advised.loss) != best
    print(f"{wrong} of {comparisons}")
    assert wrong <= most_of(comparisons)


def test_with_no_control_the_advice_says_so():
    text = headline(compared({"ce": 0.7, "dsc": 0.8, "focal": 0.9}))
    assert (
        " None of its 5 runs failed; so few may miss a failure rate of up to 45%. No "
        "control took part: class weights or a threshold may do as well. dsc is better "
        "than cross-entropy too. focal vs. dsc: +"
    ) in text


@pytest.mark.parametrize(
    ("curves", "rising"),
    [
        ([(0.1, 0.3), (0.1, 0.32)], 0.21),
        ([(0.3, 0.1, 0.2)] * 2, 0.0),  # not the best
        ([(0.1, 0.3), (0.3, 0.29), (0.3, 0.29)], 0.0),  # of one seed in three
        ([(0.3,)] * 2, 0.0),  # no slope
        ([()] * 2, 0.0),
    ],
)
def test_a_loss_rises_whose_best_dev_score_is_the_last(curves, rising):
    even = np.arange(9) % 2
    runs = [outcome("ce", seed, even, dev=dev) for seed, dev in enumerate(curves)]
    (row,) = rows_of(runs, "ce")
    assert row.rise == pytest.approx(rising)


def test_scores_that_rise_are_read_from_the_runs_and_named_first(tmp_path):
    jobs = made(tmp_path, (Dice(), Focal()), 3, rising=("ce",))
    rows = rows_of(scored_runs(jobs)[0], "ce")
    (ce,) = (row for row in rows if row.rise > 0)
    last = np.mean([run.dev[:, 1] for run in ce.runs], axis=0)
    assert ce.loss == "ce" and ce.rise == pytest.approx(last[-1] - last[-2])
    caveat = (
        "Train longer: dev scores were still rising, so the order may turn.\n"
        "Still rising when training ended: ce. Next: dicejax compare with "
        f"--training.epochs {2 * jobs[0].experiment.training.epochs} and another --out."
    )
    assert still_rising(rows) == caveat
    result = comparison.compare_runs([str(tmp_path)])
    assert "\n".join(result.lines()).startswith(f"{caveat}\nSo far: ")
    assert not still_rising(rows, margin=1.0)


def test_no_gain_is_said_to_be_possible_beyond_a_score_of_1():
    rows = compared({"ce": [0.9, 0.7, 0.9], "dice": [0.75, 0.9, 0.95]}, seeds=3)
    (dice,) = (row for row in rows if row.against)
    assert dice.against.crossed.high > 1 - rows[0].mean
    most = 100 * (1 - np.mean([run.score for run in rows[0].runs]))
    assert f"A gain of up to {most:.1f} F1 (dice) is still possible." in headline(rows)
