"""Average precision: the share of positives among what ranks above each of them."""

import jax.numpy as jnp
from jax import Array

from dicejax.losses.auc import MARGIN, SCALE
from dicejax.losses.contract import loss
from dicejax.losses.elements import prepare, set_axes
from dicejax.losses.pairs import Scores, Surrogate, over_positives


@loss("ap", kind="set", margin=MARGIN, scale=SCALE)
def average_precision(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    surrogate: Surrogate = "squared_hinge",
    scores: Scores = "probability",
    margin: float | Array = 1.0,
    scale: float | Array = 1.0,
    axis_name: str | tuple[str, ...] | None = None,
) -> Array:
    r"""One minus a soft average precision of each class over a set.

    .. math::
        L_c = 1 - \frac{1}{n_+} \sum_{i: y_{ic} = 1}
        \frac{\sum_{j: y_{jc} = 1} \ell(s_{ic} - s_{jc})}
        {\sum_j \ell(s_{ic} - s_{jc})}, \qquad
        \ell(t) = \max(0, m - t)^2 \text{ or } \log(1 + e^{-s t})

    With 1 for t <= 0 and 0 otherwise in place of the surrogate it is one minus the
    average precision, the area under the precision-recall curve. The squared hinge is
    summed after sorting, in :math:`N \log N`; the logistic over :math:`n_+ N` pairs, a
    block of them at a time.

    Use it when positives are few and what counts is that the top of the ranking holds
    them.

    Pitfalls: It leaves the threshold open. Its value depends on the share of positives
    in the set and is not near the average precision itself: equal scores have the loss
    :math:`n_- / N`. Small sets are biased: here all of a batch is compared, where SOAP,
    its published optimizer, keeps a moving average for each training example.

    Args:
      logits: finite floats `[..., C]`, or `[...]` in the binary form.
      labels: integers `[...]` in 0..C-1 (0 or 1 in the binary and the multi-label form,
        -100 is masked), or float probabilities shaped like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: the axes of the labels (classes not counted) that form a set. None: all, so
        one set; `()`: none, so each element is a set; -1: one set per row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      surrogate: "squared_hinge" or "logistic".
      scores: scores to compare: "probability" or "log_odds", :math:`\log p / (1 - p)`,
        the logit in the binary form.
      margin: m of the squared hinge, in units of the scores.
      scale: s of the logistic.
      axis_name: name or names of the `shard_map` axes over which the set is spread;
        sums then run over all devices. Not needed under plain `jit`.

    Returns:
      Floats in [0, 1], the label axes that `axis` does not name, then `[C]`; no `[C]`
      in the binary form. A class without positives or without negatives in its set has
      loss 0 and gradient 0. Labels must be integers.

    Raises:
      ValueError: if shapes or axes do not fit, or if a known label or hyper-parameter
        is out of its range. Labels that are traced and out of range are masked.

    Source: Qi et al., NeurIPS 2021 (https://arxiv.org/abs/2104.08736), in the form of
    LibAUC's `APLoss`, plus 1.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import average_precision
      >>> logits, labels = jnp.array([2.0, 1.0, 0.0, -2.0]), jnp.array([1, 0, 1, 0])
      >>> print(f"{average_precision(logits, labels, class_axis=None):.3f}")
      0.378
    """
    elements = prepare(logits, labels, where, class_axis, multi_label)

    def share_of_negatives(of_negatives: Array, of_positives: Array) -> Array:
        total = of_negatives + of_positives
        return jnp.where(total > 0, of_negatives / jnp.where(total > 0, total, 1), 0)

    summed, positives, _ = over_positives(
        elements,
        set_axes(axis, elements.label_axes),
        share_of_negatives,
        surrogate=surrogate,
        scores=scores,
        margin=margin,
        scale=scale,
        groups=2,
        axis_name=axis_name,
    )
    return summed / jnp.maximum(positives, 1)
