"""The batches of a run: whole epochs, in an order that the seed alone decides."""

from collections import Counter

import numpy as np

from dicejax.data.pack import Layout
from dicejax.data.pipeline import PackedBatches, rows_per_batch
from dicejax.data.resample import Counts, DownSampling, Epoch, ImportanceSampling


def batches(seed=0, epochs=2, count=300, drawn=None):
    lengths = np.random.default_rng(1).integers(3, 30, count)
    examples = [{"input_ids": np.full(n, i), "item": i} for i, n in enumerate(lengths)]
    return lengths, PackedBatches(
        examples,
        layout=Layout(tokens={"input_ids": -1}, sequences={"item": -100}),
        row_length=64,
        rows=4,
        epochs=epochs,
        seed=seed,
        drawn=drawn,
    )


def test_each_epoch_has_each_example_once():
    lengths, plan = batches()
    seen = {0: Counter(), 1: Counter()}
    tokens = 0
    for batch in plan.iterate():
        seen[batch.epoch].update(item for row in batch.rows for item in row)
        tokens += batch.tokens
        assert batch.tokens == (batch.arrays["segment_ids"] > 0).sum()
        assert batch.sentences == batch.arrays["segment_ids"].max(axis=1).sum()
    assert all(counts == Counter(range(300)) for counts in seen.values())
    assert tokens == 2 * lengths.sum()


def test_all_batches_have_one_shape():
    _, plan = batches(count=301)
    shapes = {
        (batch.arrays["input_ids"].shape, batch.arrays["item"].shape)
        for batch in plan.iterate()
    }
    most = max(len(row) for batch in plan.iterate() for row in batch.rows)
    assert shapes == {((4, 64), (4, most))}


def test_numbers_of_a_sequence_follow_the_plan():
    _, plan = batches()
    for batch in plan.iterate():
        for row, items in zip(batch.arrays["item"], batch.rows, strict=False):
            assert row[: len(items)].tolist() == list(items)
            assert (row[len(items) :] == -100).all()


def test_the_same_seed_gives_the_same_batches_and_another_seed_others():
    def first(seed):
        return [batch.arrays["input_ids"] for batch in batches(seed)[1].iterate()]

    np.testing.assert_equal(first(0), first(0))
    assert not np.array_equal(first(0)[0], first(1)[0])


def test_epochs_differ_and_a_run_can_begin_anywhere():
    _, plan = batches()
    ends = plan.epoch_ends()
    assert ends[-1] == len(plan) and len(ends) == 2
    assert plan[0].rows != plan[ends[0]].rows
    later = [batch.arrays["input_ids"] for batch in plan.iterate(start=7)]
    np.testing.assert_equal(
        later, [plan[i].arrays["input_ids"] for i in range(7, len(plan))]
    )


def test_without_a_seed_rows_are_as_given():
    _, plan = batches(seed=None, epochs=1)
    assert plan[0].rows[0][0] == 0


def test_share_filled_is_the_share_of_real_tokens():
    _, plan = batches()
    real = sum((batch.arrays["segment_ids"] > 0).mean() for batch in plan.iterate())
    np.testing.assert_allclose(plan.share_filled, real / len(plan))


def test_rows_are_a_multiple_of_the_devices():
    assert rows_per_batch([16] * 100, 128, sentences=32, multiple_of=8) == 8
    assert rows_per_batch([16] * 100, 128, sentences=100, multiple_of=8) == 16
    assert rows_per_batch([16] * 100, 128, sentences=1, multiple_of=1) == 1


def test_an_epoch_holds_what_was_drawn_in_an_order_of_its_own():
    counts = Counts.of_labels([int(n % 10 == 0) for n in range(300)], negative=0)
    sampling = DownSampling(ratio=2)
    _, plan = batches(drawn=lambda epoch: sampling.epoch(counts, 5, epoch))
    seen = {0: [], 1: []}
    for batch in plan.iterate():
        seen[batch.epoch] += [item for row in batch.rows for item in row]
        assert "token_weights" not in batch.arrays
    for epoch, items in seen.items():
        wanted = sampling.epoch(counts, 5, epoch).indices.tolist()
        assert sorted(items) == wanted and items != wanted
    assert sorted(seen[0]) != sorted(seen[1])


def test_weights_of_examples_lie_on_their_tokens_and_sequences():
    counts = Counts.of_labels([int(n % 10 == 0) for n in range(300)], negative=0)
    epochs = [ImportanceSampling().epoch(counts, 5, epoch) for epoch in (0, 1)]
    _, plan = batches(drawn=lambda epoch: epochs[epoch])
    for batch in plan.iterate():
        drawn = epochs[batch.epoch]
        weights = dict(zip(drawn.indices.tolist(), drawn.weights, strict=True))
        tokens = batch.arrays["token_weights"]
        assert (tokens[batch.arrays["segment_ids"] == 0] == 0).all()
        for row, items in enumerate(batch.rows):
            for number, item in enumerate(items):
                own = batch.arrays["segment_ids"][row] == number + 1
                wanted = np.float32(weights[item])
                assert (tokens[row][own] == wanted).all()
                assert batch.arrays["sequence_weights"][row, number] == wanted


def test_the_draw_is_not_shuffled_in_place():
    epoch = Epoch(np.arange(300))
    batches(drawn=lambda number: epoch)
    np.testing.assert_array_equal(epoch.indices, np.arange(300))
