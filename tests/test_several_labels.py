"""Several labels per text from one file to predictions, by the commands alone."""

import json
import re

import numpy as np
import pytest

from dicejax.cli import run
from dicejax.data.synthetic_labels import SyntheticLabels
from dicejax.metrics import thresholds
from dicejax.study.compare import baselines
from dicejax.study.compare.jobs import Job
from dicejax.training.run_folder import Run

SMALL = """
    --encoder.hidden_size 32 --encoder.intermediate_size 64 --encoder.dropout 0
    --encoder.num_hidden_layers 1 --optimizer.learning_rate 1e-2 --training.epochs 10
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with data, an experiment that init wrote, and a trained run."""
    folder = tmp_path_factory.mktemp("several")
    corpus = SyntheticLabels(train=500, dev=1, test=1, labels=3, common_words=10).load()
    lines = [{"text": text.first, "labels": text.labels} for text in corpus.train]
    data = folder / "data.jsonl"
    data.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    init = ["init", "classification", str(folder / "mine"), "--data", str(data)]
    assert run([*init, "--encoder", "scratch"]) == 0
    experiment = str(folder / "mine/experiment.py")
    argv = ["train", experiment, "--out", str(folder / "run"), *SMALL.split()]
    assert run([*argv, "--task.tune_thresholds"]) == 0
    return folder


def test_what_was_trained_is_evaluated_with_both_thresholds(folder, capsys):
    result = json.loads((folder / "run/result.json").read_text())
    limits = result["threshold"]["threshold"]
    assert set(limits) == {"label-01", "label-02", "label-03"}
    assert result["primary_metric"] == "micro_f1" and result["test"]["micro_f1"] > 0.6
    assert run(["evaluate", str(folder / "run"), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["micro_f1"] == pytest.approx(result["test"]["micro_f1"], abs=1e-6)
    tuned = result["test_with_tuned_threshold"]
    macro_f1 = pytest.approx(tuned["macro_f1"])
    assert scores["with_tuned_threshold"]["macro_f1"] == macro_f1
    assert scores["threshold"] == limits
    assert run(["evaluate", str(folder / "run")]) == 0
    out = capsys.readouterr().out
    assert "micro F1 " in out and "LRAP " in out
    assert re.search(r"^ *label-03( +\d+\.\d\d){3} +\d+$", out, re.MULTILINE)
    assert f"thresholds {min(limits.values()):.3g} to " in out


def test_predictions_have_labels_and_probabilities(folder, capsys):
    argv = ["predict", str(folder / "run")]
    result = json.loads((folder / "run/result.json").read_text())
    limits = result["threshold"]["threshold"]
    (folder / "new.jsonl").write_text(
        '{"id": 7, "text": "w1 cue1a w2 cue2b", "labels": ["old"]}\n'
        '{"text": "w1 w3 not cue1a"}\n'
    )
    out = folder / "found.jsonl"
    files = ["--file", str(folder / "new.jsonl"), "--out", str(out)]
    assert run([*argv, *files]) == 0
    first, second = map(json.loads, out.read_text().splitlines())
    assert first["id"] == 7 and "old" not in first["labels"]
    for record in (first, second):
        chances = record["probabilities"]
        likely = [name for name, chance in chances.items() if chance >= limits[name]]
        assert record["labels"] == likely
    # The same from words, and from a plain file.
    (folder / "new.txt").write_text("w1 cue1a w2 cue2b\n")
    assert first["labels"]
    chances = first["probabilities"].items()
    likely = [f"{name}  ({p:.3f})" for name, p in chances if name in first["labels"]]
    for words in (["w1 cue1a w2 cue2b"], ["--file", str(folder / "new.txt")]):
        assert run([*argv, *words]) == 0
        lines = capsys.readouterr().out.splitlines()[-2:]
        assert lines == ["w1 cue1a w2 cue2b", f"  {', '.join(likely)}"]


def test_controls_of_a_comparison_move_the_decision_of_each_label(folder):
    run_folder, lines = Run.open(str(folder / "run")), []
    job = Job("ce", run_folder.experiment(), str(run_folder.path))
    baselines.score_baselines([job], lines.append)
    controls = run_folder.baselines()
    assert set(controls) == {"logit adjustment", "tuned threshold"}
    limits = json.loads((folder / "run/result.json").read_text())["threshold"]
    tuned = controls["tuned threshold"]
    assert tuned["value"] == limits["threshold"]
    described = thresholds.describe(limits["threshold"])
    assert f"tuned threshold {described}, dev" in lines[0]
    # The statistics are those of the scores.
    above, below = np.sum(tuned["example_statistics"], axis=(0, 1))
    assert above / below == pytest.approx(tuned["test"]["micro_f1"])
