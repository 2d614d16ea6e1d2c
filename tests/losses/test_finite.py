"""Finite values and gradients: every loss, float type, size and hyper-parameter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from .cases import BINARY, MULTI_LABEL, SOFTMAX
from .every import BY_NAME, EVERY, RANGES, one_of_each, parameters, with_static_settings

pytestmark = pytest.mark.slow  # as a whole

SIZES = np.array([1e-3, 1.0, 8.0, 17.0, 30.0, 90.0, 800.0, 1e4, 3e4])
# Ties at the top, at the bottom and of all; one outlier, by little and by much.
PATTERNS = np.array(
    [[1, -1, 0], [1, 1, -1], [1, 1, 1], [-1, 0, 1], [-1, -1, -1], [0, 1, 0.999]]
)
ELEMENTS = len(PATTERNS)
REGRESSION = BY_NAME["binary-ghm_regression"]
DTYPES = ("float16", "bfloat16", "float32", "float64")


def inputs(form):
    """Return logits of each size and scenario, labels, where: `[S, 1, N, ...]`."""
    columns = PATTERNS[:, 0] if form == BINARY else PATTERNS
    logits = SIZES.reshape(-1, *[1] * columns.ndim) * columns
    mixed = np.arange(ELEMENTS) % 2
    labels = [mixed, np.zeros_like(mixed), np.ones_like(mixed), np.full(ELEMENTS, -100)]
    if form == SOFTMAX:
        labels.append(mixed + 1)
    if form == MULTI_LABEL:
        labels = [np.stack([y, y, 0 * y], axis=-1) for y in labels]
        labels.append(np.eye(3, dtype=int)[np.arange(ELEMENTS) % 3])
    where = np.ones((len(labels), ELEMENTS), bool)
    where[0, -1] = where[1, 0] = False
    pairs = [(z, *row) for z in logits for row in zip(labels, where, strict=True)]
    return (np.stack(column)[:, None] for column in zip(*pairs, strict=True))


def settings(case):
    """Return every value of each hyper-parameter, then all at their ends: `[K]`."""
    default, rows = parameters(case), []
    ranges = RANGES[case.function.__name__]
    ranges = {name: ranges[name] for name in ranges if name in default}
    for name, values in ranges.items():
        rows += [default | {name: value} for value in values]
    for end in (0, -1):
        rows.append(default | {name: values[end] for name, values in ranges.items()})
        rows += [rows[-1] | {name: default[name]} for name in ranges]
    return {name: np.stack([row[name] for row in rows]) for name in default}


# The most prone to overflow: powers, quotients of sums, bins. All others compute as
# in float32 (`test_transforms.py` holds the types), with gradients in float16's range.
IN_EVERY_TYPE = ("self_adjusting_dice", "asymmetric", "focal_tversky", "ghm")


def is_fast(case, dtype):
    prone = dtype == "float32" or case.function.__name__ in IN_EVERY_TYPE
    return prone and case in one_of_each(EVERY)


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        pytest.param(
            case,
            dtype,
            id=f"{case.name}-{dtype}",
            marks=() if is_fast(case, dtype) else pytest.mark.exhaustive,
        )
        for case in [*EVERY, REGRESSION]
        for dtype in DTYPES
    ],
)
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
        chosen = {n: jnp.asarray(x, kind) for n, x in settings(case).items()}
        if chosen:
            both = jax.vmap(both, (None, 0, None, None))
        value, (gradient, *slopes) = jax.jit(both)(logits, chosen, labels, where)
    assert gradient.dtype == dtype
    assert value.dtype == kind
    assert np.isfinite(value).all()
    # Finite, and where float16 logits take it over too.
    assert np.abs(np.asarray(gradient, float)).max() < np.finfo(np.float16).max
    for by_parameter in slopes:
        for name, slope in by_parameter.items():
            assert np.isfinite(slope).all(), name
    seen = where if labels.ndim == where.ndim else where[..., None]
    masked = (labels == -100) | ~seen
    wide = masked if masked.ndim == logits.ndim else masked[..., None]
    assert not np.where(wide, gradient, 0).any()
