"""The scripts of docs/others.md score models of others, with stand-ins for these."""

import json
import runpy
import subprocess
import sys
import types
from pathlib import Path

import pytest

from dicejax.cli import run

from .documented import ROOT, blocks

SENTENCES = [f"Anna lives in Oslo {n} times" for n in range(30)]
GOLD = [{"type": "PER", "text": "Anna"}, {"type": "LOC", "text": "Oslo"}]
MISSED = 7
"""Every so many sentences the stand-in misses a name."""


def answer(text):
    """Return the words that a stand-in takes for names."""
    number = int(text.split()[4])
    return ["Anna"] if number % MISSED == 0 else ["Anna", "Oslo"]


class GLiNER:
    """Answers as GLiNER does."""

    @classmethod
    def from_pretrained(cls, name):
        return cls()

    def predict_entities(self, text, labels, threshold):
        names = {"Anna": "person", "Oslo": "place"}
        return [{"label": names[x], "text": x} for x in answer(text)]


class OpenAI:
    """Answers as the client of a service, once with prose."""

    def __init__(self):
        self.chat = self.completions = self

    def create(self, model, messages):
        names = {x["text"]: x["type"] for x in GOLD}
        text = messages[1]["content"]
        entities = [{"type": names[x], "text": x} for x in answer(text)]
        content = json.dumps({"entities": entities}) if " 1 " not in text else "None."
        message = types.SimpleNamespace(content=content)
        usage = types.SimpleNamespace(prompt_tokens=100, completion_tokens=10)
        choices = [types.SimpleNamespace(message=message)]
        return types.SimpleNamespace(choices=choices, usage=usage)


def pipeline(task, model, aggregation_strategy):
    names = {"Anna": "private_person", "Oslo": "private_address"}

    def tag(text):
        spans = [(names[x], text.index(x), x) for x in answer(text)]
        spans.append(("private_date", text.index("times"), "times"))
        keys = ("entity_group", "start", "end")
        return [dict(zip(keys, (k, n, n + len(x)), strict=True)) for k, n, x in spans]

    return tag


STAND_INS = {
    "gliner": ("gliner_scores.py", {"GLiNER": GLiNER}),
    "openai": ("llm_scores.py", {"OpenAI": OpenAI}),
    "transformers": ("filter_scores.py", {"pipeline": pipeline}),
}


@pytest.fixture
def errors(tmp_path, monkeypatch):
    """Write the scripts of the page and errors of three runs, and go there."""
    for block in blocks("docs/others.md"):
        if block.title is not None:
            (tmp_path / block.title).write_text(block.text)
    for seed in range(3):
        file = tmp_path / f"runs/mine/ce/seed-{seed}/errors.jsonl"
        file.parent.mkdir(parents=True)
        lines = [
            {
                "line": n,
                "errors": float(n % 3 == seed),
                "words": text.split(),
                "gold": {"entities": GOLD},
            }
            for n, text in enumerate(SENTENCES)
        ]
        file.write_text("".join(json.dumps(x) + "\n" for x in lines))
    monkeypatch.chdir(tmp_path)
    return [f"runs/mine/ce/seed-{seed}/errors.jsonl" for seed in range(3)]


@pytest.mark.parametrize("module", STAND_INS)
def test_scores_of_others_are_compared_with_ours(errors, module, monkeypatch, capsys):
    script, names = STAND_INS[module]
    words = [sys.executable, "ours.py", *errors]
    ours = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    made = types.ModuleType(module)
    vars(made).update(names)
    monkeypatch.setitem(sys.modules, module, made)
    monkeypatch.setattr(sys, "argv", [script, errors[0]])
    runpy.run_path(script)
    theirs = capsys.readouterr().out
    Path("scores.csv").write_text(ours + theirs)
    assert run(["report", "--scores", "scores.csv", "--out", "verdicts"]) == 0
    (name,) = {line.split(",")[0] for line in theirs.splitlines()}
    losses = json.loads(Path("verdicts/comparison.json").read_text())["losses"]
    missed = {n for n in range(30) if n % MISSED == 0}
    missed |= {1} if module == "openai" else set()
    expected = 1 - len(missed) / 30
    scores = [each["test"]["score"] for each in losses[name]["runs"]]
    assert scores == pytest.approx(3 * [expected])  # one model for the three seeds
    ours = [each["test"]["score"] for each in losses["ce"]["runs"]]
    assert ours == pytest.approx(3 * [2 / 3])
    page = Path("verdicts/report.md").read_text()
    assert "All seeds of" not in page and "no failure" not in page
    price = 30 * (100 * 0.25e-6 + 10 * 2e-6)
    assert (f"| {price:.2f} |" in page) == (module == "openai")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["ce,0,1,", "ce,-,2,"], "ce has a seed in some lines and none in others"),
        (["ce,0,1,-3"], "scores.csv:2: price '-3' is no amount"),
    ],
)
def test_seeds_and_prices_that_cannot_be(tmp_path, capsys, lines, message):
    file = tmp_path / "scores.csv"
    file.write_text("\n".join(["loss,seed,score,price", *lines]) + "\n")
    assert run(["report", "--scores", str(file), "--out", str(tmp_path / "x")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_the_page_is_a_guide():
    assert "others.md" in (ROOT / "mkdocs.yml").read_text()
