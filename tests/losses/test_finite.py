"""Finite values and gradients: every loss, float type, size and hyper-parameter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.losses import ghm_regression, ghm_state

from .cases import BINARY, MULTI_LABEL, SOFTMAX
from .every import EVERY, QUICKLY, RANGES, parameters, with_static_settings

pytestmark = pytest.mark.slow  # as a whole

SIZES = np.array([1e-3, 1.0, 8.0, 17.0, 30.0, 90.0, 800.0, 1e4, 3e4])
# Ties at the top, at the bottom and of all; one that stands out, by little and by much.
PATTERNS = np.array(
    [[1, -1, 0], [1, 1, -1], [1, 1, 1], [-1, 0, 1], [-1, -1, -1], [0, 1, 0.999]]
)
ELEMENTS = len(PATTERNS)
DTYPES = ("float16", "bfloat16", "float32", "float64")


def inputs(form):
    """Logits of each size and scenario, labels, where: `[S, 1, N, ...]`."""
    columns = PATTERNS[:, 0] if form == BINARY else PATTERNS
    logits = SIZES.reshape(-1, *[1] * columns.ndim) * columns
    mixed = np.arange(ELEMENTS) % 2
    labels = [mixed, np.zeros_like(mixed), np.ones_like(mixed), np.full(ELEMENTS, -100)]
    if form == SOFTMAX:
        labels.append(mixed + 1)
    if form == MULTI_LABEL:
        labels = [np.stack([one, one, 0 * one], axis=-1) for one in labels]
        labels.append(np.eye(3, dtype=int)[np.arange(ELEMENTS) % 3])
    where = np.ones((len(labels), ELEMENTS), bool)
    where[0, -1] = where[1, 0] = False
    pairs = [(z, *one) for z in logits for one in zip(labels, where, strict=True)]
    return (np.stack(one)[:, None] for one in zip(*pairs, strict=True))


def settings(case):
    """Every value of each hyper-parameter, then all at their ends: arrays `[K]`."""
    default, rows = parameters(case), []
    ranges = RANGES[case.function.__name__]
    ranges = {name: ranges[name] for name in ranges if name in default}
    for name, values in ranges.items():
        rows += [default | {name: value} for value in values]
    for end in (0, -1):
        rows.append(default | {name: values[end] for name, values in ranges.items()})
        rows += [rows[-1] | {name: default[name]} for name in ranges]
    return {name: np.stack([row[name] for row in rows]) for name in default}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_values_and_gradients_are_finite(case, dtype):
    loss = with_static_settings(case).loss
    with jax.enable_x64(dtype == "float64"):
        kind = jnp.float64 if dtype == "float64" else jnp.float32
        logits, labels, where = inputs(case.form)
        logits = jnp.asarray(logits, dtype)
        assert np.isfinite(logits).all()

        def total(logits, parameters, labels, where):
            return loss(logits, labels, where=where, **parameters).sum()

        # One size at a time, so that no size hides in the sum of another.
        by = (0, 1) if dtype == "float32" else (0,)
        both = jax.vmap(jax.value_and_grad(total, by), (0, None, 0, 0))
        chosen = {n: jnp.asarray(one, kind) for n, one in settings(case).items()}
        if chosen:
            both = jax.vmap(both, (None, 0, None, None))
        both = jax.jit(both, compiler_options={} if dtype == "float32" else QUICKLY)
        value, (gradient, *slopes) = both(logits, chosen, labels, where)
    assert gradient.dtype == dtype
    assert value.dtype == kind
    assert np.isfinite(value).all()
    assert np.isfinite(np.asarray(gradient, float)).all()
    for by_parameter in slopes:
        for name, slope in by_parameter.items():
            assert np.isfinite(slope).all(), name
    seen = where if labels.ndim == where.ndim else where[..., None]
    masked = (labels == -100) | ~seen
    wide = masked if masked.ndim == logits.ndim else masked[..., None]
    assert not np.where(wide, gradient, 0).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_and_gradients_of_regression_are_finite(dtype):
    with jax.enable_x64(dtype == "float64"):
        state = ghm_state()
        predictions = jnp.asarray(SIZES[:, None] * PATTERNS.ravel(), dtype)
        targets = jnp.asarray(PATTERNS.ravel(), dtype)

        def total(predictions, mu, momentum):
            values, new = ghm_regression(
                predictions, targets, state, mu=mu, momentum=momentum
            )
            return values.sum(), new

        both = jax.value_and_grad(total, (0, 1), has_aux=True)
        both = jax.vmap(both, (0, None, None))
        both = jax.vmap(jax.vmap(both, (None, 0, None)), (None, None, 0))
        mu, momentum = jnp.array([1e-3, 0.02, 1.0, 100.0]), jnp.array([0.0, 0.7, 0.99])
        (value, new), (gradient, slope) = jax.jit(both)(predictions, mu, momentum)
        assert gradient.dtype == dtype
        for one in (value, new.counts, gradient.astype(value.dtype), slope):
            assert np.isfinite(one).all()
