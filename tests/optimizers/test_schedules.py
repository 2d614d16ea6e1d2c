"""The schedules vs. optax's, whose run has a fixed length."""

import jax
import numpy as np
import optax
import pytest

from dicejax.optimizers import AdamW

TOTAL, WARM = 40, 10
NAMES = ("constant", "linear", "polynomial", "cosine", "one_cycle")


def shares(name, total=TOTAL, warmup=WARM / TOTAL, **settings):
    """Return the share of the peak, 2, at every step, in one program."""
    settings |= {"schedule": name, "warmup": warmup}
    rate = AdamW(learning_rate=2.0, **settings).rate
    steps = jax.numpy.arange(total + 1)
    return np.asarray(jax.jit(jax.vmap(rate, (0, None)))(steps, total)) / 2.0


def is_optax(values, schedule):
    # Its one-cycle schedule takes one step at a time.
    expected = [schedule(step) for step in range(len(values))]
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["constant", "linear", "polynomial", "cosine"])
def test_the_warm_up_is_a_straight_line(name):
    line = optax.linear_schedule(1 / WARM, 1.0, WARM - 1)
    expected = line(np.arange(WARM + 1))
    np.testing.assert_allclose(shares(name)[: WARM + 1], expected, rtol=1e-6)


@pytest.mark.parametrize("final", [0.0, 0.2])
@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_the_decays_are_those_of_optax(power, final):
    length = TOTAL - WARM
    values = shares("polynomial", power=power, final_share=final)
    is_optax(values[WARM:], optax.polynomial_schedule(1.0, final, power, length))
    if power == 1:
        linear = shares("linear", power=3.0, final_share=final)
        np.testing.assert_array_equal(linear, values)
        cosine = shares("cosine", final_share=final)[WARM:]
        is_optax(cosine, optax.cosine_decay_schedule(1.0, length, alpha=final))
        constant = shares("constant", final_share=final)[WARM:]
        np.testing.assert_array_equal(constant, 1.0)


@pytest.mark.parametrize("low", [1e4, 2.0])
def test_one_cycle_is_that_of_optax(low):
    schedule = optax.cosine_onecycle_schedule(
        TOTAL, 1.0, pct_start=WARM / TOTAL, div_factor=25.0, final_div_factor=low
    )
    is_optax(shares("one_cycle", final_share=1 / (25 * low)), schedule)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("warmup", [0.0, 0.33, 1.0])
@pytest.mark.parametrize("total", [1, 2, 7])
def test_any_run_has_shares_between_zero_and_one(name, warmup, total):
    values = shares(name, total, warmup)
    assert np.isfinite(values).all()
    assert (values >= 0).all() and (values <= 1).all() and (values[:-1] > 0).all()


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_run_ends_at_the_final_share_and_runs_of_any_length_share_a_program(name):
    optimizer = AdamW(learning_rate=1.0, schedule=name, final_share=0.25)
    rate = jax.jit(optimizer.rate)
    for total in (TOTAL, 100 * TOTAL):
        ends = [float(rate(step, total)) for step in (total, total + 5)]
        assert ends == pytest.approx([0.25] * 2)
    assert rate._cache_size() == 1
