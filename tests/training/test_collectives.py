"""What the step holds and sends on TPUs: rows stay split, gradients are reduced once.

Compiled by libtpu for four chips that need not be there, in a process of its own, since
libtpu reads the environment. On CPUs the compiler finds both by itself in small models.
"""

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import topologies

from dicejax.mesh import MeshShape
from dicejax.models.bert import BertConfig
from dicejax.models.heads import TokenHead
from dicejax.models.network import Network
from dicejax.objectives import CrossEntropy, SelfAdjustingDice
from dicejax.optimizers import AdamW
from dicejax.training.sharding import by_rows, placed
from dicejax.training.state import abstract_state
from dicejax.training.step import train_step

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("libtpu") is None,
        reason="libtpu compiles for TPUs: pip install libtpu",
    ),
]
# A prime tells dimensions apart: no other has a factor of 11.
ROWS, LENGTH, WIDTH, DEPTH = 48, 11, 64, 8
JOBS = {
    "fsdp": ("dsc", {"data": 1, "fsdp": 4}, 1),
    "at once": ("dsc", {"data": 4}, 1),
    "micro-batches, dsc": ("dsc", {"data": 4}, 3),
    "micro-batches, ce": ("ce", {"data": 4}, 3),
}
TPU = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
OBJECTIVES = {"dsc": SelfAdjustingDice(), "ce": CrossEntropy()}


def compiled(objective, mesh, micro_batches):
    """Return the optimised HLO text of a step."""
    chips = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
    mesh = MeshShape(**mesh).make(chips.devices)
    config = BertConfig(
        vocab_size=96,
        hidden_size=WIDTH,
        num_hidden_layers=DEPTH,
        num_attention_heads=4,
        intermediate_size=2 * WIDTH,
    )
    heads = (("tags", TokenHead(classes=3)),)
    network = Network(encoder=config, heads=heads, precision="bfloat16")
    objective = OBJECTIVES[objective].bind_outputs(("tags",))
    state = placed(abstract_state(network, AdamW(), objective), mesh)
    names = ("input_ids", "segment_ids", "position_ids", "token_type_ids", "tags")
    ints = jax.ShapeDtypeStruct((ROWS, LENGTH), jnp.int32, sharding=by_rows(mesh))
    settings = {"network": network, "optimizer": AdamW(), "mesh": mesh}
    lowered = train_step.lower(
        state,
        dict.fromkeys(names, ints),
        objective,
        micro_batches=micro_batches,
        **settings,
    )
    return lowered.compile().as_text()


def shapes_of(text):
    """Return the shapes of all floating-point arrays in a text."""
    return [
        [int(size) for size in dims.split(",")]
        for dims in re.findall(r"\b(?:f32|bf16)\[([\d,]+)\]", text)
    ]


def reduced_in(text):
    """Return the numbers that a text's all-reduces send."""
    results = re.findall(r" = (.*?) all-reduce(?:-start)?\(", text)
    return sum(math.prod(shape) for one in results for shape in shapes_of(one))


def summary(text):
    loops, entry = text.split("\nENTRY ")
    return {
        "shapes": shapes_of(text),
        "in loops": reduced_in(loops),
        "once": reduced_in(entry),
    }


if __name__ == "__main__":
    print(json.dumps({name: summary(compiled(*job)) for name, job in JOBS.items()}))


@pytest.fixture(scope="module")
def steps():
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.test_collectives"],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env=os.environ | TPU | {"PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_fsdp_splits_hidden_states_by_rows(steps):
    rows = {
        math.prod(shape) // (LENGTH * WIDTH)
        for shape in steps["fsdp"]["shapes"]
        if math.prod(shape) % (LENGTH * WIDTH) == 0 and DEPTH not in shape
    }
    # The feed-forward block is twice as wide.
    assert ROWS // 4 in rows and max(rows) == 2 * ROWS // 4


@pytest.mark.parametrize("loss", ["dsc", "ce"])
def test_micro_batches_reduce_their_gradient_once(steps, loss):
    found = steps[f"micro-batches, {loss}"]
    assert found["in loops"] == 0
    parameters = DEPTH * 8 * WIDTH**2  # kernels; feed-forward blocks are twice as wide
    assert parameters < found["once"] < 1.2 * parameters
    # At once the layers' gradients are reduced in the loop over layers.
    assert steps["at once"]["in loops"] * DEPTH >= parameters
