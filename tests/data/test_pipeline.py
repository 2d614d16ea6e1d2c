"""The batches of a run: whole epochs, in an order set by the seed."""

import functools
from collections import Counter

import numpy as np
import pytest

from dicejax.data.pack import BatchLayout
from dicejax.data.pipeline import Batches
from dicejax.data.plan import bucket_plan, packing_plan
from dicejax.data.resample import Epoch, ImportanceSampling, UnitCounts

BUCKETS = 3


def batches(make, seed=0, epochs=2, count=301, drawn=None, rows=5, multiple_of=1):
    lengths = np.random.default_rng(1).integers(3, 30, count)
    examples = [
        {"input_ids": np.full(n, i), "item": i, "last": n - 1}
        for i, n in enumerate(lengths)
    ]
    layout = BatchLayout(
        tokens={"input_ids": -1}, sequences={"item": -100}, places={"last": -1}
    )
    options = {"buckets": BUCKETS} if make is bucket_plan else {}
    plan = make(
        lengths,
        max_length=64,
        rows=rows,
        epochs=epochs,
        seed=seed,
        drawn=drawn,
        **options,
    )
    made = Batches(examples, layout=layout, plan=plan, multiple_of=multiple_of)
    return lengths, made


both_plans = pytest.mark.parametrize("make", [packing_plan, bucket_plan])
assert_equal = functools.partial(np.testing.assert_equal, strict=True)


def weighted_draw(epoch):
    counts = UnitCounts(np.eye(2, dtype=int)[[int(n % 10 == 0) for n in range(301)]])
    return ImportanceSampling().epoch(counts, 5, epoch)


@both_plans
def test_there_are_no_more_shapes_than_widths(make):
    _, made = batches(make)
    shapes = {
        (batch.arrays["input_ids"].shape, batch.arrays["item"].shape)
        for batch in made.iterate()
    }
    if make is packing_plan:
        most = max(len(row) for batch in made for row in batch.rows)
        assert shapes == {((5, 64), (5, most))}
    else:
        assert 1 < len(shapes) <= BUCKETS
        assert {tokens[0] for tokens, _ in shapes} == {5}
        assert {sequences for _, sequences in shapes} == {(5, 1)}


@both_plans
@pytest.mark.parametrize("drawn", [None, weighted_draw])
def test_arrays_hold_the_examples_that_the_rows_name(make, drawn):
    lengths, made = batches(make, drawn=drawn)
    seen = {0: Counter(), 1: Counter()}
    for batch in made.iterate():
        arrays, segments = batch.arrays, batch.arrays["segment_ids"]
        assert len(batch.rows) <= made.rows
        assert batch.tokens == (segments > 0).sum()
        assert batch.places == segments.size
        assert batch.sentences == segments.max(axis=1).sum()
        seen[batch.epoch].update(item for row in batch.rows for item in row)
        expected = np.full(arrays["input_ids"].shape, -1)
        for row, items in enumerate(batch.rows):
            tokens = np.repeat(items, lengths[list(items)])
            expected[row, : len(tokens)] = tokens
            ends = np.cumsum(lengths[list(items)]) - 1
            assert arrays["last"][row, : len(items)].tolist() == ends.tolist()
            assert arrays["item"][row, : len(items)].tolist() == list(items)
            assert (arrays["item"][row, len(items) :] == -100).all()
        assert (arrays["input_ids"] == expected).all()
        if drawn is None:
            assert "token_weights" not in arrays
            continue
        indices, weights = drawn(batch.epoch)
        weight_of = dict(zip(indices.tolist(), weights.astype(np.float32), strict=True))
        assert (arrays["token_weights"][segments == 0] == 0).all()
        for row, items in enumerate(batch.rows):
            for number, item in enumerate(items):
                mine = arrays["token_weights"][row][segments[row] == number + 1]
                assert (mine == weight_of[item]).all()
                assert arrays["sequence_weights"][row, number] == weight_of[item]
    draws = [range(301) if drawn is None else drawn(n).indices.tolist() for n in (0, 1)]
    assert list(seen.values()) == [Counter(draw) for draw in draws]


@both_plans
@pytest.mark.parametrize("threads", [0, 1, 2])
def test_epochs_differ_and_a_run_can_begin_anywhere(make, threads):
    _, made = batches(make)
    ends = made.plan.epoch_ends()
    assert ends[-1] == len(made) and len(ends) == 2
    assert made[0].rows != made[ends[0]].rows
    for start in (7, len(made)):
        later = [b.arrays for b in made.iterate(start=start, threads=threads)]
        assert_equal(later, [made[step].arrays for step in range(start, len(made))])
    assert_equal(made[-1].arrays, made[len(made) - 1].arrays)
    with pytest.raises(IndexError):
        made[len(made)]


@both_plans
@pytest.mark.parametrize("multiple_of", [2, 5, 8])
def test_what_is_in_a_batch_does_not_depend_on_the_number_of_devices(make, multiple_of):
    _, first = batches(make, drawn=weighted_draw)
    _, many = batches(make, drawn=weighted_draw, multiple_of=multiple_of)
    assert len(first) == len(many) and first.plan.epoch_ends() == many.plan.epoch_ends()
    assert many.rows % multiple_of == 0 and many.rows - first.rows < multiple_of
    filled = sum((batch.arrays["segment_ids"] > 0).sum() for batch in many)
    places = sum(batch.places for batch in many)
    np.testing.assert_allclose(many.share_filled, filled / places)
    fillers = {"input_ids": -1, "item": -100, "last": -1}
    for ours, other in zip(first, many, strict=True):
        assert ours.rows == other.rows and ours.tokens == other.tokens
        assert other.places == other.arrays["input_ids"].size
        for name, array in other.arrays.items():
            assert_equal(array[: first.rows], ours.arrays[name])
            assert array.shape[0] == many.rows
            assert (array[first.rows :] == fillers.get(name, 0)).all()


@both_plans
@pytest.mark.parametrize("drawn", [None, weighted_draw])
def test_a_part_is_a_slice_of_the_whole(make, drawn):
    _, made = batches(make, drawn=drawn, multiple_of=4)
    parts = {bounds: made.iterate(rows_here=slice(*bounds)) for bounds in PARTS}
    for step, whole in enumerate(made.iterate(rows_here=None)):
        for (start, stop), others in parts.items():
            part = next(others)
            expected = {n: array[start:stop] for n, array in whole.arrays.items()}
            assert_equal(part.arrays, expected)
            assert part.rows == whole.rows and part.sentences == whole.sentences
            assert (part.tokens, part.places) == (whole.tokens, whole.places)
            assert_equal(made.part(step, start, stop).arrays, expected)


PARTS = ((0, 4), (4, 8), (2, 3), (5, 8), (3, 3), (0, 8))


def test_the_other_rows_are_not_looked_at():
    class Watched(list):
        asked = ()

        def __getitem__(self, item):
            self.asked += (item,)
            return super().__getitem__(item)

    lengths = [5, 6, 2, 3]
    examples = Watched({"input_ids": np.full(n, n)} for n in lengths)
    plan = packing_plan(lengths, max_length=8, rows=2)
    made = Batches(examples, layout=BatchLayout(tokens={"input_ids": 0}), plan=plan)
    assert made.part(0, 1, 2).rows == ((0, 3), (1, 2))
    assert examples.asked == (1, 2)


def test_parts_that_are_none_are_refused():
    _, made = batches(packing_plan)
    for bounds in ((-1, 2), (3, 2), (0, 6)):
        with pytest.raises(ValueError, match=r"rows .* of a batch of 5"):
            made.part(0, *bounds)
    with pytest.raises(ValueError, match="leaves out rows"):
        made.iterate(rows_here=slice(0, 4, 2))
    layout = BatchLayout(tokens={"input_ids": 0})
    with pytest.raises(ValueError, match="1 examples, but the plan is for 301"):
        Batches([{"input_ids": np.arange(3)}], layout=layout, plan=made.plan)


@both_plans
def test_no_examples_make_no_batches_and_a_draw_keeps_its_order(make):
    _, made = batches(make, count=0)
    assert list(made.iterate()) == [] and made.share_filled == 0
    assert len(made.plan) == made.plan.tokens == made.plan.places() == 0
    assert made.plan.epoch_ends() == []
    epoch = Epoch(np.arange(301))
    batches(make, drawn=lambda number: epoch)
    np.testing.assert_array_equal(epoch.indices, np.arange(301))


def test_arrays_of_examples_have_one_shape_in_empty_parts_too():
    examples = [{"input_ids": np.arange(4), "held": np.array([0, 1, 0])}] * 3
    layout = BatchLayout(tokens={"input_ids": 0}, sequences={"held": -100})
    plan = packing_plan([4] * 3, max_length=8, rows=2)
    made = Batches(examples, layout=layout, plan=plan, multiple_of=4)
    held = made[0].arrays["held"]
    assert held.shape == (4, made.sequences, 3)
    assert held.reshape(-1, 3)[:3].tolist() == [[0, 1, 0]] * 3
    empty = made.part(0, 2, 4).arrays["held"]
    assert empty.dtype == held.dtype and empty.tolist() == held[2:].tolist()
