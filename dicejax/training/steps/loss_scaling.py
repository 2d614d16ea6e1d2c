"""Dynamic loss scaling, which keeps the gradients of float16 networks in range."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

FIRST_SCALE = 2.0**15
GROWS_AFTER = 1000
LARGEST_SCALE = 2.0**24


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LossScaling:
    """The factor of the loss, and how long it has gone well.

    The smallest float16 is 6e-8, and most gradients of an encoder lie below: they are
    computed for the loss times a power of two and divided by it afterwards, in float32.
    The factor is halved when a gradient overflows, and doubled after 1000 steps without
    (Micikevicius et al., 2018, https://arxiv.org/abs/1710.03740).

    Attributes:
      scale: float32 scalar, a power of two.
      good_steps: int32 scalar, steps without overflow since the factor changed.

    >>> scaling = LossScaling.create()
    >>> float(scaling.scale), float(scaling.after(jnp.array(False)).scale)
    (32768.0, 16384.0)
    """

    scale: Array
    good_steps: Array

    @classmethod
    def create(cls) -> LossScaling:
        """Return the factor at the beginning."""
        return cls(jnp.float32(FIRST_SCALE), jnp.int32(0))

    def unscaled(self, gradients: Any) -> Any:
        """Divide by the factor, which is exact, as it is a power of two."""
        return jax.tree.map(lambda g: g / self.scale, gradients)

    def after(self, finite: Array) -> LossScaling:
        """Return the factor for the next step.

        Args:
          finite: bool scalar, whether the gradient of this step was.
        """
        good_steps = jnp.where(finite, self.good_steps + 1, 0)
        grown = good_steps == GROWS_AFTER
        larger = jnp.where(
            grown, jnp.minimum(2 * self.scale, LARGEST_SCALE), self.scale
        )
        smaller = jnp.maximum(self.scale / 2, 1.0)
        return LossScaling(
            jnp.where(finite, larger, smaller), jnp.where(grown, 0, good_steps)
        )
