"""Optimisers: learning rates, frozen parameters and the update rule AdamW.

Parameters are `{"encoder": {"embeddings": ..., "layers": ...}, "heads": ...}`. Leaves
of `layers` have a leading axis over the L layers, the lowest first.
"""

from __future__ import annotations

import abc
import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.typing import ArrayLike

from dicejax.models.network import Params

ScheduleName = Literal["linear", "polynomial", "cosine", "one_cycle", "constant"]


class Update(NamedTuple):
    """The result of one update."""

    params: Params
    opt_state: Any
    learning_rate: Array  # float scalar, that of the top layer
    gradient_norm: Array  # float scalar, before clipping, over trained parameters


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimizer(abc.ABC):
    """Learning rates, decay, clipping and freezing, for every update rule.

    One update, number t, of parameter p with multiplier m(p) is

        g <- g min(1, clip_norm / |g|)            |g| over all that is trained
        u <- rule(g) + weight_decay p             no decay of biases and norm scales
        p <- p - m(p) rate(t) u

    With L layers, m is `layer_decay`^(L-1-i) in layer i = 0 ... L-1,
    `layer_decay`^L in the embeddings, and `head_learning_rate` in the heads. A subclass
    gives the rule.

    It is a pytree whose leaves are both rates: a new rate runs the program already
    compiled. All other fields are part of the program.

    Args:
      learning_rate: peak learning rate, at the end of the warm-up.
      warmup: share of all steps over which the learning rate rises.
      schedule: decay after the warm-up; see `rate`.
      power: exponent of the polynomial schedule.
      final_share: final learning rate as a share of the peak; "constant" ignores it.
      weight_decay: decoupled decay; biases and normalisation scales are exempt.
      clip_norm: gradients are scaled down to this global norm.
      head_learning_rate: learning rate of the heads as a factor of the encoder's, at
        least 0.1; None: 1.
      layer_decay: factor of the learning rate per layer from the top, embeddings last.
      freeze_embeddings: whether the embeddings are frozen.
      frozen_layers: number of lowest layers that are frozen, without the embeddings.
      ema_decay: decay of an exponential moving average of the parameters; 0: none.

    Raises:
      ValueError: a setting is out of its range.
    """

    short_name: ClassVar[str]
    """The name on the command line."""

    learning_rate: float = 5e-5
    warmup: float = 0.1
    schedule: ScheduleName = "linear"
    power: float = 1.0
    final_share: float = 0.0
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    head_learning_rate: float | None = None
    layer_decay: float = 1.0
    freeze_embeddings: bool = False
    frozen_layers: int = 0
    ema_decay: float = 0.0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        jax.tree_util.register_pytree_node(cls, _rates_and_rest, _with_rates)

    def __post_init__(self) -> None:
        self._check(
            "more than 0", lambda x: x > 0, "learning_rate", "power", "clip_norm"
        )
        # Below are rates, which this setting was in earlier versions.
        factor = "a factor of learning_rate, 0.1 or more"
        self._check(factor, lambda x: x is None or x >= 0.1, "head_learning_rate")
        share = "a share between 0 and 1"
        self._check(share, lambda x: 0 <= x <= 1, "warmup", "final_share")
        self._check("0 or more", lambda x: x >= 0, "weight_decay", "frozen_layers")
        self._check("more than 0 and at most 1", lambda x: 0 < x <= 1, "layer_decay")
        self._check("0 or more and less than 1", lambda x: 0 <= x < 1, "ema_decay")
        names = get_args(ScheduleName)
        self._check(f"one of {', '.join(names)}", lambda x: x in names, "schedule")

    def _check(self, limits: str, fits: Callable[[Any], bool], *fields: str) -> None:
        for name in fields:
            value = getattr(self, name)
            if not fits(value):
                raise ValueError(f"{name} is {value}; want {limits}")

    @abc.abstractmethod
    def rule(self) -> optax.GradientTransformation:
        """Return the transformation of clipped gradients.

        Its updates are for a learning rate of 1 and are subtracted; weight decay is
        added to them. A leaf of the layers is stacked over them, so norms and means of
        a tensor are over all layers.
        """

    def init(self, params: Params) -> Any:
        """Return the state before the first update."""
        return self._chain().init(self._trained(params))

    def update(
        self,
        gradients: Params,
        opt_state: Any,
        params: Params,
        step: ArrayLike,
        total_steps: ArrayLike,
    ) -> Update:
        """Take one step, after `step` of `total_steps`, which may be traced.

        Frozen parameters stay bit for bit.

        Raises:
          ValueError: more layers are frozen than there are.
        """
        gradients, old = self._trained(gradients), self._trained(params)
        updates, opt_state = self._chain().update(gradients, opt_state, old)
        rate = self.rate(step, total_steps)
        # One product for each number: multipliers go to the rate, and not at all if 1.
        rates = jax.tree.map(
            lambda m: rate if isinstance(m, float) and m == 1 else rate * m,
            jax.tree_util.tree_map_with_path(
                functools.partial(self._multiplier, params), old
            ),
        )
        new = jax.tree.map(lambda p, r, u: p - r * u, old, rates, updates)
        return Update(
            params=_with_frozen(params, new),
            opt_state=opt_state,
            learning_rate=rate,
            gradient_norm=optax.tree.norm(gradients),
        )

    def rate(self, step: ArrayLike, total_steps: ArrayLike) -> Array:
        """Return the learning rate of the update number `step`, counted from 0.

        With W = max(`warmup` * `total_steps`, 1) steps of warm-up, f = `final_share`
        and wave(x) = (1 - cos(pi x)) / 2 it is `learning_rate` times

            rise = (step + 1) / W
            left = (total_steps - step) / (total_steps - W)    clipped to [0, 1]
            constant      min(rise, 1)
            linear        min(rise, f + (1 - f) left)
            polynomial    min(rise, f + (1 - f) left^power)
            cosine        min(rise, f + (1 - f) wave(left))
            one_cycle     min(1/25 + 24/25 wave(min(step/W, 1)), f + (1 - f) wave(left))

        `left` falls to 0 at `total_steps`: the last update, number `total_steps - 1`,
        still moves the parameters. `cosine` is equation 5 of SGDR
        (https://arxiv.org/abs/1608.03983) without restarts. `one_cycle` is that of
        Super-Convergence (https://arxiv.org/abs/1708.07120) in waves for straight
        lines, which rise for close to half of the run: its `warmup` is long.

        Both numbers of steps may be traced, so that runs of different length share one
        compiled program; optax's schedules refuse a traced number of steps.

        >>> from dicejax.optimizers import AdamW
        >>> [float(AdamW(learning_rate=1.0).rate(s, 20)) for s in (0, 1, 2, 11, 20)]
        [0.5, 1.0, 1.0, 0.5, 0.0]
        """
        # Division wants floats; float32 is exact up to 2^24 steps.
        step = jnp.asarray(step, jnp.float32)
        total = jnp.asarray(total_steps, jnp.float32)
        warm = jnp.maximum(self.warmup * total, 1.0)
        rise = (step + 1) / warm
        if self.schedule == "constant":
            return self.learning_rate * jnp.minimum(rise, 1.0)
        left = jnp.clip((total - step) / jnp.maximum(total - warm, 1.0), 0.0, 1.0)
        if self.schedule == "one_cycle":
            rise = _wave(1 / 25, jnp.minimum(step / warm, 1.0))
        final = self.final_share
        if self.schedule in ("cosine", "one_cycle"):
            return self.learning_rate * jnp.minimum(rise, _wave(final, left))
        if self.schedule == "polynomial" and self.power != 1:
            left = left**self.power
        return self.learning_rate * jnp.minimum(rise, final + (1 - final) * left)

    def _multiplier(
        self, params: Params, path: tuple[Any, ...], leaf: Array
    ) -> ArrayLike:
        """Return the learning-rate multiplier of a trained leaf of the parameters.

        It is an array `[L, 1, ...]` for stacked layers whose rates differ.
        """
        match [entry.key for entry in path[:2]]:
            case ["heads", *_] if self.head_learning_rate is not None:
                return self.head_learning_rate
            case ["encoder", "embeddings"] if self.layer_decay != 1:
                return self.layer_decay ** _depth(params)
            case ["encoder", "layers"] if self.layer_decay != 1:
                below_top = np.arange(len(leaf))[::-1]
                powers = (self.layer_decay**below_top).astype(np.float32)
                return powers.reshape(-1, *(1,) * (leaf.ndim - 1))
        return 1.0

    def stop_frozen(self, params: Params) -> Params:
        """Stop the gradients of frozen parameters in the forward pass.

        This saves the backward pass of embeddings, and of the layers if all are frozen;
        some layers share a leaf with the others, and `update` drops their gradients.
        """
        frozen = ["embeddings"] if self.freeze_embeddings else []
        if self.frozen_layers and self._freezes_layers(params):
            frozen.append("layers")
        if not frozen:
            return params
        encoder = params["encoder"]
        stopped = {name: jax.lax.stop_gradient(encoder[name]) for name in frozen}
        return params | {"encoder": encoder | stopped}

    def average(self, ema: Params, params: Params, step: ArrayLike) -> Params:
        """Return the next average of the parameters: e <- e + (1 - d) (p - e).

        The decay d is min(`ema_decay`, (1 + step) / (10 + step)), so that the first
        steps, which are soon forgotten, do not weigh for long. At first e is a float32
        copy of the parameters; p are those after update number `step`, counted from 0.
        """
        step = jnp.asarray(step, jnp.float32)
        share = 1 - jnp.minimum(self.ema_decay, (1 + step) / (10 + step))
        new = jax.tree.map(
            lambda e, p: e + share * (p.astype(jnp.float32) - e),
            self._trained(ema),
            self._trained(params),
        )
        return _with_frozen(ema, new)

    def _chain(self) -> optax.GradientTransformation:
        def clip(gradients: optax.Updates, _: Any) -> optax.Updates:
            # optax divides each number instead: a pass of its own over all of them.
            factor = jnp.minimum(1.0, self.clip_norm / optax.tree.norm(gradients))
            return jax.tree.map(lambda g: factor * g, gradients)

        return optax.chain(
            optax.stateless(clip),
            self.rule(),
            optax.add_decayed_weights(self.weight_decay, decay_mask),
        )

    def _trained(self, params: Params) -> Params:
        """Return the tree without the frozen embeddings and lowest layers."""
        if not self.freeze_embeddings and not self.frozen_layers:
            return params
        encoder, first = dict(params["encoder"]), self.frozen_layers
        if self.freeze_embeddings:
            del encoder["embeddings"]
        if first and self._freezes_layers(params):
            del encoder["layers"]
        elif first:
            encoder["layers"] = jax.tree.map(lambda x: x[first:], encoder["layers"])
        return params | {"encoder": encoder}

    def _freezes_layers(self, params: Params) -> bool:
        """Return whether no layer is trained; more than there are is a ValueError."""
        count, layers = self.frozen_layers, _depth(params)
        if count > layers:
            raise ValueError(
                f"frozen_layers is {count}; the encoder has {layers} layers"
            )
        return count == layers


def _rates_and_rest(
    optimizer: Optimizer,
) -> tuple[tuple[ArrayLike, ArrayLike], Optimizer]:
    head = optimizer.head_learning_rate
    rates = optimizer.learning_rate, 1.0 if head is None else head
    return rates, _with_rates(optimizer, (1.0, 1.0))


def _with_rates(rest: Optimizer, rates: tuple[ArrayLike, ArrayLike]) -> Optimizer:
    optimizer = copy.copy(rest)  # rates may be traced, which the checks cannot read
    object.__setattr__(optimizer, "learning_rate", rates[0])
    object.__setattr__(optimizer, "head_learning_rate", rates[1])
    return optimizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay (https://arxiv.org/abs/1711.05101, algorithm 2).

        m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2
        rule(g) = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)

    Args:
      b1: decay of the first moment.
      b2: decay of the second moment.
      eps: added to the root of the second moment.
    """

    short_name: ClassVar[str] = "adamw"

    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("0 or more and less than 1", lambda x: 0 <= x < 1, "b1", "b2")
        self._check("more than 0", lambda x: x > 0, "eps")

    def rule(self) -> optax.GradientTransformation:
        """Return Adam."""
        return optax.scale_by_adam(self.b1, self.b2, self.eps)


def decay_mask(params: Any) -> Any:
    """Mark the parameters with weight decay: all but biases and norm scales.

    >>> decay_mask({"kernel": 0, "content_bias": 0, "norm": {"scale": 0}})
    {'content_bias': False, 'kernel': True, 'norm': {'scale': False}}
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, _: not path[-1].key.endswith(("bias", "scale")), params
    )


def _depth(params: Params) -> int:
    return len(jax.tree.leaves(params["encoder"]["layers"])[0])


def _with_frozen(old: Any, new: Any) -> Any:
    """Insert the frozen parameters of the old tree, the inverse of `_trained`."""
    if isinstance(old, dict):
        return {
            name: _with_frozen(part, new[name]) if name in new else part
            for name, part in old.items()
        }
    if old.shape == new.shape:
        return new
    # The upper layers of a stacked leaf; as a slice it is written in place where the
    # old buffer is given up.
    start = len(old) - len(new)
    return jax.lax.dynamic_update_slice_in_dim(old, new, start, axis=0)


def _wave(low: float, x: Array) -> Array:
    """Interpolate from `low` at 0 to 1 at 1 along half a cosine wave."""
    return low + (1 - low) * (1 - jnp.cos(jnp.pi * x)) / 2
