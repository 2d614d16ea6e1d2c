"""Lovász-softmax: a convex extension of the Jaccard loss of decisions."""

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses.contract import loss
from dicejax.losses.declaration import Absent
from dicejax.losses.elements import prepare, set_axes
from dicejax.losses.ranking import over_set, unsorted


@loss("lovasz", kind="set")
def lovasz_softmax(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    absent: Absent = "skip",
    axis_name: str | tuple[str, ...] | None = None,
) -> Array:
    r"""Lovász-softmax loss of each class over a set.

    .. math::
        L_c = \sum_i m_{(i)} \left( \Delta_J(\{1..i\}) - \Delta_J(\{1..i-1\}) \right),
        \qquad m_i = |y_{ic} - p_{ic}|

    with the errors m in falling order and Delta_J the Jaccard loss of getting just
    those elements wrong. For hard predictions it is 1 - intersection over union.

    Use it to end training on intersection over union, without a `smooth` to choose.

    Pitfalls: It sorts: :math:`N \log N` per class, and under `axis_name` each device
    gathers the whole set. Elements with errors under that of the best positive have
    slope 0. By default a class without gold has loss 0 for any prediction.

    Args:
      absent: loss of a class without gold in its set. "skip": 0, as its authors'
        "present"; "smooth": the formula, which is the largest error.

    Returns:
      Floats, the label axes that `axis` does not name, then `[C]`; no `[C]` in the
      binary form. A fully masked set gives 0.

    Source: Berman et al., CVPR 2018, eq. 8 and 9 (https://arxiv.org/abs/1705.08790).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import lovasz_softmax
      >>> logits = jnp.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
      >>> [round(x, 3) for x in lovasz_softmax(logits, jnp.array([0, 1, 1])).tolist()]
      [0.5, 0.5]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label)
    axes = set_axes(axis, elements.label_axes)
    softmax = elements.form == "softmax"
    p = (jax.nn.softmax if softmax else jax.nn.sigmoid)(elements.logits)
    y = elements.targets
    errors = elements.mask(jnp.abs(y - p))
    mask = elements.where[..., None] if softmax else elements.where
    # Masked elements, whose error is 0, come last and change nothing.
    keys = jnp.where(mask, -errors, 1)
    slopes = over_set(_slopes, (keys, y), axes, axis_name)
    sums = (jnp.sum(errors * slopes, axis=axes), jnp.sum(y, axis=axes))
    losses, actual = sums if axis_name is None else jax.lax.psum(sums, axis_name)
    return jnp.where(actual > 0, losses, 0) if absent == "skip" else losses


def _slopes(keys: Array, targets: Array) -> Array:
    """Return the growth of the Jaccard loss with each wrong element, `[..., S]`."""
    places = jax.lax.broadcasted_iota(jnp.int32, keys.shape, keys.ndim - 1)
    keys, y, order = jax.lax.sort((keys, targets, places), num_keys=1)
    left = jnp.sum(y, axis=-1, keepdims=True) - jnp.cumsum(y, axis=-1)
    losses = 1 - left / (left + 1 + places)
    return unsorted(jnp.diff(losses, axis=-1, prepend=0), order)
