"""Parts of files whose process was killed go with the next write; no others do."""

import os
import signal
import subprocess
import sys
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
    ours = parts.part_of(tmp_path / "a")
    ours.write_text("")
    with monkeypatch.context() as patched:
        patched.setattr(parts, "_machine", lambda: "0" * 8)
        theirs = parts.part_of(tmp_path / "a")
    theirs.write_text("")
    alike = tmp_path / ".own.txt.partial"  # of a user
    alike.write_text("")
    began = parts._start_of(os.getpid())
    reused = tmp_path / ours.name.replace(f"-{began}-", f"-{began + 1}-")
    reused.write_text("")  # of a process that had the number of this one
    parts.remove_abandoned(tmp_path)
    left = {x.name for x in tmp_path.iterdir()}
    assert left == {ours.name, theirs.name, alike.name}
