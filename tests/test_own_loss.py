"""A loss defined as one function in an experiment file, through every command."""

import json

import jax
import jax.numpy as jnp
import numpy as np
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
def own(project):
    (project / "own.py").write_text(
        LOSS + EXPERIMENT.format(folder="data").replace("epochs=12", "epochs=2")
    )
    return project


def test_it_appears_in_help_with_its_documentation(own, capsys):
    with pytest.raises(SystemExit):
        run(["train", "own.py", "--loss", "mine", "--help"])
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--objective.floor FLOAT" in said
    assert "the cross-entropy, in nats, that is right enough." in said
    assert "(default: 0.05)" in said and "--objective.steep" in said


def test_its_settings_are_recorded_and_read_again(own):
    argv = ["train", "own.py", "--loss", "mine:steep=false", "--objective.floor", "0.1"]
    text = config.to_json(parse(argv).settings)
    recorded = json.loads(text)["objective"]
    assert recorded == {"type": "Floored", "output": None, "floor": 0.1, "steep": False}
    assert config.from_json(text).objective == by_short_name()["mine"](
        floor=0.1, steep=False
    )


@pytest.mark.slow
def test_it_trains_is_tuned_reported_and_read_again(own, capsys):
    argv = ["compare", "own.py", "--losses", "mine", "--no-baselines", "--out", "runs"]
    assert run([*argv, "--seeds", "1", "--tune", "1"]) == 0
    tuning = (own / "runs/tuning.json").read_text()
    assert "objective.floor" in tuning
    assert "mine" in (own / "runs/report.html").read_text()
    assert "mine" in capsys.readouterr().out
    (folder,) = [file.parent for file in own.glob("runs/mine/**/result.json")]
    recorded = json.loads((folder / "experiment.json").read_text())["objective"]
    assert recorded["type"] == "Floored" and recorded["steep"] is True
    assert run(["evaluate", str(folder), "--experiment", "own.py"]) == 0
    assert "F1" in capsys.readouterr().out


def test_it_has_a_hessian(own):
    config.load("own.py")
    one = by_short_name()["mine"](floor=0.2)
    logits, labels = jnp.array([[0.3, -0.2], [1.0, 0.4]]), jnp.array([1, 0])

    with jax.enable_x64(True):
        logits = logits.astype(float)
        got = jax.hessian(one.loss)(logits, labels)
        # The mean of (CE - floor)^2, twice differentiated by differences of slopes.
        slope, step = jax.grad(one.loss), 1e-6
        for place in np.ndindex(2, 2):
            bump = jnp.zeros((2, 2)).at[place].set(step)
            wanted = (slope(logits + bump, labels) - slope(logits - bump, labels)) / (
                2 * step
            )
            np.testing.assert_allclose(got[..., *place], wanted, atol=1e-7)


def test_a_name_of_the_library_is_refused(own):
    text = (own / "own.py").read_text().replace('"mine"', '"dice"')
    (own / "taken.py").write_text(text)
    with pytest.raises(config.InputError, match="dicejax has a loss of this name"):
        config.load("taken.py")
