"""Commands that write several files, killed at any write, leave all of them or none.

A recorded command is replayed on disk up to its n-th write, which is what a process
killed there leaves.
"""

import shutil

import pytest

from dicejax.cli import run
from dicejax.objectives import Focal

from ..study.made_runs import made
from . import strace
from .commands import tiny

WHY_NOT = strace.why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"system calls: {WHY_NOT}")

SCORES = "data,loss,seed,score\n" + "".join(
    f"x,{loss},{seed},{score + seed / 10}\n"
    for loss, score in {"ce": 70, "dice": 72}.items()
    for seed in range(3)
)
DATA = "".join(f"a B-X\nb O\nc{number} O\n\n" for number in range(20))


def files(folder):
    """Return what a folder shows: its files but the hidden ones."""
    if not folder.exists():
        return {}
    visible = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return {path.name: path.read_bytes() for path in visible if path.is_file()}


def commands(folder, data, experiment):
    """Return a command that writes to `folder/out`, by name."""
    out = str(folder / "out")
    return {
        "init": ["init", "ner", out, "--data", str(data / "x.txt"), "--overwrite"],
        "profile": ["profile", experiment, "--out", out],
        "scores": ["report", "--scores", str(data / "scores.csv"), "--out", out],
        "report": ["report", str(data / "runs"), "--out", out],
        "export": ["export", str(data / "run"), out],
    }


LAST = {"init": "experiment.py", "profile": "profile.json", "export": "README.md"}


SLOW = ("profile", "report", "export")


@pytest.mark.parametrize(
    ("name", "is_new"),
    [
        pytest.param(name, is_new, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in ("init", "scores", *SLOW)
        for is_new in (True, False)
        if is_new or name != "export"  # it writes to an empty place alone
    ],
)
def test_killed_at_any_write_all_files_are_there_or_none(
    name, is_new, tmp_path, experiment, request
):
    data, folder, state = (tmp_path / x for x in ("data", "recorded", "state"))
    for path in (data, folder):
        path.mkdir()
    (data / "x.txt").write_text(DATA)
    (data / "scores.csv").write_text(SCORES)
    if name == "report":
        made(data / "runs", (Focal(),), 2)
    if name == "export":
        # An export imports PyTorch, which takes longer where all calls are recorded.
        for words in (tiny(data / "run"), ["export", f"{data}/run", f"{data}/x"]):
            assert run(words) == 0
    small = experiment(data, "x.txt", source="ConllFiles", task="Tagging")
    command = commands(folder, data, small)[name]
    if not is_new:
        assert run(command) == 0
        for path in (folder / "out").iterdir():
            path.write_text("{}")  # what was there before
    shutil.copytree(folder, state)
    log, before = tmp_path / "calls.log", files(folder / "out")
    with strace.recording(log):
        assert run(command) == 0
    after, last = files(folder / "out"), LAST.get(name, "comparison.json")
    assert last in after
    operations, seen = strace.operations(log, folder), []
    request.node.user_properties.append(("kills", len(operations)))
    assert len(operations) > len(after)
    with strace.Replay(folder, state) as replay:
        for operation in operations:
            replay.apply(operation)
            now = files(state / "out")
            if is_new:
                assert now in ({}, after), operation
            else:  # each file is as before or after, and the last is not new alone
                assert now.keys() == before.keys() | (now.keys() & after.keys())
                assert all(now[x] in (before.get(x), after[x]) for x in now), operation
                assert now[last] == before[last] or now == after, operation
            seen.append(now == after)
    assert seen[-1]
    assert not seen[0]
    assert not [x for x in (folder / "out").iterdir() if x.name.endswith(".partial")]
