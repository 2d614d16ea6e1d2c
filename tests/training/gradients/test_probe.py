"""The analysed gradient is that of the step, on any devices."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.objectives import CrossEntropy, SoftF1, WeightedSum
from dicejax.tasks import Tagging
from dicejax.training.accumulation import loss_and_gradient
from dicejax.training.gradients.probe import look, look_at_step
from dicejax.training.gradients.soft_f1 import counts_of, no_counts
from dicejax.training.step import train_step

from . import looked

NOTHING = {"tags": no_counts(len(looked.LABELS))}
HEADLINE = SoftF1(output="tags", average="micro", exclude_class=0, smooth=0.0)


def looked_at(objective, rng=None, batch=None, **options):
    of = looked.network()
    settings = {"network": of, "task": Tagging(), "rng": rng}
    batch = looked.batch() if batch is None else batch
    params, outputs = jax.jit(of.init)(jax.random.key(0)), (looked.OUTPUT,)

    @jax.jit
    def seen(params, batch, pieces):
        former = NOTHING, pieces, outputs
        return look(params, batch, objective, *former, **settings, **options)["tags"]

    return seen(params, batch, looked.PIECES), settings, params, batch


@pytest.mark.parametrize("parts", [1, 4])
def test_the_heads_get_what_the_step_gives_them(parts):
    rng, objective = jax.random.key(5), looked.OBJECTIVE
    found, settings, params, batch = looked_at(
        objective, rng, micro_batches=parts, keep_head_gradients=True
    )

    @jax.jit
    def step(params):
        return loss_and_gradient(params, batch, objective, **settings).gradients

    wanted = step(params)["heads"]
    given = found.head_gradients["loss"]
    for ours, theirs in zip(*map(jax.tree.leaves, (given, wanted)), strict=True):
        assert jnp.abs(theirs).max() > 1e-4
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-7)


def test_weights_of_examples_are_in_the_gradient():
    plain, *_ = looked_at(looked.OBJECTIVE)
    batch = looked.batch()
    real = batch["segment_ids"] > 0
    batch |= {
        "token_weights": np.where(real, 3.0, 0.0).astype(np.float32),
        "sequence_weights": np.ones((len(real), 2), np.float32),
    }
    heavy, *_ = looked_at(looked.OBJECTIVE, batch=batch)
    np.testing.assert_allclose(
        heavy.measures.gradient_norm, 3 * plain.measures.gradient_norm, rtol=1e-5
    )
    np.testing.assert_allclose(heavy.cosine["micro"], plain.cosine["micro"], rtol=1e-5)


def test_soft_f1_agrees_with_itself_and_its_opposite_does_not():
    against = WeightedSum(parts=(HEADLINE,), weights=(-2.0,))
    for objective, wanted in ((HEADLINE, 1.0), (against, -1.0)):
        found, *_ = looked_at(objective)
        assert found.cosine["micro"] == pytest.approx(wanted, abs=1e-5)
        assert found.cosine_heads["micro"] == pytest.approx(wanted, abs=1e-5)
        assert 0.1 < abs(found.cosine["macro"]) < 1 - 1e-4
    other, *_ = looked_at(CrossEntropy(output="tags"))
    assert 0 < other.cosine["micro"] < 0.99


def test_numbers_are_those_of_the_logits_that_were_computed():
    found, settings, params, batch = looked_at(CrossEntropy(output="tags"))
    logits = settings["network"].apply(params, batch)["tags"]
    seen = batch["tags"] >= 0
    p = jax.nn.softmax(logits)[seen]
    norm = jnp.linalg.norm(p - jnp.eye(4)[batch["tags"][seen]], axis=-1)
    np.testing.assert_allclose(
        found.measures.gradient_norm.sum(), norm.sum(), rtol=1e-5
    )
    np.testing.assert_allclose(found.measures.count.sum(), seen.sum())
    counts = counts_of(logits, batch["tags"], looked.OUTPUT.groups)
    np.testing.assert_allclose(found.counts.predicted, counts.predicted, rtol=1e-5)
    np.testing.assert_allclose(found.counts.predicted, p.sum(axis=0), rtol=1e-5)
    real = batch["segment_ids"] > 0
    places = [np.sum(~real)] + [
        np.sum(looked.PIECES[batch["input_ids"]][real] == kind) for kind in (1, 2, 3)
    ]
    assert found.kinds["places"].tolist() == places
    assert found.kinds["gradient_norm"][0] == 0  # of padding
    np.testing.assert_allclose(
        found.kinds["gradient_norm"].sum(), norm.sum(), rtol=1e-5
    )


def test_former_batches_fade():
    of, begun = looked.network(), looked.state(looked.network())
    settings = {"network": of, "task": Tagging(), "outputs": (looked.OUTPUT,)}
    inputs = looked.batch(), looked.OBJECTIVE
    pieces = jnp.asarray(looked.PIECES)
    first = look_at_step(begun, *inputs, NOTHING, pieces, **settings)["tags"]
    then = look_at_step(begun, *inputs, {"tags": first.counts}, pieces, **settings)
    ours, wanted = then["tags"].counts, first.counts
    np.testing.assert_allclose(ours.actual, 1.9 * wanted.actual, rtol=1e-6)
    np.testing.assert_allclose(ours.intersection, 1.9 * wanted.intersection, rtol=1e-6)
    # The same batch twice: counts in the same proportion, the same F1 and direction.
    for key in ("soft_f1", "cosine"):
        once, twice = getattr(first, key), getattr(then["tags"], key)
        assert twice["micro"] != 0
        np.testing.assert_allclose(twice["micro"], once["micro"], rtol=0.05)
    # It gives nothing up: the step can still take the state.
    train_step(begun, *inputs, network=of, optimizer=looked.AdamW(), task=Tagging())


@pytest.mark.exhaustive
@pytest.mark.slow
def test_devices_and_parts_change_nothing(tmp_path):
    out, root = tmp_path / "seen.npz", Path(__file__).parents[3]
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "4", "PYTHONPATH": str(root)}
    words = [sys.executable, "-m", "tests.training.gradients.looked", str(out)]
    done = subprocess.run(
        words, cwd=root, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(out) as found:
        plain = [name for name in found.files if name.startswith("plain:")]
        assert len(plain) > 15
        for name in plain:
            for way in looked.WAYS:
                ours = found[name.replace("plain:", f"{way}:", 1)]
                np.testing.assert_allclose(
                    ours, found[name], rtol=2e-4, atol=1e-6, err_msg=f"{way} {name}"
                )
