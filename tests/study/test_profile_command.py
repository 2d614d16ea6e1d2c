"""`dicejax profile`: tables, JSON, pictures, refusals."""

import warnings

import pytest

from dicejax.cli import run
from dicejax.config import Experiment
from dicejax.formats import ConllFiles
from dicejax.study.profile import from_json, profile, report

from ..small_project import fails
from .made_runs import write_splits


@pytest.fixture
def files(project, monkeypatch):
    """A project with a type of entities in its dev split alone."""
    monkeypatch.setenv("COLUMNS", "100")
    (project / "data/dev.txt").write_text("Anna B-PER\nlikes O\nACME B-ORG\n")
    return project


def test_the_command_prints_tables_and_a_histogram(files, capsys):
    assert run(["profile", "mine.py", "--loss", "dsc", "--rare", "99"]) == 0
    printed = capsys.readouterr()
    parts = ["small: Tagging, rows of 32 pieces", "O : all others", "B-PER"]
    parts += ["effective", "fewer than 99 in train", "not in train", "█"]
    assert [part for part in parts if part not in printed.out] == []
    assert "packing saves a factor of" in printed.out
    assert "note: dev has 1 'ORG' span" in printed.err
    assert max(map(len, printed.out.splitlines())) <= 100
    assert run(["profile", "mine.py", "--split", "dev", "--training.seed", "1"]) == 0
    assert "output tags, dev" in capsys.readouterr().out
    assert sorted(path.name for path in files.iterdir()) == ["data", "mine.py"]


def test_the_command_prints_json_or_writes_files(files, capsys):
    assert run(["profile", "mine.py", "--json", "--training.max_length", "16"]) == 0
    result = from_json(capsys.readouterr().out)
    assert result.max_length == 16 and set(result.splits) == {"train", "dev", "test"}
    folder, pictures = files / "there/it/is", []
    for _ in range(2):
        assert run(["profile", "mine.py", "--out", "there/it/is"]) == 0
        assert "profile.png and profile.svg in there/it/is" in capsys.readouterr().out
        pictures.append((folder / "profile.svg").read_bytes())
    assert from_json((folder / "profile.json").read_text()).name == "small"
    assert (folder / "profile.png").read_bytes().startswith(b"\x89PNG")
    assert b"</svg>" in pictures[0] and pictures[0] == pictures[1]


def test_any_label_can_be_drawn(tmp_path):
    names = ["体育", "$x$", "[b]", "Ω_{2}", "a" * 60, *(f"t{n}" for n in range(80))]
    text = "".join(f"word B-{label}\nother O\n\n" for label in names)
    data = ConllFiles(dir=write_splits(tmp_path, text))
    result = profile(Experiment(name="体育 $1_$", data=data), lambda text: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report.write(result, "train", str(tmp_path / "out"))
    assert (tmp_path / "out/profile.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        ([], "wants an experiment file"),
        (["mine.py", "--rare", "-1"], "rare is -1"),
        (["mine.py", "--out", "mine.py"], "mine.py: cannot be made a folder"),
        (["mine.py", "--objective.output", "tgas"], "'tags'; did you mean tags?"),
    ],
)
def test_bad_input_ends_in_one_line(project, capsys, argv, part):
    fails(capsys, ["profile", *argv], part)
