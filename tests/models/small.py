"""Small networks and heads with drawn weights."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from dicejax.models.bert import BertConfig
from dicejax.models.deberta import DebertaConfig
from dicejax.models.eurobert import EuroBertConfig
from dicejax.models.heads import TokenHead
from dicejax.models.modernbert import ModernBertConfig
from dicejax.models.mpnet import MPNetConfig
from dicejax.models.network import Network
from dicejax.models.rotary import RotaryConfig
from dicejax.models.xlnet import XLNetConfig

# Most of the time of such a test is LLVM's, which compiles here for one call or two.
quickly = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0}
)

KINDS = ("bert", "xlnet", "deberta", "modernbert", "mpnet")


def encoder_of(kind, width, inner, *, heads=4, depth=2, vocab=50, **settings):
    """Return the architecture of an encoder; settings are of its kind."""
    shared = {"vocab_size": vocab} | settings
    if kind == "xlnet":
        sizes = {"d_model": width, "d_inner": inner, "n_layer": depth, "n_head": heads}
        return XLNetConfig(**sizes, **shared)
    kinds = {"bert": BertConfig, "deberta": DebertaConfig, "mpnet": MPNetConfig}
    kinds |= {"modernbert": ModernBertConfig, "gte": RotaryConfig}
    kinds |= {"eurobert": EuroBertConfig}
    return kinds[kind](
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        **shared,
    )


def network_of(config, head=None, **settings):
    """Return a network with one head, called "tags"."""
    heads = (("tags", head or TokenHead(classes=5)),)
    return Network(encoder=config, heads=heads, **settings)


def has_token_types(encoder):
    """Return whether token types matter; RoBERTa has one."""
    return getattr(encoder, "type_vocab_size", 2) > 1


def batch_for(encoder, lengths=(16, 9, 1, 5), padded="right", seed=0):
    """Return rows of one example each, padded right, left, or not at all."""
    rng = np.random.default_rng(seed)
    width = max(lengths)
    real = np.arange(width) < np.array(lengths)[:, None]
    if padded == "left":
        real = real[:, ::-1]
    elif padded == "none":
        real = np.ones_like(real)
    ids = rng.integers(7, encoder.vocab_size, real.shape)
    types = rng.integers(0, 2, real.shape) * has_token_types(encoder)
    return {
        "input_ids": np.where(real, ids, encoder.pad_token_id).astype(np.int32),
        "segment_ids": real.astype(np.int32),
        "position_ids": np.where(real, real.cumsum(1) - 1, 0).astype(np.int32),
        "token_type_ids": types.astype(np.int32),
    }


def inputs_of(torch, encoder, batch, masked=True):
    """Return PyTorch's inputs for a batch."""
    names = {"input_ids": "input_ids"}
    if masked:
        names["attention_mask"] = "segment_ids"
    if has_token_types(encoder):
        names["token_type_ids"] = "token_type_ids"
    return {theirs: torch.tensor(batch[ours]) for theirs, ours in names.items()}


def drawn(network, seed=0):
    """Draw all parameters; initial ones leave attention nearly even."""
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    rng = np.random.default_rng(seed)

    def draw(path, leaf):
        around = 1.0 if path[-1].key == "scale" else 0.0
        return rng.normal(around, 0.2, leaf.shape).astype(np.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def encoder(model_type="bert", width=8, dropout=0.0):
    """Return an encoder's settings for the heads."""
    settings = {"model_type": model_type, "hidden_dropout_prob": dropout}
    return encoder_of("bert", width, 8, heads=2, depth=1, vocab=9, **settings)


def make(head, config, dtype=jnp.float32, seed=0):
    """Return the head's module with all weights drawn, biases and scales too."""
    module = head.module(
        head, config, dtype=jnp.dtype(dtype), rngs=nnx.Rngs(params=seed)
    )
    rng = np.random.default_rng(seed)

    def drawn(x):
        return jnp.asarray(rng.normal(scale=0.5, size=x.shape), x.dtype)

    nnx.update(module, jax.tree.map(drawn, nnx.state(module)))
    return module


def weights(module):
    """Return the module's weights, a nested dict of float64 NumPy arrays."""
    state = nnx.to_pure_dict(nnx.state(module))
    return jax.tree.map(lambda x: np.asarray(x, np.float64), state)


def hidden_states(shape, seed=1, dtype=None):
    """Draw hidden states from a normal distribution."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)
