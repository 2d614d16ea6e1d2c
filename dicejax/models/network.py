"""An encoder with its heads, as pure functions of a nested dict of parameters."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, get_args

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array

from dicejax.errors import InputError
from dicejax.models.dropout import DropoutKeys
from dicejax.models.encoder import (
    MAX_UNROLLED_LAYERS,
    EncoderConfig,
    SequenceSummary,
)
from dicejax.models.heads import Head, SequenceHead, output_names
from dicejax.models.heads.head import Batch, Logits
from dicejax.models.settings import Remat, check_choice

Params = dict[str, Any]
INPUTS = ("input_ids", "segment_ids", "position_ids", "token_type_ids")
"""The arrays of a batch that encoders read."""
MAX_UNROLLED_IF_LONG = 24
WORTH_UNROLLING = {"gpu": 50_000_000, "tpu": 100_000_000}
"""Training tokens per device, padding included, from which many layers are written out.

A loop copies the activations for the backward pass: on an H200 0.5 of 2.2 microseconds
per token for BERT-base and 1.5 of 6.8 for BERT-large, whose loop compiles 50 seconds
sooner; on a v5e, by the compiler's cycles, 6.3 of 26.3, and nine minutes sooner.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """A description of the network; hashable, for use as a static argument.

    Args:
      encoder: the architecture of the encoder.
      heads: pairs of a name and a head.
      precision: type of activations and matrix products: "float32", "bfloat16", or
        "float64" where 64-bit types are switched on.
      remat: what the backward pass recomputes to save memory: "none", "attention"
        scores and weights, or each "layer".
      max_unrolled: up to this many layers are written out one after the other, more
        are a loop.

    Raises:
      ValueError: two heads give logits of the same name, or `remat` is unknown.

    >>> from dicejax.models.bert import BertConfig
    >>> from dicejax.models.heads import TokenHead
    >>> config = BertConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=8)
    >>> network = Network(encoder=config, heads=(("tags", TokenHead(classes=3)),))
    >>> params = network.init(jax.random.key(0))
    >>> ids = jnp.ones((2, 5), int)
    >>> batch = dict(input_ids=ids, segment_ids=ids, position_ids=ids,
    ...     token_type_ids=0 * ids)
    >>> network.apply(params, batch)["tags"].shape
    (2, 5, 3)
    """

    encoder: EncoderConfig
    heads: tuple[tuple[str, Head], ...]
    precision: str = "float32"
    remat: Remat = "none"
    max_unrolled: int = MAX_UNROLLED_LAYERS

    def __post_init__(self) -> None:
        output_names(self.heads)  # raises where two would have one name
        check_choice("remat", self.remat, get_args(Remat))

    @property
    def text_summary(self) -> SequenceSummary | None:
        """The vector of a text where a `SequenceHead` reads one."""
        reads = any(isinstance(head, SequenceHead) for _, head in self.heads)
        return self.encoder.text_summary if reads else None

    def for_training(self, places: int, platform: str) -> Network:
        """Return the network that is fastest in a training, its compilation included.

        Args:
          places: tokens that each device trains on, padding included.
          platform: of the devices.
        """
        if places < WORTH_UNROLLING.get(platform, math.inf):
            return self
        return dataclasses.replace(self, max_unrolled=MAX_UNROLLED_IF_LONG)

    @functools.partial(jax.jit, static_argnums=0)  # so that it is traced once
    def init(self, key: Array) -> Params:
        """Draw initial parameters, a nested dict of float32 arrays."""
        return nnx.to_pure_dict(nnx.split(_Module(self, nnx.Rngs(params=key)))[1])

    def check_memory(self, origin: str, most: int | None = None) -> None:
        """Check by arithmetic, before anything is allocated, that parameters fit.

        Raises:
          InputError: float32 parameters alone exceed `most` bytes, by default those of
            `available_memory`; the message names `origin`.
        """
        # Not `_skeleton`, which makes the constants among the parameters.
        shapes = jax.eval_shape(self.init, jax.random.key(0))
        needed = 4 * sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
        most = available_memory() if most is None else most
        if needed > most:
            raise InputError(
                f"{origin}: its parameters take {needed / 1e9:,.0f} GB, but there are "
                f"{most / 1e9:,.0f} GB of memory; correct its sizes"
            )

    def apply(
        self,
        params: Params,
        batch: Mapping[str, Array],
        rng: DropoutKeys | Array | None = None,
    ) -> dict[str, Array]:
        """Compute the logits of every head.

        Args:
          params: nested dict as `init` returns it.
          batch: `input_ids`, `segment_ids`, `position_ids`, `token_type_ids`, each int
            `[B, T]` (see `encoder.Encoder`), and further inputs of the heads.
          rng: keys for dropout, or one to derive them from; None: no dropout.

        Returns:
          Logits in at least float32, by the name of the head, or by their own names
          where a head gives several.

        Raises:
          ValueError: a position is beyond the encoder's table; under `jit`, where
            positions have no values, this is not seen.
        """
        positions, limit = batch["position_ids"], self.encoder.max_length
        # NumPy's, as a maximum of JAX has no value inside of a `jit`.
        values = np.asarray([] if isinstance(positions, jax.core.Tracer) else positions)
        if limit is not None and np.max(values, initial=0) >= limit:
            raise ValueError(
                f"position_ids go to {np.max(values)}, but the encoder has {limit} "
                f"positions (max_length of encode: {limit} or less)"
            )
        if isinstance(rng, Array):
            rng = DropoutKeys.for_rows(rng, jnp.arange(len(batch["input_ids"])))
        return self._module(params)(batch, rng)

    def hidden_states(self, params: Params, batch: Mapping[str, Array]) -> Array:
        """Return the embeddings and each layer's output, `[L + 1, B, T, D]`."""
        ids = {name: batch[name] for name in INPUTS}
        last, inputs = self._module(params).encoder(**ids, rng=None)
        return jnp.concatenate([inputs, last[None]])

    def _module(self, params: Params) -> _Module:
        graph, abstract = _skeleton(self)
        state = jax.tree.map(lambda leaf: leaf, abstract)  # a copy: replaced in place
        nnx.replace_by_pure_dict(state, jax.tree.map(jnp.asarray, params))
        return nnx.merge(graph, state)


def available_memory() -> int:
    """Return the bytes of all machines, or of all devices if that is more."""
    devices = [device.memory_stats() or {} for device in jax.local_devices()]
    on_devices = sum(device.get("bytes_limit", 0) for device in devices)
    on_host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return jax.process_count() * max(on_host, on_devices)


class _Module(nnx.Module):
    def __init__(self, network: Network, rngs: nnx.Rngs):
        config, dtype = network.encoder, jnp.dtype(network.precision)
        build: Callable[..., Any] = config.build  # makes an `Encoder`
        self.encoder = build(dtype=dtype, remat=network.remat, rngs=rngs)
        self.encoder.max_unrolled = network.max_unrolled
        self.heads: nnx.Dict[Any] = nnx.Dict()
        for name, head in network.heads:
            self.heads[name] = head.module(head, config, dtype=dtype, rngs=rngs)

    def __call__(self, batch: Batch, rng: DropoutKeys | None) -> Logits:
        parts = 1 + len(self.heads)
        drawn = None if rng is None else rng.split(parts)
        keys = [None if drawn is None else drawn[number] for number in range(parts)]
        ids = {name: batch[name] for name in INPUTS}
        hidden, _ = self.encoder(**ids, rng=keys[0])
        logits: Logits = {}
        for name, key in zip(sorted(self.heads), keys[1:], strict=True):
            output = self.heads[name](hidden, batch, key)
            logits |= output if isinstance(output, dict) else {name: output}
        return logits


@functools.cache
def _skeleton(network: Network) -> tuple[nnx.GraphDef[_Module], nnx.State[Any, Any]]:
    # The key is an argument, without a value: with one, what is drawn from it would be
    # computed here.
    def make(key: Array) -> _Module:
        return _Module(network, nnx.Rngs(params=key))

    # Cached outside any trace: building the module again at each trace costs a second.
    with jax.ensure_compile_time_eval():
        return nnx.split(nnx.eval_shape(make, jax.eval_shape(jax.random.key, 0)))
