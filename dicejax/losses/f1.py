"""Soft F1: one minus the F-beta score of probabilities instead of decisions."""

import jax.numpy as jnp
from jax import Array

from dicejax.losses.averages import averaged, select
from dicejax.losses.contract import loss
from dicejax.losses.declaration import ANY, POSITIVE, SMOOTH, Absent, Average
from dicejax.losses.dice import share_of
from dicejax.losses.elements import prepare
from dicejax.losses.overlap import OverlapCounts, count


@loss(
    kind="set",
    beta=POSITIVE.tuned(
        0.5, 2.0, scale="log", why="recall counts half or twice as much as precision"
    ),
    smooth=SMOOTH,
)
def soft_f1(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    beta: float | Array = 1.0,
    smooth: float | Array = 1e-5,
    absent: Absent = "smooth",
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "macro",
) -> Array:
    r"""One minus a soft F-beta score over a set, averaged over classes.

    .. math::
        L = 1 - \frac{(1 + \beta^2) I + \gamma}
        {(1 + \beta^2) I + \beta^2 \mathrm{FN} + \mathrm{FP} + \gamma}

    With hard predictions it is one minus the score that evaluation reports: macro, the
    mean over classes, or micro, of counts summed over classes.

    Use it to train on the reported average itself; `exclude_class` leaves out O.

    Pitfalls: Micro over all classes of a softmax is accuracy: name O in
    `exclude_class`. A class without gold adds nearly 1, almost without gradient
    (`absent="skip"` leaves it out).

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      beta: weight of recall against precision; 1 gives F1, per class that of `dice`.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.
      class_weights: floats `[C]` that multiply the losses of classes, before any mean.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.

    Returns:
      Floats, the label axes that `axis` does not name; with "none" then `[C]`, no `[C]`
      in the binary form. "macro" with absent="skip" is the mean over the classes that
      have gold in their set. A fully masked set gives 0.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7, with probabilities
    for decisions (Pastor-Pellicer et al., IWANN 2013).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import soft_f1
      >>> logits = jnp.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 4.0, 0.0]])
      >>> labels = jnp.array([0, 1, 2])
      >>> round(float(soft_f1(logits, labels)), 3)
      0.449
      >>> round(float(soft_f1(logits, labels, average="micro", exclude_class=0)), 3)
      0.509
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class, average)
    losses = _f_beta(count(elements), beta, smooth, absent)
    return averaged(losses, elements, class_weights, average, absent)


@loss(
    kind="set",
    multi_label=True,
    slope=POSITIVE.tuned(
        0.5, 10.0, scale="log", why="above this it is flat one logit away"
    ),
    offset=ANY.tuned(-2.0, 2.0, why="in units of logits, to either side"),
    smooth=SMOOTH,
)
def sigmoid_f1(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    slope: float | Array = 1.0,
    offset: float | Array = 0.0,
    smooth: float | Array = 1e-5,
    absent: Absent = "smooth",
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "macro",
) -> Array:
    r"""One minus the F1 of a scaled and shifted sigmoid, multi-label or binary.

    .. math:: L = 1 - \frac{2 \sum S y + \gamma}{\sum S + \sum y + \gamma},
        \qquad S = \sigma(\beta (z + \eta))

    A steep sigmoid approximates the hard decisions of F1. With slope 1 and offset 0 it
    is `soft_f1` in the multi-label form.

    Use it for multi-label tasks, closer to hard decisions than `soft_f1`.

    Pitfalls: A steep sigmoid is flat elsewhere: at slope 4 an element one logit away
    from the decision has 7% of the slope, three away none. A class without gold as in
    `soft_f1`.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: 0 or 1, or float probabilities, like the logits; -100 masks one entry.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      slope: beta; the gradient fades where slope times the distance is large.
      offset: eta, in units of logits; the decision is at z = -eta.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.
      class_weights: floats `[C]` that multiply the losses of classes, before any mean.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.

    Returns:
      Floats as those of `soft_f1`.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Bénédict et al., TMLR 2022, eq. 8 to 12 (https://arxiv.org/abs/2108.10566).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import sigmoid_f1
      >>> logits = jnp.array([[2.0, -1.0], [-2.0, -1.0]])
      >>> labels = jnp.array([[1, 0], [0, 1]])
      >>> round(float(sigmoid_f1(logits, labels, slope=4.0)), 3)
      0.483
    """
    elements = prepare(logits, labels, where, class_axis, True, axis, axis_name)
    elements = select(elements, exclude_class, average)
    elements = elements._replace(logits=slope * (elements.logits + offset))
    losses = _f_beta(count(elements), 1.0, smooth, absent)
    return averaged(losses, elements, class_weights, average, absent)


def _f_beta(
    counts: OverlapCounts, beta: float | Array, smooth: float | Array, absent: Absent
) -> Array:
    overlap, actual = counts.intersection, counts.actual
    # A difference of sums may round to below 0.
    wrong = (counts.predicted - overlap) + beta**2 * (actual - overlap)
    wrong = jnp.where(wrong < 0, 0, wrong)
    right = (1 + beta**2) * overlap
    return share_of(wrong, right + wrong + smooth, actual, absent)
