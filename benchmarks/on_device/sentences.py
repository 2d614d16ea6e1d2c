"""Generated sentences with the lengths of CoNLL-2003's, packed or padded."""

from __future__ import annotations

import numpy as np
from encoders import CLASSES

from dicejax.data.pack import BatchLayout, fill, pack

# Word pieces of the 14,041 training sentences with BERT's uncased vocabulary, [CLS] and
# [SEP] included: length at each of these shares of the sentences. The mean is 20.0.
SHARES = (*np.arange(0, 1, 0.05), 0.975, 0.99, 0.995, 1)
LENGTHS = (
    *(3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 19, 22, 25, 28, 32, 35, 40, 45),
    *(50, 56, 60, 164),
)
LAYOUT = BatchLayout(tokens={"input_ids": 0, "token_type_ids": 0, "tags": -100})


def draw(tokens: int, vocabulary: int, longest: int) -> list[dict[str, np.ndarray]]:
    """Draw sentences of so many tokens in all.

    Args:
      tokens: sum of the lengths; the last sentence is cut to fit.
      vocabulary: number of token ids.
      longest: maximum length of a sentence.

    Returns:
      For each sentence int arrays `[n]`: `input_ids`, `token_type_ids`, `tags`.
    """
    rng = np.random.default_rng(0)
    sentences, left = [], tokens
    while left > 0:
        drawn = round(np.interp(rng.random(), SHARES, LENGTHS))
        length = min(drawn, longest, left)
        sentences.append(
            {
                "input_ids": rng.integers(1, vocabulary, length),
                "token_type_ids": np.zeros(length, int),
                "tags": rng.integers(0, CLASSES, length),
            }
        )
        left -= length
    return sentences


def packed(
    sentences: list[dict[str, np.ndarray]], length: int, rows: int
) -> dict[str, np.ndarray]:
    """Pack sentences into exactly so many rows; those that do not fit are left out."""
    places = pack([len(s["input_ids"]) for s in sentences], length)
    # The fullest rows: the last to be opened hold a few sentences only.
    sizes = [sum(len(sentences[n]["input_ids"]) for n in row) for row in places]
    fullest = sorted(np.argsort(sizes)[::-1][:rows])
    chosen = [[sentences[n] for n in places[row]] for row in fullest]
    return fill(chosen + [[]] * (rows - len(chosen)), length, LAYOUT)


def padded(
    sentences: list[dict[str, np.ndarray]], multiple_of: int
) -> dict[str, np.ndarray]:
    """Put one sentence in each row, as wide as the longest requires."""
    longest = max(len(s["input_ids"]) for s in sentences)
    width = -(-longest // multiple_of) * multiple_of
    return fill([[sentence] for sentence in sentences], width, LAYOUT)
