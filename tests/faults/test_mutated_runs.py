"""Damaged run folders end in one line, or in the same scores.

Where scores differ, a line names the file that has changed.
"""

import hashlib
import random
import re
import signal
from pathlib import Path

import pytest

from ..training.commands import result, stop_at
from .commands import MOST, called, end, peak, start_peak, tiny
from .mutations import mutate, restore

COMMANDS = ("evaluate", "predict", "report", "export", "train", "resume")
MUTATIONS = 1000  # of each file, with --exhaustive
FEW = 50  # of files that the command does not read, and where it trains
DRAWN = re.compile(r"[0-9a-f]{32}|tfevents\S*")


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory):
    """Return the folder of a run that was stopped after eight steps."""
    out = tmp_path_factory.mktemp("unfinished") / "run"
    stop_at(8, signal.SIGTERM, tiny(out))
    return out


def command(name: str, out: Path) -> list[str]:
    """Return the arguments of a command on a run; it writes to `out/../made`."""
    made = str(out.parent / "made")
    return {
        "evaluate": ["evaluate", str(out), "--json"],
        "predict": ["predict", str(out), "Anna saw Oslo today", "--json"],
        "report": ["report", str(out), "--out", made],
        "export": ["export", str(out), made],
        "train": tiny(out),
        "resume": tiny(out),
    }[name]


def outcome(name: str, out: Path, output: str) -> object:
    """Return everything that a command gave."""
    if name == "train":  # a finished run is returned as it is
        return result(out)
    if name == "resume":
        try:
            return end(out)
        except (ValueError, AttributeError):  # a damaged record of before stays
            return (out / "metrics.jsonl").read_bytes()
    made = out.parent / "made"
    return output, {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(made.rglob("*"))
        if file.name != "rerun.py"
    }


def kinds_of_files(folder: Path) -> dict[str, list[Path]]:
    """Return relative paths by what they are; steps and names drawn are left out."""
    kinds: dict[str, list[Path]] = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            path = file.relative_to(folder)
            kind = DRAWN.sub("*", re.sub(r"/\d+/", "/STEP/", str(path)))
            kinds.setdefault(kind, []).append(path)
    return kinds


@pytest.mark.parametrize("name", COMMANDS)
def test_a_damaged_run_ends_in_one_line_or_as_before(
    name, finished, unfinished, tmp_path, request, capsys
):
    exhaustive = request.config.getoption("exhaustive")
    source = unfinished if name == "resume" else finished
    out, outcomes, problems, tries = tmp_path / "run", [], [], 0
    before = start_peak()

    def attempt() -> tuple[bool, str]:
        """Run the command; return whether the damage had effect, and the problem."""
        ended = called(command(name, out), capsys)
        if ended.problem or ended.status == 2:
            return True, ended.problem
        outcomes.append(outcome(name, out, ended.output))
        step = path.parts[1] if path.parts[0] == "checkpoints" else None
        named = path.name in ended.errors or f"checkpoints/{step}" in ended.errors
        same = outcomes[-1] == outcomes[0]
        return named or not same, "" if named or same else "differs silently"

    kinds = kinds_of_files(source)
    path = Path("intact")
    restore(source.parent, tmp_path)
    assert not any(attempt()) and outcomes
    tried = list(kinds)
    if not exhaustive:  # a second of time each
        tried = tried[COMMANDS.index(name) :: 2 * len(COMMANDS)]
    for kind in tried:
        noticed = False
        for number in range(MUTATIONS if exhaustive else 1):
            if number == FEW and (name == "resume" or not noticed):
                break
            rng = random.Random(f"{name} {kind} {number}")
            restore(source.parent, tmp_path)
            path = rng.choice(kinds[kind])
            done = mutate(out / path, rng)
            tries += 1
            effect, problem = attempt()
            noticed |= effect
            if problem:
                problems.append(f"{number}, {path}, {done}: {problem}")
    more = peak() - before
    request.node.user_properties.append((name, f"{tries} {more >> 20} MiB"))
    assert not problems, f"{len(problems)}: " + "\n".join(problems)
    assert more < MOST
