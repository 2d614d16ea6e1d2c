"""What depth costs: the time to compile, and the memory that remat saves."""

import time

import jax
import jax.numpy as jnp
import optax
import pytest

from dicejax.models.bert import BertConfig
from dicejax.models.heads import TokenHead
from dicejax.models.network import Network
from dicejax.models.xlnet import XLNetConfig

# The other tests compile with less care, to be done sooner.
AS_USERS_DO = {"xla_backend_optimization_level": 3}


def network(kind, depth, width, remat=False):
    if kind == "bert":
        encoder = BertConfig(
            vocab_size=100,
            hidden_size=width,
            num_hidden_layers=depth,
            num_attention_heads=4,
            intermediate_size=4 * width,
        )
    else:
        encoder = XLNetConfig(
            vocab_size=100, d_model=width, n_layer=depth, n_head=4, d_inner=4 * width
        )
    heads = (("tags", TokenHead(classes=5)),)
    return Network(encoder=encoder, heads=heads, remat=remat)


def lowered(network, batch, length, optimizer=None):
    """A training step, or the gradient alone."""
    params = jax.eval_shape(network.init, jax.random.key(0))
    ids = jax.ShapeDtypeStruct((batch, length), jnp.int32)
    names = ("input_ids", "segment_ids", "position_ids", "token_type_ids")

    def gradient(params, batch, seed):
        def loss(params):
            logits = network.apply(params, batch, jax.random.key(seed))["tags"]
            return -jax.nn.log_softmax(logits)[..., 0].mean()

        return jax.value_and_grad(loss)(params)

    def step(params, state, batch, seed):
        loss, gradients = gradient(params, batch, seed)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    inputs = (dict.fromkeys(names, ids), 0)
    if optimizer is None:
        return jax.jit(gradient).lower(params, *inputs)
    state = jax.eval_shape(optimizer.init, params)
    return jax.jit(step, donate_argnums=(0, 1)).lower(params, state, *inputs)


def cost_of_compiling(kind, depth):
    """Seconds of lowering and compiling a training step, and the size of the result.

    They are the process's own seconds, which other work on the machine does not change.
    """
    start = time.process_time()
    step = lowered(network(kind, depth, 64), 2, 32, optax.adamw(1e-4))
    compiled = step.compile(compiler_options=AS_USERS_DO)
    return time.process_time() - start, compiled.as_text().count("\n")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "xlnet"])
def test_a_deeper_model_takes_no_longer_to_compile(kind):
    lowered(network(kind, 1, 64), 2, 32, optax.adamw(1e-4))  # what is done once
    six, size_of_six = cost_of_compiling(kind, 6)
    twenty_four, size_of_twenty_four = cost_of_compiling(kind, 24)
    assert twenty_four < 1.5 * six
    assert size_of_twenty_four < size_of_six


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "depth"), [("bert", 24), ("xlnet", 24), ("bert", 6)])
def test_remat_lowers_the_peak_of_memory(kind, depth):
    plain, remat = (
        lowered(network(kind, depth, 256, remat=remat), 8, 128)
        .compile()
        .memory_analysis()
        .temp_size_in_bytes
        for remat in (False, True)
    )
    assert plain > 3 * remat
