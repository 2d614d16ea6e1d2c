"""After a kill at any place the next command leaves what an undisturbed one leaves.

Names and bytes of all files are compared: hidden ones, those beside the results, and
temporary ones too. Kills during training are in `test_kills.py` and
`tests/study/test_killed_comparison.py`.
"""

import re
import shutil
import signal

import pytest

from ..kinds import exhaustive_but
from .conftest import EXPERIMENT, SCRATCH
from .forked import forks

RUN = "cmp/ce/seed-0"
COMPARE = ["compare", "small.py", "--losses", "dice", "--seeds", 1, "--out", "cmp"]
COMPARE += ["--no-baselines", "--training.epochs", 1, "--training.batch_size", 4]
PREDICT = ["predict", RUN, "--file", "brat", "--out"]
COMMANDS = {
    "export": ["export", RUN, "out"],
    "export as ONNX": ["export", RUN, "out", "--onnx", "--force"],
    "predict lines": [*PREDICT, "brat/new.jsonl"],  # among the user's own files
    "predict a folder": [*PREDICT, "brat/new", "--out_format", "same"],
    "report": ["report", "cmp", "--out", "out"],
    "report again": ["report", "cmp"],
    "compare": COMPARE,  # whose runs are finished, and which has written nothing else
    "compare again": COMPARE,
}
# Of two that write alike, one: ONNX's files take the way of the others of an export,
# and a report again or a table of finished runs that of a comparison again.
CHOSEN = ("export", "predict lines", "predict a folder", "report", "compare again")
pytestmark = pytest.mark.slow
OWNER = re.compile(r"\.[0-9a-f]{8}-[0-9]+-[0-9]+-[0-9a-f]{8}\.partial")


@pytest.fixture(scope="module")
def forked():
    with forks() as started:
        yield started


@pytest.fixture(scope="module")
def kept(forked, tmp_path_factory):
    """Return a folder with texts, and a finished comparison of models of them."""
    folder = tmp_path_factory.mktemp("kills") / "kept"
    (folder / "brat").mkdir(parents=True)
    for number in range(8):
        (folder / f"brat/{number}.txt").write_text(f"a b c{number}\n")
        (folder / f"brat/{number}.ann").write_text("T1\tX 0 1\ta\n")
    settings = {"module": "dicejax.formats", "source": "JsonSentences", "fields": ""}
    settings |= {"dir": str(folder), "train": "brat", "task": "Tagging"}
    (folder / "small.py").write_text(EXPERIMENT.format(**settings, encoder=SCRATCH))
    ended = forked(COMPARE, folder)
    assert ended.status == 0, ended.errors
    return folder


def files(folder):
    """Return the content of each file by its path, None of a folder."""
    return {
        OWNER.sub(".partial", str(path.relative_to(folder))): (
            None if path.is_dir() else path.read_bytes()
        )
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("name", exhaustive_but(CHOSEN, COMMANDS))
def test_after_a_kill_the_next_command_leaves_the_same(
    name, forked, kept, tmp_path, request
):
    if "ONNX" in name:
        for package in ("torch", "onnx", "onnxscript", "onnxruntime"):
            pytest.importorskip(package)
    command, before = COMMANDS[name], tmp_path / "before"
    shutil.copytree(kept, before)
    if name == "compare":
        for path in (before / "cmp").iterdir():
            if path.is_file():
                path.unlink()
    whole, copies = tmp_path / "whole", tmp_path / "copies"
    shutil.copytree(before, whole)
    copies.mkdir()
    ended = forked(command, whole, copies=copies)
    assert ended.status == 0, ended.errors
    expected, count = files(whole), len(ended.changes)
    assert not [x for x in expected if "/." in f"/{x}" or x.endswith(".partial")]
    exhaustive = request.config.getoption("exhaustive")
    kills = 10 if exhaustive else 4
    assert count >= kills
    places = sorted({1 + round(n * (count - 1) / (kills - 1)) for n in range(kills)})
    assert len(places) == kills
    killed = {place: copies / f"{place}" for place in places}
    # That a copy is what a kill leaves is seen in one command, or at every place.
    for place in places if exhaustive else places[2:3] * (name == CHOSEN[-1]):
        folder = tmp_path / f"killed-{place}"
        shutil.copytree(before, folder)
        at_change = forked(command, folder, kill_at=place)
        assert at_change.status == -signal.SIGKILL, at_change.errors
        assert files(folder) == files(killed[place]), ended.changes[place - 1]
        killed[place] = folder
    left = {place: files(folder) for place, folder in killed.items()}
    assert any(x.endswith(".partial") for names in left.values() for x in names)
    # `export` refuses to write where a kill came when all was done.
    done = [
        p for p, x in left.items() if command[0] == "export" and "out/README.md" in x
    ]
    again = forked(command, *(killed[p] for p in places if p not in done))
    assert again.status == 0, again.errors
    if done:
        again = forked(
            [*command[:2], "other", *command[3:]], *(killed[p] for p in done)
        )
        assert again.status == 0, again.errors
    problems = []
    for place, folder in killed.items():
        now = files(folder)
        if place in done:
            shutil.rmtree(folder / "other")
            now = files(folder)
        names = now.keys() | expected.keys()
        other = [x for x in names if now.get(x, "") != expected.get(x, "")]
        if other:
            problems.append(f"{place}: {ended.changes[place - 1]}: {sorted(other)}")
    assert not problems, "\n".join(problems)
