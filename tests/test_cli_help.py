"""Help of the command line, and what it keeps from the terminal."""

import contextlib
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios

import pytest

from dicejax.cli import COMMANDS, parse, run
from dicejax.cli.help import EXAMPLES

from .subprocesses import python


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("", "another loss beats cross-entropy"),
        ("train", "override the experiment's loss"),
        ("train mine.py --loss dsc", "--objective.alpha FLOAT"),
        ("plan mine.py --optimizer adamw", "--optimizer.learning_rate FLOAT"),
        ("evaluate", "--split"),
        ("predict", "one or more examples"),
        ("compare", "runs per loss"),
        ("report", "--baseline"),
        ("profile", "how imbalanced a data set is"),
    ],
)
def test_help_lists_what_a_command_takes(project, capsys, words, part):
    with pytest.raises(SystemExit) as stop:
        run([*words.split(), "--help"])
    assert stop.value.code == 0
    assert part in capsys.readouterr().out


@pytest.mark.parametrize("words", ["train", "train mine.py", "compare mine.py"])
def test_help_all_lists_what_help_leaves_out(project, capsys, words):
    listed = []
    for flag in ("--help", "--help-all", "--help_all"):
        with pytest.raises(SystemExit) as stop:
            run([*words.split(), flag])
        assert stop.value.code == 0
        text = capsys.readouterr().out
        listed.append(set(re.findall(r"^\W+ (--[\w.]+)", text, re.MULTILINE)))
        assert "examples:\n  dicejax " in text
        assert ("--help-all" in text) == (flag == "--help")
    brief, whole, same = listed
    assert brief < whole == same
    if "mine.py" in words:
        assert {"--data.dir", "--training.epochs"} < brief and len(brief) <= 18
        assert {"--mesh.fsdp", "--training.remat"} < whole - brief


def test_examples_of_help_can_be_parsed(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    for name, lines in EXAMPLES.items():
        for line in lines:
            program, command, *words = shlex.split(line)
            assert program == "dicejax" and name in ("", command)
            file = {"mine.py": "experiments/ner/conll03.py"}
            parse([command, *(file.get(word, word) for word in words)])


def in_terminal(columns, *command_lines):
    """Return what commands print on a pseudo terminal of that many columns."""
    code = (
        "import sys\nfrom dicejax.cli import run\nfor line in sys.argv[1:]:\n"
        "  print(f'=== {line}')\n  try: run(line.split())\n"
        "  except SystemExit as stop: print(f'status {stop.code}')"
    )
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command_lines],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env | {"TERM": "xterm", "NO_COLOR": "1"},
    )
    os.close(theirs)
    output = b""
    with contextlib.suppress(OSError):  # Linux reports the end so
        while part := os.read(ours, 1 << 16):
            output += part
    os.close(ours)
    assert process.wait() == 0
    return output.decode().replace("\r\n", "\n")


def test_help_of_every_command_breaks_no_word_at_80_columns(project):
    lines = ["--help", *(f"{name} --help" for name in COMMANDS)]
    lines += ["train mine.py --help-all", "compare mine.py --help-all"]
    narrow, wide = in_terminal(80, *lines), in_terminal(400, *lines)
    assert narrow.count("status 0") == wide.count("status 0") == len(lines)
    assert max(map(len, narrow.splitlines())) == 80
    assert max(map(len, wide.splitlines())) > 100
    pages = zip(*(text.split("=== ")[1:] for text in (narrow, wide)), strict=True)
    for page, expected in pages:
        # Borders, and the marks of the wide page's columns, are no words; a list of
        # choices may go on after a comma, and the path of this test is long.
        pieces, whole = (
            {*re.sub("[│╭╮╰╯─,]", " ", x).split()} for x in (page, expected)
        )
        broken = {x for x in pieces - whole if x.rstrip(")") not in f"{project}/data"}
        assert len(pieces) > 50 and not broken


@pytest.mark.parametrize("module", [True, False])
def test_without_a_command_help_is_shown(capsys, module):
    if module:
        output = python("-m", "dicejax").stdout
    else:
        with pytest.raises(SystemExit) as stop:
            run([])
        assert stop.value.code == 0
        output = capsys.readouterr().out
    assert output.startswith("usage: dicejax COMMAND")
    assert all(f"\n  {name} " in output for name in COMMANDS)


def test_usage_errors_heed_no_color():
    code = (
        "import sys\nsys.stdout.isatty = lambda: True\n"
        "from dicejax.cli import run\nrun(['export', '--no_such_flag'])"
    )
    argv = [sys.executable, "-c", code]
    for no_color in ("", "1"):  # empty is as if it were unset
        env = os.environ | {"TERM": "xterm", "NO_COLOR": no_color}
        done = subprocess.run(argv, capture_output=True, text=True, env=env)
        assert done.returncode == 2 and "Missing" in done.stderr
        assert ("\x1b[" in done.stderr) == (not no_color)


@pytest.mark.exhaustive  # it takes a slow compile
def test_a_slow_compile_of_xla_is_not_reported():
    # Folded when it is compiled, in more than the second after which XLA logs an error.
    code = (
        "from dicejax.cli.process import quieten\nquieten()\nfrom jax import jit, lax\n"
        "ones = lambda: lax.iota('float32', 2000)\n"
        "add = lambda x: lax.reduce_window(x, 0., lax.add, (2000,), (1,), 'SAME')\n"
        "jit(lambda: add(ones())).lower().compile()"
    )
    env = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=env)
    assert done.stderr == ""


@pytest.mark.parametrize("words", ["", "--version", "--help", "train --help"])
def test_help_imports_nothing_that_takes_long(words):
    code = (
        "import sys, dicejax\nfrom dicejax.cli import run\n"
        "try: run(sys.argv[1:]) if sys.argv[1:] else None\nexcept SystemExit: pass\n"
        "print([m for m in ('jax', 'numpy', 'absl') if m in sys.modules])"
    )
    output = python("-c", code, *words.split()).stdout
    assert output.splitlines()[-1] == "[]"
