"""Gradient harmonising (GHM): weights from the density of gradient norms."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses.contract import check_hyperparameters, check_mask, jit_checked, loss
from dicejax.losses.declaration import AT_LEAST_ONE, BELOW_ONE, POSITIVE, Bounds
from dicejax.losses.elements import gold_logit, over_labels, prepare


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class GHMState:
    """Moving average of the density of gradient norms; made by `ghm_state`.

    Attributes:
      counts: floats `[bins]`, the average without bias correction, in elements.
      updates: float scalar, the number of batches seen.
    """

    counts: Array
    updates: Array


def ghm_state(bins: int = 10) -> GHMState:
    """Return the state before the first batch.

    Args:
      bins: number of bins of equal width in [0, 1].

    Raises:
      ValueError: if bins is not at least 1.

    Example:
      >>> from dicejax.losses import ghm_state
      >>> ghm_state(bins=4).counts.tolist()
      [0.0, 0.0, 0.0, 0.0]
    """
    if bins < 1:
        raise ValueError(f"bins is {bins} but must be at least 1")
    return GHMState(counts=jnp.zeros(bins), updates=jnp.zeros(()))


@loss(
    kind="stateful",
    class_name="GHM",
    initial_state=ghm_state,
    bins=AT_LEAST_ONE.tuned(
        5, 50, scale="log", whole=True, why="fewer bins blur them, more leave gaps"
    ),
    momentum=BELOW_ONE.tuned(
        0.0, 0.99, why="from this batch alone to about 100 batches"
    ),
)
def ghm(
    logits: Array,
    labels: Array,
    state: GHMState,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    momentum: float | Array = 0.75,
    axis_name: str | tuple[str, ...] | None = None,
) -> tuple[Array, GHMState]:
    r"""Gradient-harmonised cross-entropy (GHM-C): down-weights common gradient norms.

    .. math::
        L_i = \frac{\hat N}{\hat n_{b(i)} \, B} \, \mathrm{CE}_i, \qquad
        g_i = 1 - p_{y_i}, \quad b(i) = \lfloor g_i \cdot \text{bins} \rfloor

    n_b is the number of elements of the batch with gradient norm g in bin b; its moving
    average :math:`n \leftarrow m n + (1 - m) n_b` decays in all bins alike and is
    corrected for its start, by 1 - m^t. N is the sum of the averages, B the number of
    bins that the batch reaches. Easy elements crowd near 0 and outliers near 1; both
    lose weight. Weights are not differentiated. Published code leaves out the
    correction, which makes the first steps 1 / (1 - m^t) times as large, and keeps the
    averages of bins that a batch does not reach.

    Use it with many easy elements and many wrong labels, which both lose weight.

    Pitfalls: In tiny batches an element alone in its bin weighs :math:`N / B`. The new
    state must be passed on. Correctly labelled hard elements lose weight too if there
    are many.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      state: state returned by `ghm_state` or the previous call.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      momentum: m, in [0, 1); 0 for no averaging over batches.
      axis_name: `shard_map` axes that the batch is spread over; None under `jit`.

    Returns:
      Losses, floats `[...]`, `[..., C]` in the multi-label form, 0 where masked; divide
      their sum by the number of elements. And the state for the next call. With a
      softmax, labels must be integers.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Li et al., AAAI 2019, eq. 4 to 9, with the authors' number of bins reached
    for eq. 6's number of bins (https://arxiv.org/abs/1811.05181).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import ghm, ghm_state
      >>> logits, labels = jnp.array([4.0, 4.0, 4.0, -1.0]), jnp.array([1, 1, 1, 1])
      >>> losses, state = ghm(logits, labels, ghm_state(), class_axis=None)
      >>> [round(x, 4) for x in losses.tolist()]
      [0.0121, 0.0121, 0.0121, 2.6265]
    """
    elements = prepare(
        logits, labels, where, class_axis, multi_label, axis_name=axis_name
    )
    if elements.form != "softmax" and not elements.hard:
        norms = jnp.abs(jax.nn.sigmoid(elements.logits) - elements.labels)
    else:
        elements.require_integers()
        norms = jax.nn.sigmoid(-gold_logit(elements))
    weights, state = _harmonise(
        norms, elements.where, state, momentum, elements.axis_name
    )
    return weights * over_labels(elements, lambda log_p, log_q: -log_p), state


def _check_regression(arguments: dict[str, Any], bounds: dict[str, Bounds]) -> None:
    arrays = {name: arguments[name] for name in ("predictions", "targets")}
    for name, array in arrays.items():
        if not jnp.issubdtype(jnp.result_type(array), jnp.floating):
            raise ValueError(f"{name} has dtype {jnp.result_type(array)}, not a float")
    shape, other = map(jnp.shape, arrays.values())
    if other != shape:
        raise ValueError(f"targets has shape {other} but predictions has {shape}")
    if arguments["where"] is not None:
        check_mask(arguments["where"], shape, f"predictions {shape}")
    check_hyperparameters(arguments, bounds, arrays["predictions"])


@jit_checked(_check_regression, mu=POSITIVE, momentum=BELOW_ONE)
def ghm_regression(
    predictions: Array,
    targets: Array,
    state: GHMState,
    *,
    where: Array | None = None,
    mu: float | Array = 0.02,
    momentum: float | Array = 0.7,
    axis_name: str | tuple[str, ...] | None = None,
) -> tuple[Array, GHMState]:
    r"""Gradient-harmonised regression (GHM-R) on the authentic smooth L1 loss.

    .. math::
        L_i = \frac{\hat N}{\hat n_{b(i)} \, B}
        \left( \sqrt{d_i^2 + \mu^2} - \mu \right), \qquad
        g_i = \frac{|d_i|}{\sqrt{d_i^2 + \mu^2}}

    with d = prediction - target and the densities of `ghm`.

    Use it for regression with outliers.

    Pitfalls: :math:`\mu` is in units of the target: where most errors are far above it,
    all share the last bin and nothing is harmonised. Tiny batches as for `ghm`.

    Args:
      predictions: finite floats `[...]`.
      targets: floats `[...]`.
      state: state returned by `ghm_state` or the previous call.
      where: bool `[...]`; False masks an element, whatever it holds.
      mu: width of the smooth part, positive, in units of the targets.
      momentum: m, in [0, 1); 0 for no averaging over batches.
      axis_name: `shard_map` axes that the batch is spread over; None under `jit`.

    Returns:
      Losses, floats `[...]`, 0 where masked; divide their sum by the number of
      elements. And the state for the next call.

    Raises:
      ValueError: if shapes or types do not fit, or a hyper-parameter is out of range.

    Source: Li et al., AAAI 2019, eq. 10 to 14 (https://arxiv.org/abs/1811.05181).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import ghm_regression, ghm_state
      >>> predictions, targets = jnp.array([0.0, 0.0, 3.0]), jnp.zeros(3)
      >>> losses, state = ghm_regression(predictions, targets, ghm_state())
      >>> [round(x, 3) for x in losses.tolist()]
      [0.0, 0.0, 4.47]
    """
    where = jnp.ones(predictions.shape, bool) if where is None else where
    dtype = jnp.promote_types(predictions.dtype, jnp.float32)
    difference = jnp.where(where, predictions, 0).astype(dtype)
    difference -= jnp.where(where, targets, 0).astype(dtype)
    root = jnp.sqrt(difference**2 + mu**2)
    norms = jnp.abs(difference) / root
    weights, state = _harmonise(norms, where, state, momentum, axis_name)
    return jnp.where(where, weights * (root - mu), 0), state


def _harmonise(
    norms: Array,
    where: Array,
    state: GHMState,
    momentum: float | Array,
    axis_name: str | tuple[str, ...] | None,
) -> tuple[Array, GHMState]:
    """Return weights of elements by their gradient norms, and the next state."""
    bins, kind = state.counts.shape[0], state.counts.dtype
    norms, momentum = jax.lax.stop_gradient((norms, jnp.asarray(momentum).astype(kind)))
    index = jnp.clip(jnp.floor(norms * bins), 0, bins - 1).astype(jnp.int32)
    # One bin at a time: all at once are as many arrays of the logits' size.
    reached = jax.lax.map(
        lambda b: jnp.sum(where & (index == b), dtype=kind), jnp.arange(bins)
    )
    if axis_name is not None:
        reached = jax.lax.psum(reached, axis_name)
    counts = momentum * state.counts + (1 - momentum) * reached
    updates = state.updates + 1
    corrected = counts / (1 - momentum**updates)
    present = reached > 0
    occupied = jnp.sum(present)
    weights = jnp.sum(corrected) / (jnp.where(present, corrected, 1) * occupied)
    weights = jnp.where(present, weights, 0).astype(norms.dtype)

    def add(total: Array, pair: tuple[Array, Array]) -> tuple[Array, None]:
        b, weight = pair
        return total + jnp.where(index == b, weight, 0), None

    pairs = (jnp.arange(bins), weights)
    of_elements, _ = jax.lax.scan(add, jnp.zeros_like(norms), pairs)
    return of_elements, GHMState(counts=counts, updates=updates)
