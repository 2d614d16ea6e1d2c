"""Packing: several sentences in one row, so that little of a batch is padding."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np


def pack(lengths: Sequence[int] | np.ndarray, max_length: int) -> list[list[int]]:
    """Put items of given lengths into rows; return the indices of each row's items.

    Best fit: each item goes into the fullest row with room for it, of rows as full the
    one filled last, or into a new one. The order of the items is kept within a row, and
    rows are ordered by their first item, so a shuffled order gives shuffled rows.

    >>> pack([5, 6, 2, 3], max_length=8)
    [[0, 3], [1, 2]]
    """
    rows: list[list[int]] = []
    open_rows: list[list[int]] = [[] for _ in range(max_length)]  # by room left
    rooms = 0  # bit n is set where a row has room for n; finding the least is one step
    for item, length in enumerate(check_lengths(lengths, max_length).tolist()):
        fitting = rooms >> length
        if fitting:
            room = length + (fitting & -fitting).bit_length() - 1
            row = open_rows[room].pop()
            if not open_rows[room]:
                rooms ^= 1 << room
        else:
            room, row = max_length, len(rows)
            rows.append([])
        rows[row].append(item)
        open_rows[room - length].append(row)
        rooms |= 1 << room - length
    return rows


def check_lengths(lengths: Sequence[int] | np.ndarray, max_length: int) -> np.ndarray:
    """Return lengths as an array.

    Raises:
      ValueError: one is less than 1 or more than `max_length`.
    """
    array = np.asarray(lengths, int)
    unfit = np.flatnonzero((array < 1) | (array > max_length))
    if len(unfit):
        item = int(unfit[0])
        raise ValueError(f"item {item} has length {array[item]}, a row {max_length}")
    return array


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchLayout:
    """The arrays of an example by name, each with its fill value.

    Args:
      tokens: a number per token, int `[n]`; in a batch `[B, T]`.
      sequences: one number per example, such as a class, in a batch `[B, S]`; or an
        array of one shape, `[B, S, ...]`. Floats stay floats.
      places: one number that counts tokens from the example's first; in a batch `[B,
        S]`, from the row's first. Negative numbers stay as they are.
    """

    tokens: Mapping[str, int]
    sequences: Mapping[str, int] = dataclasses.field(default_factory=dict)
    places: Mapping[str, int] = dataclasses.field(default_factory=dict)


def fill(
    rows: Sequence[Sequence[Mapping[str, np.ndarray]]],
    max_length: int,
    layout: BatchLayout,
    *,
    sequences: int | None = None,
    like: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Lay examples out as a batch of packed rows.

    T is `max_length`, S is `sequences` or the most examples in a row of this batch.
    Where all rows are empty, the shapes of arrays are those of the example `like`.

    Returns:
      int32 arrays (float32 of floats): those of the layout, `segment_ids` `[B, T]` (1,
      2, ... in the row, 0 for padding) and `position_ids` `[B, T]` (from 0 in each
      example).

    Raises:
      ValueError: the examples of a row are too many or too long for it, or an array has
        another length than its example's `input_ids`.

    >>> layout = BatchLayout(tokens={"input_ids": 0}, places={"answer": -1})
    >>> row = [{"input_ids": np.array([7, 8, 9]), "answer": 1}] * 2
    >>> batch = fill([row], 8, layout)
    >>> batch["input_ids"].tolist(), batch["answer"].tolist()
    ([[7, 8, 9, 7, 8, 9, 0, 0]], [[1, 4]])
    """
    examples = [example for row in rows for example in row]
    lengths = [len(example["input_ids"]) for example in examples]
    counts = np.array([len(row) for row in rows], int)
    # All tokens in one line, row after row: where examples and rows begin in it.
    first_token = np.cumsum([0, *lengths])
    first_example = np.cumsum([0, *counts.tolist()])
    row_start = first_token[first_example]
    widths = np.diff(row_start)
    if sequences is None:
        sequences = int(counts.max(initial=0))
    rooms = (("tokens", widths, max_length), ("examples", counts, sequences))
    for noun, sizes, room in rooms:
        if sizes.max(initial=0) > room:
            row = int(sizes.argmax())
            raise ValueError(f"row {row} has {sizes[row]} {noun}, room is for {room}")

    # The line and a mask run through the places in one order: each array is one copy.
    is_token = np.arange(max_length) < widths[:, None]
    is_example = np.arange(sequences) < counts[:, None]

    def spread(values: np.ndarray, mask: np.ndarray, otherwise: int) -> np.ndarray:
        dtype = np.float32 if values.dtype.kind == "f" else np.int32
        array = np.full(mask.shape + values.shape[1:], otherwise, dtype)
        array[mask] = values
        return array

    batch = {}
    for name, otherwise in layout.tokens.items():
        arrays = [example[name] for example in examples]
        if (sizes := [len(array) for array in arrays]) != lengths:
            pairs = zip(sizes, lengths, strict=True)
            size, length = next(pair for pair in pairs if pair[0] != pair[1])
            raise ValueError(f"{name!r} has {size} numbers for {length} input_ids")
        values = np.concatenate(arrays) if arrays else np.zeros(0, np.int32)
        batch[name] = spread(values, is_token, otherwise)
    for name, otherwise in layout.sequences.items():
        first = np.asarray(examples[0][name] if examples else (like or {}).get(name, 0))
        dtype = float if first.dtype.kind == "f" else int
        values = np.array([example[name] for example in examples], dtype)
        batch[name] = spread(values.reshape(-1, *first.shape), is_example, otherwise)
    # An example's place in its row: its number, and its first token.
    number = np.arange(len(examples)) - np.repeat(first_example[:-1], counts)
    start = first_token[:-1] - np.repeat(row_start[:-1], counts)
    for name, otherwise in layout.places.items():
        values = np.array([example[name] for example in examples], int)
        values += np.where(values >= 0, start, 0)
        batch[name] = spread(values, is_example, otherwise)
    positions = np.arange(first_token[-1]) - np.repeat(first_token[:-1], lengths)
    batch["segment_ids"] = spread(np.repeat(number + 1, lengths), is_token, 0)
    batch["position_ids"] = spread(positions, is_token, 0)
    return batch
