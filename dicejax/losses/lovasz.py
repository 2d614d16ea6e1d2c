"""Lovász losses: convex extensions of the Jaccard loss of decisions."""

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses.averages import averaged, select
from dicejax.losses.contract import loss
from dicejax.losses.declaration import Absent, Average
from dicejax.losses.elements import Elements, if_impossible, prepare, probabilities
from dicejax.losses.ranking import over_set, unsort


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
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
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
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      absent: loss of a class without gold in its set. "skip": 0, as its authors'
        "present"; "smooth": the formula, which is the largest error.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.
      class_weights: floats `[C]` that multiply the losses of classes, before any mean.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.

    Returns:
      Floats, one per set and class `[..., C]`, per set in the binary form; 0 if masked.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Berman et al., CVPR 2018, eq. 8 and 9 (https://arxiv.org/abs/1705.08790).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import lovasz_softmax
      >>> logits = jnp.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
      >>> [round(x, 3) for x in lovasz_softmax(logits, jnp.array([0, 1, 1])).tolist()]
      [0.5, 0.5]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class, average)
    y = elements.targets
    losses = _extension(elements, jnp.abs(y - probabilities(elements)), absent)
    return averaged(losses, elements, class_weights, average, absent)


@loss(kind="set", multi_label=True)
def lovasz_hinge(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    absent: Absent = "smooth",
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
) -> Array:
    r"""Lovász hinge of each class over a set: the Jaccard loss of a margin of 1.

    .. math::
        L_c = \sum_i m_{(i)} \left( \Delta_J(\{1..i\}) - \Delta_J(\{1..i-1\}) \right),
        \qquad m_i = \max(0, 1 - (2 y_{ic} - 1) z_{ic})

    with the hinges m in falling order and Delta_J the Jaccard loss of getting just
    those elements wrong: `lovasz_softmax` of hinges of the logits in place of errors of
    p. It is an upper bound of the Jaccard loss of decisions at z = 0.

    Use it with several labels or a binary output, to end training on intersection over
    union; unlike `lovasz_softmax` it keeps its slope where p is near 0 or 1.

    Pitfalls: It is not bounded, and logits are scores: their sigmoid is no probability.
    Elements right by a margin of 1 have slope 0, as have those with hinges under that
    of the best positive. It sorts, and under `axis_name` each device gathers the set.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: 0 or 1 as integers or bools, shaped like the logits; -100 masks one entry.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      absent: loss of a class without gold in its set. "smooth": the formula, which is
        the largest hinge; "skip": 0.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.
      class_weights: floats `[C]` that multiply the losses of classes, before any mean.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.

    Returns:
      Floats, one per set and class `[..., C]`, per set in the binary form; 0 if masked.
      Labels must be integers.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Yu and Blaschko, ICML 2015 (https://arxiv.org/abs/1512.07797), and Berman et
    al., CVPR 2018 (https://arxiv.org/abs/1705.08790).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import lovasz_hinge
      >>> logits, labels = jnp.array([2.0, -1.0, 0.5]), jnp.array([1, 0, 0])
      >>> print(f"{lovasz_hinge(logits, labels, class_axis=None):.3f}")
      0.750
    """
    elements = prepare(logits, labels, where, class_axis, True, axis, axis_name)
    elements = select(elements, exclude_class, average)
    elements.require_integers()
    signs = 2 * elements.targets - 1
    losses = _extension(elements, jnp.maximum(1 - signs * elements.logits, 0), absent)
    return averaged(losses, elements, class_weights, average, absent)


def _extension(elements: Elements, errors: Array, absent: Absent) -> Array:
    """Return the errors times the growth of the Jaccard loss in their falling order."""
    errors, y = elements.mask(errors), elements.targets
    mask = elements.where
    mask = mask[..., None] if errors.ndim > mask.ndim else mask
    # Masked elements, whose error is 0, come last and change nothing.
    keys = jnp.where(mask, -errors, 1)
    slopes = over_set(_slopes, (keys, y), elements.axes, elements.axis_name)
    losses = errors * slopes + if_impossible(-errors, slopes)
    losses, actual = elements.total(losses, y)
    return jnp.where(actual > 0, losses, 0) if absent == "skip" else losses


def _slopes(keys: Array, targets: Array) -> Array:
    """Return the growth of the Jaccard loss with each wrong element, `[..., S]`."""
    places = jax.lax.broadcasted_iota(jnp.int32, keys.shape, keys.ndim - 1)
    keys, y, order = jax.lax.sort((keys, targets, places), num_keys=1)
    left = jnp.sum(y, axis=-1, keepdims=True) - jnp.cumsum(y, axis=-1)
    losses = 1 - left / (left + 1 + places)
    return unsort(jnp.diff(losses, axis=-1, prepend=0), order)
