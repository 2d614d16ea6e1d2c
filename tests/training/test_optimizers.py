"""The update rule against AdamW written out in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.training.optimizers import AdamW, decay_mask


def adamw(params, gradients, rates, *, decay, clip, b1=0.9, b2=0.999, eps=1e-8):
    """Loshchilov & Hutter (2019), algorithm 2, after clipping by global norm."""
    m = {n: np.zeros_like(p) for n, p in params.items()}
    v = {n: np.zeros_like(p) for n, p in params.items()}
    for t, rate in enumerate(rates, start=1):
        norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
        for n in params:
            g = gradients[n] * min(1.0, clip / norm)
            m[n] = b1 * m[n] + (1 - b1) * g
            v[n] = b2 * v[n] + (1 - b2) * g**2
            step = (m[n] / (1 - b1**t)) / (np.sqrt(v[n] / (1 - b2**t)) + eps)
            params = params | {n: params[n] - rate * (step + decay[n] * params[n])}
    return params


def test_updates_equal_the_algorithm():
    rng = np.random.default_rng(0)
    params = {"kernel": rng.normal(size=(3, 2)), "bias": rng.normal(size=2)}
    gradients = {n: rng.normal(size=p.shape) for n, p in params.items()}
    optimizer = AdamW(learning_rate=0.1, warmup=0.2, weight_decay=0.3, clip_norm=0.5)
    rates = [float(optimizer.rate(step, 5)) for step in range(5)]
    with jax.enable_x64(True):  # 1 - 0.999 has four digits in float32
        ours = {n: jnp.asarray(p) for n, p in params.items()}
        grads = {n: jnp.asarray(g) for n, g in gradients.items()}
        state = optimizer.transform().init(ours)
        for rate in rates:
            updates, state = optimizer.transform().update(grads, state, ours)
            ours = {n: p - rate * updates[n] for n, p in ours.items()}
    decay = {"kernel": 0.3, "bias": 0.0}
    wanted = adamw(params, gradients, rates, decay=decay, clip=0.5)
    for name, value in wanted.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-7)


def test_the_rate_rises_peaks_and_falls_to_zero():
    rates = np.array(
        [AdamW(learning_rate=2.0, warmup=0.1).rate(s, 100) for s in range(101)]
    )
    assert rates[0] == pytest.approx(0.2)
    assert rates.argmax() in (9, 10) and rates.max() == pytest.approx(2.0)
    assert (np.diff(rates[:10]) > 0).all() and (np.diff(rates[10:]) < 0).all()
    assert rates[55] == pytest.approx(2.0 * 45 / 90)
    assert rates[100] == 0.0


@pytest.mark.parametrize("warmup", [0.0, 1.0])
def test_extreme_warmups_stay_finite(warmup):
    rates = [float(AdamW(warmup=warmup).rate(step, 3)) for step in range(3)]
    assert np.isfinite(rates).all() and min(rates) >= 0 and max(rates) > 0


def test_biases_and_scales_are_not_decayed():
    params = {"layers": {"query": {"kernel": 0, "bias": 0}, "norm": {"scale": 0}}}
    assert decay_mask(params) == {
        "layers": {"query": {"kernel": True, "bias": False}, "norm": {"scale": False}}
    }


@pytest.mark.parametrize(
    ("name", "value"), [("warmup", 1.5), ("learning_rate", 0.0), ("clip_norm", -1.0)]
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        AdamW(**{name: value})
