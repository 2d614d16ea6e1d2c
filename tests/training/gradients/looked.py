"""Analyse one gradient on several devices; see test_probe.py.

usage: python -m tests.training.gradients.looked OUT.npz
"""

from __future__ import annotations

import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np

from dicejax.data.pack import BatchLayout, fill
from dicejax.mesh import MeshShape
from dicejax.models.bert import BertConfig
from dicejax.models.heads import TokenHead
from dicejax.models.network import Network
from dicejax.objectives import SelfAdjustingDice
from dicejax.optimizers import AdamW
from dicejax.tasks import Tagging, Target
from dicejax.training.gradients.measures import Groups, no_counts
from dicejax.training.gradients.probe import Output, measure_step_gradients
from dicejax.training.sharding import global_batch, replicate, shardings, to_host
from dicejax.training.state import TrainState

LABELS = ("O", "B-PER", "I-PER", "B-LOC")
OUTPUT = Output(
    "tags",
    Groups.of_target(Target("classes", LABELS, has_negative=True)),
    of_tokens=True,
)
LAYOUT = BatchLayout(tokens={"input_ids": 0, "token_type_ids": 0, "tags": -100})
OBJECTIVE = SelfAdjustingDice(output="tags", alpha=0.5)
VOCABULARY = 24
PIECES = np.array([1] * 4 + [2] * 12 + [3] * 8, np.int32)
# Devices, and the parts that the forward pass is cut into.
WAYS = {
    "plain": ({"data": 1}, 1),
    "parts": ({"data": 1}, 4),
    "data": ({"data": 4}, 1),
    "mixed": ({"data": 1, "fsdp": 2, "tensor": 2}, 2),
}


def network(dropout=0.2):
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=16,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.3,
    )
    return Network(encoder=config, heads=(("tags", TokenHead(classes=len(LABELS))),))


def batch():
    """Return packed rows; the last one is empty, some tokens are unlabelled."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(7):
        row = []
        for length in (5, 8):
            tags = rng.choice(4, length, p=[0.7, 0.1, 0.1, 0.1])
            tags[0] = -100
            ids = rng.integers(0, VOCABULARY, length)
            row.append({"input_ids": ids, "token_type_ids": 0 * ids, "tags": tags})
        rows.append(row)
    return fill([*rows, []], 16, LAYOUT)


def state():
    params = network().init(jax.random.key(0))
    created = TrainState.create(params, AdamW(), total_steps=9, rng=jax.random.key(1))
    return dataclasses.replace(created, step=jnp.asarray(3, jnp.int32))


def measured(shape, micro_batches):
    """Return the measurements of the batch on a mesh."""
    used = int(np.prod(list(shape.values())))
    mesh = MeshShape(**shape).make(jax.devices()[:used])
    begun = state()
    result = measure_step_gradients(
        jax.device_put(begun, shardings(begun, mesh)),
        global_batch(batch(), mesh),
        replicate(OBJECTIVE, mesh),
        replicate({"tags": no_counts(len(LABELS))}, mesh),
        replicate(PIECES, mesh),
        network=network(),
        task=Tagging(),
        outputs=(OUTPUT,),
        micro_batches=micro_batches,
        mesh=mesh,
    )
    return to_host(result, mesh)


def main():
    """Analyse in all ways, and write every number."""
    content = {}
    for way, settings in WAYS.items():
        leaves = jax.tree_util.tree_leaves_with_path(measured(*settings))
        for path, leaf in leaves:
            content[f"{way}:{jax.tree_util.keystr(path)}"] = leaf
    np.savez(sys.argv[1], **content)


if __name__ == "__main__":
    main()
