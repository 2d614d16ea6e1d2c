"""Learning rates over a run, as shares of the highest one.

With W = max(`warmup` * `total_steps`, 1) steps of warm-up and f = `final_share`,

    rise = (step + 1) / W
    left = (total_steps - step) / (total_steps - W)      clipped to [0, 1]
    wave(x) = (1 - cos(pi x)) / 2

    constant      min(rise, 1)
    linear        min(rise, f + (1 - f) left)
    polynomial    min(rise, f + (1 - f) left^power)
    cosine        min(rise, f + (1 - f) wave(left))
    one_cycle     min(1/25 + 24/25 wave(min(step / W, 1)), f + (1 - f) wave(left))

`left` is 1 up to the end of the warm-up, and falls to 0 at `total_steps`: the last
update, number `total_steps - 1`, still moves the parameters. `cosine` is equation 5 of
SGDR (https://arxiv.org/abs/1608.03983) without restarts. `one_cycle` is that of
Super-Convergence (https://arxiv.org/abs/1708.07120) in waves for straight lines, which
rise for close to half of the run: its `warmup` is long.

Both numbers of steps may be traced, so that runs of different length share one compiled
program; optax's schedules refuse a traced number of steps.
"""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

ScheduleName = Literal["linear", "polynomial", "cosine", "one_cycle", "constant"]


def share(
    schedule: ScheduleName,
    step: ArrayLike,
    total_steps: ArrayLike,
    *,
    warmup: float,
    final_share: float,
    power: float,
) -> Array:
    """Return the share of the highest learning rate in update number `step`, from 0."""
    # Division wants floats; float32 is exact up to 2^24 steps.
    step = jnp.asarray(step, jnp.float32)
    total = jnp.asarray(total_steps, jnp.float32)
    warm = jnp.maximum(warmup * total, 1.0)
    rise = (step + 1) / warm
    if schedule == "constant":
        return jnp.minimum(rise, 1.0)
    left = jnp.clip((total - step) / jnp.maximum(total - warm, 1.0), 0.0, 1.0)
    if schedule == "one_cycle":
        rise = _wave(1 / 25, jnp.minimum(step / warm, 1.0))
    if schedule in ("cosine", "one_cycle"):
        return jnp.minimum(rise, _wave(final_share, left))
    if schedule == "polynomial" and power != 1:
        left = left**power
    return jnp.minimum(rise, final_share + (1 - final_share) * left)


def _wave(low: float, x: Array) -> Array:
    """Interpolate from `low` at 0 to 1 at 1 along half a cosine wave."""
    return low + (1 - low) * (1 - jnp.cos(jnp.pi * x)) / 2
