"""A loss defined as one function in an experiment file, through every command."""

import json

import pytest

from dicejax import config
from dicejax.cli import parse, run
from dicejax.objectives import by_short_name

from .small_project import EXPERIMENT

LOSS = '''
import jax.numpy as jnp

from dicejax import losses
from dicejax.objectives import NON_NEGATIVE, loss


@loss("mine", kind="pointwise", floor=NON_NEGATIVE.tuned(0.01, 0.5, scale="log"))
def floored(logits, labels, *, where=None, floor=0.05, steep=True):
    """Cross-entropy, of which what lies under a floor does not count.

    Args:
      floor: the cross-entropy, in nats, that is right enough.
      steep: whether it is squared.
    """
    over = jnp.maximum(losses.cross_entropy(logits, labels, where=where) - floor, 0)
    return over**2 if steep else over
'''


@pytest.fixture
def folder(project):
    (project / "own.py").write_text(
        LOSS + EXPERIMENT.format(folder="data").replace("epochs=12", "epochs=2")
    )
    return project


def test_it_appears_in_help_with_its_documentation(folder, capsys):
    with pytest.raises(SystemExit):
        run(["train", "own.py", "--loss", "mine", "--help"])
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--objective.floor FLOAT" in text
    assert "the cross-entropy, in nats, that is right enough." in text
    assert "(default: 0.05)" in text and "--objective.steep" in text


def test_its_settings_are_recorded_and_read_again(folder):
    argv = ["train", "own.py", "--loss", "mine:steep=false", "--objective.floor", "0.1"]
    text = config.to_json(parse(argv).settings)
    recorded = json.loads(text)["objective"]
    assert recorded == {"type": "Floored", "output": None, "floor": 0.1, "steep": False}
    mine = by_short_name()["mine"](floor=0.1, steep=False)
    assert config.from_json(text).objective == mine


@pytest.mark.slow
def test_it_trains_is_tuned_reported_and_read_again(folder, capsys):
    argv = ["compare", "own.py", "--losses", "mine", "--no-baselines", "--out", "runs"]
    assert run([*argv, "--seeds", "1", "--tune", "1"]) == 0
    assert "objective.floor" in (folder / "runs/tuning.json").read_text()
    assert "mine" in (folder / "runs/report.html").read_text()
    assert "mine" in capsys.readouterr().out
    (result,) = folder.glob("runs/mine/**/result.json")
    recorded = json.loads((result.parent / "experiment.json").read_text())["objective"]
    assert recorded["type"] == "Floored" and recorded["steep"] is True
    assert run(["evaluate", str(result.parent), "--experiment", "own.py"]) == 0
    assert "F1" in capsys.readouterr().out


def test_a_name_of_the_library_is_refused(folder):
    text = (folder / "own.py").read_text().replace('"mine"', '"dice"')
    (folder / "taken.py").write_text(text)
    with pytest.raises(config.InputError, match="dicejax has a loss of this name"):
        config.load("taken.py")
