"""What README.md and the pages of the site say to do works when it is done."""

import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dicejax.cli import COMMANDS, run
from dicejax.objectives import by_short_name

from . import newcomer
from .documented import (
    PAGES,
    PARSED,
    ROOT,
    blocks,
    commands,
    perform,
    play,
    prepare,
    smaller,
)

START = "docs/start.md"
# Pages that are played in a process of their own, and why.
APART = {
    "docs/own-loss.md": "other tests would find its losses among all that there are",
    "docs/scaling.md": "plan makes devices before JAX is used",
}
WITH_CODE = [
    page
    for page in PAGES
    if page != START and any(b.language in ("bash", "python") for b in blocks(page))
]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory):
    """A folder with what a reader has, and a finished run that several pages name."""
    folder = tmp_path_factory.mktemp("furnished")
    prepare(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (first,) = [
            words
            for block in blocks("README.md")
            if block.language == "bash"
            for words in commands(block)
            if words[-2:] == ["--out", "runs/first"]
        ]
        perform(first, "README.md")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE)
def test_a_page_does_what_it_says(page, furnished, tmp_path, monkeypatch):
    folder = tmp_path / "reader"
    shutil.copytree(furnished, folder)
    monkeypatch.chdir(folder)
    if page not in APART:
        assert play(page, folder) > 0
        return
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.documented", page],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_pages_apart_and_parsed_commands_are_there():
    assert set(APART) <= set(WITH_CODE)
    for flag in PARSED:
        assert any(flag in block.text for page in PAGES for block in blocks(page))


def test_a_command_without_a_rule_fails(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line, what in [
        ("kubectl apply -f launch/gke-jobset.yaml", "no rule"),
        ("pip install -e .[none]", "none"),
        ("pytest --collect-only", "does not run it"),
        ("dicejax evaluate runs/none", "runs/none"),
    ]:
        with pytest.raises(AssertionError, match=what):
            perform(shlex.split(line), "here")


def test_what_is_made_smaller_is_said_once():
    words = shlex.split(
        "compare experiments/quickstart.py --seeds 5 --training.epochs 30 --losses ce"
    )
    small = smaller([w.replace("experiments", f"{ROOT}/experiments") for w in words])
    assert small[small.index("--seeds") + 1] == "1"
    assert small.count("--training.epochs") == 1
    assert small[small.index("--training.epochs") + 1] == "1"
    assert small[small.index("--losses") + 1] == "ce"


def test_commands_stand_in_blocks_that_are_run():
    for page in PAGES:
        for block in blocks(page):
            if block.language == "bash":
                continue
            for line in block.text.splitlines():
                first = line.split(" ")[0].lstrip("$> ")
                assert first not in ("dicejax", "pip", "python"), (block.where, line)


@pytest.mark.slow
def test_a_newcomer_is_there_in_five_minutes(tmp_path, monkeypatch, capsys):
    # `.ci/run` makes a fresh environment by the README's own command, and this runs in
    # it; there the one installation of the page is done already.
    monkeypatch.chdir(tmp_path)
    newcomer.write(tmp_path / "my.conll", sentences=200)
    copied = [
        words
        for block in blocks(START)
        if block.language == "bash"
        for words in commands(block)
    ]
    # As a newcomer has it: tests turn off what makes programs fast (conftest.py).
    usual = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}
    began, spent, printed = time.perf_counter(), [], ""
    for words in copied:
        before = time.perf_counter()
        if words[0] == "dicejax":
            program = Path(sys.executable).with_name("dicejax")
            done = subprocess.run(
                [program, *words[1:]], env=usual, capture_output=True, text=True
            )
            assert done.returncode == 0, (words, done.stderr[-2000:])
            printed += done.stdout
        else:
            perform(words, START)
        spent.append(f"{time.perf_counter() - before:6.1f} s  {shlex.join(words)}")
    seconds = time.perf_counter() - began
    with capsys.disabled():
        print("", *spent, f"{seconds:6.1f} s  in all", sep="\n")
    assert seconds < 300
    names = [words[1] for words in copied if words[0] == "dicejax"]
    assert names == ["init", "profile", "train", "evaluate", "predict", "compare"]
    # What each of them leaves or says.
    assert (tmp_path / "my_project" / "experiment.py").is_file()
    result = json.loads((tmp_path / "runs" / "first" / "result.json").read_text())
    assert result["test"]["f1"] > 0.5
    assert "New York City" in printed
    page = (tmp_path / "runs" / "my_project" / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "What may be said" in page and "ce + tuned threshold" in page
    compared = json.loads(
        (tmp_path / "runs" / "my_project" / "comparison.json").read_text()
    )
    assert {"ce", "dice"} <= set(compared["losses"])
    assert "dice: " in printed.partition("for new seeds and new examples:")[2]


FLAG = re.compile(r"(?<![\w-])--[a-z_][\w.]*")
# A table whose left column has the flags of transformers' scripts.
FOREIGN = "docs/coming-from.md"


def test_flags_in_sentences_are_flags_of_a_command(capsys):
    known = {"--exhaustive"}  # pytest's
    files = "quickstart ner/conll03 ner/conll03_mrc qa/squad1 paraphrase/mrpc"
    helped = [
        ["train", f"{ROOT}/experiments/{name}.py", "--help"]
        for name in (*files.split(), "ablations/qqp_imbalance")
    ]
    helped += [[command, "--help"] for command in COMMANDS]
    for words in helped:
        with pytest.raises(SystemExit):
            run(words)
        known |= set(FLAG.findall(capsys.readouterr().out))
    for loss in by_short_name().values():
        known |= {f"--objective.{field.name}" for field in dataclasses.fields(loss)}
    assert len(known) > 80
    for page in PAGES:
        prose = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
        if page == FOREIGN:
            prose = re.sub(r"^\|[^|]*\|", "", prose, flags=re.MULTILINE)
        in_code = " ".join(re.findall(r"`[^`]+`", prose))
        assert set(FLAG.findall(in_code)) <= known, page


def test_files_that_are_named_exist():
    rooms = "dicejax|tests|experiments|benchmarks|launch|docs"
    for page in PAGES:
        text = (ROOT / page).read_text()
        for path in re.findall(rf"`((?:{rooms})/[\w./-]+)`", text):
            assert (ROOT / path).exists(), f"{page} names {path}"
