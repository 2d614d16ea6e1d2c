"""Packing by laws: nothing lost, nothing over, little left empty."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicejax.data.pack import Layout, fill, pack

LAYOUT = Layout(tokens={"input_ids": -1})
lengths_of_items = st.lists(st.integers(1, 32), max_size=200)


@given(lengths_of_items)
def test_every_item_is_in_one_row_and_no_row_is_too_long(lengths):
    rows = pack(lengths, 32)
    assert sorted(item for row in rows for item in row) == list(range(len(lengths)))
    assert all(sum(lengths[item] for item in row) <= 32 for row in rows)


@given(lengths_of_items)
def test_no_row_could_have_taken_the_first_item_of_a_later_one(lengths):
    rows = pack(lengths, 32)
    for later in range(len(rows)):
        first = rows[later][0]
        for row in rows[:later]:
            before = sum(lengths[item] for item in row if item < first)
            assert before + lengths[first] > 32


def test_real_lengths_leave_little_empty():
    lengths = np.random.default_rng(0).geometric(1 / 18, 5000).clip(3, 128)
    rows = pack(lengths.tolist(), 128)
    assert lengths.sum() / (128 * len(rows)) > 0.98


@pytest.mark.parametrize("length", [0, 9])
def test_an_item_that_cannot_fit_is_named(length):
    with pytest.raises(ValueError, match=f"item 1 has length {length}, a row 8"):
        pack([8, length], 8)


def test_fill_lays_out_segments_positions_and_padding():
    examples = [{"input_ids": np.array(ids)} for ids in ([5, 6, 7], [8], [9, 9])]
    batch = fill([[examples[0], examples[1]], [examples[2]], []], 5, LAYOUT)
    assert batch["input_ids"].tolist() == [
        [5, 6, 7, 8, -1],
        [9, 9, -1, -1, -1],
        [-1] * 5,
    ]
    assert batch["segment_ids"].tolist() == [[1, 1, 1, 2, 0], [1, 1, 0, 0, 0], [0] * 5]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0, 0], [0, 1, 0, 0, 0], [0] * 5]
    assert {array.dtype for array in batch.values()} == {np.dtype(np.int32)}


def test_numbers_of_a_sequence_stand_by_its_place_in_the_row():
    layout = Layout(
        tokens={"input_ids": 0}, sequences={"class": -100}, places={"end": -1}
    )
    examples = [
        {"input_ids": np.arange(n) + 1, "class": n, "end": end}
        for n, end in ((3, 2), (1, 0), (2, -1))
    ]
    rows = [[examples[0], examples[1]], [examples[2], examples[0]], [examples[1]]]
    batch = fill(rows, 5, layout, sequences=3)
    assert batch["class"].tolist() == [[3, 1, -100], [2, 3, -100], [1, -100, -100]]
    assert batch["end"].tolist() == [[2, 3, -1], [-1, 4, -1], [0, -1, -1]]
    # What stands at the place is what stood there in the example.
    assert batch["input_ids"][1, 4] == examples[0]["input_ids"][2]
    assert fill(rows, 5, layout)["end"].shape == (3, 2)
