"""The card of an exported model, read back by huggingface_hub."""

import json
from pathlib import Path

import pytest
from etils import epath
from huggingface_hub import ModelCard

from dicejax.cli import run
from dicejax.objectives import CrossEntropy, SelfAdjustingDice
from dicejax.study import compare as comparison
from dicejax.study import report
from dicejax.study.card import model_card
from dicejax.training.run_folder import Run

from .made_runs import made

LOSSES = (CrossEntropy(), SelfAdjustingDice(smooth=0.01))
TRAINED = {"steps": 100, "best_dev_score": 0.5, "last_dev_score": 0.5, "skipped": 0}
TRAINED |= dict.fromkeys(("tokens_per_s", "padding_share", "wait_share"), 0.5)
TRAINED |= {"share_filled": 1.0, "device_kind": "cpu", "versions": {"jax": "1"}}
HOSTILE = "<script>x</script>|[a](b)"


@pytest.fixture
def jobs(tmp_path):
    jobs = made(tmp_path, LOSSES, 3, skill=(0.6, 0.8), types=("PER", HOSTILE))
    report.write(comparison.evaluate_runs(jobs, str(tmp_path)))
    for job in jobs:
        made_run = Run(epath.Path(job.folder))
        made_run.write_result(made_run.result() | TRAINED)
    return jobs


def test_the_hub_reads_the_scores_and_people_the_verdict(jobs, tmp_path):
    folder = Path(jobs[-1].folder)
    text = model_card(str(folder), "BertForTokenClassification")
    card = ModelCard(text)
    assert card.data.pipeline_tag == "token-classification"
    assert card.data.tags == ["dicejax", "dsc"]
    test = json.loads((folder / "result.json").read_text())["test"]
    values = {x.metric_type: x.metric_value for x in card.data.eval_results}
    assert values == pytest.approx({x: test[x] for x in ("f1", "macro_f1")}, abs=1e-6)
    content = json.loads((tmp_path / "comparison.json").read_text())
    verdict = content["verdict"].split("\n")[0]
    assert verdict.startswith("Use dsc")
    assert verdict in card.text
    assert "dicejax export RUN FOLDER" in (tmp_path / "report.md").read_text()
    row = content["losses"]["dsc-smooth=0.01"]["against_baseline"]
    mean, low, high = (100 * row["crossed"][x] for x in ("mean", "low", "high"))
    assert f"ce, 3 seeds: {mean:+.2f} ({low:+.2f} to {high:+.2f})." in card.text
    assert "<script" not in card.text
    assert r"\[a\](b)" in card.text
    assert f"| PER | {100 * test['f1']:.2f} |  | 1,000 |" in card.text


def test_a_run_of_no_comparison_has_no_verdict(jobs, tmp_path):
    alone = tmp_path / "alone" / "run"
    alone.parent.mkdir()
    Path(jobs[0].folder).rename(alone)
    text = model_card(str(alone), "BertModel")
    assert "Why this loss" not in text
    assert ModelCard(text).data.pipeline_tag is None


def test_a_damaged_comparison_is_one_line(jobs, tmp_path, capsys):
    (tmp_path / "comparison.json").write_text('{"losses": [1]}')
    assert run(["export", jobs[0].folder, str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()
