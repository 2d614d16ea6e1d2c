"""Packing: several sentences in one row, so that little of a batch is padding."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np


def pack(lengths: Sequence[int], row_length: int) -> list[list[int]]:
    """Put items into rows by best fit, in the order given.

    Each item goes into the fullest open row that still has room for it, or opens a new
    row. The order of the items is kept within a row, and rows are ordered by their
    first item, so a shuffled order gives shuffled rows.

    Args:
      lengths: length of each item, at most `row_length`.
      row_length: the capacity of a row.

    Returns:
      For each row the indices of its items.

    >>> pack([5, 3, 4, 2], row_length=8)
    [[0, 1], [2, 3]]
    """
    rows: list[list[int]] = []
    open_rows: list[list[int]] = [[] for _ in range(row_length + 1)]  # by room left
    for item, length in enumerate(lengths):
        if not 0 < length <= row_length:
            raise ValueError(f"item {item} has length {length}, a row {row_length}")
        room = next((n for n in range(length, row_length) if open_rows[n]), row_length)
        if room == row_length:
            row = len(rows)
            rows.append([])
        else:
            row = open_rows[room].pop()
        rows[row].append(item)
        open_rows[room - length].append(row)
    return rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """The arrays of an example by name, each with what fills the places left over.

    Args:
      tokens: a number for each token, int `[n]`; in a batch `[B, T]`.
      sequences: a single number, such as a class; in a batch `[B, S]`, where S is the
        most examples in a row.
      places: a single number that counts tokens from the example's first; in a batch
        `[B, S]`, counted from the row's first. Negative numbers stay as they are.
    """

    tokens: Mapping[str, int]
    sequences: Mapping[str, int] = dataclasses.field(default_factory=dict)
    places: Mapping[str, int] = dataclasses.field(default_factory=dict)


def fill(
    rows: Sequence[Sequence[Mapping[str, np.ndarray]]],
    row_length: int,
    layout: Layout,
    *,
    sequences: int | None = None,
) -> dict[str, np.ndarray]:
    """Lay examples out as a batch of packed rows.

    Args:
      rows: for each row its examples, which map the names of the layout to integers.
      row_length: T, the width of the batch.
      layout: what the arrays are.
      sequences: S, examples in the fullest row of any batch; that of this one if None.

    Returns:
      int32 arrays: those of the layout, `segment_ids` `[B, T]` (1, 2, ... by place in
      the row, 0 for padding) and `position_ids` `[B, T]` (restarting at 0 with each
      example).

    >>> layout = Layout(tokens={"input_ids": 0}, places={"answer": -1})
    >>> row = [{"input_ids": np.array([7, 8, 9]), "answer": 1}] * 2
    >>> batch = fill([row], 8, layout)
    >>> batch["input_ids"].tolist(), batch["answer"].tolist()
    ([[7, 8, 9, 7, 8, 9, 0, 0]], [[1, 4]])
    """
    if sequences is None:
        sequences = max(map(len, rows), default=0)
    shape, short = (len(rows), row_length), (len(rows), sequences)
    fillers = dict(layout.tokens) | {"segment_ids": 0, "position_ids": 0}
    single = {**layout.sequences, **layout.places}
    batch = {name: np.full(shape, value, np.int32) for name, value in fillers.items()}
    batch |= {name: np.full(short, value, np.int32) for name, value in single.items()}
    for index, examples in enumerate(rows):
        start = 0
        for number, example in enumerate(examples):
            length = len(example["input_ids"])
            place = (index, slice(start, start + length))
            for name in layout.tokens:
                batch[name][place] = example[name]
            for name in layout.sequences:
                batch[name][index, number] = example[name]
            for name in layout.places:
                own = example[name]
                batch[name][index, number] = own + start if own >= 0 else own
            batch["segment_ids"][place] = number + 1
            batch["position_ids"][place] = np.arange(length)
            start += length
    return batch
