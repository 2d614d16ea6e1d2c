"""The self-adjusting Dice loss (DSC): easy elements weigh less."""

from typing import Literal

import jax.numpy as jnp
from jax import Array
from jax.nn import log_sigmoid

from dicejax.losses.averages import averaged, select
from dicejax.losses.contract import loss
from dicejax.losses.declaration import NON_NEGATIVE, SMOOTH, Average
from dicejax.losses.dice import dice_of
from dicejax.losses.elements import gold_logit, prepare, self_adjust
from dicejax.losses.overlap import OverlapCounts, count


@loss(
    "dsc",
    kind="set",
    alpha=NON_NEGATIVE.tuned(
        0.01, 1.0, scale="log", why="from the scripts of Li et al. 2020 to their eq. 11"
    ),
    smooth=SMOOTH,
)
def self_adjusting_dice(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    alpha: float | Array = 0.01,
    smooth: float | Array = 1.0,
    squared: bool = True,
    form: Literal["gold", "one_versus_rest"] = "one_versus_rest",
    stop_gradient_weight: bool = False,
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
) -> Array:
    r"""Self-adjusting Dice loss of each class over a set, or of each element.

    .. math::
        L = 1 - \frac{2 \sum f y + \gamma}{\sum f + \sum y + \gamma},
        \qquad f = (1 - p)^\alpha p

    `squared` sums squares in the denominator, f^2 and y^2, as the paper's DL and its
    authors' code do: without it many small probabilities push a rare class down faster
    than it is learned. With `axis=(), squared=False, alpha=1` it is eq. 11, a loss of
    each element (the preset `dsc-eq11`). The published code (the preset `dsc-official`)
    is this loss for binary outputs, and of each element for several classes: on
    those, at its defaults, it is neither.

    The factor has its own optimum: f is largest at p* = 1 / (1 + alpha), 0.990 for
    0.01, 0.909 for 0.1, 0.5 for 1. Positives are trained to p*, not to 1, and down
    again beyond it. Published scripts use alpha = 0.01. With `stop_gradient_weight` the
    factor is a constant weight: the gradient pushes every positive up, whatever alpha,
    but is no longer that of the loss.

    The form "gold" uses p of the gold class alone: with alpha 0 it is (1 - p) / (1 + p
    + gamma), hence a surrogate for accuracy and not for F1. Over sets larger than an
    element, batch composition matters: see `dice`.

    Use it to down-weight confident elements, or to reproduce the paper's DSC, with
    :math:`\alpha` about 0.01.

    Pitfalls: Its own optimum: :math:`\alpha = 1` trains positives to 0.5, the threshold
    itself. With :math:`\alpha` over 0 a false positive of p = 1 has :math:`f = 0`, so
    its loss returns to 0. `form="gold"` follows accuracy, not F1.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      alpha: exponent of the factor; 0 gives `dice`.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      squared: whether to sum squares in the denominator.
      form: "one_versus_rest": every class as a separate binary problem. "gold": only
        the gold class of each element, y = 1; needs integer labels and `axis=()`. In
        the binary and the multi-label form classes are binary problems already, and
        `form` changes nothing.
      stop_gradient_weight: whether :math:`(1-p)^\alpha` is a constant for gradients.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.
      class_weights: floats `[C]` that multiply the losses of classes, before any mean.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.

    Returns:
      Floats. "one_versus_rest": the label axes that `axis` does not name, then `[C]`;
      no `[C]` in the binary form; 0 where masked or where a set is empty. "gold":
      `[...]`, 0 where masked.

    Raises:
      ValueError: if shapes or axes do not fit, if "gold" gets float labels or a set, or
        if a known label or hyper-parameter is out of its range.

    Source: Li et al., ACL 2020, eq. 11 (https://arxiv.org/abs/1911.02855v1), with the
    ACL edition's 2, alpha and gamma (https://aclanthology.org/2020.acl-main.45). Its
    gamma of 1 is the default; with few elements of a class per set take less, as 0.01.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import self_adjusting_dice
      >>> logits = jnp.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
      >>> labels = jnp.array([0, 2])
      >>> losses = self_adjusting_dice(logits, labels)
      >>> [round(x, 3) for x in losses.tolist()]
      [0.002, 0.465, 0.482]
      >>> written = {"axis": (), "form": "gold", "squared": False}
      >>> losses = self_adjusting_dice(logits, labels, **written)
      >>> [round(x, 3) for x in losses.tolist()]
      [0.023, 0.487]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    if form == "one_versus_rest" or elements.form != "softmax":
        elements = select(elements, exclude_class, average)
        counts = count(
            elements,
            squared=squared,
            alpha=alpha,
            stop_gradient_weight=stop_gradient_weight,
        )
        losses = dice_of(counts, smooth=smooth)
        return averaged(losses, elements, class_weights, average)

    rival = "use form='one_versus_rest'"
    if exclude_class is not None or average == "micro":
        raise ValueError(f"form='gold' has a single value for all classes; {rival}")
    if axis != ():
        raise ValueError(f"axis is {axis} but form='gold' wants axis=(); {rival}")
    if not elements.hard:
        raise ValueError(f"labels are {labels.dtype}, not integers; {rival}")
    gold = gold_logit(elements)
    f = self_adjust(
        log_sigmoid(gold),
        log_sigmoid(-gold),
        alpha,
        stop_gradient_weight=stop_gradient_weight,
    )
    counts = OverlapCounts(
        intersection=f, predicted=f * f if squared else f, actual=jnp.ones_like(f)
    )
    losses = elements.mask(dice_of(counts, smooth=smooth))
    return averaged(losses, elements, class_weights, average)
