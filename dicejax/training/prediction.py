"""Predict with given parameters, and score what was predicted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax.sharding import Mesh
from tokenizers import Tokenizer

from dicejax.data.pipeline import PackedBatches
from dicejax.data.tags import Span
from dicejax.models.network import Network, Params
from dicejax.tasks.tagging import HEAD, TaggedTokens, Tagging
from dicejax.training.sharding import global_batch
from dicejax.training.step import predict_step

ROWS = 16


def predict_spans(
    params: Params,
    examples: Sequence[TaggedTokens],
    *,
    network: Network,
    task: Tagging,
    labels: Sequence[str],
    tokenizer: Tokenizer,
    row_length: int,
    mesh: Mesh,
) -> list[list[Span]]:
    """Predict the spans of encoded sentences, in their order.

    Sentences are packed as in training: sentences in one row do not see each other.
    """
    batches = PackedBatches(
        [example.arrays for example in examples],
        layout=task.layout(tokenizer),
        row_length=row_length,
        rows=-(-ROWS // mesh.size) * mesh.size,
    )
    spans: list[list[Span]] = [[] for _ in examples]
    # One batch behind: the device computes the next while the host decodes the last.
    pending = None
    for batch in [*batches.iterate(), None]:
        following = None
        if batch is not None:
            arrays = global_batch(batch.arrays, mesh)
            following = batch, predict_step(params, arrays, network=network, head=HEAD)
        if pending is not None:
            _decode(*pending, examples, task, labels, spans)
        pending = following
    return spans


def _decode(batch, classes, examples, task, labels, spans) -> None:
    classes = np.asarray(classes)
    for row, items in zip(classes, batch.rows, strict=False):  # empty rows at the end
        start = 0
        for item in items:
            example = examples[item]
            end = start + len(example.arrays["input_ids"])
            spans[item] = task.decode(row[start:end], example.first_pieces, labels)
            start = end
