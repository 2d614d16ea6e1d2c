"""Weights of examples, as scales of the gradients of their logits."""

from __future__ import annotations

from collections.abc import Mapping

import jax
from jax import Array


def weighted(
    outputs: Mapping[str, Array], batch: Mapping[str, Array]
) -> Mapping[str, Array]:
    """Scale the gradients of logits by the weights of their examples, values unchanged.

    With weights 1 / (n q), for examples drawn with probability q, the gradient of a
    mean over elements is on average that of all examples drawn alike.

    Args:
      outputs: logits by name, `[B, T, ...]` or `[B, S, ...]`.
      batch: may have `token_weights` `[B, T]` and `sequence_weights` `[B, S]`.
    """
    if "token_weights" not in batch:
        return outputs

    def scaled(logits: Array) -> Array:
        weights = batch["token_weights"]
        if logits.shape[: weights.ndim] != weights.shape:
            weights = batch["sequence_weights"]
        weights = weights.reshape(weights.shape + (1,) * (logits.ndim - weights.ndim))
        return weights * logits + jax.lax.stop_gradient((1 - weights) * logits)

    return {name: scaled(logits) for name, logits in outputs.items()}
