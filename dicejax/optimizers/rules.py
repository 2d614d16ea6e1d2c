"""The update rules: AdamW, Lion, Adafactor, LAMB.

Fields and defaults are those of `Optimizer` unless a rule says otherwise. A default
learning rate is for fine-tuning with about 32 sequences an update.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import optax

from dicejax.optimizers.optimizer import Optimizer
from dicejax.optimizers.parameters import decay_mask, per_layer


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
        self._want("0 or more and less than 1", lambda x: 0 <= x < 1, "b1", "b2")
        self._want("more than 0", lambda x: x > 0, "eps")

    def rule(self) -> tuple[optax.GradientTransformation, ...]:
        """Return Adam and the decay."""
        return (
            optax.scale_by_adam(self.b1, self.b2, self.eps),
            optax.add_decayed_weights(self.weight_decay, mask=decay_mask),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lion(Optimizer):
    """The sign of a momentum (https://arxiv.org/abs/2302.06675, algorithm 2).

        rule(g) = sign(b1 m + (1 - b1) g),   then   m <- b2 m + (1 - b2) g

    One moment instead of two. Every number moves by the whole learning rate, so that is
    3 to 10 times lower than AdamW's, and the decay so many times higher.

    Args:
      b1: share of the momentum in the sign.
      b2: decay of the momentum.
    """

    short_name: ClassVar[str] = "lion"

    learning_rate: float = 1e-5
    weight_decay: float = 0.05
    b1: float = 0.9
    b2: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        self._want("0 or more and less than 1", lambda x: 0 <= x < 1, "b1", "b2")

    def rule(self) -> tuple[optax.GradientTransformation, ...]:
        """Return Lion and the decay."""
        return (
            optax.scale_by_lion(self.b1, self.b2),
            optax.add_decayed_weights(self.weight_decay, mask=decay_mask),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adafactor(Optimizer):
    """Second moments by rows and columns (https://arxiv.org/abs/1804.04235).

    For a matrix only the means of v over its rows and over its columns are kept, no
    momentum: next to no memory besides the parameters. With d = 1 - t^-decay_rate,

        v <- d v + (1 - d) (g^2 + 1e-30)          by row and by column
        u <- g / sqrt(v)
        rule(g) = max(RMS(p), 1e-3) u / max(1, RMS(u) / clipping_threshold)

    with the root mean square RMS of one tensor of one layer. So the learning rate is a
    share of a tensor's size. There is no weight decay unless it is asked for.

    Args:
      decay_rate: exponent of the decay d.
      clipping_threshold: the highest RMS of a tensor's update.
      multiply_by_parameter_scale: scale updates by the tensor's RMS.
      min_dim_size_to_factor: minimum of the two longest axes of a factored tensor.
    """

    short_name: ClassVar[str] = "adafactor"

    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    decay_rate: float = 0.8
    clipping_threshold: float = 1.0
    multiply_by_parameter_scale: bool = True
    min_dim_size_to_factor: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        self._want("0 or more and at most 1", lambda x: 0 <= x <= 1, "decay_rate")
        self._want("1 or more", lambda x: x >= 1, "clipping_threshold")
        self._want("1 or more", lambda x: x >= 1, "min_dim_size_to_factor")

    def rule(self) -> tuple[optax.GradientTransformation, ...]:
        """Return Adafactor per layer, and the decay."""
        parts = [
            optax.scale_by_factored_rms(
                decay_rate=self.decay_rate,
                min_dim_size_to_factor=self.min_dim_size_to_factor,
            ),
            optax.clip_by_block_rms(self.clipping_threshold),
        ]
        if self.multiply_by_parameter_scale:
            parts.append(optax.scale_by_param_block_rms())
        return (
            per_layer(optax.chain(*parts)),
            optax.add_decayed_weights(self.weight_decay, mask=decay_mask),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LAMB(Optimizer):
    """AdamW with steps as long as the tensor is (https://arxiv.org/abs/1904.00962).

        u <- AdamW's rule(g) + weight_decay p
        step = |p| / |u| u                        1 for |p| / |u| where either is 0

    with the norms of one tensor of one layer. So the learning rate is a share of a
    tensor's norm, and stays good for batches of thousands, which it is made for.

    Biases and normalisation scales take u unscaled, as in published programs: a bias
    that starts at 0 would stay near it.

    Args:
      b1: decay of the first moment.
      b2: decay of the second moment.
      eps: added to the root of the second moment.
    """

    short_name: ClassVar[str] = "lamb"

    learning_rate: float = 5e-4
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        self._want("0 or more and less than 1", lambda x: 0 <= x < 1, "b1", "b2")
        self._want("more than 0", lambda x: x > 0, "eps")

    def rule(self) -> tuple[optax.GradientTransformation, ...]:
        """Return Adam, the decay, and the trust ratio."""
        return (
            optax.scale_by_adam(self.b1, self.b2, self.eps),
            optax.add_decayed_weights(self.weight_decay, mask=decay_mask),
            per_layer(optax.masked(optax.scale_by_trust_ratio(), decay_mask)),
        )
