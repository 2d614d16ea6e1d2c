"""The cost of depth: the size of the program, and the memory that remat saves."""

import jax
import jax.numpy as jnp
import pytest

from dicejax.models.bert import BertConfig
from dicejax.models.deberta import DebertaConfig
from dicejax.models.heads import TokenHead
from dicejax.models.modernbert import ModernBertConfig
from dicejax.models.network import Network
from dicejax.models.xlnet import XLNetConfig


def network(kind, depth, width, remat="none"):
    sizes = {
        "vocab_size": 100,
        "hidden_size": width,
        "num_hidden_layers": depth,
        "num_attention_heads": 4,
    }
    if kind == "xlnet":
        encoder = XLNetConfig(
            vocab_size=100, d_model=width, n_layer=depth, n_head=4, d_inner=4 * width
        )
    elif kind == "modernbert":
        encoder = ModernBertConfig(
            **sizes, intermediate_size=3 * width // 2, local_attention=16
        )
    else:
        kinds = {"bert": BertConfig, "deberta": DebertaConfig}
        encoder = kinds[kind](**sizes, intermediate_size=4 * width)
    heads = (("tags", TokenHead(classes=5)),)
    return Network(encoder=encoder, heads=heads, remat=remat)


def lowered(network, batch, length):
    """Lower the gradient of a training step."""
    params = jax.eval_shape(network.init, jax.random.key(0))
    ids = jax.ShapeDtypeStruct((batch, length), jnp.int32)
    names = ("input_ids", "segment_ids", "position_ids", "token_type_ids")

    @jax.jit
    @jax.grad
    def gradient(params, batch, seed):
        logits = network.apply(params, batch, jax.random.key(seed))["tags"]
        return -jax.nn.log_softmax(logits)[..., 0].mean()

    return gradient.lower(params, dict.fromkeys(names, ids), 0)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("bert", marks=pytest.mark.exhaustive),
        "xlnet",
        "deberta",
        "modernbert",
    ],
)
def test_the_program_does_not_grow_with_depth(kind):
    """Compile time itself is measured by benchmarks/encoders.py."""
    lines = {
        depth: lowered(network(kind, depth, 64), 2, 32).as_text().count("\n")
        for depth in (6, 12, 24)
    }
    assert lines[24] == lines[12] < lines[6]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "depth"),
    [
        ("bert", 24),
        pytest.param("bert", 6, marks=pytest.mark.exhaustive),
        pytest.param("xlnet", 24, marks=pytest.mark.exhaustive),
        pytest.param("deberta", 24, marks=pytest.mark.exhaustive),
        pytest.param("modernbert", 24, marks=pytest.mark.exhaustive),
    ],
)
def test_remat_lowers_the_peak_of_memory(kind, depth):
    plain, remat = (
        lowered(network(kind, depth, 256, remat=remat), 8, 128)
        .compile()
        .memory_analysis()
        .temp_size_in_bytes
        for remat in ("none", "layer")
    )
    assert plain > 3 * remat
