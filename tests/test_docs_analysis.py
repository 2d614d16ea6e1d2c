"""Holds docs/analysis.md against what it is about."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from dicejax.cli import parse
from dicejax.cli.choices import objective_named

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "analysis.md").read_text()


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.S)


def test_examples_give_what_they_show():
    pytest.importorskip("matplotlib").use("Agg")
    code = "\n".join(blocks("python"))
    example = doctest.DocTestParser().get_doctest(code, {}, "analysis.md", None, 0)
    said = []
    result = doctest.DocTestRunner().run(example, out=said.append)
    assert result.attempted >= 9
    assert result.failed == 0, "".join(said)


def test_commands_are_commands(monkeypatch):
    monkeypatch.chdir(DOCS.parent)
    lines = "".join(blocks("bash")).splitlines()
    assert len(lines) == 3
    for line in lines:
        name, *words = shlex.split(line)
        command = parse(words)
        assert name == "dicejax" and type(command).__name__.lower() == words[0]
        if words[0] == "train":
            assert command.settings.analysis.every == 10
        else:
            assert [objective_named(one) for one in command.losses] or len(words) == 2


def test_pictures_are_there_small_and_shown():
    shown = set(re.findall(r"!\[[^\]]+\]\(([^)]+)\)", TEXT))
    drawn = {f"figures/analysis/{one.name}" for one in DOCS.glob("figures/analysis/*")}
    assert shown == drawn and len(drawn) > 5
    for name in drawn:
        assert (DOCS / name).stat().st_size < 150_000
    links = re.findall(r"[^!]\[[^\]]+\]\(([^)#]+)\)", TEXT)
    assert all(one.startswith("http") or (DOCS / one).is_file() for one in links)
