"""Packing: several sentences in one row, so that little of a batch is padding."""

from __future__ import annotations

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


def fill(
    rows: Sequence[Sequence[Mapping[str, np.ndarray]]],
    row_length: int,
    padding: Mapping[str, int],
) -> dict[str, np.ndarray]:
    """Lay examples out as a batch of packed rows.

    Args:
      rows: for each row its examples; an example maps the names in `padding` to
        integer arrays of one length.
      row_length: width of the batch.
      padding: for each name the value that fills what is left of a row.

    Returns:
      int32 arrays `[len(rows), row_length]`: those named in `padding`, `segment_ids`
      (1, 2, ... by place in the row, 0 for padding) and `position_ids` (restarting at
      0 with each example).
    """
    shape = (len(rows), row_length)
    batch = {name: np.full(shape, value, np.int32) for name, value in padding.items()}
    batch["segment_ids"] = np.zeros(shape, np.int32)
    batch["position_ids"] = np.zeros(shape, np.int32)
    for index, examples in enumerate(rows):
        start = 0
        for segment, example in enumerate(examples, start=1):
            length = len(next(iter(example.values())))
            place = (index, slice(start, start + length))
            for name in padding:
                batch[name][place] = example[name]
            batch["segment_ids"][place] = segment
            batch["position_ids"][place] = np.arange(length)
            start += length
    return batch
