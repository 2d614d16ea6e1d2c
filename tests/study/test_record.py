"""A page is drawn anew from `comparison.json` alone, byte by byte."""

import json
import shutil

import pytest

from dicejax.cli import run
from dicejax.objectives import CrossEntropy, Dice, Focal
from dicejax.study import compare as comparison
from dicejax.study import report
from dicejax.study.compare import record

from ..small_project import fails
from .made_runs import made
from .test_scores_file import EXAMPLES, RUNS, written

LOSSES = (CrossEntropy(), Dice(), Focal())


def files(folder):
    names = ("report.html", "report.md", "methods.txt", "table.tex", record.FILE)
    return {name: (folder / name).read_bytes() for name in names}


def redrawn(folder, empty):
    """Copy the record alone, draw its report, and return old and new files."""
    empty.mkdir()
    shutil.copy(folder / record.FILE, empty)
    assert run(["report", str(empty)]) == 0
    return files(folder), files(empty)


def test_the_report_of_runs_is_drawn_from_the_record_alone(tmp_path):
    folder, empty = tmp_path / "runs", tmp_path / "empty"
    jobs = made(folder, LOSSES, 3, skill=(0.7, 0.8, 0.6), rising=("dice",))
    shutil.rmtree(jobs[-1].folder)  # one that is missing
    report.write(comparison.evaluate_runs(jobs, str(folder)))
    before, after = redrawn(folder, empty)
    assert after == before and b"--training.epochs" in after["report.html"]
    assert (empty / "rerun.py").read_bytes() == (folder / "rerun.py").read_bytes()
    # Into another folder, which takes nothing of the runs.
    assert run(["report", str(empty), "--out", str(tmp_path / "b")]) == 0
    assert files(tmp_path / "b") == before


@pytest.mark.parametrize("columns", [RUNS, EXAMPLES, f"{EXAMPLES},group"])
def test_the_report_of_scores_is_drawn_from_the_record_alone(tmp_path, columns):
    scores = [(k, n, 50 + n + len(k), x) for k in ("ce", "wce") for n in range(3)
              for x in range(40 if columns != RUNS else 1)]  # fmt: skip
    rows = [("a", *row, row[3] // 4)[: columns.count(",") + 1] for row in scores]
    path = written(tmp_path / "scores.csv", rows, columns)
    comparison.compare_scores(path, out=str(tmp_path / "out"))
    before, after = redrawn(tmp_path / "out", tmp_path / "empty")
    assert after == before


def test_what_is_no_record_is_refused_in_one_line(tmp_path, capsys):
    jobs = made(tmp_path / "runs", LOSSES, 2)
    record_ = comparison.evaluate_runs(jobs, str(tmp_path / "runs")).to_json()
    file, words = tmp_path / record.FILE, ["report", str(tmp_path / "a")]
    file = tmp_path / "a" / record.FILE
    file.parent.mkdir()
    fails(capsys, words, "a: no run folders there")
    packed = record_["arrays"]["0"]
    flaws = ({"shape": [10**12]}, {"zlib": "?"}, {"stored": "object"})
    arrays = [record_["arrays"] | {"0": packed | flaw} for flaw in flaws]
    damaged = [{"arrays": {}}, {"looks": 1}, *({"arrays": x} for x in arrays)]
    changes = [({"version": 0}, "not a record of this version; run dicejax report on")]
    changes += [({"losses": {}}, "has no finished run")]
    for change, message in [*changes, *((x, "is damaged") for x in damaged)]:
        file.write_text(json.dumps(record_ | change))
        fails(capsys, words, message)
    file.write_text(json.dumps(record_))
    fails(capsys, [*words, "--margin", "1"], "--margin compares runs anew")
    assert run(words) == 0
