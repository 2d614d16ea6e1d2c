"""What a comparison says first, for scores of many kinds in a CSV file."""

import re

import pytest

from dicejax import cli
from dicejax.study import compare as comparison
from dicejax.study.compare.advice import foremost

from ..small_project import fails

LEARNT = [72.0, 71.2, 71.8, 72.5, 71.4]
FEW = [100, 0, 0], [100, 100, 0], [0, 100, 0], [100, 0, 100], [0, 0, 100]


def csv(scores):
    """Return rows of scores, by loss and from seed 0 on or by seed."""
    rows = ["loss,seed,score"]
    for loss, by_seed in scores.items():
        pairs = by_seed.items() if isinstance(by_seed, dict) else enumerate(by_seed)
        rows += [f"{loss},{seed},{score}" for seed, score in pairs]
    return "\n".join(rows) + "\n"


def by_example(scores):
    rows = ["loss,seed,example,score"]
    for loss, runs in scores.items():
        for seed, run in enumerate(runs):
            rows += [f"{loss},{seed},{n},{score}" for n, score in enumerate(run)]
    return "\n".join(rows) + "\n"


def shifted(points, scores=LEARNT):
    """Return scores that are higher, by a little more in every other seed."""
    return [score + points + 0.2 * (n % 2) for n, score in enumerate(scores)]


def noise(seed, loss):
    """Return a score around 70 without a random generator."""
    return 70 + (7 * seed + 11 * loss + seed * loss) % 13 / 4


SAYS = {
    "all arms fail in some runs": (
        {"ce": [72, 0, 71, 73, 72], "dsc": [74, 73, 0, 75, 74]},
        ("Undecided: every loss failed in some runs.", "Failed: ce, dsc."),
        ("--seeds", "CI +", "of 10 seeds"),
    ),
    "no arm learns": (
        {"ce": [0] * 5, "dsc": [0] * 5},
        ("Nothing learnt: this says nothing about the losses.", "To do: train longer"),
        ("learns nothing here", "CI"),
    ),
    "the baseline fails in some runs": (
        {"ce": [72, 0, 71, 0, 72.5], "dsc": shifted(3), "ce+prior": shifted(1)},
        (
            "Cross-entropy fails in 2 of 5 runs: ce+prior and dsc do not.",
            "To do: train longer, or try another learning rate. It may be chance "
            "(Fisher's exact test of the failed runs: p = 0.44).",
            "Median score of the runs that learn: cross-entropy 72.0, ce+prior 72.8.",
            "dsc vs. ce+prior: +2.00 score (95% CI ",
            "report with --baseline ce+prior compares the others with it.",
        ),
        ("still possible", "of 10 seeds", "over cross-entropy"),
    ),
    "the baseline fails in nearly all runs": (
        {"ce": [0] * 9 + [23], "dsc": 2 * shifted(9), "ce+prior": 2 * shifted(6)},
        (
            "Cross-entropy fails in 9 of 10 runs: ce+prior and dsc do not.",
            "To do: use ce+prior, train longer, or try another learning rate. Fisher's "
            "exact test of the failed runs: p < 0.001.",
        ),
        ("still possible", "of 15 seeds", "over cross-entropy"),
    ),
    "the baseline learns nothing": (
        {"ce": [0] * 5, "dsc": shifted(-16), "ce+prior": shifted(-40)},
        (
            "Cross-entropy learns nothing here: ce+prior and dsc do.",
            "To do: use ce+prior, train longer, or try another learning rate.",
            "p = 0.0079",
            "dsc vs. ce+prior: +24.00 score",
        ),
        ("Nothing learnt", "over cross-entropy"),
    ),
    "the baseline learns nothing, and one loss in most runs": (
        {"ce": [0] * 10, "wce": [15, 16, 14, 15, 0, 16, 15, 14, 16, 15]},
        (
            "Cross-entropy learns nothing here: wce does mostly.",
            "Median score of the runs that learn: wce 15.0.",
        ),
        ("Nothing learnt", "CI"),
    ),
    "the best is a control": (
        {"ce": LEARNT, "wce": shifted(5), "dsc": shifted(2), "focal": shifted(0.1)},
        (
            "Use class weights (wce): +5.08 score over cross-entropy.",
            "dsc vs. class weights (wce): −3.00 score",
            "No loss is shown to beat class weights (wce).",
        ),
        ("No control took part", "more is better", "than the margin"),
    ),
    "a loss is ahead of a control by less than the margin": (
        {"ce": LEARNT, "wce": shifted(5), "dsc": shifted(5.2)},
        (
            "Use class weights (wce): +5.08 score over cross-entropy.",
            "No loss is shown to beat class weights (wce) by more than the margin.",
        ),
        ("Try",),
    ),
    "a loss beats a control": (
        {"ce": LEARNT, "wce": shifted(1.1), "focal": shifted(1.7), "dice": shifted(-1)},
        (
            "Use focal: +1.78 score over cross-entropy.",
            "It beats class weights (wce) too.",
            "focal vs. class weights (wce): +0.60 score",
        ),
        ("No control took part", "1 more is better"),
    ),
    "a control alone is better, and a cheaper one is not shown to be beaten": (
        {
            "ce": [65.1, 66, 64.2, 65.4, 63.1],
            "wce": [68.9, 69, 68.8, 68.9, 69.1],
            "ce + tuned threshold": [69, 69, 68.9, 68.5, 60],
            "dsc": [62, 63, 65.5, 66, 66.3],
        },
        (
            "Try ce + tuned threshold first: wce is not shown to beat this control.",
            "wce vs. cross-entropy: +4.18 score (95% CI ",
            "wce vs. ce + tuned threshold: +1.9 score (95% CI ",
        ),
        ("Use",),
    ),
    "a control gains less than the margin": (
        {"ce": LEARNT, "wce": [72.6, 71.5, 72.25, 72.85, 71.8], "focal": shifted(-2)},
        (
            "Keep cross-entropy: wce is only 0.42 score ahead.",
            "95% CI +0.25 to +0.59. Differences within ±0.5 do not matter in practice.",
        ),
        ("Use", "Try"),
    ),
    "seeds change nothing": (
        {"ce": [80] * 5, "dsc": [85] * 5},
        (
            "No verdict: all seeds of ce and dsc have the same scores.",
            "warning: All seeds of ce, dsc have the same scores: was the seed used?",
            "dsc: no verdict: all seeds of dsc and of ce have the same scores",
        ),
        ("Use", "CI +"),
    ),
    "losses have other seeds": (
        {
            "ce": dict(enumerate(LEARNT[:3])),
            "dsc": dict(enumerate(2 * shifted(1))),
            "focal": {seed + 20: score for seed, score in enumerate(LEARNT)},
        },
        (
            "Use dsc: +1.07 score over cross-entropy.",
            "test set, mean ± SD over seeds: 3 (ce), 10 (dsc), 5 (focal)",
            "focal: no seed in common with the baseline",
        ),
        ("over 10 seeds", "mean ± SD over 3 seeds"),
    ),
    "one run of a loss collapses in part": (
        {"ce": LEARNT, "dsc": [73, 73.3, 72.8, 45, 73.2]},
        (
            "Undecided: every other loss failed in some runs.",
            "Unstable: dsc.",
            "dsc: unstable: failed in 1 of 5 runs, up to 66% may fail",
            "median score of the others 73.1, cross-entropy 71.8",
        ),
        ("CI −", "CI +", "still possible"),
    ),
    "one run of the baseline collapses in part": (
        {"ce": [71.2, 71.4, 45, 71.9, 71.6], "dsc": shifted(2)},
        ("Cross-entropy fails in 1 of 5 runs: dsc does not.", "p = 1)"),
        ("CI +", "still possible", "over cross-entropy"),
    ),
    "three seeds that are far apart": (
        {"ce": [60, 61.2, 59.5], "dsc": [75.3, 76.1, 75.2]},
        (
            "Use dsc: +15.30 score over cross-entropy.",
            "None of its 3 runs failed; so few may miss a failure rate of up to 63%.",
        ),
        ("may fail. It", "more is better"),
    ),
    "twenty losses of noise": (
        {
            "ce" if loss == 0 else f"l{loss}": [noise(seed, loss) for seed in range(5)]
            for loss in range(21)
        },
        ("Undecided: no loss is shown to beat cross-entropy.", "is still possible."),
        ("Use", "Keep"),
    ),
    "two losses are level": (
        {"ce": LEARNT, "focal": shifted(5.2), "dsc": shifted(4.5)},
        (
            "Use focal: +5.28 score over cross-entropy.",
            "dsc is better than cross-entropy too. focal vs. dsc: +0.70 score (95% CI",
        ),
        ("1 more is better",),
    ),
}


@pytest.mark.parametrize("name", SAYS)
def test_the_headline_of_scores(tmp_path, capsys, name):
    scores, said, unsaid = SAYS[name]
    path = tmp_path / "scores.csv"
    path.write_text(csv(scores))
    assert cli.run(["report", "--scores", str(path), "--out", str(tmp_path / "o")]) == 0
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    (result,) = comparison.compare_scores(str(path), out=str(tmp_path / "again"))
    lines = result.lines()
    assert lines[0] == said[0]
    assert [part for part in said if part not in text] == []
    advice = " ".join(lines[: lines.index("")])
    # Pages set the loss that the advice is about beside the baseline.
    named = foremost(result.rows)
    assert named is None or named.loss in advice or said[0].endswith("or the same.")
    # What is not said of the losses; other lines may tell of each.
    assert [part for part in unsaid if part in advice] == []
    assert said[0].partition(":")[0] in (tmp_path / "o" / "report.md").read_text()


def test_few_examples_decide_nothing(tmp_path):
    path = tmp_path / "scores.csv"
    scores = {"ce": FEW, "wce": [FEW[-1], [0, 0, 0], *FEW[:3]], "dsc": FEW[::-1]}
    path.write_text(by_example(scores))
    (result,) = comparison.compare_scores(str(path), out=str(tmp_path / "out"))
    text = "\n".join(result.lines())
    assert text.startswith("No verdict: the test set has 3 examples, and it takes 10.")
    for word in ("learnt nothing", "Unstable", "differences of", "CI +", "CI −"):
        assert word not in text, word
    assert {row.outcome for row in result.rows[1:]} == {"no verdict"}


def test_a_file_without_rows_is_refused(tmp_path, capsys):
    path, out = tmp_path / "scores.csv", tmp_path / "out"
    path.write_text("data,loss,seed,score\n")
    words = ["report", "--scores", str(path), "--out", str(out)]
    fails(capsys, words, "scores.csv: holds no scores; write a row of loss,seed,score")
    assert not out.exists()


@pytest.mark.parametrize(
    ("loss", "first"),
    [("weighted", "Use weighted: +2.08"), ("nowhere", None), ("ce", None)],
)
def test_controls_of_other_names_are_named(tmp_path, capsys, loss, first):
    path, out = tmp_path / "scores.csv", str(tmp_path / "out")
    # A loss that is ahead of the control, though not shown to be.
    dsc = [74.5, 73.3, 74.3, 74.2, 73.8]
    path.write_text(csv({"ce": LEARNT, "weighted": shifted(2), "dsc": dsc}))
    words = ["report", "--scores", str(path), "--out", out, "--controls", loss]
    if first is None:
        fails(capsys, words, f"--controls: '{loss}' is ")
        return
    assert cli.run(words[:-2]) == 0
    assert "Use dsc: +2.24 score over" in capsys.readouterr().out
    assert cli.run(words) == 0
    text = capsys.readouterr().out
    assert first in text and "dsc vs. weighted: +0.16 score" in text
    assert f"--controls {loss}" in (tmp_path / "out" / "report.md").read_text()
    fails(capsys, ["report", "x", "--controls", "wce"], "--controls goes with --scores")
