"""Choices from a data file, by thresholds, and on the card."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from dicejax import config
from dicejax.cli import run
from dicejax.errors import InputError
from dicejax.formats import recognise
from dicejax.study import significance
from dicejax.study.card import model_card
from dicejax.study.choose import choose
from dicejax.study.choose.search import SEED, with_tuned_threshold
from dicejax.study.choose.settings import Setting
from dicejax.study.compare import finding
from dicejax.tasks import Classification

from .made_choices import SMALL, quick

__all__ = ["quick"]

TEXTS = {"good": ["fine", "great"], "bad": ["dull", "poor", "long", "flat"]}


def write_texts(path, number=240):
    """Write texts of which the words tell the class in most cases."""
    rng, lines = np.random.default_rng(0), ["text,label"]
    for _ in range(number):
        label = "good" if rng.random() < 0.25 else "bad"
        meant = label if rng.random() < 0.8 else "good"
        words = [*rng.choice(["a", "film", "it", "is"], 4), rng.choice(TEXTS[meant])]
        lines.append(f"{' '.join(words)} {rng.integers(1000)},{label}")
    path.write_text("\n".join(lines) + "\n")


def of_texts(folder, **settings):
    write_texts(folder / "mine.csv")
    source = recognise.source_of("classification", str(folder / "mine.csv"))
    task = Classification(**settings)
    return dataclasses.replace(SMALL, name="texts", data=source, task=task)


def test_threshold_that_dev_tunes_decides_on_dev_and_on_test(quick, tmp_path):
    choice = choose(of_texts(tmp_path), "9h", out=tmp_path / "c", progress=False)
    record = json.loads((tmp_path / "c/choose.json").read_text())
    assert record["experiment"]["task"]["tune_threshold"]
    for trial in record["trials"]:
        name = Setting(**trial["setting"]).name
        result = tmp_path / "c/search" / name / f"seed-{trial['seed']}/result.json"
        default = json.loads(result.read_text())["best_dev_score"]
        assert trial["dev"] >= default  # the best threshold for dev, which has this too
    for row in choice.comparison.rows:
        for each in row.runs:
            result = json.loads((Path(each.folder) / "result.json").read_text())
            tuned = result["test_with_tuned_threshold"]["f1"]
            assert each.score == pytest.approx(tuned)
            share = significance.score(each.example_statistics)
            assert share == pytest.approx(tuned)
    card = model_card(str(Path(choice.run)), "transformers.BertModel")
    tried = len({json.dumps(trial["setting"]) for trial in record["trials"]})
    assert f"Chosen by dev among {tried} settings" in card and choice.sentence in card


def test_constraint_is_chosen_for(quick, tmp_path):
    experiment = of_texts(tmp_path, threshold="recall:0.3")
    choice = choose(experiment, "9h", out=tmp_path / "c", progress=False)
    for row in choice.comparison.rows:
        for each in row.runs:
            result = json.loads((Path(each.folder) / "result.json").read_text())
            assert each.score == result["at_constraint"]["value"]
    record = json.loads((tmp_path / "c/choose.json").read_text())
    trial = record["trials"][1]
    folder = tmp_path / "c/search" / Setting(**trial["setting"]).name / f"seed-{SEED}"
    f1 = json.loads((folder / "result.json").read_text())["best_dev_score"]
    # Precision at a threshold below which no 30 % of the positives are.
    assert trial["dev"] != f1 and 0 < trial["dev"] <= 1


def test_thresholds_are_tuned_where_they_may_be(tmp_path):
    binary = of_texts(tmp_path)
    train = binary.data.load().train
    assert with_tuned_threshold(binary, train).task.tune_threshold
    for metric in ("f2", "f0.5:good"):
        other = of_texts(tmp_path, primary_metric=metric)
        assert with_tuned_threshold(other, train).task.tune_threshold
    accuracy = of_texts(tmp_path, primary_metric="accuracy")
    assert with_tuned_threshold(accuracy, train) == accuracy
    bounded = of_texts(tmp_path, threshold="recall:0.9")
    assert with_tuned_threshold(bounded, train) == bounded
    three = [dataclasses.replace(train[0], label="odd"), *train]
    assert with_tuned_threshold(binary, three) == binary
    assert with_tuned_threshold(SMALL, SMALL.data.load().train) == SMALL


FILES = {
    "mine.csv": ("text,label\nso good,1\nso bad,0\n", "classification"),
    "tags.txt": ("Anna B-PER\nsings O\n\nBob B-PER\nis O\n", "ner"),
    "words.conllu": (
        "".join(
            f"{n}\t{w}\t{w}\t{p}\t_\t_\t0\troot\t_\t_\n"
            for n, (w, p) in enumerate([("Anna", "PROPN"), ("sings", "VERB")], 1)
        )
        + "\n",
        "pos",
    ),
    "texts.jsonl": (
        "".join(
            f'{{"text": "so {w} {n}", "label": "{k}"}}\n'
            for n in range(20)
            for k, w in enumerate(["bad", "good"])
        ),
        "classification",
    ),
    "spans.jsonl": (
        "".join(
            f'{{"text": "Anna sings {n}", "spans": [[0, 4, "PER"]]}}\n'
            for n in range(20)
        ),
        "ner",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_kind_of_data_follows_from_its_form(tmp_path, name):
    text, kind = FILES[name]
    (tmp_path / name).write_text(text)
    assert recognise.kind_of(str(tmp_path / name)) == kind


def test_kind_is_asked_for_where_the_form_does_not_tell(tmp_path, capsys):
    (tmp_path / "lines.txt").write_text("1 so good\n0 so bad\n1 fine\n0 dull\n")
    assert run(["choose", str(tmp_path / "lines.txt")]) == 2
    assert "name it with --kind" in capsys.readouterr().err
    assert run(["choose", "none.csv"]) == 2
    assert "none.csv: no such experiment file or data" in capsys.readouterr().err


def test_threshold_that_dev_cannot_promise_is_refused_before_anything_is_tried(
    tmp_path,
):
    experiment = of_texts(tmp_path, threshold="recall:0.99")
    with pytest.raises(InputError, match=r"recall at least 0\.99 cannot be promised"):
        choose(experiment, "9h", out=tmp_path / "c", progress=False)
    assert not (tmp_path / "c").exists()


def test_trials_are_no_runs_to_report_and_changed_data_are_refused(quick, tmp_path):
    experiment = of_texts(tmp_path)
    controlled = dataclasses.replace(experiment, control="majority")
    choose(controlled, "9h", out=tmp_path / "c", progress=False)
    record = json.loads((tmp_path / "c/choose.json").read_text())
    assert len({trial["dev"] for trial in record["trials"]}) > 2  # no majority each
    jobs = finding.jobs_from([str(tmp_path / "c")])
    assert {Path(job.folder).parents[1].name for job in jobs} == {"confirm"}
    before = (tmp_path / "c/choose.json").read_bytes()
    lines = (tmp_path / "mine.csv").read_text().splitlines(keepends=True)
    (tmp_path / "mine.csv").write_text("".join(lines[:100] + lines[120:]))
    with pytest.raises(InputError, match=r"changed since.*; name another --out"):
        choose(experiment, "1s", out=tmp_path / "c", progress=False)
    assert (tmp_path / "c/choose.json").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "status"),
    [(["--budget", "soon"], 2), (["--budget", "0s"], 2), (["--help"], 0)],
)
def test_nothing_is_written_for_a_budget_that_is_no_time_or_for_help(
    tmp_path, monkeypatch, words, status
):
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path / "mine.csv")
    try:
        assert run(["choose", "mine.csv", "--scratch", *words]) == status
    except SystemExit as end:
        assert end.code == status
    assert sorted(x.name for x in tmp_path.iterdir()) == ["mine.csv"]


def test_experiment_file_is_written_for_data_and_used_again(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path / "mine.csv")
    called = []
    monkeypatch.setattr(
        "dicejax.cli.choose.Choose.__call__", lambda self, console: called.append(self)
    )
    words = ["choose", "--budget", "2m", "mine.csv", "--scratch"]
    assert run(words) == run([*words, "--training.epochs", "2"]) == 0
    assert [x.budget for x in called] == ["2m", "2m"]
    first, second = (x.settings for x in called)
    assert first.data.train == "mine.csv" and second.training.epochs == 2
    assert first == config.load("runs/mine/experiment.py")
    write_texts(tmp_path / "runs/mine.csv")
    capsys.readouterr()
    assert run(["choose", "runs/mine.csv"]) == 2
    assert "runs/mine/experiment.py: is for ./mine.csv" in capsys.readouterr().err
