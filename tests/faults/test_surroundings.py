"""What surrounds a run: links, signals, few open files, a clock, lost shards."""

import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest

import dicejax.training.train as training
from dicejax.cli import run
from dicejax.training import run_folder

from ..small_project import fails, write_project
from ..training.commands import stop_at
from .commands import end, tiny


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the folder of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert run(tiny(folder)) == 0
    return folder


@pytest.mark.parametrize("command", ["train", "export", "report", "init"])
def test_a_link_to_a_folder_stays_a_link(whole, tmp_path, command):
    target, link = tmp_path / "large disk", tmp_path / "link"
    target.mkdir()
    link.symlink_to(target)
    (tmp_path / "texts.csv").write_text("text,label\n" + "fine,1\npoor,0\n" * 60)
    words = {
        "train": tiny(link),
        "export": ["export", str(whole), str(link)],
        "report": ["report", str(whole), "--out", str(link)],
        "init": [
            "init",
            "classification",
            str(link),
            "--data",
            str(tmp_path / "texts.csv"),
        ],
    }[command]
    assert run(words) == 0
    assert link.is_symlink()
    assert any(target.iterdir())


def test_results_go_where_a_link_points(whole, tmp_path, capsys):
    file, link = tmp_path / "file.jsonl", tmp_path / "link.jsonl"
    file.write_text("before\n")
    link.symlink_to(file)
    assert run(["predict", str(whole), "Anna lives in Oslo", "--out", str(link)]) == 0
    assert link.is_symlink()
    assert json.loads(file.read_text())["words"] == ["Anna", "lives", "in", "Oslo"]
    assert "nothing was learnt" in capsys.readouterr().err
    os.mkfifo(tmp_path / "pipe")
    for device in ("/dev/null", str(tmp_path / "pipe")):
        words = ["predict", str(whole), "Anna", "--out", device]
        fails(capsys, words, f"{device}: is not a regular file")


def test_a_terminal_that_closes_loses_no_step(whole, tmp_path, capsys):
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup may run the tests
    try:
        stop_at(5, signal.SIGHUP, tiny(tmp_path / "run"))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert "stopped by SIGHUP after step 5" in capsys.readouterr().err
    assert run(tiny(tmp_path / "run")) == 0
    assert end(tmp_path / "run") == end(whole)


def test_nohup_trains_on(whole, tmp_path, monkeypatch):
    step = training.train_step

    def hung_up(*inputs, **settings):
        signal.raise_signal(signal.SIGHUP)
        return step(*inputs, **settings)

    monkeypatch.setattr(training, "train_step", hung_up)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run(tiny(tmp_path / "run")) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert end(tmp_path / "run") == end(whole)


def test_a_reader_that_leaves_ends_the_command(whole):
    program = "import dicejax.cli as cli; cli.main()"
    words = [sys.executable, "-c", program, "evaluate", str(whole), "--json"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        assert process.stderr.read().count("Traceback") == 0
    assert process.returncode == 128 + signal.SIGPIPE


def test_few_open_files_are_enough(whole, tmp_path):
    """32 more than are open: `ulimit -n 64` leaves a new process more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(int(name) for name in os.listdir("/proc/self/fd")) + 32
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
    try:
        assert run(tiny(tmp_path / "run")) == 0
        assert run(["report", str(tmp_path / "run"), "--baseline", "ce"]) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert end(tmp_path / "run") == end(whole)


def test_a_clock_set_back_changes_nothing(whole, tmp_path, monkeypatch):
    stop_at(7, signal.SIGTERM, tiny(tmp_path / "run"))
    for name in ("time", "time_ns"):
        day = 86_400 * (1 if name == "time" else 10**9)
        real = getattr(time, name)
        monkeypatch.setattr(time, name, lambda real=real, day=day: real() - day)
    for file in (tmp_path / "run").rglob("*"):  # as the clock was right then
        os.utime(file, (time.time() + 2 * 86_400,) * 2)
    assert run(tiny(tmp_path / "run")) == 0
    assert end(tmp_path / "run") == end(whole)


def test_labels_that_differ_by_case_alone_share_no_file(tmp_path, experiment):
    (tmp_path / "x.csv").write_text("text,label\n" + "fine,Pos\npoor,pos\n" * 20)
    small = experiment(tmp_path, "x.csv", source="TextFiles", task="Classification")
    out, made = str(tmp_path / "run"), str(tmp_path / "made")
    assert run(["train", small, "--out", out, "--training.epochs", "1"]) == 0
    assert run(["report", out, "--out", made]) == 0
    names = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")]
    assert {"run/result.json", "made/report.md"} <= set(names)
    assert len({name.casefold() for name in names}) == len(names)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["test"]["per_type"].keys() == {"Pos", "pos"}


KILLED = """
import os, sys
import dicejax.training.train as training
from dicejax.cli import run
step, calls = training.train_step, []
def killed(*inputs, **settings):
    calls.append(1)
    if len(calls) == 5:
        os.kill(os.getpid(), 9)
    return step(*inputs, **settings)
training.train_step = killed
run(sys.argv[1:])
"""


def test_a_killed_shard_is_begun_again_and_the_page_is_the_same(tmp_path):
    def words(out, *more):
        mine = str(write_project(tmp_path / out) / "mine.py")
        losses = ["--losses", "ce", "dice:smooth=1", "--seeds", "2", "--no-baselines"]
        short = ["--out", str(tmp_path / out / "c"), "--training.epochs", "2"]
        return ["compare", mine, *losses, *short, *more]

    def results(out):
        files = sorted((tmp_path / out / "c").rglob(run_folder.RESULT))
        return [json.loads(file.read_text())["test"] for file in files]

    plain, cut = words("plain"), words("cut")
    assert run(plain) == 0
    assert run([*cut, "--shard", "1/2"]) == 0
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *cut, "--shard", "2/2"], capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(results("cut")) < 4
    assert run([*cut, "--shard", "2/2"]) == 0
    assert results("cut") == results("plain")
    rows = [
        json.loads((tmp_path / out / "c" / "comparison.json").read_text())["losses"]
        for out in ("plain", "cut")
    ]
    tests, again = ([x["against_baseline"] for x in row.values()] for row in rows)
    assert tests == again  # runs have their times


COMMANDS = {
    "evaluate": ("evaluate", "run"),
    "predict": ("predict", "run", "Anna lives in Oslo"),
    "export": ("export", "run", "exported"),
    "report": ("report", "run", "--baseline", "ce"),
    "plot": ("plot", "run"),
    "train": ("train", "mine.py", "--out", "run"),
    "compare": ("compare", "mine.py", "--losses", "ce", "--seeds", "1", "--out", "."),
}
EVIL = "os.system"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_of_a_stranger_runs_nothing(
    whole, tmp_path, monkeypatch, capsys, command
):
    """Its experiment names a function as a class; its sums are right."""
    write_project(tmp_path)
    place = "ce/seed-0" if command == "compare" else "run"
    shutil.copytree(whole, tmp_path / place)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "system", lambda *_: pytest.fail("code of a file ran"))
    file = tmp_path / place / run_folder.EXPERIMENT
    content = json.loads(file.read_text())
    content["data"] = {"type": EVIL, "command": "true"}
    file.write_text(json.dumps(content))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    sums = file.with_name("SHA256SUMS")
    lines = [
        f"{digest}  {file.name}" if line.endswith(file.name) else line
        for line in sums.read_text().splitlines()
    ]
    sums.write_text("\n".join(lines) + "\n")
    assert run(list(COMMANDS[command])) == 2
    error = capsys.readouterr().err
    assert error.count("dicejax: ") == 1
    assert "Traceback" not in error
