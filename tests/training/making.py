"""A small network with dropout, and packed rows for it."""

import numpy as np

from dicejax.data.pack import BatchLayout, fill
from dicejax.models.heads import TokenHead

from ..models.small import encoder_of, network_of

ROWS, WIDTH, CLASSES, VOCABULARY = 64, 8, 4, 24


def network(precision="float32", dropout=0.2):
    sizes = {"heads": 8, "depth": 1, "vocab": VOCABULARY}
    rates = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    settings = sizes | dict.fromkeys(rates, dropout)
    settings |= {"max_position_embeddings": WIDTH, "initializer_range": 0.3}
    config = encoder_of("bert", 16, 32, **settings)
    return network_of(config, TokenHead(classes=CLASSES), precision=precision)


def batch():
    """Return rows of very different content; the last have no label and few tokens."""
    rng, rows = np.random.default_rng(0), []
    layout = BatchLayout(tokens={"input_ids": 0, "token_type_ids": 0, "tags": -100})
    for number in range(ROWS - 5):
        row = []
        for length in (5, 3) if number % 3 else (2,):
            tags = rng.choice(CLASSES, length, p=(0.85, 0.1, 0.04, 0.01))
            tags[rng.random(length) < number / ROWS] = -100
            ids = rng.integers(1, VOCABULARY, length)
            row.append({"input_ids": ids, "token_type_ids": 0 * ids, "tags": tags})
        rows.append(row)
    return fill(rows + [[]] * 5, WIDTH, layout, sequences=2)
