"""The queue for an accelerator keeps what is finished, however a section ends."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
# Each adds a row, and then ends in another way.
ENDINGS = {
    "ends": "",
    "fails": "raise ValueError('bad luck')",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "hangs": "time.sleep(60)",
    "lacks_memory": (
        "ones = jax.numpy.ones\n"
        "    report.attempt(lambda: {'sum': ones(1 << 48).sum().item()}, of='large')\n"
        "    report.attempt(lambda: {'sum': ones(8).sum().item()}, of='small')"
    ),
    "late": "report.attempt(lambda: {'sum': 1.0}, needs=1000, of='slow')",
    "wrong": "report.row(holds=False)",
}


@pytest.fixture
def queue(monkeypatch, tmp_path):
    """Return the program, with sections that end in all these ways."""
    spec = importlib.util.spec_from_file_location(
        "accelerator", FOLDER / "accelerator.py"
    )
    program = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "accelerator", program)
    spec.loader.exec_module(program)
    for name, ending in ENDINGS.items():
        (tmp_path / f"{name}.py").write_text(
            "import os, signal, time, jax\n\n\ndef run(report):\n"
            f"    report.row(of='first')\n    {ending}\n"
        )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    seconds = {"hangs": 15}
    sections = {n: program.Section(n, seconds.get(n, 60)) for n in ENDINGS}
    monkeypatch.setattr(program, "SECTIONS", sections)
    return program


@pytest.mark.slow
def test_a_section_that_ends_badly_leaves_its_rows_and_the_next_one_begins(
    queue, tmp_path, capsys
):
    out = tmp_path / "out"
    words = ["--cpu", "--out", str(out), "--sections", *ENDINGS]
    assert queue.main(words) == 1
    files = {name: json.loads((out / f"{name}.json").read_text()) for name in ENDINGS}
    states = {name: content["status"] for name, content in files.items()}
    assert states == {
        "ends": "finished",
        "fails": "exit status 1",
        "killed": "killed by SIGKILL",
        "hangs": "stopped after 15 s",
        "lacks_memory": "finished",
        "late": "finished",
        "wrong": "finished, 1 rows do not hold",
    }
    for content in files.values():
        assert content["rows"][0] == {"of": "first"}
        assert content["card"] == "cpu"
    assert files["fails"]["error"] == "ValueError: bad luck"
    large, small = files["lacks_memory"]["rows"][1:]
    assert "RESOURCE_EXHAUSTED" in large["error"]
    assert small == {"of": "small", "sum": 8.0}
    assert files["late"]["rows"][1]["error"].startswith("skipped, ")
    assert "killed: killed by SIGKILL" in capsys.readouterr().out


def test_without_an_accelerator_nothing_is_measured(queue, tmp_path, capsys):
    assert queue.main(["--out", str(tmp_path / "out")]) == 2
    assert "JAX sees no accelerator" in capsys.readouterr().out
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["machine.json"]


def test_an_unknown_section_is_named(queue, capsys):
    assert queue.main(["--sections", "ends", "quick"]) == 2
    assert "no section quick; want ends, fails" in capsys.readouterr().out
