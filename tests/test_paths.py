"""Paths of experiment files, from the working folder and from elsewhere."""

import os

import pytest

from dicejax import config
from dicejax.cli import run
from dicejax.io import paths

from .small_project import CORPUS, fails

FILE = """
from dicejax.config import Experiment, {encoder_class}
from dicejax.formats import ConllFiles


def get_config():
    return Experiment(
        name="small", data=ConllFiles(dir={dir!r}), encoder={encoder_class}({path})
    )
"""


def write(folder, dir, encoder=None):
    """Write `mine/experiment.py` in a folder."""
    path = "" if encoder is None else f"path={encoder!r}"
    name = "ScratchEncoder" if encoder is None else "PretrainedEncoder"
    (folder / "mine").mkdir(parents=True)
    text = FILE.format(dir=dir, encoder_class=name, path=path)
    (folder / "mine" / "experiment.py").write_text(text)


def put_data(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("train", "dev", "test"):
        (folder / f"{name}.txt").write_text(CORPUS)


@pytest.mark.parametrize("dir", [".", "data", "../shared"])
def test_a_path_is_found_from_any_folder(tmp_path, monkeypatch, dir):
    write(tmp_path / "project", dir, "../model")  # as `init` in the project does
    (tmp_path / "model").mkdir()
    put_data(tmp_path / "project" / dir)
    (tmp_path / "elsewhere").mkdir()
    for folder, file in [
        ("project", "mine/experiment.py"),
        ("project/mine", "experiment.py"),
        ("elsewhere", "../project/mine/experiment.py"),
        ("elsewhere", str(tmp_path / "project/mine/experiment.py")),
    ]:
        monkeypatch.chdir(tmp_path / folder)
        experiment = config.load(file)
        assert os.path.samefile(experiment.data.dir, tmp_path / "project" / dir)
        assert os.path.samefile(experiment.encoder.path, tmp_path / "model")
        assert len(experiment.data.load().train) == 3
        if folder == "project":  # as it is in the file
            assert (experiment.data.dir, experiment.encoder.path) == (dir, "../model")


def test_the_working_folder_comes_first(tmp_path, monkeypatch):
    write(tmp_path / "project", "data")
    put_data(tmp_path / "project" / "mine" / "data")
    put_data(tmp_path / "elsewhere" / "data")
    monkeypatch.chdir(tmp_path / "elsewhere")
    file = "../project/mine/experiment.py"
    assert config.load(file).data.dir == "data"
    (tmp_path / "elsewhere" / "data" / "train.txt").unlink()  # which names no data
    assert config.load(file).data.dir == "../project/mine/data"


def test_what_is_nowhere_is_said_with_the_folders_tried(tmp_path, monkeypatch, capsys):
    write(tmp_path / "a" / "project", "nowhere", "../model")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    file = str(tmp_path / "a/project/mine/experiment.py")
    tried = [tmp_path / x for x in ("elsewhere", "a/project/mine", "a/project", "a")]
    listed = ", ".join(map(str, tried))
    fails(capsys, ["profile", file], f"../model: not a folder in {listed}; name a")
    argv = ["train", file, "--scratch"]
    fails(capsys, argv, f"nowhere: no such folder in {listed}; name the one")


def test_a_folder_without_the_file_is_no_place_of_it(tmp_path, monkeypatch, capsys):
    write(tmp_path / "a" / "project", ".")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    tried = [tmp_path / x for x in ("elsewhere", "a/project/mine", "a/project", "a")]
    message = f"train.txt: no such file in {', '.join(map(str, tried))}; check"
    fails(capsys, ["profile", str(tmp_path / "a/project/mine/experiment.py")], message)


def test_a_path_of_no_file_names_the_working_folder(tmp_path, monkeypatch, capsys):
    write(tmp_path / "project", "data")
    put_data(tmp_path / "project" / "data")
    monkeypatch.chdir(tmp_path / "project")
    argv = ["train", "mine/experiment.py", "--data.dir", "other", "--out", "r"]
    fails(capsys, argv, f"other: no such folder in {tmp_path / 'project'}; name")
    assert run(["train", "mine/experiment.py", "--data.dir", "/no"]) == 2
    assert "/no: no such folder; name" in capsys.readouterr().err
    assert paths.tried("gs://bucket/data") == ""
