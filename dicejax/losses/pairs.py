"""AUC and average precision: sums over pairs of elements, without an array of all."""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses.averages import averaged, select
from dicejax.losses.contract import loss
from dicejax.losses.declaration import AT_LEAST_ONE, POSITIVE, Average, Bounds
from dicejax.losses.elements import Elements, log_probabilities, prepare, probabilities
from dicejax.losses.pair_sums import by_sorting, in_blocks
from dicejax.losses.ranking import all_gather, flatten, unsort

Falling = Literal["squared_hinge", "hinge", "logistic"]
Surrogate = Literal[Falling, "squared", "barrier_hinge"]
Scores = Literal["probability", "log_odds"]

# Of log odds: the sums of their squares are finite.
LARGEST = 1e15
# Elements, or pairs in the blocks of small sets, that are in memory at once.
AT_ONCE = 2048

SCALE = POSITIVE.tuned(
    0.3,
    10.0,
    scale="log",
    only=("surrogate", "logistic"),
    why="from a gradient for every pair to misordered pairs alone",
)
BARRIER = AT_LEAST_ONE.tuned(
    1.0,
    100.0,
    scale="log",
    only=("surrogate", "barrier_hinge"),
    why="from the smallest allowed to a steep wall at both ends",
)


def _margin(*hinges: str) -> Bounds:
    why = "values that LibAUC's authors suggest for probabilities"
    return POSITIVE.tuned(0.1, 1.0, only=("surrogate", *hinges), why=why)


class _Settings(NamedTuple):
    """Settings of a surrogate, and the share of negatives that are compared."""

    margin: float | Array
    scale: float | Array
    barrier: float | Array = 1.0
    max_fpr: float | Array | None = None


@loss(
    "auc",
    kind="set",
    class_name="PairwiseAUC",
    margin=_margin("squared_hinge", "hinge", "squared", "barrier_hinge"),
    scale=SCALE,
    barrier=BARRIER,
    max_fpr=Bounds(0.0, 1.0, low_inside=False),
)
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
    barrier: float | Array = 2.0,
    max_fpr: float | Array | None = None,
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
) -> Array:
    r"""AUC loss of each class over a set: positives against negatives, in pairs.

    .. math::
        L_c = \frac{1}{n_+ n_-} \sum_{i: y_{ic} = 1} \sum_{j: y_{jc} = 0}
        \ell(s_{ic} - s_{jc})

    With 1 for t < 0 and 0 otherwise in place of the surrogate it is one minus the area
    under the ROC curve of class c against all others. With `max_fpr` the
    :math:`\beta n_-` negatives of the highest scores stand for all, the last of them
    in part: the area up to that rate of false positives (one-way partial AUC). The
    surrogates are

    .. math::
        \text{squared\_hinge: } &\max(0, m - t)^2, \quad
        \text{squared: } (m - t)^2, \quad \text{hinge: } \max(0, m - t) \\
        \text{barrier\_hinge: } &\max(m - b (m + t), m - t, b (t - m)), \quad
        \text{logistic: } \log(1 + e^{-s t})

    Hinges are summed after sorting, in :math:`N \log N`; the squares by means and
    variances; the logistic over :math:`n_+ n_-` pairs, a block of them at a time.

    Use it when the order of the scores counts and not a decision: triage, thresholds
    that are chosen later; with `max_fpr` when few false alarms can be looked at.

    Pitfalls: It leaves the threshold open: adding a constant to all log-odds changes
    nothing in the order. A batch with one positive compares that one alone. Under
    `axis_name` each device gathers the whole set. The squared hinge of log-odds is
    ruled by the worst pair. "squared" and "barrier_hinge" rise beyond the margin: they
    pull pairs apart that are already right by more than m. With `max_fpr` all other
    negatives have slope 0, and a batch of few negatives compares the highest alone.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      surrogate: "squared_hinge", "hinge", "logistic", "squared" or "barrier_hinge".
      scores: "probability", which bounds the loss, or "log_odds", log p / (1 - p), cut
        to 1e15 either way.
      margin: m of all but the logistic, in units of the scores.
      scale: s of the logistic.
      barrier: b of the barrier hinge, its slope at both ends; at least 1.
      max_fpr: beta, in (0, 1], the largest rate of false positives; None for all.
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
      Labels must be integers.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: LibAUC's `PairwiseAUCLoss` (https://arxiv.org/abs/2306.03065); the sums by
    sorting, Rust and Hocking 2023 (https://arxiv.org/abs/2302.11062); the barrier
    hinge, Charoenphakdee et al., ICML 2019 (https://arxiv.org/abs/1901.09314); partial
    AUC, Zhu et al., ICML 2022 (https://arxiv.org/abs/2203.00176), at the minimum
    over its dual variables.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import pairwise_auc
      >>> logits, labels = jnp.array([2.0, 1.0, 0.0, -2.0]), jnp.array([1, 0, 1, 0])
      >>> print(f"{pairwise_auc(logits, labels, class_axis=None):.3f}")
      0.670
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class, average)
    settings = _Settings(margin, scale, barrier, max_fpr)
    summed, positives, negatives = _over_positives(
        elements, lambda of_negatives: of_negatives, 1, surrogate, scores, settings
    )
    compared = jnp.maximum(negatives, 1) * (1 if max_fpr is None else max_fpr)
    losses = summed / jnp.maximum(positives, 1) / compared
    return averaged(losses, elements, class_weights, average)


@loss("ap", kind="set", margin=_margin("squared_hinge", "hinge"), scale=SCALE)
def average_precision(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    surrogate: Falling = "squared_hinge",
    scores: Scores = "probability",
    margin: float | Array = 1.0,
    scale: float | Array = 1.0,
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
) -> Array:
    r"""One minus a soft average precision of each class over a set.

    .. math::
        L_c = 1 - \frac{1}{n_+} \sum_{i: y_{ic} = 1}
        \frac{\sum_{j: y_{jc} = 1} \ell(s_{ic} - s_{jc})}
        {\sum_j \ell(s_{ic} - s_{jc})}

    With 1 for t <= 0 and 0 otherwise in place of the surrogate it is one minus the
    average precision, the area under the precision-recall curve. The surrogates are
    those of `pairwise_auc` that fall everywhere, summed as there.

    Use it when positives are few and what counts is that the top of the ranking holds
    them.

    Pitfalls: It leaves the threshold open. Its value depends on the share of positives
    in the set and is not near the average precision itself: equal scores have the loss
    :math:`n_- / N`. Small sets are biased: here all of a batch is compared, where SOAP,
    its published optimizer, keeps a moving average for each training example.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      surrogate: "squared_hinge", "hinge" or "logistic".
      scores: "probability", or "log_odds", log p / (1 - p), cut to 1e15 either way.
      margin: m of the hinges, in units of the scores.
      scale: s of the logistic.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.
      class_weights: floats `[C]` that multiply the losses of classes, before any mean.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.

    Returns:
      Floats in [0, 1], one per set and class, per set in the binary form. A class
      without positives or without negatives in its set has loss 0 and gradient 0.
      Labels must be integers.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Qi et al., NeurIPS 2021 (https://arxiv.org/abs/2104.08736), in the form of
    LibAUC's `APLoss`, plus 1.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import average_precision
      >>> logits, labels = jnp.array([2.0, 1.0, 0.0, -2.0]), jnp.array([1, 0, 1, 0])
      >>> print(f"{average_precision(logits, labels, class_axis=None):.3f}")
      0.378
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class, average)

    def share_of_negatives(of_negatives: Array, of_positives: Array) -> Array:
        total = of_negatives + of_positives
        return jnp.where(total > 0, of_negatives / jnp.where(total > 0, total, 1), 0)

    settings = _Settings(margin, scale)
    summed, positives, _ = _over_positives(
        elements, share_of_negatives, 2, surrogate, scores, settings
    )
    losses = summed / jnp.maximum(positives, 1)
    return averaged(losses, elements, class_weights, average)


def _over_positives(
    elements: Elements,
    of_positive: Callable[..., Array],
    groups: int,
    surrogate: Surrogate,
    scores: Scores,
    settings: _Settings,
) -> tuple[Array, ...]:
    """Sum a function of each positive's pairs over the positives of each set.

    `of_positive` takes sums of surrogates of the differences to other scores: `[R]`
    over the negatives of the set and, with 2 `groups`, over its positives, itself
    included. Under `axis_name` each device compares its local elements with the whole
    set. Returns for each set and class the sum, and the numbers of positives and of
    negatives.
    """
    elements.require_integers()
    softmax = elements.form == "softmax"
    where = elements.where[..., None] if softmax else elements.where
    if scores == "probability":
        score = probabilities(elements)
    else:
        log_p, log_q = log_probabilities(elements)
        score = jnp.clip(log_p - log_q, -LARGEST, LARGEST)
    # A positive is 1, a negative 0, and a masked element -1, in a byte: as floats these
    # would take more memory than the scores. Shaped like the logits: an element is a
    # positive of one class, or of none.
    label = jnp.where(where, elements.targets, -1).astype(jnp.int8)
    score, label = flatten(score, elements.axes), flatten(label, elements.axes)
    arrays = [score, label]
    if elements.axis_name is not None:
        arrays += [all_gather(array, elements.axis_name) for array in arrays]
    sets, dtype, size = score.shape[:-1], score.dtype, arrays[-1].shape[-1]
    # One for each set, so that its gradient is summed outside of all control flow: of a
    # hyper-parameter used in a branch that only some devices take, it would wait for
    # the others for ever.
    number = math.prod(sets)
    settings = jax.tree.map(
        lambda x: jnp.broadcast_to(jnp.asarray(x, dtype), (number,)), settings
    )

    def of_set(arrays: tuple[Any, ...]) -> Array:
        setting, local, label, *of_others = arrays
        others, their_label = of_others or (local, label)
        is_positive = label == 1
        weights = jnp.stack([their_label == kind for kind in (0, 1)[:groups]])
        weights = weights.astype(dtype)
        if setting.max_fpr is not None:
            weights = _of_highest(others, weights, setting.max_fpr)
        if surrogate == "logistic":
            local, others = setting.scale * local, setting.scale * others
            sums = in_blocks(local, is_positive, others, weights)
        else:
            sums = _of_margin(surrogate, local, others, weights, setting)
        return jnp.sum(jnp.where(is_positive, of_positive(*sums), 0))

    # Many small sets at a time, large ones one by one: then the memory is that of one,
    # and blocks of pairs without a positive are skipped.
    at_once = AT_ONCE // max(size**2 if surrogate == "logistic" else size, 1)
    flat = (array.reshape(number, array.shape[-1]) for array in arrays)
    summed = jax.lax.map(
        jax.checkpoint(of_set),
        (settings, *flat),
        batch_size=at_once if at_once > 1 else None,
    )
    counts = (jnp.sum(label == kind, axis=-1, dtype=dtype) for kind in (1, 0))
    totals = (summed.reshape(sets), *counts)
    if elements.axis_name is None:
        return totals
    return jax.lax.psum(totals, elements.axis_name)


def _of_highest(scores: Array, weights: Array, share: float | Array) -> Array:
    """Return weights `[1, S]` cut to those of a share of all, the highest scores."""
    order = jnp.argsort(
        -jax.lax.stop_gradient(jnp.where(weights > 0, scores, -jnp.inf))
    )
    ranked = jnp.take_along_axis(weights, order, axis=-1)
    before = jnp.cumsum(ranked, axis=-1) - ranked
    room = share * jnp.sum(weights, axis=-1, keepdims=True) - before
    return unsort(jnp.clip(room, 0, ranked), order)


def _of_margin(
    surrogate: Surrogate,
    local: Array,
    others: Array,
    weights: Array,
    setting: _Settings,
) -> Array:
    """Return sum_j w_j of a surrogate of s_i - s_j for local i: `[K, R]`."""
    m, b = setting.margin, setting.barrier
    if surrogate == "squared":
        total = jnp.sum(weights, axis=-1, keepdims=True)
        shares = weights / jnp.where(total > 0, total, 1)
        mean = jnp.sum(shares * others, axis=-1, keepdims=True)
        spread = jnp.sum(shares * (others - mean) ** 2, axis=-1, keepdims=True)
        return total * ((m + mean - local) ** 2 + spread)
    power = 2 if surrogate == "squared_hinge" else 1
    below = by_sorting(power, local, others + m, weights)
    if surrogate != "barrier_hinge":
        return below
    # The hinge, plus how far its two barriers exceed it.
    beyond = by_sorting(1, -local, -(others + m), weights)
    wrong = by_sorting(1, (b - 1) * local, (b - 1) * others - b * m, weights)
    return below + b * beyond + wrong
