"""Plans: every example in its place, with minimal padding."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicejax.data.plan import bucket_plan, bucket_widths, packing_plan, rows_per_batch
from dicejax.data.resample import Epoch

few_lengths = st.lists(st.integers(1, 60), min_size=1, max_size=40)


def batches_of(plan):
    """Return the items of each batch by row, from the plan's arrays."""
    rows = [
        plan.items[start:end].tolist()
        for start, end in itertools.pairwise(plan.row_starts)
    ]
    return [rows[start:end] for start, end in itertools.pairwise(plan.batch_starts)]


def seen_by_epoch(plan):
    seen = {}
    for epoch, rows in zip(plan.epochs.tolist(), batches_of(plan), strict=True):
        seen.setdefault(epoch, Counter()).update(itertools.chain(*rows))
    return seen


@pytest.mark.parametrize("make", [packing_plan, bucket_plan])
@given(lengths=few_lengths, rows=st.integers(1, 9), seed=st.none() | st.integers(0, 9))
def test_each_epoch_has_each_example_once(make, lengths, rows, seed):
    plan = make(lengths, max_length=60, rows=rows, epochs=3, seed=seed)
    once = Counter(range(len(lengths)))
    assert seen_by_epoch(plan) == {epoch: once for epoch in range(3)}
    ends = np.cumsum(np.bincount(plan.epochs)).tolist()
    assert plan.epoch_ends() == ends and ends[-1] == len(plan)
    assert plan.tokens == 3 * sum(lengths)
    for width, batch in zip(plan.widths, batches_of(plan), strict=True):
        assert 1 <= len(batch) <= rows
        assert all(1 <= sum(lengths[i] for i in row) <= width for row in batch)


@pytest.mark.parametrize("make", [packing_plan, bucket_plan])
def test_the_order_depends_on_the_seed_and_the_epoch_alone(make):
    lengths = np.random.default_rng(1).integers(1, 60, 300)

    def first(epoch, **options):
        plan = make(lengths, max_length=60, rows=4, **options)
        where = np.flatnonzero(plan.epochs == epoch)
        return [batches_of(plan)[step] for step in where]

    again = first(1, seed=5, epochs=2)
    assert first(1, seed=5, epochs=4) == again
    assert first(0, seed=5, epochs=2) != again != first(1, seed=6, epochs=2)


@given(few_lengths, st.integers(1, 9), st.integers(1, 5))
def test_a_batch_of_a_bucket_has_one_row_for_each_example(lengths, rows, buckets):
    plan = bucket_plan(lengths, max_length=60, rows=rows, buckets=buckets, seed=0)
    widths = bucket_widths(lengths, 60, buckets)
    batches = batches_of(plan)
    assert set(plan.widths.tolist()) <= set(widths) and len(widths) <= buckets
    assert all(len(row) == 1 for batch in batches for row in batch)
    # No more batches than with one width, and all but one of them are full.
    assert len(batches) == -(-len(lengths) // rows)
    assert sum(len(batch) < rows for batch in batches) <= 1
    for width, batch in zip(plan.widths, batches, strict=True):
        longest = max(lengths[item] for (item,) in batch)
        assert width == min(e for e in widths if e >= longest)
    # Examples of a narrower width are guests of one batch of each wider one at most.
    guests = Counter(
        int(width)
        for width, batch in zip(plan.widths, batches, strict=True)
        if len({np.searchsorted(widths, lengths[item]) for (item,) in batch}) > 1
    )
    assert all(count == 1 for count in guests.values())


def test_batches_of_all_widths_come_in_turn():
    lengths = np.random.default_rng(0).integers(1, 65, 2000)
    plan = bucket_plan(lengths, max_length=64, rows=10, buckets=2, seed=3)
    half = len(plan) // 2
    assert 0.3 < (plan.widths[:half] == 64).mean() < 0.7
    examples = plan.items[plan.widths.repeat(10) == 64]
    assert (np.diff(examples) > 0).mean() == pytest.approx(0.5, abs=0.1)


@given(
    st.lists(st.integers(1, 45), min_size=1, max_size=30),
    st.integers(1, 6),
    st.sampled_from([45, 48, 64]),
)
def test_no_other_widths_take_fewer_places(lengths, buckets, max_length):
    def places(widths):
        return sum(min(w for w in widths if w >= length) for length in lengths)

    candidates = [*range(8, max_length, 8), max_length]
    least = min(
        places(chosen)
        for count in range(1, buckets + 1)
        for chosen in itertools.combinations(candidates, count)
        if chosen[-1] >= max(lengths)
    )
    widths = bucket_widths(lengths, max_length, buckets)
    assert places(widths) == least
    assert len(widths) <= buckets and set(widths) <= set(candidates)
    assert list(widths) == sorted(set(widths))


@pytest.mark.parametrize("make", [packing_plan, bucket_plan])
def test_an_epoch_holds_what_was_drawn_with_its_weights(make):
    def drawn(epoch):
        indices = np.array([0, 1, 1, 2, 7][epoch:])
        return Epoch(indices, indices / 4 + epoch)

    lengths = [3, 40, *[9] * 5, 60]
    plan = make(lengths, max_length=60, rows=2, epochs=2, drawn=drawn)
    draws = {0: [0, 1, 1, 2, 7], 1: [1, 1, 2, 7]}
    assert seen_by_epoch(plan) == {n: Counter(draw) for n, draw in draws.items()}
    epoch = np.repeat([0, 1], [5, 4])
    np.testing.assert_array_equal(plan.weights, plan.items / 4 + epoch)
    assert plan.weights.dtype == np.float32


def test_weights_in_some_epochs_only_and_no_bucket_are_refused():
    def drawn(epoch):
        return Epoch(np.arange(2), np.ones(2) if epoch else None)

    with pytest.raises(ValueError, match="1 of 2 epochs drawn have weights"):
        packing_plan([3, 4], max_length=8, rows=1, epochs=2, drawn=drawn)
    with pytest.raises(ValueError, match="buckets is 0; want at least 1"):
        bucket_plan([5], max_length=60, rows=2, buckets=0)


def test_rows_hold_about_the_sentences_wanted():
    assert rows_per_batch([16] * 100, 128, sentences=32) == 4
    assert rows_per_batch([16] * 100, 128, sentences=1) == 1
    assert rows_per_batch([100] * 100, 128, sentences=7) == 7
