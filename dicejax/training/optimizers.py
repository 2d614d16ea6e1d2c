"""Optimisers and their learning rates over a run."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamW:
    """AdamW with warm-up, linear decay to zero, clipping and a decay mask.

    Args:
      learning_rate: the highest one, reached at the end of the warm-up.
      warmup: share of all steps over which the learning rate rises from zero.
      weight_decay: decoupled decay; biases and normalisation scales are exempt.
      clip_norm: gradients are scaled down to this global norm.
      b1: decay of the first moment.
      b2: decay of the second moment.
      eps: added to the root of the second moment.
    """

    learning_rate: float = 5e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8

    def __post_init__(self):
        if not 0 <= self.warmup <= 1:
            raise ValueError(f"warmup is {self.warmup}; want a share between 0 and 1")
        for name in ("learning_rate", "clip_norm"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; want more than 0")

    def transform(self) -> optax.GradientTransformation:
        """Return the update rule for a learning rate of 1; the step scales it."""
        return optax.chain(
            optax.clip_by_global_norm(self.clip_norm),
            optax.scale_by_adam(self.b1, self.b2, self.eps),
            optax.add_decayed_weights(self.weight_decay, mask=decay_mask),
        )

    def rate(self, step: Array, total_steps: Array) -> Array:
        """Return the learning rate of the update number `step`, counted from 0.

        It rises to its highest at step `warmup * total_steps` and falls to zero at
        `total_steps`. `total_steps` is an array, so that runs of different length
        share one compiled program.

        >>> [float(AdamW(learning_rate=1.0).rate(s, 20)) for s in (0, 1, 2, 11, 20)]
        [0.5, 1.0, 1.0, 0.5, 0.0]
        """
        step, total = jnp.asarray(step, jnp.float32), jnp.asarray(total_steps)
        warm = jnp.maximum(self.warmup * total, 1.0)
        rising = (step + 1) / warm
        falling = (total - step) / jnp.maximum(total - warm, 1.0)
        return self.learning_rate * jnp.clip(jnp.minimum(rising, falling), 0.0, 1.0)


def decay_mask(params: Any) -> Any:
    """Mark what weight decay applies to: every parameter but biases and norm scales.

    Whatever ends in "bias" is one, as those that XLNet adds to its queries.

    >>> decay_mask({"kernel": 0, "content_bias": 0, "norm": {"scale": 0}})
    {'content_bias': False, 'kernel': True, 'norm': {'scale': False}}
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, _: not path[-1].key.endswith(("bias", "scale")), params
    )
