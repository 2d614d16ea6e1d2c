"""What the step holds and sends on TPUs: rows stay split, gradients are reduced once.

Compiled by libtpu for four chips that need not be there, in a process of its own, since
libtpu reads the environment. On CPUs the compiler finds both by itself in small models.
"""

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dicejax.mesh import MeshShape
from dicejax.models.bert import BertConfig
from dicejax.models.heads import TokenHead
from dicejax.models.network import Network
from dicejax.objectives import CrossEntropy, SelfAdjustingDice
from dicejax.planning import hlo, topologies
from dicejax.planning.memory import Step

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("libtpu") is None,
        reason="plan-tpu: pip install -e '.[plan-tpu]'",
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
OBJECTIVES = {"dsc": SelfAdjustingDice(), "ce": CrossEntropy()}


def compiled(objective, mesh, micro_batches):
    """Return the program of a step."""
    mesh = MeshShape(**mesh).make(topologies.named("v5e:2x2").devices())
    config = BertConfig(
        vocab_size=96,
        hidden_size=WIDTH,
        num_hidden_layers=DEPTH,
        num_attention_heads=4,
        intermediate_size=2 * WIDTH,
    )
    heads = (("tags", TokenHead(classes=3)),)
    network = Network(encoder=config, heads=heads, precision="bfloat16")
    step = Step.of_network(
        network,
        OBJECTIVES[objective],
        mesh,
        rows=ROWS,
        length=LENGTH,
        micro_batches=micro_batches,
    )
    return hlo.parse(step.lower().compile().as_text())


def summary(module):
    """Return the shapes of all results, and the numbers that all-reduces send."""
    shapes, sent = [], {True: 0, False: 0}
    for name, computation in module.computations.items():
        for one in computation.values():
            found = [x.dims for x in one.shapes if x.dtype in ("f32", "bf16")]
            shapes += found
            if one.op in ("all-reduce", "all-reduce-start"):
                sent[name == module.entry] += sum(map(math.prod, found))
    return {"shapes": shapes, "in loops": sent[False], "once": sent[True]}


if __name__ == "__main__":
    topologies.without_devices()
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
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
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
