"""Labels of an output that are uncertain, or whose examples have weights."""

from __future__ import annotations

import dataclasses

import jax
from jax import Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Gold:
    r"""Labels with the probabilities of classes, or the weights of examples.

    An objective takes it instead of an array of labels. With weights a mean over
    elements is

    .. math:: L = \frac{\sum_i w_i l_i}{\sum_i w_i}

    so that an element of weight 2 has the effect of two of weight 1. Means over the
    labels or the sets of elements are the same, each with the weight of its element.

    Attributes:
      labels: ints as of any objective; they say what is masked and are counted.
      probabilities: float `[..., C]`, the soft labels of a softmax; None if labels are
        sure.
      weights: float `[B, ...]`, the first axes of the labels, from 0 on; None: all 1.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.objectives import CrossEntropy, Gold
      >>> logits = {"label": jnp.array([[2.0, 0.0], [0.0, 0.0]])}
      >>> twice = {"label": jnp.array([[2.0, 0.0], [2.0, 0.0], [0.0, 0.0]])}
      >>> gold = Gold(jnp.array([1, 0]), weights=jnp.array([2.0, 1.0]))
      >>> round(float(CrossEntropy()(logits, {"label": gold})[0]), 4)
      1.649
      >>> round(float(CrossEntropy()(twice, {"label": jnp.array([1, 1, 0])})[0]), 4)
      1.649
    """

    labels: Array
    probabilities: Array | None = None
    weights: Array | None = None

    def weigh(self, values: Array) -> Array:
        """Multiply values of elements, or of their classes, by the weights if any."""
        if self.weights is None:
            return values
        axes = (1,) * (values.ndim - self.weights.ndim)
        return self.weights.reshape(self.weights.shape + axes) * values


def as_gold(labels: Array | Gold) -> Gold:
    """Return labels as gold without probabilities or weights, unless they are gold."""
    return labels if isinstance(labels, Gold) else Gold(labels)
