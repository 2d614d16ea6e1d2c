"""How long sequences are, and how much of a batch is padding with and without packing.

Sequences are counted after cutting: none is longer than a row.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from dicejax.data.pack import pack

BINS = 10


@dataclasses.dataclass(frozen=True)
class Bin:
    """Sequences of `first` to `last` pieces, both included."""

    first: int
    last: int
    sequences: int


@dataclasses.dataclass(frozen=True)
class Lengths:
    """How long the sequences of a split are, in pieces, the special ones included.

    Attributes:
      quantiles: by percent, the shortest length that so many sequences do not exceed.
      longest: the most pieces of any.
      bins: how many sequences there are of which lengths, from 1 to the longest.
    """

    quantiles: dict[int, int]
    longest: int
    bins: tuple[Bin, ...]


@dataclasses.dataclass(frozen=True)
class Layout:
    """One way to lay sequences out in a batch.

    Attributes:
      places: of all batches of one pass over the split.
      filled: the share of them that holds a piece; the rest is padding.
      factor: places it takes for each place that packed rows take.
    """

    places: int
    filled: float
    factor: float


@dataclasses.dataclass(frozen=True)
class Padding:
    """How much padding three ways to make batches need, with one order of sequences.

    Attributes:
      max_length: places per row.
      to_row: a row of its own for each sequence, all rows full width.
      to_batch: a row for each sequence, as wide as the longest of its batch of
        `batch_size`.
      packed: several sequences in a row, as training has them.
    """

    max_length: int
    to_row: Layout
    to_batch: Layout
    packed: Layout


def measure_lengths(lengths: Sequence[int]) -> Lengths:
    """Describe lengths.

    >>> found = measure_lengths([3, 4, 4, 5, 30])
    >>> found.quantiles[50], found.longest, found.bins[:2]
    (4, 30, (Bin(first=1, last=3, sequences=1), Bin(first=4, last=6, sequences=3)))

    Args:
      lengths: one or more.
    """
    percents = (50, 90, 95, 99)
    values = np.percentile(lengths, percents, method="inverted_cdf")
    longest = int(max(lengths))
    width = math.ceil(longest / BINS)
    edges = np.arange(1, longest + width + 1, width)
    counts, _ = np.histogram(lengths, edges)
    return Lengths(
        {percent: int(value) for percent, value in zip(percents, values, strict=True)},
        longest,
        tuple(
            Bin(int(first), min(int(first) + width - 1, longest), int(count))
            for first, count in zip(edges[:-1], counts, strict=True)
        ),
    )


def measure_padding(
    lengths: Sequence[int], max_length: int, per_batch: int, seed: int
) -> Padding:
    """Lay sequences out in three ways, in the order of the first epoch.

    >>> padding = measure_padding([2, 2, 4, 8], max_length=8, per_batch=4, seed=0)
    >>> padding.to_row.places, padding.packed.places, padding.to_row.factor
    (32, 16, 2.0)

    Args:
      lengths: of the sequences, one or more.
      max_length: places per row; no sequence is longer.
      per_batch: sequences that are padded to the longest of them.
      seed: of the order, as `Training.seed`.
    """
    shuffled = np.array(lengths)
    np.random.default_rng((seed, 0)).shuffle(shuffled)
    to_batch = sum(
        len(batch) * int(batch.max())
        for batch in (
            shuffled[start : start + per_batch]
            for start in range(0, len(shuffled), per_batch)
        )
    )
    pieces = int(shuffled.sum())
    packed = len(pack(shuffled.tolist(), max_length)) * max_length

    def layout(places: int) -> Layout:
        return Layout(places, pieces / places, places / packed)

    return Padding(
        max_length,
        to_row=layout(len(shuffled) * max_length),
        to_batch=layout(to_batch),
        packed=layout(packed),
    )
