"""The base class of heads, and the head with logits of each token."""

from __future__ import annotations

import abc
import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
from flax import nnx
from flax.traverse_util import flatten_dict, unflatten_dict
from jax import Array

from dicejax.errors import InputError
from dicejax.models.dropout import DropoutKeys, dropout
from dicejax.models.encoder import ACTIVATIONS, EncoderConfig, SequenceSummary
from dicejax.models.layers import Dense, LayerNorm, wide

Batch = Mapping[str, Array]
Logits = dict[str, Array]


class HeadModule(Protocol):
    """The module of a head."""

    def __call__(
        self, hidden: Array, batch: Batch, rng: DropoutKeys | None
    ) -> Array | Logits:
        """Compute logits, in at least float32.

        Args:
          hidden: the encoder's last hidden states `[B, T, D]`.
          batch: the arrays of the batch, such as `segment_ids`.
          rng: keys for dropout; None, in prediction, disables dropout and gold labels.

        Returns:
          One array, or several by name.
        """
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head(abc.ABC):
    """The description of a head; a subclass for each kind of logits."""

    module: ClassVar[Callable[..., HeadModule]]
    """Makes the module, of the head, the encoder's architecture, `dtype` and `rngs`."""
    names: ClassVar[tuple[str, ...]] = ()
    """Names of the logits; none: one array that has the head's name."""
    biases: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Paths of parameters that are added to the logits: one for all, or one for each of
    the names."""


def output_names(heads: Iterable[tuple[str, Head]]) -> tuple[str, ...]:
    """Return the names of all logits of a network, from pairs of a name and a head.

    Raises:
      ValueError: two logits have one name, of which only one would reach the loss.

    >>> from dicejax.models.heads import SequenceHead, StartEndHead, output_names
    >>> output_names([("span", StartEndHead()), ("topic", SequenceHead(classes=3))])
    ('start', 'end', 'topic')
    """
    owners = collections.defaultdict(list)
    for name, head in heads:
        for output in head.names or (name,):
            owners[output].append(repr(name))
    several = ((output, names) for output, names in owners.items() if len(names) > 1)
    shared = [f"{output!r} (of {', '.join(names)})" for output, names in several]
    if shared:
        raise ValueError(f"several heads give logits named {'; '.join(shared)}")
    return tuple(owners)


def biases_at(
    heads: Iterable[tuple[str, Head]], logits: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Return biases equal to constant logits, as a part of the heads' parameters.

    Args:
      heads: pairs of a name and a head.
      logits: floats `[C]` by the name of the logits.

    Raises:
      InputError: a head does not name its biases.

    >>> heads = [("tags", TokenHead(classes=2))]
    >>> biases_at(heads, {"tags": np.array([-0.5, 0.5])})
    {'tags': {'dense': {'bias': array([-0.5,  0.5], dtype=float32)}}}
    """
    leaves = {}
    for name, head in heads:
        if not head.biases:
            raise InputError(
                f"training: head_bias prior: head {name!r} names no biases of its "
                f"logits; set `biases` of {type(head).__name__}"
            )
        values = np.concatenate([logits[output] for output in head.names or (name,)])
        parts = np.split(values.astype(np.float32), len(head.biases))
        for path, part in zip(head.biases, parts, strict=True):
            leaves[name, *path] = part
    return unflatten_dict(leaves)


def with_biases(params: Mapping[str, Any], biases: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of a network with those of `biases_at`, under "heads"."""
    return unflatten_dict(flatten_dict(params) | flatten_dict(biases))


def dense(fan_in: int, fan_out: int, encoder: EncoderConfig, **options: Any) -> Dense:
    """Return a dense layer of a head, in at least float32."""
    options |= {"dtype": wide(options["dtype"]), "scale": encoder.initializer_range}
    return Dense(fan_in, fan_out, **options)


class Projection(nnx.Module):
    """The dense layer, activation and norm of an `encoder.SequenceSummary`."""

    def __init__(self, encoder: EncoderConfig, form: SequenceSummary, **options: Any):
        width = encoder.width
        layer = functools.partial(dense, width, width, encoder, **options)
        self.dense = layer(bias=form.bias) if form.projected else None
        norm = functools.partial(LayerNorm, width, dtype=wide(options["dtype"]))
        epsilon, bias = form.norm_epsilon, form.norm_bias
        self.norm = None if epsilon is None else norm(epsilon=epsilon, bias=bias)
        self.settings = form

    def project(self, x: Array) -> Array:
        """Map `[..., D]` to `[..., D]`."""
        x = x if self.dense is None else self.dense(x)
        name = self.settings.activation
        x = x if name is None else ACTIVATIONS[name](x)
        return x if self.norm is None else self.norm(x)


class TokenStates(nnx.Module):
    """Hidden states that token classifiers read: `[B, T, D]`."""

    def __init__(self, encoder: EncoderConfig, **options: Any):
        project = functools.partial(Projection, encoder, encoder.summary, **options)
        self.projection = project() if encoder.projects_tokens else None
        self.dropout_rate = encoder.head_dropout

    def states(self, hidden: Array, rng: DropoutKeys | None) -> Array:
        """Project where the encoder's heads do; `rng` switches dropout on."""
        if self.projection is not None:
            hidden = self.projection.project(hidden)
        return dropout(hidden, self.dropout_rate, rng)


class _TokenClassifier(TokenStates):
    def __init__(self, head: TokenHead, encoder: EncoderConfig, **options: Any):
        super().__init__(encoder, **options)
        self.dense = dense(encoder.width, head.classes, encoder, **options)

    def __call__(self, hidden: Array, batch: Batch, rng: DropoutKeys | None) -> Array:
        return self.dense(self.states(hidden, rng))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenHead(Head):
    """Logits `[B, T, C]` over `classes` for each token: `W dropout(h_t) + b`."""

    classes: int

    module = _TokenClassifier
    biases = (("dense", "bias"),)
