"""Base classes of encoders: the architecture as data, stacked and scanned layers."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax

from dicejax.errors import quote
from dicejax.mesh import pin_rows
from dicejax.models.dropout import DropoutKeys, Keys
from dicejax.models.layers import PRODUCT, Kernel, recompute, wide
from dicejax.models.settings import Remat, Scale, Size, check_fields


def _widen(activation: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Compute in at least float32: more exact, and 3 times as fast on processors."""

    def activate(x: Array) -> Array:
        return activation(x.astype(wide(x.dtype))).astype(x.dtype)

    return recompute(activate)  # stores its input alone, in the narrow type


_SQRT_HALF = math.sqrt(0.5)


@jax.custom_vjp
def _gelu(x: Array) -> Array:
    """Compute `x Phi(x)` in at least float32, with the normal distribution's Phi.

    The backward pass reads `x` in its own type. Phi of layers that are written out
    would be stored for it otherwise, in float32.
    """
    wider = x.astype(wide(x.dtype))
    return (0.5 * wider * (1 + lax.erf(_SQRT_HALF * wider))).astype(x.dtype)


def _gelu_bwd(x: Array, g: Array) -> tuple[Array]:
    wider = x.astype(wide(x.dtype))
    # Of -x: XLA would find the same function of `x` in the forward pass, and store it.
    phi = 0.5 * (1 - lax.erf(-_SQRT_HALF * wider))
    density = math.sqrt(0.5 / math.pi) * jnp.exp(-0.5 * jnp.square(wider))
    return ((g * (phi + wider * density)).astype(x.dtype),)


_gelu.defvjp(lambda x: (_gelu(x), x), _gelu_bwd)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": _gelu,
    "gelu_new": _widen(jax.nn.gelu),
    "gelu_pytorch_tanh": _widen(jax.nn.gelu),
    "relu": jax.nn.relu,
    "silu": _widen(jax.nn.silu),
    "tanh": _widen(jnp.tanh),
}


Pooling = Literal["auto", "first", "last", "mean", "max"]
"""What represents a text: the state of a piece, or of all their mean or maximum."""
MAX_UNROLLED_LAYERS = 6
"""Up to this many layers are written out one after the other, more are a loop."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceSummary:
    """The vector of a sequence, computed from its hidden states.

    Args:
      position: the token whose hidden state is taken, or "mean" or "max" of all.
      named: whether a batch that names a token of each sequence has it taken instead of
        the first or last.
      projected: whether there is a dense layer.
      of_each: whether it takes the state of each token, in front of the mean of all.
      activation: activation after it, a name of `ACTIVATIONS`; None: identity.
      bias: whether the dense layer has one.
      norm_epsilon: epsilon of a layer norm after the activation; None: no layer norm.
      norm_bias: whether that has a bias.
      dropout_before: share of the hidden state set to zero before the dense layer.
      dropout_after: the same of the vector that the classifier sees.
    """

    position: Literal["first", "last", "mean", "max"] = "first"
    named: bool = True
    projected: bool = True
    of_each: bool = False
    activation: str | None = "tanh"
    bias: bool = True
    norm_epsilon: float | None = None
    norm_bias: bool = True
    dropout_before: float = 0.0
    dropout_after: float = 0.0

    def __str__(self) -> str:
        """Return what a text becomes.

        >>> str(SequenceSummary())
        "its first piece's state, through a dense layer"
        """
        names = {"mean": "the mean of its pieces' states"}
        names["max"] = "the maximum of its pieces' states"
        text = names.get(self.position, f"its {self.position} piece's state")
        return text + ", through a dense layer" * self.projected


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig(abc.ABC):
    """The architecture of an encoder, in the words of a Hugging Face `config.json`.

    A subclass has a field for each setting, named as in that file. Values are checked
    against the fields' types, which may state ranges (`Size`, `Rate`); a subclass with
    a `__post_init__` calls this class's first, and raises a `ValueError` for
    unsupported values. It has to define `build`, `model_types` and the fields that are
    `sizes`; other properties and class variables have defaults that it may override.

    Args:
      model_type: one of `model_types`, which tells architectures apart in a file.
      vocab_size: rows of the embedding table.
      initializer_range: standard deviation of initial weights.
      pooling: what represents a text for `SequenceHead`; "auto" is the architecture's
        own form. It is in no `config.json`.
    """

    model_types: ClassVar[tuple[str, ...]]
    """The `model_type`s of a subclass; no other subclass has them."""
    sizes: ClassVar[tuple[str, str]] = ("hidden_size", "num_hidden_layers")
    """The fields that are the width of hidden states and the number of layers."""
    hidden_rates: ClassVar[tuple[str, ...]] = ()
    """The fields that are rates of dropout of hidden states."""
    attention_rates: ClassVar[tuple[str, ...]] = ()
    """The fields that are rates of dropout of attention weights."""
    words: ClassVar[Mapping[str, str]] = {}
    """The fields by the names that a `config.json` has instead."""
    projects_tokens: ClassVar[bool] = False
    """Whether `TokenHead` and `StartEndHead` see the summary's layer of a state."""

    model_type: str
    vocab_size: Size
    initializer_range: Scale = 0.02
    pooling: Pooling = "auto"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.model_type not in self.model_types:
            raise ValueError(
                f"model_type is {quote(self.model_type)}; supported: "
                f"{', '.join(map(repr, self.model_types))}"
            )

    @property
    def width(self) -> int:
        """Width of the hidden states."""
        return getattr(self, self.sizes[0])

    @property
    def depth(self) -> int:
        """Number of layers."""
        return getattr(self, self.sizes[1])

    @property
    def distinct_layers(self) -> int:
        """Number of layers with weights of their own; 1 where all share them."""
        return self.depth

    @abc.abstractmethod
    def build(self, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs) -> nnx.Module:
        """Build the module with initial parameters; called as `Encoder`."""

    @property
    def max_length(self) -> int | None:
        """The longest sequence, in tokens; None where there is no limit."""
        return None

    def within_limit(self, length: int) -> int:
        """Return a length of sequences, or the longest if that is less."""
        return min(length, self.max_length or length)

    @property
    def head_dropout(self) -> float:
        """Share of the hidden states set to zero in front of a token head."""
        return 0.0

    @property
    def summary(self) -> SequenceSummary:
        """The vector of a sequence for classification, the architecture's own form."""
        return SequenceSummary(position="mean")

    @property
    def is_pooled(self) -> bool:
        """Whether `pooling` reads other states than the architecture's own form."""
        return self.pooling not in ("auto", self.summary.position)

    @property
    def text_summary(self) -> SequenceSummary:
        """The vector of a text: the own form, or states as they are, dropped out."""
        if self.pooling == "auto" or not self.is_pooled:
            return self.summary
        return SequenceSummary(
            position=self.pooling,
            named=False,
            projected=False,
            activation=None,
            dropout_after=self.head_dropout,
        )

    @classmethod
    def fields_of(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that the content of a `config.json` sets."""
        names = {field.name for field in dataclasses.fields(cls)}
        fields = {name: value for name, value in content.items() if name in names}
        return fields | {
            name: content[word] for word, name in cls.words.items() if word in content
        }

    def to_json(self) -> dict[str, Any]:
        """Return the content of a `config.json`."""
        content, words = dataclasses.asdict(self), self.words
        del content["pooling"]
        return content | {word: content.pop(name) for word, name in words.items()}

    def with_dropout(self, hidden: float | None, attention: float | None) -> Self:
        """Return a copy with other rates of dropout; None keeps the present ones.

        Raises:
          ValueError: there is no dropout, or one rate for both and the two differ.
        """
        name = type(self).__name__
        if (hidden or attention) and not (self.hidden_rates or self.attention_rates):
            raise ValueError(f"{name} has no dropout to set")
        if hidden and not self.hidden_rates:
            raise ValueError(f"{name} has no dropout of hidden states; leave it out")
        shared = set(self.hidden_rates) & set(self.attention_rates)
        if shared and None not in (hidden, attention) and hidden != attention:
            raise ValueError(
                f"hidden_dropout_prob is {hidden}, attention_probs_dropout_prob "
                f"{attention}; {name.removesuffix('Config')} has one rate for both"
            )
        rates = [(field, hidden) for field in self.hidden_rates]
        rates += [(field, attention) for field in self.attention_rates]
        changes: dict[str, Any] = {k: rate for k, rate in rates if rate is not None}
        return dataclasses.replace(self, **changes)


Config = TypeVar("Config", bound=EncoderConfig)
Embeddings = TypeVar("Embeddings", bound=nnx.Module)
State = nnx.State[Any, Any]
Prepared = tuple[Array, Any, tuple[Any, ...]]


class Encoder(nnx.Module, Generic[Config, Embeddings]):
    """The module of an encoder: token ids in, hidden states out.

    A subclass defines `layer`, `embed` and `prepare`, and may define `finish`.

    Args:
      config: the architecture.
      dtype: type of the activations; parameters are float32.
      remat: what the backward pass recomputes. "none": pointwise operations alone.
        "attention": all but products of hidden states and weights. "layer": all; only
        the inputs of layers are stored.
      rngs: source of the initial parameters.
    """

    layer: ClassVar[Callable[..., nnx.Module]]
    """Class of the module that is stacked."""
    draws: ClassVar[int] = 1
    """Number of dropout keys besides those of the layers."""
    max_unrolled = MAX_UNROLLED_LAYERS

    def __init__(
        self, config: Config, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs
    ):
        self.config = config
        self.dtype = dtype
        self.remat = remat
        self.embeddings = self.embed(dtype=dtype, rngs=rngs)
        # One module, whose parameters have a leading axis of layers.
        make: Callable[[Array], nnx.Module] = nnx.vmap(
            lambda key: self.layer(config, dtype=dtype, rngs=nnx.Rngs(params=key))
        )
        self.layers = make(jax.random.split(rngs.params(), config.distinct_layers))

    @abc.abstractmethod
    def embed(self, *, dtype: jnp.dtype, rngs: nnx.Rngs) -> Embeddings:
        """Make the module in front of the layers."""

    @abc.abstractmethod
    def prepare(self, ids: Mapping[str, Array], keys: Keys) -> Prepared:
        """Compute the inputs of the layers.

        Args:
          ids: the arguments of `__call__` by name.
          keys: `draws` keys; each None where dropout is off.

        Returns:
          The first layer's input `[B, T, D]`, what all layers share, and further
          arguments of each layer, with a leading axis of length L. A layer is called
          with its input, the shared value, its further arguments, and its key.
        """

    def finish(self, x: Array, keys: Keys) -> Array:
        """Compute the encoder's output from the last layer's, with `prepare`'s keys."""
        return x

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
          token_type_ids: int `[B, T]`.
          segment_ids: int `[B, T]`; 1, 2, ... number the sentences packed into a row,
            0 is padding, on either side.
          position_ids: int `[B, T]`, restarting at 0 with each segment.
          rng: keys for dropout; None switches dropout off.

        Returns:
          The last hidden states `[B, T, D]`, and the inputs of all layers
          `[L, B, T, D]`.
        """
        depth = self.config.depth
        all_keys = None if rng is None else rng.split(depth + self.draws)
        drawn = range(depth, depth + self.draws)
        keys = [None if all_keys is None else all_keys[number] for number in drawn]
        ids = {
            "input_ids": input_ids,
            "segment_ids": segment_ids,
            "position_ids": position_ids,
            "token_type_ids": token_type_ids,
        }
        x, shared, per_layer = self.prepare(ids, keys)
        per_layer = (*per_layer, None if all_keys is None else all_keys[:depth])
        graph, parameters = nnx.split(self.layers)
        stacked: State | None = _cast_kernels(parameters, self.dtype)
        shared_layer: State | None = None
        if self.config.distinct_layers < depth:
            shared_layer, stacked = jax.tree.map(lambda leaf: leaf[0], stacked), None

        def body(
            x: Array, scanned: tuple[State | None, tuple[Any, ...]]
        ) -> tuple[Array, Array]:
            layer, part = scanned
            layer = shared_layer if layer is None else layer
            return pin_rows(nnx.merge(graph, layer)(x, shared, *part)), x

        # Written-out layers run faster where that leaves no loop: the weights'
        # gradients need no copy into a stacked array. A loop of several layers a turn
        # has that copy, and a second one. Recomputing needs the loop: in one turn the
        # compiler is free to run all that is recomputed before any of it is used, or to
        # find that it has it.
        is_short = depth <= self.max_unrolled
        unroll = depth if is_short and self.remat == "none" else 1
        if self.remat == "layer":
            body = jax.checkpoint(body, prevent_cse=False)
        elif self.remat == "attention":
            products = jax.checkpoint_policies.save_only_these_names(PRODUCT)
            body = jax.checkpoint(body, prevent_cse=False, policy=products)
        layers = stacked, per_layer
        last, inputs = lax.scan(body, pin_rows(x), layers, length=depth, unroll=unroll)
        return self.finish(last, keys), inputs


def _cast_kernels(parameters: State, dtype: jnp.dtype) -> State:
    """Cast the kernels of stacked layers, see `Kernel`."""

    def cast(variable: nnx.Variable[Array]) -> nnx.Variable[Array]:
        if not isinstance(variable, Kernel):
            return variable
        return variable.copy(variable[...].astype(dtype))

    return jax.tree.map(
        cast, parameters, is_leaf=lambda leaf: isinstance(leaf, nnx.Variable)
    )
