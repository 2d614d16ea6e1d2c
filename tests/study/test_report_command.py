"""`dicejax report` finds runs, refuses incomparable ones, and repeats compare."""

import dataclasses
import json
import shutil

from etils import epath

from dicejax import config
from dicejax.cli import run
from dicejax.data.examples import Sentence
from dicejax.io.files import write_checked
from dicejax.objectives import CrossEntropy, Dice, Focal, WeightedCrossEntropy
from dicejax.study import compare as comparison
from dicejax.study import report
from dicejax.study.compare.changed import quote
from dicejax.study.compare.finding import jobs_from

from .made_runs import EXPERIMENT, SENTENCES, made, record_of, run_of

LOSSES = (Focal(), Dice())
FILES = ("report.html", "report.md", "comparison.json", "rerun.py")


def error(capsys, *words):
    assert run(["report", *map(str, words)]) == 2
    return " ".join(capsys.readouterr().err.split())


def files(folder):
    return {name: (folder / name).read_bytes() for name in FILES}


def test_it_repeats_compare_byte_by_byte(tmp_path, capsys):
    jobs = made(tmp_path, LOSSES, 3)
    # As after one shard: two runs have never begun.
    for job in (jobs[1], jobs[8]):
        shutil.rmtree(job.folder)
    report.write(comparison.evaluate_runs(jobs, str(tmp_path)))
    before = files(tmp_path)
    for name in FILES:
        (tmp_path / name).unlink()
    assert run(["report", str(tmp_path)]) == 0
    assert files(tmp_path) == before
    # In any order of the folders.
    parts = [str(tmp_path / name) for name in ("focal", "ce", "dice")]
    assert run(["report", *parts]) == 0
    assert files(tmp_path) == before
    assert f"report in {tmp_path}/report.html" in capsys.readouterr().out


def test_texts_of_compare_stay_while_the_test_set_is_the_same(tmp_path):
    jobs = made(tmp_path, LOSSES, 1)
    texts = [Sentence((f"word-{n}",), (), n) for n in range(SENTENCES)]
    result = comparison.evaluate_runs(jobs, str(tmp_path))
    report.write(quote(result, lambda: texts))
    before = files(tmp_path)
    assert b"word-" in before["report.html"]
    assert run(["report", str(tmp_path)]) == 0  # which reads no data
    assert files(tmp_path) == before
    for job in jobs:
        folder = run_of(job)
        folder.write_result(folder.result() | {"checksums": {"test": "54321"}})
    assert run(["report", str(tmp_path)]) == 0
    assert "word-" not in (tmp_path / "report.html").read_text()
    damaged = json.loads(before["comparison.json"])
    damaged["changed"] = {"checksum": "54321", "texts": {"1": [1, None], "2": "x"}}
    (tmp_path / "comparison.json").write_text(json.dumps(damaged))
    assert run(["report", str(tmp_path)]) == 0


def test_compare_returns_what_the_command_writes(tmp_path):
    """The function reuses finished runs; nothing is trained."""
    folder = str(tmp_path)
    made(folder, LOSSES, 2)
    options = {"seeds": 2, "baselines": False, "out": folder}
    result = comparison.compare(EXPERIMENT, LOSSES, **options)
    assert (result.name, result.folder, result.unfinished) == ("conll03", folder, 0)
    assert result.report == f"{folder}/report.html" and result.primary_metric == "f1"
    assert set(result.verdicts) == {"focal", "dice"}
    assert "No verdict yet: 2 seeds, and it takes 3." in result.lines()[0]
    assert "no verdict: 2 seeds" in result.verdicts["dice"].sentence
    assert record_of(tmp_path)["looks"] == []
    assert result.table().row_count == 3
    ours, theirs = (x["losses"] for x in (result.to_json(), record_of(tmp_path)))
    assert ours["dice"]["summary"] == theirs["dice"]["summary"]
    assert comparison.compare_runs([folder]).verdicts == result.verdicts
    shutil.rmtree(tmp_path / "dice")
    shard = f"1/{len(comparison.jobs_of(EXPERIMENT, LOSSES, 2, folder))}"
    # Cross-entropy of the first seed alone.
    left = comparison.compare(EXPERIMENT, LOSSES, **options, shard=shard)
    assert (left.unfinished, left.report, left.rows) == (2, None, ())


def test_runs_lie_at_any_depth_and_missing_ones_are_listed(tmp_path):
    jobs = made(tmp_path / "a" / "b", LOSSES, 2)
    shutil.rmtree(jobs[-1].folder)
    (tmp_path / "a" / ".seed-9.partial").mkdir()
    (tmp_path / "a" / ".seed-9.partial" / "experiment.json").write_text("{")
    read, expected = (
        {(job.loss, job.seed, job.folder) for job in listed}
        for listed in (jobs_from([str(tmp_path)]), jobs)
    )
    assert read == expected


def test_another_baseline_and_folder_can_be_named(tmp_path, capsys):
    made(tmp_path / "runs", LOSSES, 2)
    out = tmp_path / "out"
    runs = str(tmp_path / "runs")
    assert run(["report", runs, "--out", str(out), "--baseline", "dice"]) == 0
    record = record_of(out)
    assert record["baseline"] == "dice"
    assert record["losses"]["dice"]["against_baseline"] is None
    assert record["losses"]["ce"]["against_baseline"] is not None
    assert not (tmp_path / "runs" / "report.html").exists()
    message = error(capsys, tmp_path / "runs", "--baseline", "ghm")
    assert "no run of ghm among these" in message and "ce, dice, focal" in message


def test_runs_of_several_experiments_are_refused(tmp_path, capsys):
    made(tmp_path / "one", LOSSES, 2)
    training = dataclasses.replace(EXPERIMENT.training, epochs=9)
    longer = dataclasses.replace(EXPERIMENT, training=training)
    made(tmp_path / "two", (CrossEntropy(),), 2, experiment=longer)
    message = error(capsys, tmp_path / "one", tmp_path / "two", "--out", tmp_path / "x")
    assert "in more than loss and seed: training.epochs was 3 and is 9" in message
    assert not (tmp_path / "x").exists()
    # The same run twice.
    made(tmp_path / "three", (CrossEntropy(),), 1)
    message = error(capsys, tmp_path / "one", tmp_path / "three")
    assert "is ce with seed 0, as" in message
    assert run(["report", str(tmp_path / "one"), str(tmp_path / "one" / "ce")]) == 0


def test_only_tuned_runs_may_differ_in_learning_rate(tmp_path, capsys):
    jobs = made(tmp_path, (Focal(), Dice(smooth=0.25)), 2)
    rate = dataclasses.replace(EXPERIMENT.optimizer, learning_rate=0.5)
    for job in (job for job in jobs if job.loss == "focal"):
        changed = config.to_json(dataclasses.replace(job.experiment, optimizer=rate))
        write_checked(epath.Path(job.folder), "experiment.json", changed)
    assert "optimizer.learning_rate was" in error(capsys, tmp_path)
    # Trials are no runs of the comparison, which names its losses.
    trials = [{"status": "finished", "dev": 0.5, "values": {"objective.gamma": 2.0}}]
    focal = {"varied": {}, "trials": trials, "chosen": 0}
    tuning = {"trials": 1, "primary_metric": "f1", "losses": {"focal": focal}}
    write_checked(epath.Path(tmp_path), "tuning.json", json.dumps(tuning))
    shutil.copytree(tmp_path / "focal", tmp_path / "tuning" / "focal")
    shutil.move(tmp_path / "dice-smooth=0.25", tmp_path / "dice")
    assert run(["report", str(tmp_path)]) == 0
    record = record_of(tmp_path)
    assert list(record["losses"]) == ["ce", "dice", "focal"]
    assert record["tuning"] == tuning
    (differs,) = record["rerun"]["differences"]
    assert differs.startswith("focal has its own settings: optimizer.learning_rate")


def test_tuned_class_weights_stay_a_control(tmp_path):
    made(tmp_path, (Focal(), WeightedCrossEntropy(k=1.67)), 3)
    shutil.move(tmp_path / "wce-k=1.67", tmp_path / "wce")  # as compare --tune names it
    tuning = {"trials": 1, "primary_metric": "f1", "losses": {}}
    write_checked(epath.Path(tmp_path), "tuning.json", json.dumps(tuning))
    assert run(["report", str(tmp_path)]) == 0
    losses = record_of(tmp_path)["losses"]
    assert [name for name, loss in losses.items() if loss["is_control"]] == ["wce"]
    assert set(losses) == {"ce", "focal", "wce"}


def test_folders_without_runs_are_one_line(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert "no run folders there" in error(capsys, tmp_path / "empty")
    assert "no such folder" in error(capsys, tmp_path / "none")
    assert "none is named" in error(capsys)
    made(tmp_path / "runs", LOSSES, 1)
    (tmp_path / "file").write_text("")
    words = [tmp_path / "runs", "--out", tmp_path / "file"]
    assert "cannot be written to" in error(capsys, *words)


def test_control_characters_of_a_loss_that_lacks_a_run_are_escaped(tmp_path, capsys):
    # Numbers of seeds that differ stand below the table, with the names of losses.
    runs = {"ce": [70, 71, 72], "di\x1b[31mce": [70, 71]}
    lines = [
        f"{name},{n},{x}" for name, all_ in runs.items() for n, x in enumerate(all_)
    ]
    path = tmp_path / "scores.csv"
    path.write_text("loss,seed,score\n" + "\n".join(lines) + "\n")
    argv = ["report", "--scores", str(path), "--out", str(tmp_path / "out")]
    assert run(argv) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed and r"di\x1b[31mce" in printed
