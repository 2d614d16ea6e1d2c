"""Damaged, changed, looping and deleted run folders end in one line, status 2."""

import hashlib
import json
import os
import shutil

import pytest
from etils import epath

import dicejax.training.train as training
from dicejax import config
from dicejax.cli import run
from dicejax.errors import InputError
from dicejax.objectives import CrossEntropy, Dice
from dicejax.study.compare.finding import jobs_from
from dicejax.training.checkpoint import Checkpoints
from dicejax.training.run_folder import Run
from dicejax.training.train import default_folder, train

from ..small_project import fails, write_project
from ..study.made_runs import EXPERIMENT as MADE
from ..study.made_runs import made
from .mutations import damage

SHORT = ["--training.epochs", "1", "--training.log_every", "1"]
READ_BY_ALL = ("evaluate", "predict", "export", "report", "train")
READ_BY = {
    "experiment.json": READ_BY_ALL,
    "SHA256SUMS": READ_BY_ALL,
    "result.json": ("evaluate", "predict", "report", "train"),
    "labels.json": READ_BY_ALL,
    "encoder.json": ("evaluate", "predict", "export", "train"),
    "tokenizer.json": ("evaluate", "predict", "export", "train"),
    "data.json": ("evaluate", "train"),
    "test_statistics.npz": ("report",),
    "test_scores.npz": ("report",),
    "metrics.jsonl": ("report",),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a folder with an experiment and a finished run of it."""
    folder = write_project(tmp_path_factory.mktemp("trained"))
    words = ["train", str(folder / "mine.py"), "--out", str(folder / "run"), *SHORT]
    assert run(words) == 0
    return folder


@pytest.fixture
def folder(trained, tmp_path, monkeypatch):
    """Return a copy that a test may damage, as working folder."""
    shutil.copytree(trained / "run", tmp_path / "run")
    shutil.copy(trained / "mine.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def words(command):
    return {
        "evaluate": ["evaluate", "run"],
        "predict": ["predict", "run", "Anna lives in Oslo"],
        "export": ["export", "run", "exported"],
        "report": ["report", "run", "--baseline", "ce"],
        "train": ["train", "mine.py", "--out", "run", *SHORT],
    }[command]


def flip(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


CHANGES = {
    "flip": flip,
    "cut": lambda content: content[:-20],
    "empty": lambda content: b"",
    "not UTF-8": lambda content: b"\xff" + content,
    "too deep": lambda content: b"[" * 100_000 + b"]" * 100_000,
    "5000 digits": lambda content: b'{"step": ' + b"9" * 5000 + b"}\n",
    "another kind": lambda content: b'[{"x": 1}]\n',
}
PLACED = ("folder", "pipe", "link to itself", "missing")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(
            name,
            kind,
            marks=[]
            if name == "labels.json" or kind in ("flip", "folder", "missing")
            else [pytest.mark.exhaustive],
        )
        for name in READ_BY
        for kind in (*CHANGES, *PLACED)
    ],
)
def test_a_damaged_file_of_a_run_is_named_in_one_line(folder, capsys, name, kind):
    if name == "SHA256SUMS" and kind in ("flip", "cut", "not UTF-8"):
        kind = "empty"  # else only the files of some lines are refused
    damage(folder / name, CHANGES.get(kind, kind))
    for command in READ_BY[name]:
        message = f"run/{name}"
        if name == "SHA256SUMS" and (folder / name).is_file():
            message = "run/"  # the first file that is not listed
        if not (folder / name).exists():
            if name == "experiment.json":  # no run
                message = "run"
            if name == "result.json":  # a run that has not finished
                if command in ("report", "train"):
                    continue
                message = "run: the run did not finish (no result.json)"
        capsys.readouterr()
        fails(capsys, words(command), message)
    assert not (folder.parent / "exported").exists()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("encoder.json", '"layer_norm_eps": 1e-12', '"layer_norm_eps": 0.1'),
        ("labels.json", '"B-LOC"', '"B-ORG"'),
        ("tokenizer.json", '"lowercase": ', '"lowercase":  '),
        ("experiment.json", '"max_length": 32', '"max_length": 8'),
        ("result.json", '"test": {', '"test":  {'),
    ],
)
def test_a_well_formed_change_gives_no_other_score(folder, capsys, name, old, new):
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))
    fails(capsys, words("evaluate"), f"run/{name}: has changed since it was written")


def test_a_change_that_is_meant_counts_with_the_sum_of_sha256sum(folder, capsys):
    file = folder / "SHA256SUMS"
    sums = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in READ_BY
        if name != file.name
    }
    lines = [f"{digest}  {name}" for name, digest in sums.items()]
    assert sorted(file.read_text().splitlines()) == sorted(lines)
    labels = folder / "labels.json"
    labels.write_text(json.dumps(json.loads(labels.read_text())))
    after = hashlib.sha256(labels.read_bytes()).hexdigest()
    assert after != sums[labels.name]
    fails(capsys, words("predict"), "if the change is meant, put the new sum there")
    file.write_text(file.read_text().replace(sums[labels.name], after))
    assert run(words("predict")) == 0


def test_baselines_that_were_deleted_are_missed(tmp_path, capsys):
    jobs = made(tmp_path / "runs", [Dice()], 2)
    for job in jobs:
        if job.loss == "ce":
            finished = Run(epath.Path(job.folder))
            control = {"value": 1.0, "dev_score": 0.5}
            control |= {"test": finished.result()["test"]}
            control |= {"example_statistics": finished.example_statistics()}
            finished.write_baselines({"logit adjustment": control})
    assert run(["report", str(tmp_path / "runs")]) == 0
    assert "logit adjustment" in (tmp_path / "runs/report.md").read_text()
    (tmp_path / "runs/ce/seed-0/baselines.json").unlink()
    capsys.readouterr()
    fails(capsys, ["report", str(tmp_path / "runs")], "baselines.json: missing")


def test_report_ends_in_a_folder_with_links_to_itself(tmp_path):
    jobs = made(tmp_path / "runs", [Dice()], 1)
    for name in ("one", "two"):
        (tmp_path / "runs" / name).symlink_to(tmp_path / "runs")
    (tmp_path / "runs" / "ce" / "same").symlink_to(jobs[0].folder)
    jobs = jobs_from([str(tmp_path / "runs")])
    assert sorted(job.loss for job in jobs) == ["ce", "dice"]


@pytest.mark.parametrize("when", ["epoch", "test"])
def test_a_run_folder_deleted_while_it_trains_is_an_error(folder, monkeypatch, when):
    experiment = config.load("mine.py")
    settings = config.dataclasses.replace(experiment.training, epochs=2)
    experiment = config.dataclasses.replace(experiment, training=settings)
    save, score = Checkpoints.save, training.score_test_split

    def save_and_delete(checkpoints, *args):
        save(checkpoints, *args)
        checkpoints.wait()
        shutil.rmtree("gone")

    def score_and_delete(*args):
        scores = score(*args)
        shutil.rmtree("gone")
        return scores

    with monkeypatch.context() as patch:
        if when == "epoch":
            patch.setattr(Checkpoints, "save", save_and_delete)
        else:
            patch.setattr(training, "score_test_split", score_and_delete)
        with pytest.raises(InputError, match="run the same command again"):
            train(experiment, "gone")
    assert not os.path.exists("gone/result.json")
    assert train(experiment, "gone").steps


NAMES = ("../../x", "/tmp/x", "", ".", "..", ".hidden", "a/b", "a\0b", "a\nb", "\x1b[m")


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_an_experiment_cannot_leave_runs(name):
    with pytest.raises(InputError, match=r"^name is '"):
        config.dataclasses.replace(MADE, name=name)
    content = json.loads(config.to_json(MADE)) | {"name": name}
    with pytest.raises(InputError, match=r"experiment.json: not an experiment: .*name"):
        config.from_json(json.dumps(content))


def test_no_other_name_leaves_runs(folder, capsys):
    objective = CrossEntropy(output="../../../x")
    with pytest.raises(InputError, match=r"^loss is 'ce-output="):
        default_folder(config.dataclasses.replace(MADE, objective=objective))
    fails(capsys, ["train", "mine.py", "--name", "../../x"], "name is '../../x'; ")


def test_a_resumed_run_names_a_changed_log(folder, capsys):
    """Its records are kept as they are; those after the checkpoint come again."""
    train = [*words("train"), "--training.epochs", "2", "--out", "again"]
    assert run(train) == 0
    os.unlink("again/result.json")
    text = epath.Path("again/metrics.jsonl").read_text()
    capsys.readouterr()
    assert run(train) == 0
    assert "has changed" not in capsys.readouterr().err
    assert epath.Path("again/metrics.jsonl").read_text() == text
    os.unlink("again/result.json")
    epath.Path("again/metrics.jsonl").write_text(
        text.replace('"epoch": 0', '"epoch": 7')
    )
    assert run(train) == 0
    errors = " ".join(capsys.readouterr().err.split())
    assert "again/metrics.jsonl: has changed since the checkpoint of step" in errors
