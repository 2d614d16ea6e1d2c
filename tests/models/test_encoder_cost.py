"""The cost of depth: the size of the program, and the memory that remat saves."""

import re

import jax
import jax.numpy as jnp
import pytest

from dicejax.mesh import MeshShape, in_use

from .small import KINDS, encoder_of, network_of

EXHAUSTIVE = pytest.mark.exhaustive


def network(kind, depth, width, **form):
    inner = {"modernbert": 3 * width // 2}.get(kind, 4 * width)
    settings = {"modernbert": {"local_attention": 16}}.get(kind, {})
    config = encoder_of(kind, width, inner, depth=depth, vocab=100, **settings)
    return network_of(config, **form)


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


@pytest.mark.parametrize("kind", [pytest.param("bert", marks=EXHAUSTIVE), *KINDS[1:]])
def test_the_program_does_not_grow_with_depth(kind):
    """Compile time itself is measured by benchmarks/encoders.py."""
    lines = {
        depth: lowered(network(kind, depth, 64), 2, 32).as_text().count("\n")
        for depth in (6, 12, 24)
    }
    assert lines[24] == lines[12] < lines[6]


def test_no_operation_on_cpus_reads_the_scores_of_all_layers():
    """XLA summed the gradients of MPNet's bias in one operation, on one core."""
    depth, batch, length = 5, 8, 64  # smaller sums are not fused
    program = lowered(network("mpnet", depth, 8), batch, length).compile().as_text()
    scores = re.compile(rf"\w+\[{batch},4,{length},{length}\]")
    heads = [line for line in program.splitlines() if ") -> " in line]
    read = [len(scores.findall(line.split(" -> ")[0])) for line in heads]
    assert 1 < max(read) < depth


def test_a_table_on_one_device_is_not_converted():
    """A step with 250,000 words took 1.9 seconds instead of 1.2 on one core."""
    words, width = 100, 8
    with in_use(MeshShape().make(jax.local_devices()[:1])):
        step = lowered(network("bert", 1, width, precision="bfloat16"), 2, 32)
    kinds = re.findall(rf"(\w+)\[{words},{width}\]", step.compile().as_text())
    assert {*kinds} == {"f32"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "depth"),
    [
        ("bert", 24),
        pytest.param("bert", 6, marks=EXHAUSTIVE),
        *(pytest.param(kind, 24, marks=EXHAUSTIVE) for kind in KINDS[1:]),
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
