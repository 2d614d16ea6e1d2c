"""AUC margin loss: moments of the scores of positives and negatives."""

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses.averages import averaged, select
from dicejax.losses.contract import loss
from dicejax.losses.declaration import POSITIVE, Average
from dicejax.losses.elements import prepare


@loss(
    "aucm",
    kind="set",
    class_name="AUCMargin",
    margin=POSITIVE.tuned(
        0.1, 1.0, why="values that LibAUC's authors suggest for probabilities"
    ),
)
def auc_margin(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    margin: float | Array = 1.0,
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
) -> Array:
    r"""AUC margin loss (AUCM) of each class over a set: means and spread of the scores.

    .. math::
        L_c = \mathrm{Var}_{y_{ic} = 1}(p_{ic}) + \mathrm{Var}_{y_{ic} = 0}(p_{ic})
        + \max(0, m - \bar p_{c+} + \bar p_{c-})^2

    with the mean probabilities of positives and of negatives. It is the min-max
    objective of its authors at the saddle point of this set, a and b the two means and
    alpha the root of the last term; and `pairwise_auc` with "squared", but that means
    which are already apart by more than m cost nothing.

    Use it for the order of the scores where sets are large: no sorting, no pairs, and
    nothing is gathered.

    Pitfalls: The threshold stays open. The saddle point is that of the batch, where
    its published optimizer (PESG) carries a, b and alpha from step to step: a batch of
    few positives has a noisy mean, and with a single one no spread. The spread pulls
    right and wrong scores alike to their mean.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      margin: m, in units of probabilities.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.
      class_weights: floats `[C]` that multiply the losses of classes, before any mean.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.

    Returns:
      Floats, one per set and class `[..., C]`, per set in the binary form. A class
      without positives or without negatives in its set has loss 0 and gradient 0.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Yuan et al., ICCV 2021 (https://arxiv.org/abs/2012.03173). Times the shares
    of positives and of negatives it is "v1" of LibAUC's `AUCMLoss`; it is "v2" as
    documented there, whose code (2.0.1) weighs the mean of negatives by their share.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import auc_margin
      >>> logits, labels = jnp.array([2.0, 1.0, 0.0, -2.0]), jnp.array([1, 0, 1, 0])
      >>> print(f"{auc_margin(logits, labels, class_axis=None):.3f}")
      0.670
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class, average)
    softmax = elements.form == "softmax"
    p = (jax.nn.softmax if softmax else jax.nn.sigmoid)(elements.logits)
    y = elements.targets
    groups = y, elements.mask(1 - y)
    numbers = elements.total(*groups)
    some = [jnp.where(number > 0, number, 1) for number in numbers]
    sums = elements.total(*(group * p for group in groups))
    means = [total / number for total, number in zip(sums, some, strict=True)]
    squares = elements.total(
        *(
            group * (p - jnp.expand_dims(mean, elements.axes)) ** 2
            for group, mean in zip(groups, means, strict=True)
        )
    )
    spread = sum(total / number for total, number in zip(squares, some, strict=True))
    gap = jnp.maximum(margin - means[0] + means[1], 0)
    losses = jnp.where((numbers[0] > 0) & (numbers[1] > 0), spread + gap**2, 0)
    return averaged(losses, elements, class_weights, average)
