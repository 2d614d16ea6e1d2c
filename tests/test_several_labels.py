"""Several labels per text from one file to predictions, by the commands alone."""

import json
import re

import numpy as np
import pytest
from huggingface_hub import ModelCard
from scipy.special import expit, logit

import dicejax as dj
from dicejax.cli import run
from dicejax.data.synthetic_labels import SyntheticLabels
from dicejax.metrics import thresholds
from dicejax.metrics.calibration import Calibration
from dicejax.study.compare import baselines
from dicejax.study.compare.jobs import Job
from dicejax.training import onnx
from dicejax.training.run_folder import Run

from .small_project import fails

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
    calibration = result["calibration"]
    assert (
        calibration["dev"]["after"]["log_loss"]
        < (calibration["dev"]["before"]["log_loss"])
    )
    limits = calibration["threshold"]
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


def test_probabilities_are_calibrated_by_the_temperature_of_dev(
    folder, capsys, monkeypatch
):
    run_folder, texts = str(folder / "run"), ["w1 cue1a w2 cue2b", "w1 cue3a"]
    result = Run.open(run_folder).result()
    temperature = result["calibration"]["temperature"]
    after = dj.predict(run_folder, texts)
    evaluation = dj.evaluate(run_folder, warn=print)
    assert evaluation.calibration == Calibration.from_json(
        result["calibration"]["test"]
    )
    assert run(["evaluate", run_folder]) == 0
    assert f"probabilities: {evaluation.calibration}\n" in capsys.readouterr().out
    plain = {**result, "calibration": None}
    monkeypatch.setattr(Run, "result", lambda self: plain)
    for record, raw in zip(after, dj.predict(run_folder, texts), strict=True):
        assert record["labels"] == raw["labels"]
        chances, odds = record["probabilities"], raw["probabilities"]
        for label, chance in chances.items():
            assert chance == pytest.approx(expit(logit(odds[label]) / temperature))
    assert dj.evaluate(run_folder, warn=print).calibration is None


def test_an_onnx_file_that_is_worse_is_refused_without_force(
    folder, tmp_path, capsys, monkeypatch
):
    argv = ["export", str(folder / "run"), str(tmp_path / "model"), "--onnx"]
    monkeypatch.setattr(onnx, "PACKAGES", ("no_such_package",))
    fails(capsys, argv, "--onnx: no_such_package not installed", "'.[onnx]'")
    fails(capsys, [*argv[:-1], "--force"], "--force goes with --onnx")
    monkeypatch.setattr(onnx, "PACKAGES", ())
    right, fewer = np.ones((50, 1, 2)), np.ones((50, 1, 2))
    fewer[:20, 0, 0] = 0
    files = [
        onnx.FileOnDev(name, 1e-6, 9.0, shares, right)
        for name, shares in zip(onnx.FILES, (right, fewer), strict=True)
    ]
    monkeypatch.setattr(onnx, "write", lambda exported: None)
    monkeypatch.setattr(onnx, "predict_dev", lambda exported: files)
    fails(capsys, argv, "onnx/model_int8.onnx", "worse: −40.0 micro F1", "--force")
    assert not list(tmp_path.iterdir())
    more = ["--force", "--license", "mit", "--language", "en"]
    assert run([*argv, *more]) == 0
    lines = capsys.readouterr().out.splitlines()[-2:]
    assert "50 dev examples: identical micro F1 on each; logits differ" in lines[0]
    card = ModelCard.load(tmp_path / "model/README.md")
    assert lines[1] in card.text and "worse: −40.0" in lines[1]
    assert (card.data.license, card.data.language) == ("mit", "en")
    assert "licence is not stated" not in card.text
    assert "Logits divided by" in card.text
    config = json.loads((tmp_path / "model/config.json").read_text())
    result = Run.open(str(folder / "run")).result()
    assert config["decision_threshold"] == result["threshold"]["threshold"]
    calibration = result["calibration"]
    assert config["calibration_temperature"] == calibration["temperature"]
    assert config["calibrated_decision_threshold"] == calibration["threshold"]
    length = Run.open(str(folder / "run")).experiment().training.max_length
    assert (config["window_length"], config["window_stride"]) == (length, 64)
    assert config["is_split_into_words"] is False


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
