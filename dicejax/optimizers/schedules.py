"""Learning rates over a run, as shares of the highest one.

Each is a function of the number of updates done and planned, `step` and `total_steps`.
Both may be traced, so that runs of different length share one compiled program.
`warmup` is the share of the updates over which the rate rises, `final_share` the share
of the highest rate that is left at `total_steps`. With W = max(`warmup` *
`total_steps`, 1) steps of warm-up and the final share f,

    rise = (step + 1) / W
    left = (total_steps - step) / (total_steps - W)      clipped to [0, 1]

`left` is 1 up to the end of the warm-up, and falls to 0 at `total_steps`: the last
update, number `total_steps - 1`, still moves the parameters.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

FIRST_OF_ONE_CYCLE = 1 / 25
"""The share of the highest rate at which `one_cycle` starts."""


def constant(step: ArrayLike, total_steps: ArrayLike, *, warmup: float = 0.1) -> Array:
    """Return min(rise, 1), the highest rate after the warm-up.

    >>> [round(float(constant(step, 20)), 3) for step in (0, 1, 2, 11, 20)]
    [0.5, 1.0, 1.0, 1.0, 1.0]
    """
    return jnp.minimum(_rise(step, total_steps, warmup), 1.0)


def linear(
    step: ArrayLike,
    total_steps: ArrayLike,
    *,
    warmup: float = 0.1,
    final_share: float = 0.0,
) -> Array:
    """Return min(rise, f + (1 - f) left), linear after the warm-up.

    >>> [round(float(linear(step, 20)), 3) for step in (0, 1, 2, 11, 20)]
    [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    return polynomial(step, total_steps, warmup=warmup, final_share=final_share)


def polynomial(
    step: ArrayLike,
    total_steps: ArrayLike,
    *,
    warmup: float = 0.1,
    final_share: float = 0.0,
    power: float = 1.0,
) -> Array:
    """Return min(rise, f + (1 - f) left^power), a power of the steps left.

    A power above 1 falls fast at first, one below 1 fast at the end; it is above 0.

    >>> [round(float(polynomial(step, 20, power=2.0)), 3) for step in (0, 1, 2, 11, 20)]
    [0.5, 1.0, 1.0, 0.25, 0.0]
    """
    left = _left(step, total_steps, warmup)
    if power != 1:
        left = left**power
    fall = final_share + (1 - final_share) * left
    return jnp.minimum(_rise(step, total_steps, warmup), fall)


def cosine(
    step: ArrayLike,
    total_steps: ArrayLike,
    *,
    warmup: float = 0.1,
    final_share: float = 0.0,
) -> Array:
    """Return min(rise, f + (1 - f) (1 - cos(pi left)) / 2), half a cosine wave.

    Loshchilov & Hutter (2017), SGDR, https://arxiv.org/abs/1608.03983, equation 5,
    without restarts.

    >>> [round(float(cosine(step, 20)), 3) for step in (0, 1, 2, 8, 11, 20)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.0]
    """
    fall = _waved(final_share, _left(step, total_steps, warmup))
    return jnp.minimum(_rise(step, total_steps, warmup), fall)


def one_cycle(
    step: ArrayLike,
    total_steps: ArrayLike,
    *,
    warmup: float = 0.1,
    final_share: float = 0.0,
) -> Array:
    """Return two half cosine waves, up from 1/25 and down to the final share.

        rise = 1/25 + 24/25 (1 - cos(pi min(step / W, 1))) / 2
        fall = f + (1 - f) (1 - cos(pi left)) / 2

    and the smaller of the two. This is the one cycle of Smith & Topin (2018),
    Super-Convergence, https://arxiv.org/abs/1708.07120, in waves for their straight
    lines; they rise for close to half of the run, so `warmup` wants to be long.

    >>> [round(float(one_cycle(step, 20, warmup=0.4)), 3) for step in (0, 4, 8, 14, 20)]
    [0.04, 0.52, 1.0, 0.5, 0.0]
    """
    now, _, warm = _times(step, total_steps, warmup)
    rise = _waved(FIRST_OF_ONE_CYCLE, jnp.minimum(now / warm, 1.0))
    return jnp.minimum(rise, _waved(final_share, _left(step, total_steps, warmup)))


def _times(
    step: ArrayLike, total_steps: ArrayLike, warmup: float
) -> tuple[Array, Array, Array]:
    # Division wants floats; float32 is exact up to 2^24 steps.
    step = jnp.asarray(step, jnp.float32)
    total = jnp.asarray(total_steps, jnp.float32)
    return step, total, jnp.maximum(warmup * total, 1.0)


def _rise(step: ArrayLike, total_steps: ArrayLike, warmup: float) -> Array:
    step, _, warm = _times(step, total_steps, warmup)
    return (step + 1) / warm


def _left(step: ArrayLike, total_steps: ArrayLike, warmup: float) -> Array:
    step, total, warm = _times(step, total_steps, warmup)
    return jnp.clip((total - step) / jnp.maximum(total - warm, 1.0), 0.0, 1.0)


def _waved(low: float, x: Array) -> Array:
    """Interpolate from `low` at 0 to 1 at 1 along half a cosine wave."""
    return low + (1 - low) * (1 - jnp.cos(jnp.pi * x)) / 2
