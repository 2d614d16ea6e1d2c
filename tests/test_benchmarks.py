"""Every program in benchmarks/ runs at its smallest sizes."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from . import newcomer
from .documented import write_encoder

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
QUICKSTART = str(ROOT / "experiments" / "quickstart.py")
SIZES = {
    "--data.train": 64,
    "--data.dev": 4,
    "--data.test": 4,
    "--encoder.hidden_size": 8,
    "--encoder.num_hidden_layers": 1,
    "--encoder.num_attention_heads": 2,
    "--encoder.intermediate_size": 16,
    "--training.max_length": 64,
    "--training.batch_size": 4,
}
SMALL = [QUICKSTART, *(str(word) for pair in SIZES.items() for word in pair)]
# Each kind of section; the rest are of other models.
SECTIONS = ("right", "fast-bert-base", "attention", "planned", "training")
# The other arguments of each program, and what its output must contain.
PROGRAMS = {
    "accelerator": (
        ["--sections", *SECTIONS, "--seconds", "3600", "--out", "OUT"],
        "training: finished",
    ),
    "accumulation": ([], "one pass"),
    "analysis": (SMALL, "an analysis is"),
    "encoders": ([], "BERT"),
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
LONG = {"accumulation", "planned_steps", "train_tokens"}
# Not a separate program: the PyTorch side of another.
RIVALS = {"torch_tagger"}


def load(name, monkeypatch):
    """Import a program, with its neighbours importable."""
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_every_program_is_run():
    assert {file.stem for file in FOLDER.glob("*.py")} == PROGRAMS.keys() | RIVALS


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.exhaustive] * (name in LONG))
        for name in PROGRAMS
    ],
)
def test_a_program_runs_at_its_smallest(name, tmp_path, monkeypatch, capsys, request):
    if name == "planned_steps":
        pytest.importorskip("libtpu", reason="plan-tpu: pip install -e '.[plan-tpu]'")
    if name in NEED_TORCH:
        pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")
    argv, shown = PROGRAMS[name]
    argv = ["--smallest", *argv]
    if "OUT" in argv:
        argv[-1] = str(tmp_path)
    if name == "encoders" and not request.config.getoption("exhaustive"):
        argv += ["--tables", "speed", "memory"]  # each compiles two steps
    if "DATA" in argv:
        argv[-1] = str(request.getfixturevalue("data_folder"))
    if "MODEL" in argv:
        write_encoder(tmp_path / "model")
        for split in ("train", "dev", "test"):
            newcomer.write(tmp_path / f"{split}.txt", sentences=200)
        argv[-2:] = [str(tmp_path / "model"), str(tmp_path)]
    assert not load(name, monkeypatch).main(argv)
    assert shown in capsys.readouterr().out


def test_programs_and_their_page_agree():
    page = (FOLDER / "README.md").read_text()
    for name in PROGRAMS:
        assert f"## {name}.py" in page
        head = (FOLDER / f"{name}.py").read_text().split('"""')[1]
        assert re.search(
            rf"^usage: +python benchmarks/{name}\.py.*--smallest", head, re.M
        )
