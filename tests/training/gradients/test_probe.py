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
from dicejax.training.gradients.measures import counts_of, no_counts
from dicejax.training.gradients.probe import measure_gradients, measure_step_gradients
from dicejax.training.step import train_step

from . import looked

NOTHING = {"tags": no_counts(len(looked.LABELS))}
PRIMARY = SoftF1(output="tags", average="micro", exclude_class=0, smooth=0.0)


def looked_at(objective, rng=None, batch=None, **options):
    """Return the measurements, and the settings, parameters and batch of the step."""
    network = looked.network()
    settings = {"network": network, "task": Tagging(), "rng": rng}
    batch = looked.batch() if batch is None else batch
    params, outputs = jax.jit(network.init)(jax.random.key(0)), (looked.OUTPUT,)

    @jax.jit
    def measured(params, batch, pieces):
        former = NOTHING, pieces, outputs
        return measure_gradients(
            params, batch, objective, *former, **settings, **options
        )["tags"]

    return measured(params, batch, looked.PIECES), settings, params, batch


@pytest.mark.parametrize("parts", [1, 4])
def test_the_heads_get_what_the_step_gives_them(parts):
    rng, objective = jax.random.key(5), looked.OBJECTIVE
    result, settings, params, batch = looked_at(
        objective, rng, micro_batches=parts, keep_head_gradients=True
    )

    @jax.jit
    def step(params):
        return loss_and_gradient(params, batch, objective, **settings).gradients

    pair = result.head_gradients["loss"], step(params)["heads"]
    for ours, theirs in zip(*map(jax.tree.leaves, pair), strict=True):
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
    norm = 3 * plain.measures.gradient_norm
    np.testing.assert_allclose(heavy.measures.gradient_norm, norm, rtol=1e-5)
    np.testing.assert_allclose(heavy.cosine["micro"], plain.cosine["micro"], rtol=1e-5)


def test_soft_f1_agrees_with_itself_and_its_opposite_does_not():
    against = WeightedSum(parts=(PRIMARY,), weights=(-2.0,))
    for objective, expected in ((PRIMARY, 1.0), (against, -1.0)):
        result, *_ = looked_at(objective)
        assert result.cosine["micro"] == pytest.approx(expected, abs=1e-5)
        assert result.cosine_heads["micro"] == pytest.approx(expected, abs=1e-5)
        assert 0.1 < abs(result.cosine["macro"]) < 1 - 1e-4
    other, *_ = looked_at(CrossEntropy(output="tags"))
    assert 0 < other.cosine["micro"] < 0.99


def test_numbers_are_those_of_the_logits_that_were_computed():
    result, settings, params, batch = looked_at(CrossEntropy(output="tags"))
    logits = settings["network"].apply(params, batch)["tags"]
    seen = batch["tags"] >= 0
    p = jax.nn.softmax(logits)[seen]
    norm = jnp.linalg.norm(p - jnp.eye(4)[batch["tags"][seen]], axis=-1).sum()
    counts = counts_of(logits, batch["tags"], looked.OUTPUT.groups)
    for ours, theirs in (
        (result.measures.gradient_norm.sum(), norm),
        (result.measures.count.sum(), seen.sum()),
        (result.counts.predicted, counts.predicted),
        (result.counts.predicted, p.sum(axis=0)),
        (result.kinds["gradient_norm"].sum(), norm),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    real = batch["segment_ids"] > 0
    pieces = looked.PIECES[batch["input_ids"]][real]
    places = [np.sum(~real)] + [np.sum(pieces == kind) for kind in (1, 2, 3)]
    assert result.kinds["places"].tolist() == places
    assert result.kinds["gradient_norm"][0] == 0  # of padding


def test_former_batches_fade():
    begun, inputs = looked.state(), (looked.batch(), looked.OBJECTIVE)
    settings = {"network": looked.network(), "task": Tagging()}
    options = settings | {"outputs": (looked.OUTPUT,)}
    pieces = jnp.asarray(looked.PIECES)
    first = measure_step_gradients(begun, *inputs, NOTHING, pieces, **options)["tags"]
    counts = {"tags": first.counts}
    second = measure_step_gradients(begun, *inputs, counts, pieces, **options)["tags"]
    for name in ("actual", "intersection"):
        once, twice = getattr(first.counts, name), getattr(second.counts, name)
        np.testing.assert_allclose(twice, 1.9 * once, rtol=1e-6)
    # The same batch twice: counts in the same proportion, the same F1 and direction.
    for name in ("soft_f1", "cosine"):
        once, twice = (getattr(x, name)["micro"] for x in (first, second))
        assert twice != 0
        np.testing.assert_allclose(twice, once, rtol=0.05)
    # It gives nothing up: the step can still take the state.
    train_step(begun, *inputs, optimizer=looked.AdamW(), **settings)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_devices_and_parts_change_nothing(tmp_path):
    out, root = tmp_path / "measured.npz", Path(__file__).parents[3]
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "4", "PYTHONPATH": str(root)}
    words = [sys.executable, "-m", "tests.training.gradients.looked", str(out)]
    done = subprocess.run(
        words, cwd=root, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(out) as results:
        plain = [name for name in results.files if name.startswith("plain:")]
        assert len(plain) > 15
        for name in plain:
            for way in looked.WAYS:
                ours = results[name.replace("plain:", f"{way}:", 1)]
                np.testing.assert_allclose(
                    ours, results[name], rtol=2e-4, atol=1e-6, err_msg=f"{way} {name}"
                )
