"""Resampling: ratios hold, epochs differ, weights remove the bias."""

from collections import Counter
from fractions import Fraction
from math import ceil, floor, sqrt

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dicejax.data.resample import (
    DownSampling,
    ImportanceSampling,
    OverSampling,
    UnitCounts,
    draw,
)

from .processes import printed_by_processes


def of_positives(positives, sizes) -> UnitCounts:
    """Return counts of two classes from each example's positive and total units."""
    positive, size = np.asarray(positives), np.asarray(sizes)
    return UnitCounts(np.stack([size - positive, positive], axis=1))


# Words outside and inside of entities, of ten sentences: 56 to 12.
SENTENCES = of_positives(
    positives=[0, 2, 0, 1, 0, 6, 0, 0, 3, 0], sizes=[9, 7, 4, 12, 6, 8, 3, 5, 11, 3]
)
SAMPLINGS = [
    DownSampling(ratio=1.5),
    DownSampling(share=0.3),
    OverSampling(ratio=1.5),
    ImportanceSampling(),
    ImportanceSampling(power=0.5, size=50),
]


def labelled(positives: int, negatives: int) -> UnitCounts:
    """Return shuffled binary labels."""
    labels = np.array([1] * positives + [0] * negatives)
    np.random.default_rng(7).shuffle(labels)
    return UnitCounts(np.eye(2, dtype=int)[labels])


ratios = st.sampled_from(["0.1", "0.29", "0.3", "0.57", "0.7", "1", "1.5", "3.3", "10"])
sizes = st.integers(1, 60)


@settings(deadline=None)
@given(positives=sizes, negatives=sizes, ratio=ratios)
@example(positives=100, negatives=40, ratio="0.29")  # 0.29 * 100 < 29
def test_down_sampling_leaves_exactly_so_many_negatives(positives, negatives, ratio):
    counts = labelled(positives, negatives)
    epoch = DownSampling(ratio=float(ratio)).epoch(counts, seed=0, epoch=0)
    assert counts.positive[epoch.indices].sum() == positives
    expected = min(negatives, floor(Fraction(ratio) * positives))
    assert counts.negative[epoch.indices].sum() == expected
    assert len(set(epoch.indices.tolist())) == len(epoch.indices)
    assert epoch.weights is None


@settings(deadline=None)
@given(positives=sizes, negatives=sizes, ratio=ratios)
def test_over_sampling_holds_exactly_so_many_positives(positives, negatives, ratio):
    counts = labelled(positives, negatives)
    epoch = OverSampling(ratio=float(ratio)).epoch(counts, seed=0, epoch=0)
    seen = np.bincount(epoch.indices, minlength=positives + negatives)
    assert (seen[counts.negative == 1] == 1).all()
    repeats = seen[counts.positive == 1]
    assert repeats.sum() == max(positives, ceil(negatives / Fraction(ratio)))
    assert repeats.min() >= 1
    assert repeats.max() - repeats.min() <= 1
    assert epoch.weights is None


@pytest.mark.parametrize(("share", "left"), [(0.0, 0), (0.25, 10), (0.5, 20), (1, 40)])
def test_down_sampling_by_share_leaves_that_share_of_the_negatives(share, left):
    counts = labelled(8, 40)
    indices = DownSampling(share=share).epoch(counts, 0, 0).indices
    assert Counter(counts.positive[indices].tolist()) == Counter({1: 8, 0: left})


@pytest.mark.parametrize("ratio", [0.5, 1.8, 2.0, 2.5, 3.0, 4.0])
def test_sentences_are_left_out_until_the_next_would_exceed_the_ratio(ratio):
    with_entities = [1, 3, 5, 8]
    for number in range(20):
        indices = DownSampling(ratio=ratio).epoch(SENTENCES, 3, number).indices
        left = sorted(set(range(10)) - set(indices.tolist()))
        assert set(with_entities) <= set(indices.tolist())
        assert SENTENCES.ratio(indices) <= max(ratio, SENTENCES.ratio(with_entities))
        assert ratio > 0.5 or left == [0, 2, 4, 6, 7, 9]
        # The longest left out would have been too much, and is no longer than 9.
        if left:
            outside = SENTENCES.negative[indices].sum()
            assert outside + 9 > ratio * 12


@pytest.mark.parametrize("ratio", [4.0, 3.0, 2.0, 1.0, 0.5])
def test_sentences_are_repeated_until_the_ratio_is_met_and_not_once_more(ratio):
    for number in range(20):
        indices = OverSampling(ratio=ratio).epoch(SENTENCES, 3, number).indices
        seen = np.bincount(indices, minlength=10)
        assert SENTENCES.ratio(indices) <= ratio + 1e-9
        helps = SENTENCES.negative < ratio * SENTENCES.positive
        assert (seen[~helps] == 1).all()
        assert seen[helps].max() - seen[helps].min() <= 1
        # Some sentence was the last one drawn: without it, the ratio is exceeded.
        last = [
            SENTENCES.ratio(np.repeat(np.arange(10), seen - (np.arange(10) == i)))
            for i in np.flatnonzero(helps & (seen == seen.max()))
        ]
        assert max(last) > ratio


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_an_epoch_depends_on_seed_and_number_alone(sampling):
    counts = labelled(20, 200)

    def epoch(seed, number):
        return sampling.epoch(counts, seed, number).indices.tolist()

    assert epoch(5, 2) == epoch(5, 2)
    several = [epoch(seed, number) for seed in (0, 1) for number in range(10)]
    different = {tuple(indices) for indices in several}
    # Over-sampling by 6.67 repeats leaves 14 of 20 to chance, so all differ too.
    assert len(different) == len(several)


def test_another_process_draws_the_same():
    code = (
        "import numpy as np\n"
        "from dicejax.data.resample import *\n"
        "counts = UnitCounts(np.eye(4, dtype=int)[[1, 0, 0, 2, 0, 0, 0, 3]])\n"
        "for sampling in (DownSampling(ratio=1), OverSampling(ratio=0.7),\n"
        "                 ImportanceSampling()):\n"
        "    epoch = sampling.epoch(counts, 4, 9)\n"
        "    print(counts.units.tolist(), epoch.indices.tolist())\n"
    )
    assert len(printed_by_processes(code)) == 1


def test_no_draw_repeats_the_pipeline_s():
    counts = labelled(30, 30)
    drawn = ImportanceSampling().epoch(counts, 0, 1).indices
    chances = np.full(60, 1 / 60)
    alike = np.random.default_rng((0, 1)).choice(60, 60, p=chances)
    assert np.sort(alike).tolist() != drawn.tolist()


def test_every_negative_is_drawn_equally_often_in_the_long_run():
    counts, epochs = labelled(10, 100), 2000
    seen = np.zeros(110)
    for number in range(epochs):
        seen[DownSampling(ratio=3).epoch(counts, 0, number).indices] += 1
    negatives = seen[counts.negative == 1]
    assert negatives.sum() == 30 * epochs
    # Each is drawn with chance 0.3: five standard deviations of a binomial count.
    assert np.abs(negatives - 0.3 * epochs).max() < 5 * sqrt(epochs * 0.3 * 0.7)


def standard_error(chances, values, draws: int) -> float:
    """Compute the standard error of the weighted mean from its definition."""
    shares = np.asarray(chances) / np.sum(chances)
    estimates = values / (len(shares) * shares)
    variance = (shares * (estimates - values.mean()) ** 2).sum()
    return sqrt(variance / draws)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("sampling", [s for s in SAMPLINGS if hasattr(s, "power")])
def test_the_weighted_mean_of_losses_is_unbiased(sampling, seed):
    counts = labelled(15, 285)
    losses = np.random.default_rng(1).gamma(2.0, size=300) + 3 * counts.positive
    estimates, biased, weights, drawn = [], [], [], 0
    for number in range(400):
        epoch = sampling.epoch(counts, seed, number)
        estimates.append((epoch.weights * losses[epoch.indices]).mean())
        biased.append(losses[epoch.indices].mean())
        weights.append(epoch.weights.mean())
        drawn += len(epoch.indices)
    chances = (np.array([285, 15.0]) ** -sampling.power)[counts.positive]
    error = standard_error(chances, losses, drawn)
    assert error < 0.02 * losses.mean()
    assert np.mean(estimates) == pytest.approx(losses.mean(), abs=4 * error)
    # Without weights the estimate is far off, so the test can tell.
    assert abs(np.mean(biased) - losses.mean()) > 20 * error
    error = standard_error(chances, np.ones(300), drawn)
    assert np.mean(weights) == pytest.approx(1, abs=4 * error)


def test_at_power_one_every_class_is_drawn_equally_often():
    numbers = np.array([900, 90, 10])
    labels = np.repeat(range(3), numbers)
    sampling = ImportanceSampling(size=30_000)
    counts = UnitCounts(np.eye(3, dtype=int)[labels])
    indices, weights = sampling.epoch(counts, seed=0, epoch=0)
    drawn = labels[indices]
    spread = sqrt(30_000 * (1 / 3) * (2 / 3))
    assert np.abs(np.bincount(drawn) - 10_000).max() <= 4 * spread
    np.testing.assert_allclose(weights, 3 * numbers[drawn] / 1000, rtol=1e-12)


def test_at_power_zero_every_word_counts_the_same():
    indices, weights = ImportanceSampling(power=0, size=500).epoch(SENTENCES, 0, 0)
    lengths = SENTENCES.units.sum(axis=1)
    np.testing.assert_allclose(weights, 6.8 / lengths[indices], rtol=1e-12)


def test_own_chances_are_taken_as_they_are():
    indices, weights = draw([1, 2, 7], seed=0, epoch=0, size=20_000)
    shares = np.array([0.1, 0.2, 0.7])
    spread = np.sqrt(shares * (1 - shares) / 20_000)
    assert (np.abs(np.bincount(indices) / 20_000 - shares) <= 4 * spread).all()
    np.testing.assert_allclose(weights[[0, -1]], [1 / 0.3, 1 / 2.1], rtol=1e-12)


@pytest.mark.parametrize(
    ("negatives", "samplings"),
    [
        (20, [DownSampling(ratio=2), OverSampling(ratio=2.0)]),
        (20, [DownSampling(ratio=9), OverSampling(ratio=9)]),
        (0, SAMPLINGS[:3]),
    ],
)
def test_where_the_ratio_is_met_nothing_changes(negatives, samplings):
    counts = labelled(10, negatives)
    for sampling in samplings:
        indices = sampling.epoch(counts, 0, 0).indices
        assert indices.tolist() == list(range(10 + negatives))
    if not negatives:
        assert set(ImportanceSampling().epoch(counts, 0, 0).weights) == {1.0}


def test_where_none_is_positive_a_ratio_is_refused_and_a_share_is_not():
    counts = labelled(0, 10)
    for sampling in (DownSampling(ratio=2), OverSampling(ratio=2)):
        with pytest.raises(ValueError, match="none of 10 examples has a positive unit"):
            sampling.epoch(counts, 0, 0)
    assert len(DownSampling(share=0.5).epoch(counts, 0, 0).indices) == 5
    assert len(ImportanceSampling().epoch(counts, 0, 0).indices) == 10
    assert counts.ratio() == float("inf")


def test_a_ratio_below_every_sentence_s_is_refused():
    counts = of_positives([1, 2], sizes=[9, 9])
    message = "the example richest in positives has 3.5 negatives for each"
    with pytest.raises(ValueError, match=message):
        OverSampling(ratio=3.5).epoch(counts, 0, 0)
    assert len(OverSampling(ratio=3.6).epoch(counts, 0, 0).indices) > 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DownSampling(), "give one of ratio and share"),
        (lambda: DownSampling(ratio=1, share=0.5), "give one of ratio and share"),
        (lambda: DownSampling(ratio=-1), "ratio is -1"),
        (lambda: DownSampling(ratio=float("nan")), "ratio is nan"),
        (lambda: DownSampling(share=1.5), "share is 1.5; want 0 to 1"),
        (lambda: OverSampling(ratio=0), "ratio is 0: no number of repeats"),
        (lambda: OverSampling(ratio=float("inf")), "ratio is inf"),
        (lambda: ImportanceSampling(power=-1), "power is -1"),
        (lambda: ImportanceSampling(size=0), "size is 0; want at least 1"),
        (lambda: draw([], 0, 0), r"chances has shape \(0,\)"),
        (lambda: draw([1, 0], 0, 0), "the chance of example 1 is 0.0"),
        (lambda: draw([float("nan")], 0, 0), "the chance of example 0 is nan"),
        (lambda: draw([1], 0, 0, size=-1), "size is -1"),
        (lambda: UnitCounts(np.ones((0, 2), int)), r"units has shape \(0, 2\)"),
        (lambda: UnitCounts(np.ones((3, 1), int)), r"units has shape \(3, 1\)"),
        (lambda: UnitCounts(np.full((3, 2), -1)), "units are counts"),
        (lambda: UnitCounts(np.ones((3, 2))), "units are counts"),
        (
            lambda: ImportanceSampling().epoch(of_positives([0, 0], [1, 0]), 0, 0),
            "the chance of example 1 is 0.0",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
