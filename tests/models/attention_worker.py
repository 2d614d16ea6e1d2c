"""The TPU's attention kernel, interpreted, in a network on meshes of CPU devices.

usage: attention_worker.py NAME|all

Prints for each mesh the largest error of the gradient vs. that of plain attention.
"""

import json
import sys
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from dicejax.mesh import MeshShape
from dicejax.models import attention, attention_tpu
from dicejax.models.bert import BertConfig
from dicejax.models.heads import TokenHead
from dicejax.models.network import Network
from dicejax.objectives import CrossEntropy, SelfAdjustingDice
from dicejax.training.accumulation import loss_and_gradient
from dicejax.training.sharding import global_batch, put

ROWS, LENGTH = 8, 128
SPLIT = {"data": 2, "fsdp": 2, "tensor": 2}
MESHES = {
    "1 device": ({"data": 1}, SelfAdjustingDice(), 1),
    "data 8": ({"data": 8}, SelfAdjustingDice(), 1),
    "data 2, fsdp 2, tensor 2": (SPLIT, SelfAdjustingDice(), 1),
    "micro-batches, dsc": (SPLIT, SelfAdjustingDice(), 2),
    "micro-batches, ce": (SPLIT, CrossEntropy(), 2),
}


def network():
    """Return a network with four heads of 64."""
    config = BertConfig(
        vocab_size=48,
        hidden_size=256,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        initializer_range=0.2,
    )
    return Network(encoder=config, heads=(("tags", TokenHead(classes=4)),))


def batch():
    """Return rows of several segments, padded on either side."""
    rng = np.random.default_rng(0)
    shape = (ROWS, LENGTH)
    segments = np.sort(rng.integers(0, 5, shape), axis=1)
    segments[1] = np.where(segments[1] == 4, 0, segments[1])
    return {
        "input_ids": rng.integers(0, 48, shape),
        "segment_ids": segments,
        "position_ids": np.broadcast_to(np.arange(LENGTH), shape),
        "token_type_ids": np.zeros(shape, int),
        "tags": rng.integers(0, 4, shape),
    }


def gradient(params, arrays, objective, mesh=None, micro_batches=1):
    """Return the gradient with dropout, on the host."""
    objective = objective.bind_outputs(("tags",))
    options = {"objective_state": objective.initial_state(), "network": network()}
    options |= {"rng": jax.random.key(7), "mesh": mesh, "micro_batches": micro_batches}
    got = jax.jit(
        lambda params, arrays: (
            loss_and_gradient(params, arrays, objective, **options).gradients
        )
    )(params, arrays)
    return jax.device_get(got)


def main(name):
    """Print the errors."""
    jax.config.update("jax_num_cpu_devices", 8)
    params = jax.device_get(jax.jit(network().init)(jax.random.key(0)))
    arrays = batch()
    meshes = MESHES if name == "all" else {name: MESHES[name]}
    expected = {
        objective: gradient(params, arrays, objective)
        for objective in {objective for _, objective, _ in meshes.values()}
    }
    calls = []

    def interpreted(kernel, **options):
        calls.append(kernel)
        return call(kernel, interpret=True, **options)

    call = attention_tpu.pl.pallas_call
    errors = {}
    with (
        mock.patch.object(attention_tpu.pl, "pallas_call", interpreted),
        mock.patch.object(attention, "platform", lambda: "tpu"),
    ):
        for name, (shape, objective, micro_batches) in meshes.items():
            calls.clear()
            shape = MeshShape(**shape)
            count = int(np.prod([shape.data, shape.fsdp, shape.tensor]))
            mesh = shape.make(jax.devices()[:count])
            placed = put(params, mesh), global_batch(arrays, mesh)
            got = gradient(*placed, objective, mesh, micro_batches)
            assert len(calls) >= 2, "the kernel is not taken"
            both = map(jax.tree.leaves, (got, expected[objective]))
            pairs = list(zip(*both, strict=True))
            largest = max(jnp.abs(x).max() for _, x in pairs)
            errors[name] = float(max(np.abs(a - b).max() for a, b in pairs) / largest)
    print(json.dumps(errors))


if __name__ == "__main__":
    main(sys.argv[1])
