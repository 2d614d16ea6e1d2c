"""Small networks with drawn weights."""

import functools

import jax
import numpy as np

from dicejax.models.bert import BertConfig
from dicejax.models.deberta import DebertaConfig
from dicejax.models.heads import TokenHead
from dicejax.models.modernbert import ModernBertConfig
from dicejax.models.network import Network
from dicejax.models.xlnet import XLNetConfig

# Most of the time of such a test is LLVM's, which compiles here for one call or two.
quickly = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0}
)


KINDS = ("bert", "xlnet", "deberta", "modernbert")


def encoder_of(kind, width, inner, *, heads=4, depth=2, vocab=50, **settings):
    """Return the architecture of an encoder; settings are of its kind."""
    shared = {"vocab_size": vocab} | settings
    if kind == "xlnet":
        sizes = {"d_model": width, "d_inner": inner, "n_layer": depth, "n_head": heads}
        return XLNetConfig(**sizes, **shared)
    kinds = {"bert": BertConfig, "deberta": DebertaConfig}
    return (kinds | {"modernbert": ModernBertConfig})[kind](
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


def drawn(network, seed=0):
    """Draw all parameters; initial ones leave attention nearly even."""
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    rng = np.random.default_rng(seed)

    def draw(path, leaf):
        around = 1.0 if path[-1].key == "scale" else 0.0
        return rng.normal(around, 0.2, leaf.shape).astype(np.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes)
