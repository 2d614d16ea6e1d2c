"""The schedules vs. optax's, whose run has a fixed length."""

import jax
import numpy as np
import optax
import pytest

from dicejax.optimizers import AdamW

TOTAL, WARM = 40, 10
NAMES = ("constant", "linear", "polynomial", "cosine", "one_cycle")


def shares(name, total=TOTAL, **settings):
    """Return the share at every step, in one program."""
    rate = AdamW(learning_rate=1.0, schedule=name, **settings).rate
    steps = jax.numpy.arange(total + 1)
    return np.asarray(jax.jit(jax.vmap(rate, (0, None)))(steps, total))


@pytest.mark.parametrize("name", ["constant", "linear", "polynomial", "cosine"])
def test_the_warm_up_is_a_straight_line(name):
    wanted = optax.linear_schedule(1 / WARM, 1.0, WARM - 1)
    got = shares(name, warmup=WARM / TOTAL)[: WARM + 1]
    np.testing.assert_allclose(got, wanted(np.arange(WARM + 1)), rtol=1e-6)


@pytest.mark.parametrize("final_share", [0.0, 0.2])
@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_the_polynomial_is_that_of_optax(power, final_share):
    wanted = optax.polynomial_schedule(
        1.0, final_share, power, transition_steps=TOTAL - WARM, transition_begin=WARM
    )
    settings = {"warmup": WARM / TOTAL, "final_share": final_share}
    got = shares("polynomial", power=power, **settings)
    steps = np.arange(WARM, TOTAL + 1)
    np.testing.assert_allclose(got[WARM:], wanted(steps), rtol=1e-5, atol=1e-6)
    if power == 1:
        np.testing.assert_array_equal(shares("linear", power=3.0, **settings), got)


@pytest.mark.parametrize("final_share", [0.0, 0.2])
def test_the_cosine_is_that_of_optax(final_share):
    wanted = optax.cosine_decay_schedule(1.0, TOTAL - WARM, alpha=final_share)
    got = shares("cosine", warmup=WARM / TOTAL, final_share=final_share)
    steps = np.arange(TOTAL - WARM + 1)
    np.testing.assert_allclose(got[WARM:], wanted(steps), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("low", [1e4, 2.0])
def test_one_cycle_is_that_of_optax(low):
    wanted = optax.cosine_onecycle_schedule(
        TOTAL, 1.0, pct_start=WARM / TOTAL, div_factor=25.0, final_div_factor=low
    )
    got = shares("one_cycle", warmup=WARM / TOTAL, final_share=1 / (25 * low))
    wanted = [wanted(step) for step in range(TOTAL + 1)]  # it takes one at a time
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_constant_stays_at_the_highest():
    got = shares("constant", warmup=WARM / TOTAL, final_share=0.2)
    np.testing.assert_array_equal(got[WARM:], 1.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("warmup", [0.0, 0.33, 1.0])
@pytest.mark.parametrize("total", [1, 2, 7])
def test_any_run_has_shares_between_zero_and_one(name, warmup, total):
    got = shares(name, total, warmup=warmup)
    assert np.isfinite(got).all()
    assert (got >= 0).all() and (got <= 1).all() and (got[:-1] > 0).all()


@pytest.mark.parametrize("name", [n for n in NAMES if n != "constant"])
def test_a_run_ends_at_the_final_share_and_stays_there(name):
    optimizer = AdamW(learning_rate=1.0, schedule=name, final_share=0.25)
    for step in (TOTAL, TOTAL + 5):
        assert float(optimizer.rate(step, TOTAL)) == pytest.approx(0.25)


@pytest.mark.parametrize("name", NAMES)
def test_runs_of_different_length_share_a_program(name):
    traces = 0

    @jax.jit
    def rate(step, total_steps):
        nonlocal traces
        traces += 1
        return AdamW(schedule=name, warmup=0.2).rate(step, total_steps)

    found = [float(rate(step, total)) for step, total in ((9, 40), (99, 4000))]
    assert traces == 1 and found[0] != found[1]


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
