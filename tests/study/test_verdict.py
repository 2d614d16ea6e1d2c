"""The verdict in a few lines, and the forest plot."""

import dataclasses
import fnmatch
import json
import re

import numpy as np
import pytest

from dicejax import config
from dicejax.config import PretrainedEncoder, ScratchEncoder
from dicejax.study import significance
from dicejax.study.compare.advice import headline
from dicejax.study.compare.jobs import ScoredRun
from dicejax.study.compare.statistics import rows_of
from dicejax.study.compare.table import warnings_of
from dicejax.study.report.pictures import forest

from .made_runs import EXPERIMENT, compared, outcome

ALIKE = {"ce": 0.7, "dice": 0.7}
NOTHING = {"ce": 0.0, "dice": 0.0}


@pytest.mark.parametrize(
    ("skills", "options", "outcome", "sentence"),
    [
        (ALIKE, {"seeds": 1}, "no verdict", "no verdict: 1 seed, and it takes 3: "),
        (ALIKE, {"seeds": 2}, "no verdict", "no verdict: 2 seeds, and it takes 3: "),
        (ALIKE, {"margin": 0.01}, "inconclusive", "inconclusive: "),
        (ALIKE, {"margin": 0.09}, "practically equal", "practically equal: "),
        (
            *({"ce": 0.7, "dice": 0.0}, {"seeds": 3}, "nothing learnt"),
            "nothing learnt by dice in 3 of 3 runs",
        ),
        (
            *({"ce": 0.7, "dice": [0.0, 0.7, 0.7]}, {"seeds": 3}, "unstable"),
            "unstable: failed in 1 of 3 runs, up to 86% may fail (Clopper-Pearson, ",
        ),
    ],
)
def test_the_verdict_on_a_loss(skills, options, outcome, sentence):
    ce, dice = compared(skills, **options)
    got, apart = dice.against, np.subtract(dice.scores("f1"), ce.scores("f1"))
    assert got.verdict.outcome == outcome
    assert str(got.verdict).startswith(sentence)
    assert got.differences == pytest.approx(apart)
    if outcome == "no verdict":
        assert got.crossed is None
        numbers = ", ".join(significance.signed(100 * x) for x in apart)
        assert str(got.verdict) == f"{sentence}{numbers} F1"
    elif "margin" in options:
        inside = max(-got.crossed.low, got.crossed.high) < options["margin"]
        assert inside == (outcome == "practically equal")


@pytest.mark.parametrize(
    ("skills", "options", "sentence"),
    [
        (
            {"ce": 0.7, "dice": 0.8, "focal": 0.9, "wce": 0.75},
            {"controls": ["wce"]},
            "Use focal: +{mean:.2f} F1 over cross-entropy.\n95% CI *. None of its 5 "
            "runs failed; so few may miss a failure rate of up to 45%. It beats class "
            "weights (wce) too. dice is better than cross-entropy too. focal vs. dice: "
            "+* F1 (95% CI +* to +*).",
        ),
        (
            {"ce": 0.9, "dice": 0.6, "focal": 0.5},
            {},
            "Keep cross-entropy: no loss is better, and all are worse or the same.",
        ),
        (
            *(ALIKE, {"seeds": 2}),
            "No verdict yet: 2 seeds, and it takes 3.\nNext: dicejax compare with "
            "--seeds 5 (about 9 more minutes of training).",
        ),
        (
            *(NOTHING, {"seeds": 3}),
            "Nothing learnt: this says nothing about the losses.\nTo do: train longer, "
            "or try another learning rate.",
        ),
        (
            *(ALIKE, {"spread": 0.02}),
            "Undecided: no loss is shown to beat cross-entropy.\nA gain of up to "
            "{high:.1f} F1 (dice) is still possible. Next: dicejax compare with "
            "--seeds 10 (about 15 more minutes of training) would show "
            "a difference of *",  # 10 runs of 90 s
        ),
    ],
)
def test_the_verdict_on_a_comparison_begins_with_a_short_line(
    skills, options, sentence
):
    rows = compared(skills, **options)
    crossed = rows[1].against.crossed
    numbers = {name: 100 * getattr(crossed, name, 0) for name in ("mean", "high")}
    text = headline(rows)
    assert fnmatch.fnmatchcase(text, sentence.format(**numbers))
    first = text.splitlines()[0]
    assert len(first) <= 72 and len(re.findall(r"\d+(?:\.\d+)?", first)) <= 2


def test_what_is_cut_off_is_a_warning_once():
    cut = "2 of 9 test pairs (22%) are cut off at 8 tokens; raise --training.max_length"
    right = np.arange(40) % 4 > 0
    runs = [outcome(loss, 0, right, cut=[cut]) for loss in ("ce", "dice")]
    assert warnings_of(rows_of(runs, "ce")) == [cut]


def test_a_test_set_that_is_too_small_is_not_made_up_for_by_seeds():
    outcomes = [
        # All errors of a seed are those of other examples.
        outcome(loss, seed, np.roll(np.arange(40) % 4 > 0, place + 2 * (seed % 2)))
        for place, loss in enumerate(("ce", "dice"))
        for seed in range(5)
    ]
    small = (
        " More seeds will not decide it: the test set is too small, with 40 examples"
    )
    assert f"{small}." in headline(rows_of(outcomes, "ce"))
    for run in outcomes:
        run.result["test"]["per_type"] = {"A": {"support": 33}, "B": {"support": 7}}
    assert f"{small}, 7 of 'B'." in headline(rows_of(outcomes, "ce"))


@pytest.mark.parametrize(
    ("encoder", "advised"),
    [(ScratchEncoder(), True), (PretrainedEncoder(path="x"), False)],
)
def test_a_pretrained_encoder_is_advised_only_to_those_without(encoder, advised):
    experiment = dataclasses.replace(EXPERIMENT, encoder=encoder)
    rows = [
        dataclasses.replace(row, settings=json.loads(config.to_json(experiment)))
        for row in compared(NOTHING, seeds=3)
    ]
    for text in (headline(rows), warnings_of(rows)[0]):
        assert "learnt" in text and "train longer" in text
        assert ("pretrained encoder" in text) == advised


def test_a_diverged_loss_is_worse_and_named():
    rows = compared(ALIKE)
    outcomes = [run for row in rows for run in row.runs]
    outcomes += [ScoredRun("gdice", seed, "x", "diverged") for seed in range(5)]
    rows = rows_of(outcomes, "ce")
    (gdice,) = (row for row in rows if row.loss == "gdice")
    assert gdice.against.verdict.outcome == "worse"
    assert gdice.against.mean == pytest.approx(-np.mean(rows[0].scores("f1")))
    (warning,) = warnings_of(rows)
    assert warning.startswith("5 of 15 runs diverged. A diverged run counts as failed")


def test_the_forest_plot_shows_the_intervals_of_the_rows():
    rows = compared({"ce": 0.7, "a": 0.71, "b": 0.7, "c": 0.2}, controls=("b",))
    picture = forest(rows, 0.005)
    (axes,) = picture.panels[picture.title].axes
    limit = axes.get_xlim()[1]
    drawn = [line for line in axes.lines if line.get_linewidth() == 2.5]
    assert [row.loss for row in rows] == ["ce", "a", "c", "b"]  # controls last
    for row, line in zip(rows[1:], drawn, strict=True):
        ends = 100 * row.against.crossed.low, 100 * row.against.crossed.high
        assert list(line.get_xdata()) == pytest.approx(np.clip(ends, -limit, limit))
    arrows = [line for line in axes.lines if line.get_marker() in "<>"]
    assert [line.get_xdata()[0] for line in arrows] == [-limit]
    assert any(text.get_text().endswith(": worse") for text in axes.texts)
    assert "small ticks are seeds (5 beyond the axis)." in picture.caption
    band = axes.patches[0].get_x(), axes.patches[0].get_width()
    assert band == pytest.approx((-0.5, 1.0))
    assert forest(rows[:1], 0.005) is None


def test_every_seed_has_a_tick_within_the_axis_of_the_forest_plot():
    rows = compared({"ce": 0.7, "a": 0.72}, seeds=20, spread=0.02)
    picture = forest(rows, 0.005)
    (axes,) = picture.panels[picture.title].axes
    (ticks,) = [line.get_xdata() for line in axes.lines if line.get_marker() == "|"]
    differences = 100 * np.array(rows[1].against.differences)
    assert ticks == pytest.approx(differences)
    # Of many seeds the interval is far narrower than their spread.
    assert max(abs(ticks)) > 1.2 * 100 * rows[1].against.crossed.high
    assert max(abs(ticks)) < axes.get_xlim()[1]
    assert "small ticks are seeds." in picture.caption


def test_the_forest_plot_has_no_mark_for_a_loss_that_learnt_nothing():
    rows = compared({"ce": 0.7, "a": 0.72, "b": 0.0})
    picture = forest(rows, 0.005)
    (axes,) = picture.panels[picture.title].axes
    (learnt,) = [line for line in axes.lines if line.get_marker() == "o"]
    assert learnt.get_xdata() == pytest.approx([100 * rows[1].against.mean])
    assert "nothing learnt" in [text.get_text() for text in axes.texts]
    assert axes.get_xlim()[1] < 70  # its difference does not stretch the axis
