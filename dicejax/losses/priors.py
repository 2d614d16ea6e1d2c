"""Losses that use class frequencies: margins and adjusted logits."""

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.nn import log_sigmoid

from dicejax.losses.contract import check_hyperparameters, loss
from dicejax.losses.declaration import (
    CLASS_COUNTS,
    CLASS_WEIGHTS,
    NON_NEGATIVE,
    POSITIVE,
    TAU,
)
from dicejax.losses.elements import (
    Elements,
    at_label,
    form_of,
    gold_logit,
    if_impossible,
    over_labels,
    prepare,
)


@loss(kind="pointwise", class_counts=CLASS_COUNTS, tau=TAU)
def logit_adjusted(
    logits: Array,
    labels: Array,
    *,
    class_counts: Array,
    where: Array | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    tau: float | Array = 1.0,
) -> Array:
    r"""Logit-adjusted cross-entropy: log class frequencies added to the logits.

    .. math:: L = -\sum_c y_c \log \mathrm{softmax}(z + \tau \log n)_c

    n are the class counts. In the binary and the multi-label form z becomes :math:`z +
    \tau \log(n_1 / n_0)`. Predictions use z itself, which for tau 1 minimises the
    balanced error.

    Use it when each class counts the same in the metric (balanced accuracy, macro
    recall) and counts are known.

    Pitfalls: A count of 0 is refused: use at least 1. If training resamples, counts
    must be those of its batches, not of the corpus. `adjust_logits` on top adjusts
    twice. Accuracy drops if the test set is as imbalanced as the training set.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      class_counts: positive floats `[C]`, counts of the classes or proportional to
        them; `[2]` in the binary form, `[C, 2]` (of 0 and 1) in the multi-label form.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      tau: strength of the adjustment; 0 is cross-entropy.

    Returns:
      Floats `[...]`, `[..., C]` in the multi-label form, 0 where masked.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Menon et al., ICLR 2021, eq. 10 (https://arxiv.org/abs/2007.07314).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import logit_adjusted
      >>> counts = jnp.array([90.0, 10.0])
      >>> logits, labels = jnp.zeros((2, 2)), jnp.array([0, 1])
      >>> losses = logit_adjusted(logits, labels, class_counts=counts)
      >>> [round(x, 3) for x in losses.tolist()]
      [0.105, 2.303]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label)
    log_odds = _log_odds(class_counts, sigmoid=elements.form != "softmax")
    elements = elements._replace(logits=elements.logits + tau * log_odds)
    return over_labels(elements, lambda log_p, log_q: -log_p)


def adjust_logits(
    logits: Array,
    *,
    class_counts: Array,
    tau: float | Array = 1.0,
    class_axis: int | None = -1,
    multi_label: bool = False,
) -> Array:
    r"""Post-hoc logit adjustment: removes the class frequencies from a trained model.

    .. math:: z - \tau \log \pi, \qquad \pi = n / \sum n

    For a model trained with plain cross-entropy; its argmax then favours no class. In
    the binary and the multi-label form: :math:`z - \tau \log(n_1 / n_0)`.

    Use it for the effect of `logit_adjusted` without training again.

    Pitfalls: A model trained with class weights or with `logit_adjusted` is adjusted
    twice. A count of 0 is refused.

    Args:
      logits: floats `[..., C]`, or `[...]` in the binary form.
      class_counts: positive floats `[C]`: how often each class occurs; `[2]` in the
        binary form (of label 0 and 1); `[C, 2]` in the multi-label form.
      tau: strength of the adjustment; 0 changes nothing.
      class_axis: the axis of the logits that holds the classes; None for the binary
        form.
      multi_label: whether each class has its own sigmoid.

    Returns:
      Floats shaped like the logits; float32, or float64 for float64 logits.

    Raises:
      ValueError: if the counts' shape does not fit, or a known count is not positive.

    Source: Menon et al., ICLR 2021, eq. 9 (https://arxiv.org/abs/2007.07314).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import adjust_logits
      >>> adjusted = adjust_logits(jnp.zeros(2), class_counts=jnp.array([90.0, 10.0]))
      >>> [round(x, 3) for x in adjusted.tolist()]
      [0.105, 2.303]
    """
    form = form_of(class_axis, multi_label)
    arguments: dict[str, Any] = {"class_counts": class_counts, "tau": tau}
    arguments["class_axis"] = class_axis
    bounds = {"class_counts": CLASS_COUNTS, "tau": NON_NEGATIVE}
    check_hyperparameters(arguments, bounds, logits, form)
    shift = arguments["tau"] * _log_odds(
        arguments["class_counts"], sigmoid=form != "softmax"
    )
    if class_axis is None:
        return logits - shift
    return jnp.moveaxis(jnp.moveaxis(logits, class_axis, -1) - shift, -1, class_axis)


def _log_odds(class_counts: float | Array, *, sigmoid: bool) -> Array:
    """Return the log of the class shares, or of n1 / n0 in the other forms."""
    logs = jnp.log(class_counts)
    if sigmoid:
        return logs[..., 1] - logs[..., 0]
    return logs - jnp.log(jnp.sum(class_counts))


@loss(
    kind="pointwise",
    class_name="LDAM",
    class_counts=CLASS_COUNTS,
    max_margin=NON_NEGATIVE.tuned(
        0.1, 5.0, scale="log", why="in units of logits, which reach some 10"
    ),
    scale=POSITIVE,
    class_weights=CLASS_WEIGHTS,
)
def ldam(
    logits: Array,
    labels: Array,
    *,
    class_counts: Array,
    where: Array | None = None,
    class_axis: int | None = -1,
    max_margin: float | Array = 0.5,
    scale: float | Array = 1.0,
    class_weights: Array | None = None,
) -> Array:
    r"""Label-distribution-aware margin loss (LDAM): larger margins for rare classes.

    .. math::
        L = -w_y \log \frac{e^{s (z_y - \Delta_y)}}
        {e^{s (z_y - \Delta_y)} + \sum_{c \ne y} e^{s z_c}}, \qquad
        \Delta_c = m \left( \frac{\min n}{n_c} \right)^{1/4}

    In the binary form the gold class must win by its margin in z or -z.

    Use it when rare classes are memorised and generalise badly.

    Pitfalls: `scale=30` is for cosines in [-1, 1]: with the logits of a linear head
    each slope is 30 or 0. With `scale=1` logits of 10 outgrow a margin of 0.5. A count
    of 0 is refused. Integer labels only.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      class_counts: positive floats `[C]`, `[2]` in the binary form; or shares.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      max_margin: m, margin of the rarest class in units of logits; 0: cross-entropy.
      scale: s; its authors use 30 for logits that are cosines, 1 suits a linear head.
      class_weights: w, floats `[C]`; `[2]` in the binary form. None weighs all 1. Its
        authors switch them on late in training (deferred re-weighting).

    Returns:
      Floats `[...]`, 0 where masked. Labels must be integers.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Cao et al., NeurIPS 2019, eq. 12 and 13 (https://arxiv.org/abs/1906.07413).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import ldam
      >>> counts = jnp.array([1600.0, 100.0])
      >>> losses = ldam(jnp.zeros((2, 2)), jnp.array([0, 1]), class_counts=counts)
      >>> [round(x, 3) for x in losses.tolist()]
      [0.826, 0.974]
    """
    elements = prepare(logits, labels, where, class_axis)
    elements.require_integers()
    # Logs, so that counts of any size neither overflow nor vanish.
    logs = jnp.log(class_counts)
    margins = max_margin * jnp.exp((jnp.min(logs) - logs) / 4)
    gold = gold_logit(elements._replace(logits=scale * elements.logits))
    return _margin_loss(
        elements, gold - scale * at_label(margins, elements.labels), class_weights
    )


@loss(
    kind="pointwise",
    class_name="VectorScaling",
    class_counts=CLASS_COUNTS,
    tau=TAU,
    gamma=NON_NEGATIVE.tuned(
        0.0, 0.5, why="from the logit-adjusted loss to the square root of frequencies"
    ),
    class_weights=CLASS_WEIGHTS,
)
def vs(
    logits: Array,
    labels: Array,
    *,
    class_counts: Array,
    where: Array | None = None,
    class_axis: int | None = -1,
    tau: float | Array = 1.0,
    gamma: float | Array = 0.15,
    class_weights: Array | None = None,
) -> Array:
    r"""Vector-scaling loss (VS): logits scaled and shifted by the class counts.

    .. math::
        L = -w_y \log \mathrm{softmax}(\Delta z + \iota)_y, \qquad
        \Delta_c = \left( \frac{n_c}{\max n} \right)^\gamma, \quad
        \iota_c = \tau \log \frac{n_c}{\sum n}

    In the binary form, with z of label 1 and -z of label 0:
    :math:`w_y \log(1 + e^{-(\Delta_y (\pm z) + \tau \log (n_y / n_{1-y}))})`.
    The shift acts early in training, the scale in its last phase.

    Use it like `logit_adjusted` when training to zero error, where a shift alone loses
    its effect.

    Pitfalls: The slope of a rare class is multiplied by its :math:`a_c` (0.35 for 1 in
    1000 at :math:`\gamma = 0.15`): without :math:`\tau` rare classes are learned later
    than with CE. A count of 0 is refused. Integer labels only.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      class_counts: positive floats `[C]`, `[2]` in the binary form; or shares.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      tau: strength of the shift. With gamma 0 it is `logit_adjusted`.
      gamma: strength of the scale. With both 0 it is weighted cross-entropy.
      class_weights: w, floats `[C]`; `[2]` in the binary form. None weighs all 1.

    Returns:
      Floats `[...]`, 0 where masked. Labels must be integers.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Kini et al., NeurIPS 2021, eq. 2 and 4 (https://arxiv.org/abs/2103.01550).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import vs
      >>> counts, labels = jnp.array([90.0, 10.0]), jnp.array([0, 1])
      >>> losses = vs(jnp.ones((2, 2)), labels, class_counts=counts)
      >>> [round(x, 3) for x in losses.tolist()]
      [0.081, 2.559]
    """
    elements = prepare(logits, labels, where, class_axis)
    elements.require_integers()
    logs = jnp.log(class_counts)
    scales = jnp.exp(gamma * (logs - jnp.max(logs)))
    if elements.form == "softmax":
        shifts = tau * _log_odds(class_counts, sigmoid=False)
        gold = gold_logit(elements._replace(logits=scales * elements.logits + shifts))
    else:
        gold = at_label(scales, elements.labels) * gold_logit(elements)
        gold += tau * at_label(logs - logs[::-1], elements.labels)
    return _margin_loss(elements, gold, class_weights)


def _margin_loss(elements: Elements, gold: Array, class_weights: Array | None) -> Array:
    log_p, weights = log_sigmoid(gold), jnp.ones_like(gold)
    if class_weights is not None:
        weights = at_label(class_weights, elements.labels)
    return elements.mask(-weights * log_p + if_impossible(log_p, weights))
