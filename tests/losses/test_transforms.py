"""Losses under vmap and nested jit: no new programs, types."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax import losses
from dicejax.losses import ghm, ghm_state
from dicejax.losses import ghm_regression as regress
from dicejax.losses import hard_negative_mask as mine

from .cases import BINARY, SOFTMAX, draw
from .every import (
    EVERY,
    HARMONISED,
    QUICKLY,
    RANGES,
    over,
    parameters,
    value_and_gradients,
    with_static_settings,
)

pytestmark = pytest.mark.slow  # as a whole

SHAPE = (3, 167)


def several(case):
    """Return stacked inputs and hyper-parameters of several calls."""
    drawn = [draw(case.form, seed=seed, shape=SHAPE) for seed in range(3)]
    logits, labels, where = map(np.stack, zip(*drawn, strict=True))
    settings = {}
    for name, value in parameters(case).items():
        # A little less or more, so that none leaves its range.
        up = name == "k" or case.function is losses.focal_tversky
        settings[name] = np.stack([value * (1.1 if up else 0.9) ** n for n in range(3)])
    return logits.astype(np.float64), settings, labels, where


@over(EVERY)
def test_vmap_over_data_and_hyper_parameters_is_a_loop(case):
    arguments = several(case)
    with jax.enable_x64(True):
        single = value_and_gradients(case.name)
        mapped = jax.jit(jax.vmap(single), compiler_options=QUICKLY)
        got = jax.tree.leaves(mapped(*arguments))
        for place in range(3):
            want = single(*jax.tree.map(lambda a, i=place: a[i], arguments))
            want = jax.tree.leaves(want)
            for ours, theirs in zip(got, want, strict=True):
                assert ours.dtype == np.float64
                np.testing.assert_allclose(ours[place], theirs, rtol=1e-9, atol=1e-12)


def compiled(loss):
    return loss.jitted._cache_size()


@over([case for case in EVERY if case not in HARMONISED and parameters(case)])
def test_a_new_value_compiles_nothing(case):
    logits, labels, where = draw(case.form, shape=(2, 3))
    function, static = case.function, with_static_settings(case)
    traced = parameters(case)
    static.loss(logits, labels, where=where, **traced)
    bounds = function.declaration.bounds
    for name in traced:  # a number that leaves something out has its program
        if bounds[name].off is not None:
            off = traced | {name: bounds[name].off}
            static.loss(logits, labels, where=where, **off)
    before = compiled(function)
    for name, values in RANGES[function.__name__].items():
        for value in (values[0], np.float64(values[-1]), jnp.float32(values[-1])):
            static.loss(logits, labels, where=where, **traced | {name: value})
    assert compiled(function) == before
    halves = {name: value / 2 for name, value in traced.items() if value.ndim}
    static.loss(logits, labels, where=where, **traced | halves)
    assert compiled(function) == before


def test_new_states_and_momenta_compile_nothing():
    scores, labels, where = draw(BINARY, seed=1)
    states = ghm_state(), ghm_state()
    before = None
    for number in (0.0, 0.5, np.float64(0.9)):
        settings = {"where": where, "momentum": number}
        _, first = ghm(scores, labels, states[0], class_axis=None, **settings)
        _, second = regress(scores, scores + 1, states[1], mu=1 + number, **settings)
        mine(scores, labels == 1, negatives_per_positive=number, minimum=number)
        states, after = (first, second), list(map(compiled, (ghm, regress, mine)))
        assert before in (None, after)
        before = after
    assert [float(state.updates) for state in states] == [3, 3]


def test_a_new_axis_or_choice_compiles_anew():
    logits, labels, _ = draw(SOFTMAX, shape=(3, 17))  # of no other test
    for settings in ({}, {"axis": -1}, {"squared": True}, {"absent": "skip"}):
        before = compiled(losses.dice)
        losses.dice(logits[:2], labels[:2], **settings)
        assert compiled(losses.dice) == before + 1


@over(EVERY)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_results_are_float32_unless_float64(case, dtype):
    logits, labels, _ = draw(case.form)
    loss, traced = with_static_settings(case).loss, parameters(case)
    # Where a Python or NumPy scalar, or float64 probabilities, could promote.
    numbers = {n: float(value) for n, value in traced.items() if value.ndim == 0}
    soft = draw(case.form, "soft").labels.astype(np.float64)
    with jax.enable_x64(True):
        logits = jnp.asarray(logits, dtype)
        want = "float64" if dtype == "float64" else "float32"
        for y in (labels, soft) if case.takes_soft else (labels,):
            for settings in (traced, traced | numbers):
                called = functools.partial(loss, labels=y, **settings)
                assert jax.eval_shape(called, logits).dtype == want
