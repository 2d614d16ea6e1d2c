"""Edits of data files between two commands are said; files that only moved are not."""

import json
import shutil
import warnings

import numpy as np
import pytest
from etils import epath

import dicejax.training.train as training
from dicejax import cli, config
from dicejax.errors import InputError, Stopped
from dicejax.formats import ConllFiles
from dicejax.io import files
from dicejax.study import compare as comparison
from dicejax.study.compare.across import combined
from dicejax.study.compare.record import Comparison
from dicejax.study.compare.statistics import rows_of
from dicejax.tasks import Tagging
from dicejax.training.encoded import identity_of
from dicejax.training.inference import evaluate
from dicejax.training.processes import StopRequest
from dicejax.training.run_folder import Run

from .made_runs import outcome

SIZES = {"train": 30, "dev": 10, "test": 12}
CHANGES = {
    "one label": "1 of {n} sentences differs",
    "one text": "1 of {n} sentences differs",
    "order": "{n} sentences are in another order",
    "a sentence less": "1 of {n} sentences is gone",
}
SAME = ("a file moved", "saved again")
BEFORE = "their scores are of the data before"
BOTH = "--overwrite trains them again, --out NEW keeps them"


def sentences(split):
    rng = np.random.default_rng(sorted(SIZES).index(split))
    kinds = rng.integers(0, 2, SIZES[split])
    return [
        [(f"w{rng.integers(9)}", "O"), (f"n{kind}", f"B-{'AB'[kind]}"), (f"i{n}", "O")]
        for n, kind in enumerate(kinds)
    ]


def written(file, blocks, end="\n"):
    rows = (end.join(f"{word} {tag}" for word, tag in block) for block in blocks)
    file.write_bytes((end * 2).join(rows).encode() + end.encode())


def experiment(folder, **names):
    return config.Experiment(
        name="small",
        data=ConllFiles(dir=str(folder), **names),
        task=Tagging(),
        encoder=config.ScratchEncoder(
            hidden_size=8, intermediate_size=8, num_attention_heads=2, vocab_size=60
        ),
        training=config.Training(epochs=1, batch_size=10, max_length=16),
        recording=config.Recording(checkpoint_every=1),
    )


def edited(folder, split, edit):
    """Edit a file, and return the experiment that reads it."""
    blocks, file = sentences(split), folder / f"{split}.txt"
    match edit:
        case "one label":
            blocks[3][0] = (blocks[3][0][0], "B-A")
        case "one text":
            blocks[3][0] = ("other", "O")
        case "order":
            blocks.reverse()
        case "a sentence less":
            del blocks[-1]
        case "a file moved":
            file.rename(folder / "elsewhere.txt")
            return experiment(folder, **{split: "elsewhere.txt"})
    written(file, blocks, end="\r\n" if edit == "saved again" else "\n")
    return experiment(folder)


class Said:
    """What the last command printed or refused."""

    def __init__(self, capsys):
        self._capsys = capsys

    def __call__(self, act):
        self._capsys.readouterr()
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                act()
        except Begun:
            return "trains", self._capsys.readouterr().err
        except InputError as error:
            return "refused", str(error)
        texts = [str(each.message) for each in caught]
        return "done", self._capsys.readouterr().err + "\n".join(texts)


class Begun(Exception):
    """A command has begun to train."""


def begun(*inputs, **settings):
    raise Begun


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a folder with data, a comparison of them, and a run that was stopped."""
    root = tmp_path_factory.mktemp("project")
    (root / "data").mkdir()
    for split in SIZES:
        written(root / "data" / f"{split}.txt", sentences(split))
    first = experiment(root / "data")
    comparison.compare(first, ["ce"], seeds=2, baselines=False, out=root / "cmp")
    with pytest.MonkeyPatch.context() as patched:

        def stop(self, step):
            raise Stopped(step, 15)

        patched.setattr(StopRequest, "after", stop)
        with pytest.raises(Stopped):
            training.train(first, root / "stopped")
    return root


def with_other_seed(folder, origin, made_of):
    """Copy a run as one of seed 2 that was trained on other data."""
    shutil.copytree(origin, folder)
    run = Run(epath.Path(folder))
    content = json.loads((folder / "experiment.json").read_text())
    content["training"]["seed"] = 2
    files.write_checked(run.path, "experiment.json", json.dumps(content))
    run.write_identity(made_of)
    run.write_result(run.result() | {"checksums": made_of.checksums})


def interval(folder, checksums):
    """Write what `--across` reads of a comparison."""
    runs = [
        outcome(loss, seed, np.arange(100) % n > seed, checksums=checksums)
        for loss, n in (("ce", 5), ("dice", 9))
        for seed in range(3)
    ]
    record = Comparison(name="x", rows=tuple(rows_of(runs, "ce"))).to_json()
    folder.mkdir()
    (folder / "comparison.json").write_text(json.dumps(record))


@pytest.fixture
def answers(project, tmp_path, monkeypatch, capsys):
    """Return a function that edits a split, and asks every command about it."""
    monkeypatch.setattr(comparison.report, "write", lambda x: x)

    def ask(split, edit):
        data, cmp, stopped = (tmp_path / x for x in ("data", "cmp", "stopped"))
        for folder in (data, cmp, stopped):
            shutil.copytree(project / folder.name, folder)
        for run in (*(cmp / "ce").iterdir(), stopped):  # they were trained here
            content = json.loads((run / "experiment.json").read_text())
            content["data"]["dir"] = str(data)
            text = json.dumps(content)
            files.write_checked(epath.Path(run), "experiment.json", text)
        now, said = edited(data, split, edit), Said(capsys)
        made_of = identity_of(now)

        def compare(losses=("ce",), seeds=2):
            with monkeypatch.context() as patched:
                if len(losses) > 1 or seeds > 2:
                    patched.setattr(comparison, "train_all", begun)
                options = {"baselines": False, "out": cmp, "progress": True}
                comparison.compare(now, losses, seeds=seeds, **options)

        def resume():
            with monkeypatch.context() as patched:
                patched.setattr(training, "Checkpoints", begun)
                training.train(now, stopped, progress=True)

        def report():
            with_other_seed(tmp_path / "seed-2", cmp / "ce" / "seed-0", made_of)
            paths = [str(cmp / "ce"), str(tmp_path / "seed-2")]
            comparison.compare_runs(paths, out=str(tmp_path / "out"))

        def across():
            before = Run(epath.Path(cmp / "ce" / "seed-0")).identity()
            for name, each in {"a": before, "b": made_of}.items():
                interval(tmp_path / name, each.checksums)
            combined([str(tmp_path / "a"), str(tmp_path / "b")])

        moved = str(data) if edit != "a file moved" else str(project / "data")
        acts = {
            "compare again": compare,
            "with a new loss": lambda: compare(("ce", "focal")),
            "more seeds": lambda: compare(seeds=4),
            "train again": lambda: training.train(
                now, cmp / "ce" / "seed-0", progress=True
            ),
            "resume": resume,
            "evaluate": lambda: evaluate(cmp / "ce" / "seed-0", split, data=moved),
            "report": lambda: comparison.compare_runs([str(cmp)]),
            "report both": report,
            "--across": across,
        }
        return {name: said(act) for name, act in acts.items()}

    return ask


@pytest.mark.parametrize("edit", CHANGES)
@pytest.mark.parametrize("split", SIZES)
def test_an_edit_is_said_by_every_command(answers, split, edit):
    what = CHANGES[edit].format(n=SIZES[split])
    seeds = f"{split} has changed since seed-0 to seed-1 of ce: {what}"
    since = f"{split} has changed since the run: {what}"
    said = answers(split, edit)
    for name, (status, text) in said.items():
        line = next((x for x in text.splitlines() if "has changed" in x), text)
        print(f"{split:5} | {edit:15} | {name:15} | {status:7} | {line[-150:]}")
    assert said["compare again"][0] == "done"
    assert f"note: {seeds}; {BEFORE}; {BOTH}" in said["compare again"][1]
    for name in ("with a new loss", "more seeds"):
        assert said[name] == ("refused", f"{seeds}; {BOTH}")
    status, text = said["train again"]
    assert status == "done" and f"{since}; its scores are of the data before" in text
    status, text = said["resume"]
    assert status == ("trains" if split == "test" else "refused")
    assert f"{split} has changed since the run began: {what}" in text
    status, text = said["evaluate"]
    assert status == "done" and f"{since}; the scores in its result.json" in text
    status, text = said["report"]
    assert status == "done"
    assert text == f"{seeds}; {BEFORE}; dicejax compare with {BOTH.split(', ')[0]}"
    status, text = said["report both"]
    assert status == "refused"
    assert f"{split} of seed-2 of ce is not that of seed-0 to seed-1 of ce" in text
    # Where test is another, it is another data set.
    assert said["--across"][0] == ("done" if split == "test" else "refused")


@pytest.mark.parametrize("edit", SAME)
@pytest.mark.parametrize("split", SIZES)
def test_a_file_of_the_same_content_is_the_same_data(answers, split, edit):
    said = answers(split, edit)
    trains = ("with a new loss", "more seeds", "resume")
    for name, (status, text) in said.items():
        print(f"{split:5} | {edit:15} | {name:15} | {status:7} |")
        if name != "--across":
            assert status == ("trains" if name in trains else "done"), (name, text)
            assert "has changed" not in text
    assert said["--across"][0] == "refused"
    assert "b: has the test set of " in said["--across"][1]


@pytest.mark.parametrize("why", ["moved", "an address"])
def test_a_report_is_written_where_the_data_cannot_be_read(
    project, tmp_path, monkeypatch, capsys, why
):
    shutil.copytree(project / "cmp", tmp_path / "cmp")
    shutil.copytree(project / "data", tmp_path / "data")
    place = str(tmp_path / "data") if why == "moved" else "gs://elsewhere/data"
    for run in (tmp_path / "cmp" / "ce").iterdir():
        content = json.loads((run / "experiment.json").read_text())
        content["data"]["dir"] = place
        files.write_checked(epath.Path(run), "experiment.json", json.dumps(content))
    (tmp_path / "data").rename(tmp_path / "away")
    load = ConllFiles.load
    monkeypatch.setattr(
        *(ConllFiles, "load"),
        lambda self: pytest.fail("fetched") if "gs:" in self.dir else load(self),
    )
    assert cli.run(["report", str(tmp_path / "cmp"), "--out", str(tmp_path / "o")]) == 0
    assert (tmp_path / "o" / "report.html").exists()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("note: the data or the encoder of these runs cannot be read")


def test_a_file_that_is_restored_makes_the_folder_whole(project, tmp_path):
    shutil.copytree(project / "data", tmp_path / "data")
    shutil.copytree(project / "cmp", tmp_path / "cmp")
    first = experiment(tmp_path / "data")
    before = sorted(str(x) for x in (tmp_path / "cmp").rglob("*"))
    options = {"baselines": False, "out": tmp_path / "cmp"}
    with pytest.raises(InputError, match=r"^train has changed since seed-0 to seed-1"):
        now = edited(tmp_path / "data", "train", "order")
        comparison.compare(now, ["ce"], **options)
    assert sorted(str(x) for x in (tmp_path / "cmp").rglob("*")) == before
    written(tmp_path / "data" / "train.txt", sentences("train"))
    rows = comparison.compare(first, ["ce"], seeds=2, **options).rows
    assert [row.count("missing") for row in rows] == [0]


def test_a_run_killed_before_its_first_checkpoint_takes_the_data_of_now(
    project, tmp_path, monkeypatch
):
    shutil.copytree(project / "data", tmp_path / "data")
    with monkeypatch.context() as patched:
        patched.setattr(training, "Checkpoints", begun)
        with pytest.raises(Begun):
            training.train(experiment(tmp_path / "data"), tmp_path / "run")
    labels = json.loads((tmp_path / "run" / "labels.json").read_text())
    assert labels == ["O", "B-A", "I-A", "B-B", "I-B"]
    (tmp_path / "data" / "train.txt").write_text("a B-C\nb O\n\n" * 9)
    now = experiment(tmp_path / "data")
    result = training.train(now, tmp_path / "run", score_test=False)
    labels = json.loads((tmp_path / "run" / "labels.json").read_text())
    assert labels == ["O", "B-C", "I-C"]
    assert result.checksums == identity_of(now).checksums


def test_runs_without_checksums_are_used_and_named(project, tmp_path):
    shutil.copytree(project / "cmp", tmp_path / "cmp")
    folder = tmp_path / "cmp" / "ce" / "seed-1"
    run, old = Run(epath.Path(folder)), {"test_data": 7}
    result = json.loads((folder / "result.json").read_text())
    del result["checksums"]
    run.write_result(result | old)
    (folder / "data.json").unlink()
    sums = (folder / "SHA256SUMS").read_text().splitlines(keepends=True)
    rest = (line for line in sums if not line.endswith(" data.json\n"))
    (folder / "SHA256SUMS").write_text("".join(rest))
    made = comparison.compare_runs([str(tmp_path / "cmp")])
    assert any(
        line.startswith("warning: 1 of 2 runs is of a version that kept no checksums")
        and line.endswith("known: ce seed 1.")
        for line in made.lines()
    )
    run.write_result(result | {"test_data": 7})
    first = Run(epath.Path(folder.parent / "seed-0"))
    first.write_result(result | {"test_data": 8})
    with pytest.raises(InputError, match=r"^encoded test of seed-1 of ce is not that"):
        comparison.compare_runs([str(tmp_path / "cmp")])
