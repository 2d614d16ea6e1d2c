r"""The self-adjusting factor (1-p)^alpha p of every class of a softmax.

For f = (1-p)^alpha p and u_c = f_c dL/df_c the gradient with respect to the logits is

.. math::
    u_j - (1 + \alpha) p_j \sum_c u_c
        + \alpha p_j \sum_{c \ne j} \frac{u_c}{1 - p_c}

The one class whose p may exceed 1/2, the largest, is set apart: its 1 - p is a sum over
the others, which are computed relative to the second largest, so nothing underflows at
any size of the logits.

Left to automatic differentiation this takes four to ten times as long on a CPU, so the
gradient is written out. The barriers keep the compiler from computing an array twice,
and from keeping one that is cheaper to compute again.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import optimization_barrier as barrier

from dicejax.losses.elements import compute_dtype
from dicejax.losses.probabilities import log_sigmoid

_HUGE = 1e18  # over any logit, and finite where two such meet


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def softmax_factor(
    logits: Array, where: Array, alpha: Array, constant_factor: bool
) -> Array:
    """Returns (1-p)^alpha p, `[..., C]`, 0 where masked.

    Differentiable in reverse mode, with respect to the logits and alpha.

    Args:
      logits: `[..., C]`, of any float type, anything where masked.
      where: bool `[...]`, False where masked.
      alpha: exponent, a scalar.
      constant_factor: whether (1-p)^alpha is a constant for gradients.
    """
    return _forward(logits, where, alpha, constant_factor)[0]


class Rows(NamedTuple):
    """What the way back needs of each element, all `[..., 1]`.

    With r the reference, the second largest logit (the largest where two are equal):
    the others are the classes that are not set apart.

    Attributes:
      reference: r.
      others: sum over the others of exp(z - r).
      margin: the log odds of the class set apart; very negative where there is none.
      cut: the logit of the class set apart; infinite where there is none.
      largest: index of the largest logit, int `[...]`.
    """

    reference: Array
    others: Array
    margin: Array
    cut: Array
    largest: Array

    def relative(self, logits: Array) -> Array:
        """Returns exp(z - r), `[..., C]`, 1 for the class set apart."""
        return _exp_below(self.reference, logits)

    @property
    def has_apart(self) -> Array:
        """Whether a class is set apart: not where two are the largest."""
        return self.margin > -_HUGE

    @property
    def scale(self) -> Array:
        """exp(r) / sum_c exp(z_c): times `relative` it is p of the others."""
        share = jnp.where(self.has_apart, jax.nn.sigmoid(-self.margin), 1)
        return share / self.others


def factor_and_rows(logits: Array, alpha: Array) -> tuple[Array, Rows, Array]:
    """Returns f of masked logits, the rows, and f of the classes set apart."""
    relative, rows = _set_apart(logits)
    apart = jnp.exp(log_sigmoid(rows.margin) + alpha * log_sigmoid(-rows.margin))
    p = relative * rows.scale
    factor = p * jnp.exp(alpha * jnp.log(1 - p))
    return jnp.where(logits >= rows.cut, apart, factor), rows, apart


def pull_back(
    u: Array,
    total: Array,
    u_apart: Array,
    logits: Array,
    where: Array,
    alpha: Array,
    rows: Rows,
    constant_factor: bool,
) -> tuple[Array, Array]:
    """Returns the gradients with respect to the logits and alpha.

    Args:
      u: f dL/df, `[..., C]`.
      total: its sum over the classes, `[..., 1]`.
      u_apart: that of the class set apart, `[..., 1]`, 0 where there is none.
      logits: as the caller has them.
      where: the mask.
      alpha: the exponent.
      rows: what `factor_and_rows` gave.
      constant_factor: whether (1-p)^alpha is a constant.
    """
    z = masked(logits, where)
    is_apart = z >= rows.cut
    q = 1 - rows.relative(z) * rows.scale
    ratio = barrier(jnp.where(is_apart, 0, u) / q)
    of_alpha = jnp.sum(ratio * q * jnp.log(q))
    of_alpha += jnp.sum(u_apart * log_sigmoid(-rows.margin))
    exponent = 0 if constant_factor else alpha
    total_ratio = _row_sum(ratio)
    # The exponentials once more: cheaper than to keep them.
    logits, ratio = barrier((logits, ratio))
    z = masked(logits, where)
    relative = rows.relative(z)
    p = relative * rows.scale
    pull = (1 + exponent) * total - exponent * total_ratio
    of_others = ratio * (1 - p) - p * (pull + exponent * ratio)
    of_others += exponent * u_apart / rows.others * relative
    of_apart = u_apart - jax.nn.sigmoid(rows.margin) * pull
    of_logits = jnp.where(is_apart, of_apart, of_others).astype(logits.dtype)
    return of_logits, 0 * of_alpha if constant_factor else of_alpha


def _forward(logits, where, alpha, constant_factor):
    factor, rows, _ = factor_and_rows(masked(logits, where), alpha)
    factor = jnp.where(where[..., None], factor, 0)
    return factor, (logits, where, alpha, rows, factor)


def _backward(constant_factor, residuals, cotangent):
    logits, where, alpha, rows, factor = residuals
    u = cotangent * factor
    is_apart = masked(logits, where) >= rows.cut
    u_apart = _row_sum(jnp.where(is_apart, u, 0))
    of_logits, of_alpha = pull_back(
        u, _row_sum(u), u_apart, logits, where, alpha, rows, constant_factor
    )
    return of_logits, None, of_alpha


softmax_factor.defvjp(_forward, _backward)


@jax.custom_jvp
def masked(logits: Array, where: Array) -> Array:
    """Returns zeros where masked, in the type of the computation.

    By the bits: XLA's CPU compiler runs loops with a selection by rows at a third of
    the speed if the number of classes is no power of two.
    """
    z = logits.astype(compute_dtype(logits.dtype))
    kind = jnp.int64 if z.dtype == jnp.float64 else jnp.int32
    keep = -where[..., None].astype(kind)  # all bits or none
    bits = jax.lax.bitcast_convert_type(z, kind) & keep
    return jax.lax.bitcast_convert_type(bits, z.dtype)


@masked.defjvp
def _masked_jvp(primals, tangents):
    # Bits have no slope: without this rule second derivatives would be 0.
    (logits, where), (tangent, _) = primals, tangents
    result = masked(logits, where)
    return result, jnp.where(where[..., None], tangent, 0).astype(result.dtype)


def _set_apart(logits: Array) -> tuple[Array, Rows]:
    classes = logits.shape[-1]
    top = jnp.max(logits, axis=-1, keepdims=True)
    mark = jnp.where(logits < top, 0, _HUGE)
    # One sum tells whether the top is shared, 2 or more, and else whose it is.
    tags = 1 + jnp.arange(classes, dtype=logits.dtype) / (2 * classes)
    tag = jnp.sum(mark * (tags / _HUGE), axis=-1, keepdims=True)
    single = tag < 1.75
    largest = jnp.where(single, jnp.round((tag - 1) * (2 * classes)), 0)[..., 0]
    second = jnp.max(logits - mark, axis=-1, keepdims=True)
    reference = jnp.where(single, second, top)
    relative = barrier(_exp_below(reference, logits))
    # A lone class has no others.
    others = jnp.maximum(_row_sum(relative) - single, jnp.finfo(logits.dtype).tiny)
    margin = jnp.where(single, top - reference - jnp.log(others), -_HUGE)
    cut = jnp.where(single, top, jnp.inf)
    return relative, Rows(reference, others, margin, cut, largest.astype(jnp.int32))


def _exp_below(reference: Array, logits: Array) -> Array:
    """Returns exp(min(z - r, 0)), as XLA's CPU compiler has it three times as fast."""
    return jnp.exp(-jnp.maximum(reference - logits, 0))


def _row_sum(values: Array) -> Array:
    """Sums over the last axis by a product, which XLA fuses with nothing."""
    ones = jnp.ones((values.shape[-1], 1), values.dtype)
    return jnp.matmul(values, ones, precision=jax.lax.Precision.HIGHEST)
