"""Base classes of encoders: the architecture as data, stacked and scanned layers."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax

from dicejax.errors import quote
from dicejax.mesh import pin_rows
from dicejax.models.dropout import DropoutKeys
from dicejax.models.layers import PRODUCT, recomputed
from dicejax.models.settings import Remat, Scale, Size, check_fields


def _wide(activation: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Compute in at least float32: more exact, and 3 times as fast on processors."""

    def wide(x: Array) -> Array:
        least = jnp.promote_types(x.dtype, jnp.float32)
        return activation(x.astype(least)).astype(x.dtype)

    return recomputed(wide)  # stores its input alone, in the narrow type


ACTIVATIONS = {
    "gelu": _wide(functools.partial(jax.nn.gelu, approximate=False)),
    "gelu_new": _wide(jax.nn.gelu),
    "gelu_pytorch_tanh": _wide(jax.nn.gelu),
    "relu": jax.nn.relu,
    "silu": _wide(jax.nn.silu),
    "tanh": _wide(jnp.tanh),
}


MAX_UNROLLED_LAYERS = 6
"""Up to this many layers are written out one after the other, more are a loop."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceSummary:
    """The vector of a sequence, computed from its hidden states.

    Args:
      position: the token whose hidden state is taken, or "mean" of all of them.
      projected: whether there is a dense layer.
      activation: activation after it, a name of `ACTIVATIONS`; None: identity.
      bias: whether the dense layer has one.
      norm_epsilon: of a layer normalisation behind the activation; None: there is none.
      norm_bias: whether that has a bias.
      dropout_before: share of the hidden state set to zero before the dense layer.
      dropout_after: the same of the vector that the classifier sees.
    """

    position: Literal["first", "last", "mean"] = "first"
    projected: bool = True
    activation: str | None = "tanh"
    bias: bool = True
    norm_epsilon: float | None = None
    norm_bias: bool = True
    dropout_before: float = 0.0
    dropout_after: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig(abc.ABC):
    """The architecture of an encoder, in the words of a Hugging Face `config.json`.

    A subclass has a field for each setting, named as in that file. Values are checked
    against the fields' types, which may state ranges (`Size`, `Rate`); a subclass with
    a `__post_init__` of its own calls this class's first, and raises a `ValueError` for
    unsupported values. It has to define `width`, `depth`, `build` and `model_types`;
    the other properties have defaults that it may override.

    Args:
      model_type: one of `model_types`, which tells architectures apart in a file.
      vocab_size: rows of the embedding table.
      initializer_range: standard deviation of initial weights.
    """

    model_types: ClassVar[tuple[str, ...]]
    """The `model_type`s of a subclass; no other subclass has them."""

    model_type: str
    vocab_size: Size
    initializer_range: Scale = 0.02

    def __post_init__(self) -> None:
        check_fields(self)
        if self.model_type not in self.model_types:
            raise ValueError(
                f"model_type is {quote(self.model_type)}; supported: "
                f"{', '.join(map(repr, self.model_types))}"
            )

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """Width of the hidden states."""

    @property
    @abc.abstractmethod
    def depth(self) -> int:
        """Number of layers."""

    @abc.abstractmethod
    def build(self, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs) -> nnx.Module:
        """Build the module with initial parameters; called as `Encoder`."""

    @property
    def max_length(self) -> int | None:
        """The longest sequence, in tokens; None where there is no limit."""
        return None

    @property
    def head_dropout(self) -> float:
        """Share of the hidden states set to zero in front of a token head."""
        return 0.0

    @property
    def summary(self) -> SequenceSummary:
        """The vector of a sequence for classification."""
        return SequenceSummary(position="mean")

    @property
    def projects_tokens(self) -> bool:
        """Whether `TokenHead` and `StartEndHead` see the summary's layer of a state."""
        return False

    @classmethod
    def fields_of(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that the content of a `config.json` sets."""
        names = {field.name for field in dataclasses.fields(cls)}
        return {name: value for name, value in content.items() if name in names}

    def to_json(self) -> dict[str, Any]:
        """Return the content of a `config.json`."""
        return dataclasses.asdict(self)

    def with_dropout(
        self, hidden: float | None, attention: float | None
    ) -> EncoderConfig:
        """Return a copy with other rates of dropout; None keeps the present one."""
        if hidden or attention:
            raise ValueError(f"{type(self).__name__} has no dropout to set")
        return self


def encoder_configs() -> dict[str, type[EncoderConfig]]:
    """Return the encoder configurations by `model_type`."""
    configs: dict[str, type[EncoderConfig]] = {}
    classes = EncoderConfig.__subclasses__()
    while classes:
        cls = classes.pop(0)
        configs |= dict.fromkeys(cls.__dict__.get("model_types", ()), cls)
        classes += cls.__subclasses__()
    return configs


class Encoder(nnx.Module):
    """The module of an encoder: token ids in, hidden states out.

    Args:
      config: the architecture.
      embeddings: class of the module in front of the layers.
      layer: class of the module that is stacked.
      dtype: type of the activations; parameters are float32.
      remat: what the backward pass recomputes, see `scan`.
      rngs: source of the initial parameters.
    """

    def __init__(
        self,
        config: EncoderConfig,
        embeddings: type[nnx.Module],
        layer: type[nnx.Module],
        *,
        dtype: jnp.dtype,
        remat: Remat,
        rngs: nnx.Rngs,
    ):
        self.embeddings = embeddings(config, dtype=dtype, rngs=rngs)
        self.layers = stack(
            lambda rngs: layer(config, dtype=dtype, rngs=rngs),
            config.depth,
            rngs.params(),
        )
        self.config = config
        self.dtype = dtype
        self.remat = remat

    @abc.abstractmethod
    def __call__(
        self,
        input_ids: Array,
        *,
        segment_ids: Array,
        position_ids: Array,
        token_type_ids: Array,
        rng: DropoutKeys | None = None,
    ) -> tuple[Array, Array]:
        """Encode packed rows.

        Args:
          input_ids: int `[B, T]`.
          segment_ids: int `[B, T]`; 1, 2, ... number the sentences packed into a row,
            0 is padding, on either side.
          position_ids: int `[B, T]`, restarting at 0 with each segment.
          token_type_ids: int `[B, T]`.
          rng: keys for dropout; None switches dropout off.

        Returns:
          The last hidden states `[B, T, D]`, and the inputs of all layers
          `[L, B, T, D]`.
        """

    def through_layers(
        self, x: Array, step: Callable[[Any, Array, Any], Array], per_layer: Any
    ) -> tuple[Array, Array]:
        """Send `[B, T, D]` through the layers, as `scan` does."""
        depth = self.config.depth
        return scan(self.layers, x, step, per_layer, depth=depth, remat=self.remat)


def stack(make: Callable[[nnx.Rngs], nnx.Module], depth: int, key: Array) -> nnx.Module:
    """Make `depth` layers as one module whose parameters have a leading axis."""

    @nnx.vmap(in_axes=0, out_axes=0)
    def layers(key: Array) -> nnx.Module:
        return make(nnx.Rngs(params=key))

    return layers(jax.random.split(key, depth))


def scan(
    layers: nnx.Module,
    x: Array,
    step: Callable[[Any, Array, Any], Array],
    per_layer: Any,
    *,
    depth: int,
    remat: Remat,
) -> tuple[Array, Array]:
    """Apply stacked layers in sequence.

    Up to six layers are unrolled.

    Args:
      layers: as `stack` makes them.
      x: `[B, T, D]`.
      step: from a layer, its input and its part of `per_layer` to its output.
      per_layer: a pytree of arrays with a leading axis of length `depth`.
      depth: number of layers.
      remat: what the backward pass recomputes. "none": pointwise operations alone.
        "attention": all but products of hidden states and weights. "layer": all; only
        the inputs of layers are stored.

    Returns:
      The last layer's output, and the inputs of all layers `[L, B, T, D]`.
    """
    graph, parameters = nnx.split(layers)

    def body(x: Array, scanned) -> tuple[Array, Array]:
        layer, part = scanned
        return pin_rows(step(nnx.merge(graph, layer), x, part)), x

    # Written-out layers run faster where that leaves no loop: the weights' gradients
    # need no copy into a stacked array. A loop of several layers a turn has that copy,
    # and a second one. Recomputing needs the loop: in one turn the compiler is free to
    # run all that is recomputed before any of it is used, or to find that it has it.
    unroll = depth if depth <= MAX_UNROLLED_LAYERS and remat == "none" else 1
    if remat == "layer":
        body = jax.checkpoint(body, prevent_cse=False)
    elif remat == "attention":
        products = jax.checkpoint_policies.save_only_these_names(PRODUCT)
        body = jax.checkpoint(body, prevent_cse=False, policy=products)
    return lax.scan(body, pin_rows(x), (parameters, per_layer), unroll=unroll)
