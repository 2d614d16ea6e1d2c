"""What the step holds and sends on TPUs, and in which type.

Compiled by libtpu for four chips that need not be there, in a process of its own, since
libtpu reads the environment. On CPUs the compiler finds both by itself in small models.
"""

import importlib.util
import json
import math
import sys

import jax
import pytest

from dicejax.mesh import MeshShape
from dicejax.models.heads import TokenHead
from dicejax.objectives import CrossEntropy, SelfAdjustingDice
from dicejax.planning import hlo, topologies
from dicejax.planning.step import Step

from ..kinds import exhaustive_but
from ..models.small import encoder_of, network_of
from ..subprocesses import python

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("libtpu") is None,
        reason="plan-tpu: pip install -e '.[plan-tpu]'",
    ),
]
# A prime tells dimensions apart: no other has a factor of 11.
ROWS, LENGTH, WIDTH, DEPTH, ENTRIES = 48, 11, 64, 8, 96
# Encoder, loss, mesh, and the number of micro-batches.
JOBS = {
    "fsdp": ("bert", "dsc", {"data": 1, "fsdp": 4}, 1),
    "xlnet, fsdp": ("xlnet", "dsc", {"data": 1, "fsdp": 4}, 1),
    "deberta, fsdp": ("deberta", "dsc", {"data": 1, "fsdp": 4}, 1),
    "modernbert, fsdp": ("modernbert", "dsc", {"data": 1, "fsdp": 4}, 1),
    "mpnet, fsdp": ("mpnet", "dsc", {"data": 1, "fsdp": 4}, 1),
    "tensor": ("bert", "dsc", {"data": 2, "tensor": 2}, 1),
    "at once": ("bert", "dsc", {"data": 4}, 1),
    "micro-batches, dsc": ("bert", "dsc", {"data": 4}, 3),
    "micro-batches, ce": ("bert", "ce", {"data": 4}, 3),
    "micro-batches, tensor": ("bert", "dsc", {"data": 2, "tensor": 2}, 3),
}
# "tensor" and "micro-batches, dsc" are both in the last one.
CHOSEN = ("fsdp", "at once", "micro-batches, tensor")
WINDOWS = {"modernbert": {"local_attention": 8}}
OBJECTIVES = {"dsc": SelfAdjustingDice(), "ce": CrossEntropy()}


def network(encoder):
    sizes = {"depth": DEPTH, "vocab": ENTRIES} | WINDOWS.get(encoder, {})
    config = encoder_of(encoder, WIDTH, 2 * WIDTH, **sizes)
    return network_of(config, TokenHead(classes=3), precision="bfloat16")


def compiled(encoder, objective, mesh, micro_batches):
    """Return the program of a step."""
    mesh = MeshShape(**mesh).make(topologies.parse_topology("v5e:2x2").devices())
    step = Step.of_network(
        network(encoder),
        OBJECTIVES[objective],
        mesh,
        rows=ROWS,
        length=LENGTH,
        micro_batches=micro_batches,
    )
    return hlo.parse(step.lower().compile().as_text())


def summary(module):
    """Return the shapes of all results, and the arrays that collectives take.

    TPUs give the sum of float32 arrays in bfloat16: what is sent is what they take.

    Returns:
      `[in a loop, operation, type, shape]` for each of these.
    """
    shapes, sent = [], []
    for name, computation in module.computations.items():
        for instruction in computation.values():
            shapes += [x.dims for x in instruction.shapes if x.dtype in ("f32", "bf16")]
            op = instruction.op.removesuffix("-start")
            if op in ("all-reduce", "all-gather", "all-to-all", "reduce-scatter"):
                looped = name != module.entry
                parts = [x for operand in instruction.inputs for x in operand.shapes]
                sent += [[looped, op, x.dtype, x.dims] for x in parts]
    return {"shapes": shapes, "sent": sent}


def numbers(step, op="all-reduce", looped=False):
    """Return how many numbers collectives take, in the loop over layers or once."""
    return sum(
        math.prod(dims)
        for inside, kind, dtype, dims in step["sent"]
        if (inside, kind) == (looped, op) and dtype in ("f32", "bf16")
    )


if __name__ == "__main__":
    topologies.without_devices()
    print(json.dumps({name: summary(compiled(*JOBS[name])) for name in sys.argv[1:]}))


@pytest.fixture(scope="module")
def steps(request):
    names = JOBS if request.config.getoption("exhaustive") else CHOSEN
    done = python("-m", "tests.training.test_collectives", *names)
    return json.loads(done.stdout.splitlines()[-1])


def test_fsdp_splits_hidden_states_by_rows(steps):
    rows = {
        math.prod(shape) // (LENGTH * WIDTH)
        for shape in steps["fsdp"]["shapes"]
        if math.prod(shape) % (LENGTH * WIDTH) == 0 and DEPTH not in shape
    }
    # The feed-forward block is twice as wide.
    assert ROWS // 4 in rows and max(rows) == 2 * ROWS // 4


@pytest.mark.exhaustive
def test_tensor_reduces_hidden_states_twice_per_layer_and_direction(steps):
    hidden = ROWS // 2 * LENGTH * WIDTH
    kinds = [
        dtype
        for looped, op, dtype, dims in steps["tensor"]["sent"]
        if looped and math.prod(dims) >= hidden // 2
    ]
    assert kinds == ["bf16"] * 4


@pytest.mark.parametrize("mesh", ["fsdp", "at once"])
def test_tables_are_sent_in_the_type_of_the_products(steps, mesh):
    kinds = {
        (op, dtype)
        for looped, op, dtype, dims in steps[mesh]["sent"]
        if not looped and math.prod(dims) >= ENTRIES * WIDTH // 4
    }
    reduced = {("all-reduce", "bf16")}
    assert kinds == reduced | ({("all-gather", "bf16")} if mesh == "fsdp" else set())


def test_beside_the_gradient_less_than_a_kilobyte_is_reduced(steps):
    """The loss is over the set of the whole batch."""
    shapes = jax.eval_shape(network("bert").init, jax.random.key(0))
    parameters = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
    program = steps["at once"]
    reduced = numbers(program) + DEPTH * numbers(program, looped=True)
    assert parameters <= reduced < parameters + 1024 // 4


# "micro-batches, tensor" moves some of the sums of gradients, once per update.
@pytest.mark.parametrize("step", exhaustive_but(CHOSEN, [*JOBS][:-1]))
def test_nothing_changes_the_axis_that_is_split(steps, step):
    assert "all-to-all" not in {op for _, op, _, _ in steps[step]["sent"]}


@pytest.mark.parametrize(
    "step", exhaustive_but(CHOSEN, ["micro-batches, dsc", "micro-batches, ce"])
)
def test_micro_batches_reduce_their_gradient_once(steps, step):
    program = steps[step]
    assert numbers(program, looped=True) == 0
    parameters = DEPTH * 8 * WIDTH**2  # kernels; feed-forward blocks are twice as wide
    assert parameters < numbers(program) < 1.2 * parameters
    # At once the layers' gradients are reduced in the loop over layers.
    assert numbers(steps["at once"], looped=True) * DEPTH >= parameters


def test_with_tensor_micro_batches_reduce_hidden_states_alone_in_their_loop(steps):
    program = steps["micro-batches, tensor"]
    reduced = {True: [], False: []}
    for looped, op, dtype, dims in program["sent"]:
        if op == "all-reduce" and dtype in ("f32", "bf16"):
            reduced[looped].append((dtype, math.prod(dims)))
    tokens = ROWS // 2 // 3 * LENGTH
    for dtype, count in reduced[True]:
        assert count <= (tokens * WIDTH if dtype == "bf16" else tokens)
    kernels = DEPTH * 8 * WIDTH**2 // 2  # split over two devices
    once = sum(count for dtype, count in reduced[False] if dtype == "f32")
    assert kernels < once < 1.2 * kernels
