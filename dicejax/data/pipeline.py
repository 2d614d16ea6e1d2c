"""From encoded examples to packed batches, the same for the same (seed, step)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import grain
import numpy as np

from dicejax.data.pack import Layout, fill, pack
from dicejax.data.resample import Epoch

Example = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Packed:
    """One batch with what the host needs to know about it.

    Attributes:
      arrays: int32, as `data.pack.fill` lays them out; and where examples have weights,
        float32 `token_weights` `[B, T]` and `sequence_weights` `[B, S]`, 0 for padding.
      rows: for each row the indices of the examples in it.
      tokens: number of real tokens, padding not counted.
      epoch: number of the pass over the data, from 0.
    """

    arrays: dict[str, np.ndarray]
    rows: tuple[tuple[int, ...], ...]
    tokens: int
    epoch: int

    @property
    def sentences(self) -> int:
        """Number of examples in the batch."""
        return sum(map(len, self.rows))


class PackedBatches:
    """All batches of a run, each reachable by its number.

    Every epoch is shuffled and packed anew. Random access makes a batch depend on
    (seed, step) alone, and a run can begin anywhere.

    Args:
      examples: encoded examples.
      layout: what the arrays of an example are.
      row_length: tokens per row; no example is longer.
      rows: rows per batch.
      epochs: number of passes over the examples.
      seed: of the order; None keeps the order given.
      drawn: says which examples the epoch of a number holds, and their weights; None
        takes all.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        *,
        layout: Layout,
        row_length: int,
        rows: int,
        epochs: int = 1,
        seed: int | None = None,
        drawn: Callable[[int], Epoch] | None = None,
    ):
        self._examples = examples
        self._layout = layout
        self._row_length = row_length
        self._rows = rows
        lengths = np.array([len(example["input_ids"]) for example in examples], int)
        self._lengths = lengths
        self._plan: list[tuple[int, tuple[tuple[int, ...], ...]]] = []
        self._weights: list[np.ndarray | None] = []  # of all examples, by epoch
        for epoch in range(epochs):
            order, weights = np.arange(len(examples)), None
            if drawn is not None:
                order, weights = drawn(epoch)
                order = order.copy()
            self._weights.append(_by_example(order, weights, len(examples)))
            if seed is not None:
                np.random.default_rng((seed, epoch)).shuffle(order)
            packed = pack(lengths[order].tolist(), row_length)
            chosen = [tuple(int(order[item]) for item in row) for row in packed]
            for start in range(0, len(chosen), rows):
                self._plan.append((epoch, tuple(chosen[start : start + rows])))
        # One width for all batches, so that all run one program.
        fullest = (len(row) for _, batch in self._plan for row in batch)
        self._sequences = max(fullest, default=0)

    def __len__(self) -> int:
        return len(self._plan)

    def __getitem__(self, step: int) -> Packed:
        epoch, rows = self._plan[step]
        # An epoch's last batch is filled up with empty rows: one shape, one program.
        padded = rows + ((),) * (self._rows - len(rows))
        arrays = fill(
            [[self._examples[item] for item in row] for row in padded],
            self._row_length,
            self._layout,
            sequences=self._sequences,
        )
        weights = self._weights[epoch]
        if weights is not None:
            arrays |= _weight_arrays(
                padded, arrays["segment_ids"], weights, self._sequences
            )
        tokens = int(sum(self._lengths[item] for row in rows for item in row))
        return Packed(arrays, rows, tokens, epoch)

    def epoch_ends(self) -> list[int]:
        """Return, for each epoch, the number of steps taken when it is over."""
        epochs = [epoch for epoch, _ in self._plan]
        return [
            step + 1
            for step in range(len(epochs))
            if step + 1 == len(epochs) or epochs[step + 1] != epochs[step]
        ]

    @property
    def share_filled(self) -> float:
        """Share of the batches' places that hold a real token."""
        places = len(self._plan) * self._rows * self._row_length
        real = sum(
            self._lengths[i] for _, rows in self._plan for row in rows for i in row
        )
        return float(real) / max(places, 1)

    def iterate(self, start: int = 0) -> Iterator[Packed]:
        """Yield the batches from number `start` on, prepared ahead in threads."""
        source = grain.MapDataset.source(self)[start:]
        options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=8)
        return iter(source.to_iter_dataset(options))


def _by_example(
    indices: np.ndarray, weights: np.ndarray | None, examples: int
) -> np.ndarray | None:
    if weights is None:
        return None
    by_example = np.zeros(examples, np.float32)
    by_example[indices] = weights  # drawn twice, an example has the same weight twice
    return by_example


def _weight_arrays(
    rows: Sequence[Sequence[int]],
    segment_ids: np.ndarray,
    weights: np.ndarray,
    sequences: int,
) -> dict[str, np.ndarray]:
    of_sequences = np.zeros((len(rows), sequences), np.float32)
    for values, row in zip(of_sequences, rows, strict=True):
        values[: len(row)] = weights[list(row)]
    padded = np.pad(of_sequences, ((0, 0), (1, 0)))  # segment 0 is padding
    of_tokens = np.take_along_axis(padded, segment_ids, axis=1)
    return {"token_weights": of_tokens, "sequence_weights": of_sequences}


def rows_per_batch(
    lengths: Sequence[int], row_length: int, sentences: int, multiple_of: int
) -> int:
    """Choose the number of rows that hold about `sentences` sentences.

    Args:
      lengths: length of each training example.
      row_length: tokens per row.
      sentences: wanted sentences per batch.
      multiple_of: the number of devices that share a batch.

    >>> rows_per_batch([16] * 100, row_length=128, sentences=32, multiple_of=1)
    4
    """
    rows = len(pack(lengths, row_length))
    wanted = sentences * rows / len(lengths)
    return multiple_of * max(1, round(wanted / multiple_of))
