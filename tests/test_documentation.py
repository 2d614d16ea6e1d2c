"""The commands and the Python of README.md and the site's pages work."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dicejax.cli import COMMANDS, run
from dicejax.objectives import by_short_name

from . import newcomer
from .documented import PAGES, PARSED, ROOT, blocks, commands_of, perform, play, prepare
from .subprocesses import python

START = "docs/start.md"
# Pages that run in a separate process, and why.
APART = {
    "docs/scaling.md": "plan makes devices before JAX is used",
}
WITH_CODE = [
    page
    for page in PAGES
    if page != START and any(b.language in ("bash", "python") for b in blocks(page))
]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory):
    """Return a folder with a reader's files."""
    folder = tmp_path_factory.mktemp("furnished")
    prepare(folder)
    return folder


@pytest.fixture(scope="module")
def with_run(furnished):
    """Return the same with the finished run that several pages name."""
    words = ["dicejax", "train", "experiments/ner/conll03.py", "--data.dir", "FOLDER"]
    words += ["--encoder.path", "bert-base-cased", "--out", "runs/first"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(furnished)
        perform(words, "a run")
    return furnished


@pytest.mark.parametrize("page", WITH_CODE)
@pytest.mark.parametrize(
    "train",
    [
        pytest.param(False, id="its commands parsed"),
        pytest.param(
            True, marks=[pytest.mark.slow, pytest.mark.exhaustive], id="and run"
        ),
    ],
)
def test_a_page_does_what_it_says(page, train, request, tmp_path, monkeypatch):
    folder = tmp_path / "reader"
    source = request.getfixturevalue("with_run" if train else "furnished")
    shutil.copytree(source, folder)
    monkeypatch.chdir(folder)
    if page not in APART:
        assert play(page, folder, train) > 0
        return
    words = ["-W", "error", "-m", "tests.documented", page]
    python(*words, *["--exhaustive"] * train, cwd=folder)


def test_pages_apart_and_parsed_commands_are_there():
    assert set(APART) <= set(WITH_CODE)
    for flag in PARSED:
        assert any(flag in block.text for page in PAGES for block in blocks(page))


def test_commands_stand_in_blocks_that_are_run():
    for page in PAGES:
        for block in blocks(page):
            if block.language == "bash":
                continue
            for line in block.text.splitlines():
                first = line.split(" ")[0].lstrip("$> ")
                assert first not in ("dicejax", "pip", "python"), (block.where, line)


def has_compared(folder):
    """Check the output of the first page's commands."""
    assert (folder / "my_project" / "experiment.py").is_file()
    assert (folder / "runs" / "first" / "result.json").is_file()
    page = (folder / "runs" / "my_project" / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    file = folder / "runs" / "my_project" / "comparison.json"
    assert {"ce", "dice"} <= set(json.loads(file.read_text())["losses"])


@pytest.mark.slow
def test_the_first_page_takes_a_newcomer_to_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    newcomer.write(tmp_path / "my.conll", sentences=200)
    for words in commands_of(START):  # a choice takes the time that it is given
        perform(["10s" if word == "10m" else word for word in words], START)
    perform(["dicejax", "export", "runs/first", "for_pytorch"], "docs/models.md")
    assert (tmp_path / "for_pytorch" / "model.safetensors").is_file()
    has_compared(tmp_path)
    names = [words[1] for words in commands_of(START) if words[0] == "dicejax"]
    assert names[:4] == ["init", "profile", "train", "evaluate"]
    assert names[4:] == ["predict", "compare", "choose"]
    out = capsys.readouterr().out
    assert "dice" in out and "settings tried on dev" in out


def user_output(words, folder):
    """Run a command as a user: tests turn off LLVM's optimisations (conftest.py)."""
    usual = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}
    program = Path(sys.executable).with_name("dicejax")
    pipes = {"stdout": subprocess.PIPE, "text": True, "check": True}
    return subprocess.run([program, *words], cwd=folder, env=usual, **pipes).stdout


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_first_page_trains_a_useful_tagger(tmp_path):
    newcomer.write(tmp_path / "my.conll", sentences=200)
    printed = "".join(
        user_output(words[1:], tmp_path)
        for words in commands_of(START)
        if words[0] == "dicejax"
    )
    has_compared(tmp_path)
    result = json.loads((tmp_path / "runs" / "first" / "result.json").read_text())
    assert result["test"]["f1"] > 0.95
    assert "New York City" in printed


@pytest.mark.slow
@pytest.mark.exhaustive
def test_dice_by_name_learns_the_sample(tmp_path):
    user_output(["init", "ner", "x", "--sample", "--encoder", "scratch"], tmp_path)
    words = ["train", "x/experiment.py", "--loss", "dice", "--out", "run"]
    user_output(words, tmp_path)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["test"]["f1"] > 0.9


FLAG = re.compile(r"(?<![\w-])--([a-z_][\w.-]*)")


def flags(text):
    return {name.replace("-", "_") for name in FLAG.findall(text)}


# A table whose left column has the flags of transformers' scripts.
FOREIGN = "docs/coming-from.md"
# Of pytest, of every command, of benchmarks and of XLA.
OTHER_FLAGS = """exhaustive dist durations tables help_all tyro_print_completion
smallest xla_backend_optimization_level xla_cpu_multi_thread_eigen
xla_cpu_copy_insertion_use_region_analysis"""
HELPED = """quickstart several_labels ner/conll03 ner/conll03_mrc qa/squad1
paraphrase/mrpc ablations/qqp_imbalance"""


def test_flags_in_sentences_are_flags_of_a_command(capsys):
    names = set(OTHER_FLAGS.split())
    helped = [["train", f"{ROOT}/experiments/{name}.py"] for name in HELPED.split()]
    for words in [*helped, *([command] for command in COMMANDS)]:
        with pytest.raises(SystemExit):
            run([*words, "--help-all"])
        names |= flags(capsys.readouterr().out)
    for loss in by_short_name().values():
        names |= {f"objective.{field.name}" for field in dataclasses.fields(loss)}
    assert len(names) > 80
    for page in PAGES:
        prose = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
        if page == FOREIGN:
            prose = re.sub(r"^\|[^|]*\|", "", prose, flags=re.MULTILINE)
        in_code = " ".join(re.findall(r"`[^`]+`", prose))
        assert flags(in_code) <= names, page


def test_links_and_paths_lead_to_files():
    """Links with a scheme are not followed; those of the built site are test_site's."""
    rooms = "dicejax|tests|experiments|benchmarks|launch|docs"
    alone = (f"{name}/README.md" for name in ("benchmarks", "experiments", "notebooks"))
    for page in (*PAGES, "CONTRIBUTING.md", "RESULTS.md", *alone):
        text = (ROOT / page).read_text()
        for path in re.findall(rf"`((?:{rooms})/[\w./-]+)`", text):
            assert (ROOT / path).exists(), f"{page} names {path}"
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", prose):
            path = (ROOT / page).parent / link.partition("#")[0]
            assert urlsplit(link).scheme or path.exists(), f"{page}: {link}"
