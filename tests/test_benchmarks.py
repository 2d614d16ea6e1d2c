"""Every program in benchmarks/ runs; the queue for an accelerator keeps its rows."""

import importlib
import json
import math
import re
import sys
from pathlib import Path

import pytest

from . import newcomer
from .documented import SMALLER, SMALLER_SCRATCH, SMALLER_SYNTHETIC, write_encoder
from .kinds import exhaustive_but

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
SIZES = SMALLER + SMALLER_SCRATCH + SMALLER_SYNTHETIC
SMALL = [str(ROOT / "experiments" / "quickstart.py"), *SIZES.split()]
# Each kind of section; the rest are of other models. By default the values of the
# kernels and the queue's end, and two tables of encoders: each compiles for seconds.
SECTIONS = ("full-bert-large", "flags", "right", "fast-bert-base", "attention", "tune")
FEW = {"accelerator": "--sections planned", "encoders": "--tables speed memory"}
# The other arguments of each program, and what its output must contain.
PROGRAMS = {
    "accelerator": (
        ["--sections", *SECTIONS, "planned", "--seconds", "3600", "--out", "OUT"],
        "planned: finished",
    ),
    "accumulation": ([], "one pass"),
    "analysis": (SMALL, "an analysis is"),
    "comparison": (SMALL, "read and encode"),
    "encoders": ([], "BERT"),
    "guarantees": ([], "broken as documents"),
    "hops": ([], "compare, from its last run"),
    "input": (["DATA"], "pairs, MRPC"),
    "losses": ([], "lovasz"),
    "memory": (SMALL, "planned / added"),
    "planned_steps": ([], "all-reduce"),
    "ranking": ([], "AP, logistic of log-odds"),
    "verdicts": ([], "valid at all looks"),
    "train_tokens": (["MODEL", "CONLL"], "dicejax float32"),
}
NEED_TORCH = {"encoders", "train_tokens"}
# They train in several processes, or compile what tests/planning compiles too.
# The calls of `hops` are counted in two processes that train and compare.
LONG = {"accumulation", "hops", "planned_steps", "train_tokens"}
# Not a separate program: the PyTorch side of another.
RIVALS = {"torch_tagger"}


def load(name, monkeypatch):
    """Import a program, with its neighbours importable."""
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setitem(sys.modules, name, None)  # forgotten after the test
    del sys.modules[name]
    return importlib.import_module(name)


def test_every_program_is_run():
    assert {file.stem for file in FOLDER.glob("*.py")} == PROGRAMS.keys() | RIVALS


@pytest.mark.slow
@pytest.mark.parametrize("name", exhaustive_but(PROGRAMS.keys() - LONG, PROGRAMS))
def test_a_program_runs_at_its_smallest(name, tmp_path, monkeypatch, capsys, request):
    if name == "planned_steps":
        pytest.importorskip("libtpu", reason="plan-tpu: pip install -e '.[plan-tpu]'")
    if name in NEED_TORCH:
        pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")
    argv, part = PROGRAMS[name]
    argv = ["--smallest", *argv]
    if "OUT" in argv:
        argv[-1] = str(tmp_path)
    if not request.config.getoption("exhaustive"):
        argv += FEW.get(name, "").split()
    if "DATA" in argv:
        argv[-1] = str(request.getfixturevalue("data_folder"))
    if "MODEL" in argv:
        write_encoder(tmp_path / "model")
        for split in ("train", "dev", "test"):
            newcomer.write(tmp_path / f"{split}.txt", sentences=200)
        argv[-2:] = [str(tmp_path / "model"), str(tmp_path)]
    assert not load(name, monkeypatch).main(argv)
    assert part in capsys.readouterr().out


def test_programs_and_their_page_agree():
    page = (FOLDER / "README.md").read_text()
    for name in PROGRAMS:
        assert f"## {name}.py" in page
        head = (FOLDER / f"{name}.py").read_text().split('"""')[1]
        assert re.search(
            rf"^usage: +python benchmarks/{name}\.py.*--smallest", head, re.M
        )


# Each adds a row, and then ends in another way.
ENDINGS = {
    "ends": "",
    "fails": "raise ValueError('bad luck')",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "hangs": "time.sleep(600)",
    "wrong": (
        "ones = jax.numpy.ones\n"
        "    report.attempt(lambda: {'sum': ones(1 << 48).sum().item()}, of='large')\n"
        "    report.attempt(lambda: {'sum': ones(8).sum().item()}, of='small')\n"
        "    report.attempt(lambda: {'sum': 1.0}, needs=1000, of='slow')\n"
        "    report.row(holds=False)"
    ),
}


@pytest.fixture
def queue(monkeypatch, tmp_path):
    """Return the program, with sections that end in all these ways."""
    program = load("accelerator", monkeypatch)
    for name, ending in ENDINGS.items():
        (tmp_path / f"{name}.py").write_text(
            "import os, signal, time, jax\n\n\ndef run(report):\n"
            f"    report.row(of='first')\n    {ending}\n"
        )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    sections = {name: program.Section(name, 60) for name in ENDINGS}
    monkeypatch.setattr(program, "SECTIONS", sections)
    return program


@pytest.mark.slow
def test_a_section_that_ends_badly_leaves_its_rows_and_the_next_one_begins(
    queue, tmp_path, capsys
):
    out = tmp_path / "out"
    others = [name for name in ENDINGS if name != "hangs"]
    assert queue.main(["--cpu", "--out", str(out), "--sections", *others]) == 1
    # Three times as long as it takes to begin and to end, also on a busy machine.
    limit = math.ceil(3 * json.loads((out / "ends.json").read_text())["seconds"])
    queue.run("hangs", queue.Settings(out=out), limit)
    files = {name: json.loads((out / f"{name}.json").read_text()) for name in ENDINGS}
    states = {name: content["status"] for name, content in files.items()}
    assert states == {
        "ends": "finished",
        "fails": "exit status 1",
        "killed": "killed by SIGKILL",
        "hangs": f"stopped after {limit} s",
        "wrong": "finished, 1 rows do not hold",
    }
    for content in files.values():
        assert content["rows"][0] == {"of": "first"}
        assert content["card"] == "cpu"
    assert files["fails"]["error"] == "ValueError: bad luck"
    large, small, slow, _ = files["wrong"]["rows"][1:]
    assert "RESOURCE_EXHAUSTED" in large["error"]
    assert small == {"of": "small", "sum": 8.0}
    assert slow["error"].startswith("skipped, ")
    assert "killed: killed by SIGKILL" in capsys.readouterr().out


def test_without_an_accelerator_or_a_known_section_nothing_is_measured(
    queue, tmp_path, capsys
):
    assert queue.main(["--out", str(tmp_path / "out")]) == 2
    assert "JAX sees no accelerator" in capsys.readouterr().out
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["machine.json"]
    assert queue.main(["--sections", "ends", "quick"]) == 2
    assert "no section quick; want ends, fails" in capsys.readouterr().out
