"""Properties of packing: nothing lost, nothing over, little padding."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicejax.data.pack import BatchLayout, fill, pack
from dicejax.data.plan import bucket_widths, packing_plan

lengths_of_items = st.lists(st.integers(1, 32), max_size=200)


@given(lengths_of_items)
def test_each_item_goes_once_where_the_rule_says(lengths):
    room, order = [], []  # of each row; the rows, that which was filled last at the end
    rows = pack(lengths, 32)
    assert sorted(item for row in rows for item in row) == list(range(len(lengths)))
    assert all(sum(lengths[item] for item in row) <= 32 for row in rows)
    chosen = sorted((item, row) for row, items in enumerate(rows) for item in items)
    for item, row in chosen:
        fitting = [r for r in reversed(order) if room[r] >= lengths[item]]
        if not fitting:
            room.append(32)
            expected = len(room) - 1
        else:
            expected = min(fitting, key=room.__getitem__)
        assert row == expected
        room[row] -= lengths[item]
        order = [r for r in order if r != row] + [row]


def test_real_lengths_leave_little_empty():
    lengths = np.random.default_rng(0).geometric(1 / 18, 5000).clip(3, 128)
    rows = pack(lengths, 128)
    assert lengths.sum() / (128 * len(rows)) > 0.98


@pytest.mark.parametrize("length", [0, 9])
def test_an_item_that_cannot_fit_is_named(length):
    for make in (pack, functools.partial(packing_plan, rows=2, seed=1), bucket_widths):
        options = {"buckets": 2} if make is bucket_widths else {}
        with pytest.raises(ValueError, match=f"item 1 has length {length}, a row 8"):
            make([8, length], max_length=8, **options)


examples_of_rows = st.lists(
    st.lists(st.tuples(st.integers(1, 9), st.integers(-1, 8)), min_size=0, max_size=4),
    max_size=5,
)


@given(examples_of_rows)
def test_fill_puts_one_token_after_the_other(rows):
    layout = BatchLayout(
        tokens={"input_ids": 7, "tags": -100},
        sequences={"class": -3},
        places={"at": -9},
    )

    def example(n, at):
        ids, tags = np.arange(n) * 10, -np.arange(n)
        return {"input_ids": ids, "tags": tags, "class": n, "at": min(at, n - 1)}

    made = [[example(*sizes) for sizes in row] for row in rows]
    batch = fill(made, 40, layout, sequences=6)
    fillers = {"input_ids": 7, "tags": -100, "segment_ids": 0, "position_ids": 0}
    expected = {name: [[f] * 40 for _ in rows] for name, f in fillers.items()}
    expected["class"] = [[-3] * 6 for _ in rows]
    expected["at"] = [[-9] * 6 for _ in rows]
    for number, row in enumerate(made):
        place = 0
        for segment, example in enumerate(row):
            expected["class"][number][segment] = example["class"]
            at = example["at"]
            expected["at"][number][segment] = at + place if at >= 0 else at
            for position, token in enumerate(example["input_ids"].tolist()):
                expected["input_ids"][number][place] = token
                expected["tags"][number][place] = -position
                expected["segment_ids"][number][place] = segment + 1
                expected["position_ids"][number][place] = position
                place += 1
    assert {name: array.tolist() for name, array in batch.items()} == expected
    assert {array.dtype for array in batch.values()} == {np.dtype(np.int32)}
    most = max(map(len, rows), default=0)
    assert fill(made, 40, layout)["class"].shape == (len(rows), most)


def test_what_does_not_fit_its_row_or_its_example_is_refused():
    def example(ids, tags):
        return {"input_ids": np.arange(ids), "tags": np.arange(tags)}

    layout = BatchLayout(tokens={"input_ids": 0, "tags": 0})
    with pytest.raises(ValueError, match="row 1 has 9 tokens, room is for 8"):
        fill([[example(3, 3)], [example(4, 4), example(5, 5)]], 8, layout)
    with pytest.raises(ValueError, match="row 0 has 2 examples, room is for 1"):
        fill([[example(1, 1)] * 2], 8, layout, sequences=1)
    # Two that are wrong by as much would else slide into each other's place.
    with pytest.raises(ValueError, match="'tags' has 2 numbers for 3 input_ids"):
        fill([[example(3, 2), example(3, 4)]], 8, layout)
