"""AUC: every positive against every negative of a set."""

import jax.numpy as jnp
from jax import Array

from dicejax.losses.contract import loss
from dicejax.losses.declaration import POSITIVE
from dicejax.losses.elements import prepare, set_axes
from dicejax.losses.pairs import Scores, Surrogate, over_positives

MARGIN = POSITIVE.tuned(
    0.1,
    1.0,
    only=("surrogate", "squared_hinge"),
    why="what LibAUC's authors suggest for probabilities",
)
SCALE = POSITIVE.tuned(
    0.3,
    10.0,
    scale="log",
    only=("surrogate", "logistic"),
    why="from a slope for every pair to one for pairs in the wrong order",
)


@loss("auc", kind="set", class_name="PairwiseAUC", margin=MARGIN, scale=SCALE)
def pairwise_auc(
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
    r"""AUC loss of each class over a set: positives against negatives, in pairs.

    .. math::
        L_c = \frac{1}{n_+ n_-} \sum_{i: y_{ic} = 1} \sum_{j: y_{jc} = 0}
        \ell(s_{ic} - s_{jc}), \qquad
        \ell(t) = \max(0, m - t)^2 \text{ or } \log(1 + e^{-s t})

    With 1 for t < 0 and 0 otherwise in place of the surrogate it is one minus the area
    under the ROC curve of class c against all others. The squared hinge is summed after
    sorting, in :math:`N \log N`; the logistic over :math:`n_+ n_-` pairs, a block of
    them at a time.

    Use it when the order of the scores counts and not a decision: triage, thresholds
    that are chosen later.

    Pitfalls: It leaves the threshold open: adding a constant to all log-odds changes
    nothing in the order. A batch with one positive compares that one alone. Under
    `axis_name` each device gathers the whole set. The squared hinge of log-odds is
    ruled by the worst pair.

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
      scores: scores to compare: "probability", which bounds the loss, or "log_odds",
        :math:`\log p / (1 - p)`, the logit in the binary form.
      margin: m of the squared hinge, in units of the scores.
      scale: s of the logistic.
      axis_name: name or names of the `shard_map` axes over which the set is spread;
        sums then run over all devices. Not needed under plain `jit`.

    Returns:
      Floats, the label axes that `axis` does not name, then `[C]`; no `[C]` in the
      binary form. A class without positives or without negatives in its set has loss 0
      and gradient 0. Labels must be integers.

    Raises:
      ValueError: if shapes or axes do not fit, or if a known label or hyper-parameter
        is out of its range. Labels that are traced and out of range are masked.

    Source: LibAUC's `PairwiseAUCLoss` (https://arxiv.org/abs/2306.03065); the sums by
    sorting, Rust and Hocking 2023 (https://arxiv.org/abs/2302.11062).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import pairwise_auc
      >>> logits, labels = jnp.array([2.0, 1.0, 0.0, -2.0]), jnp.array([1, 0, 1, 0])
      >>> print(f"{pairwise_auc(logits, labels, class_axis=None):.3f}")
      0.670
    """
    elements = prepare(logits, labels, where, class_axis, multi_label)
    summed, positives, negatives = over_positives(
        elements,
        set_axes(axis, elements.label_axes),
        lambda of_negatives: of_negatives,
        surrogate=surrogate,
        scores=scores,
        margin=margin,
        scale=scale,
        groups=1,
        axis_name=axis_name,
    )
    return summed / jnp.maximum(positives, 1) / jnp.maximum(negatives, 1)
