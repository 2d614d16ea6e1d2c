"""Matthews correlation loss: one minus the coefficient of a soft confusion matrix."""

from typing import Literal

import jax.numpy as jnp
from jax import Array

from dicejax.losses.anyloss import matthews, root, share
from dicejax.losses.contract import loss
from dicejax.losses.elements import log_probabilities, prepare


@loss(kind="set", class_name="MatthewsCorrelation")
def mcc(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    variant: Literal["one_versus_rest", "multiclass"] = "one_versus_rest",
    axis_name: str | tuple[str, ...] | None = None,
) -> Array:
    r"""One minus the Matthews correlation of each class over a set, or of all classes.

    .. math::
        L_c = 1 - \frac{TP \cdot TN - FP \cdot FN}
        {\sqrt{(TP + FP)(TP + FN)(TN + FP)(TN + FN)}}, \qquad
        TP = \sum_i p_{ic} y_{ic}

    and likewise the other three counts. "multiclass" is one minus Gorodkin's
    :math:`R_K`, one value for a softmax, which scikit-learn computes of decisions:

    .. math::
        L = 1 - \frac{N \sum_c I_c - \sum_c P_c Y_c}
        {\sqrt{(N^2 - \sum_c P_c^2)(N^2 - \sum_c Y_c^2)}}

    Use it where right negatives count as well as right positives, and the metric is the
    Matthews coefficient (CoLA, MRPC).

    Pitfalls: In [0, 2]: 1 is chance. It is not convex, and where p is near 0 everywhere
    it has little slope; begin with cross-entropy. `anyloss` with "mcc" sharpens p
    before it counts, and halves the scale.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      variant: "one_versus_rest" or "multiclass", for a softmax only.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.

    Returns:
      Floats in [0, 2]: the label axes that `axis` does not name, then `[C]`; no `[C]`
      in the binary form and for "multiclass". 0 without gradient for a class without
      positives or without negatives in its set, or a set of a single class. Where all p
      are exactly 0, or all 1, it is 1, as chance is.

    Raises:
      ValueError: if a shape, axis or known label is out of range, or "multiclass" has
        no softmax.

    Source: Abhishek and Hamarneh, ISBI 2021, eq. 3 to 5
    (https://doi.org/10.1109/ISBI48211.2021.9433782); MONAI's `MCCLoss` for several
    classes; for "multiclass" Gorodkin 2004
    (https://doi.org/10.1016/j.compbiolchem.2004.09.006).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import mcc
      >>> logits = jnp.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 4.0, 0.0]])
      >>> [round(x, 3) for x in mcc(logits, jnp.array([0, 1, 2])).tolist()]
      [0.053, 0.532, 1.0]
      >>> print(f"{mcc(logits, jnp.array([0, 1, 2]), variant='multiclass'):.3f}")
      0.434
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    if variant == "multiclass" and elements.form != "softmax":
        raise ValueError("variant is 'multiclass' but the classes are sigmoids")
    p, q = (elements.mask(jnp.exp(x)) for x in log_probabilities(elements))
    y = elements.targets
    tp, fp, fn, tn = elements.total(p * y, p * (1 - y), q * y, q * (1 - y))
    positives, negatives = tp + fn, fp + tn
    if variant == "one_versus_rest":
        losses = 1 - matthews(tp, fp, fn, tn)
        return jnp.where((positives > 0) & (negatives > 0), losses, 0)
    # By shares, which do not overflow; 1 - sum x^2 is sum x (1 - x).
    n = positives + negatives
    gold, called = share(positives, n), share(tp + fp, n)
    spread = jnp.sum(gold * share(negatives, n), axis=-1)
    of_calls = jnp.sum(called * share(fn + tn, n), axis=-1)
    common = jnp.sum(share(tp, n) - called * gold, axis=-1)
    losses = 1 - share(common, spread) * root(share(spread, of_calls))
    return jnp.where(spread > 0, losses, 0)
