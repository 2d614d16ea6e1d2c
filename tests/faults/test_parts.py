"""Parts of files whose process was killed go with the next write; no others do."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from etils import epath

from dicejax.io import files, parts

ROOT = Path(__file__).parents[2]
# Each program writes below its first argument, and is killed while it does.
KILL = "import os, signal, sys; from etils import epath\n"
KILL += "from dicejax.io import files, parts\nfolder = epath.Path(sys.argv[1])\n"
KILL += "def kill(): os.kill(os.getpid(), signal.SIGKILL)\n"
SECOND = "seen = []\n"
SECOND += "files._encoded = lambda x: seen and kill() or seen.append(x) or b''\n"
BOTH = "dict(a='', b='')"
PROGRAMS = {
    "lines": "files.write_lines(folder, 'own.txt', (x or kill() for x in ['a', '']))",
    "together": f"folder.mkdir()\n{SECOND}files.write_together(folder, {BOTH})",
    "new folder": f"{SECOND}files.write_together(folder / 'new', {BOTH})",
    "draft": "place = parts.part_of(folder / 'model')\n"
    "(place / 'deep').mkdir(parents=True)\nkill()",
}


def hidden(folder):
    return sorted(x.name for x in folder.rglob("*") if x.name.startswith("."))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_part_of_a_killed_process_goes_with_the_next_write(tmp_path, name):
    folder = tmp_path / "out"
    program = [sys.executable, "-c", KILL + PROGRAMS[name], str(folder)]
    assert subprocess.run(program, cwd=ROOT).returncode == -signal.SIGKILL
    assert len(hidden(folder)) >= 1
    files.write_whole(epath.Path(folder), "result.json", "{}")
    assert hidden(folder) == []
    assert (folder / "result.json").read_text() == "{}"


def test_parts_of_living_processes_and_of_other_machines_stay(tmp_path, monkeypatch):
    ours, alike = parts.part_of(tmp_path / "a"), tmp_path / ".own.txt.partial"
    with monkeypatch.context() as patched:
        patched.setattr(parts, "_machine", lambda: "0" * 8)
        theirs = parts.part_of(tmp_path / "a")
    began = parts._start_of(os.getpid())
    # Of no process here, though one had the number of this one: its machine alone
    # keeps the second.
    reused, theirs = (
        tmp_path / x.name.replace(f"-{began}-", f"-{began + 1}-")
        for x in (ours, theirs)
    )
    for part in (ours, theirs, reused, alike):  # the last is a user's
        part.write_text("")
    parts.remove_abandoned(tmp_path)
    left = {x.name for x in tmp_path.iterdir()}
    assert left == {ours.name, theirs.name, alike.name}


def test_parts_that_name_no_process_go_a_day_after_their_last_write(tmp_path):
    """Those of earlier versions: a model folder of `export`, a file of `predict`."""
    now, hour = time.time(), 3600
    uuid = "0123456789abcdef" * 2
    model, empty, young = (tmp_path / f".writing-{x * 8}" for x in "a0_")
    ours, other = tmp_path / ".writing-bbbbbbbb", tmp_path / ".writing-of-mine"
    for folder, name in (
        (model, "out/config.json"),
        (model, "out/onnx/model.onnx"),
        (young, "out/config.json"),
        (ours, "notes/chapter.txt"),  # a name like ours, and what no export writes
        (other, "out/config.json"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    empty.mkdir()
    link = tmp_path / ".writing-cccccccc"
    link.symlink_to(model)
    file = tmp_path / f".own.txt.{uuid}.partial"
    growing = tmp_path / f".grows.txt.{uuid}.partial"
    for each in (file, growing):
        each.write_text("")
    for path in [*tmp_path.rglob("*")]:
        os.utime(path, (now, now - 25 * hour), follow_symlinks=False)
    for path in (young / "out/config.json", growing):
        os.utime(path, (now, now - 23 * hour))
    parts.remove_abandoned(tmp_path)
    left = {x.name for x in tmp_path.iterdir()}
    assert left == {x.name for x in (young, ours, other, link, growing)}
