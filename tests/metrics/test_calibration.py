"""Calibration vs. loops over predictions, and counts of scores vs. scikit-learn."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit, softmax
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    log_loss,
    precision_recall_curve,
)

from dicejax.metrics import calibration
from dicejax.metrics.score_counts import (
    BINS,
    LIMIT,
    WIDTH,
    calibration_error,
    count_scores,
    curve,
    reliability,
)

GRID = np.linspace(0.9, 1.1, 41)
# Multiples of 1/64 fall on the edges of 2, 4 and 8 bins exactly.
CASES = st.lists(
    st.tuples(st.integers(0, 64).map(lambda n: n / 64), st.booleans()), max_size=40
)


def expected_error(groups):
    """Compute the expected calibration error of groups of (confidence, correct)."""
    total = sum(map(len, groups))
    error = 0.0
    for group in filter(None, groups):
        confidence = sum(c for c, _ in group) / len(group)
        accuracy = sum(right for _, right in group) / len(group)
        error += len(group) / total * abs(confidence - accuracy)
    return error


def by_width(case, bins):
    """Group by bins (b - 1) / M < p <= b / M; 0 is in the first."""
    groups = [[] for _ in range(bins)]
    for prediction in case:
        below = sum(prediction[0] > edge / bins for edge in range(1, bins))
        groups[below].append(prediction)
    return groups


@given(CASES, st.sampled_from([1, 2, 4, 8]), st.randoms(use_true_random=False))
def test_expected_error_equals_a_loop_in_any_order(case, bins, rng):
    def diagram(items):
        return calibration.reliability(
            [c for c, _ in items], [r for _, r in items], bins=bins
        )

    ours = diagram(case)
    assert ours.expected_error == pytest.approx(
        expected_error(by_width(case, bins)), rel=1e-12, abs=1e-15
    )
    assert 0 <= ours.expected_error <= 1
    assert (ours.count, len(ours.bins)) == (len(case), bins)
    for bar, members in zip(ours.bins, by_width(case, bins), strict=True):
        means = np.mean(members, axis=0) if members else (0, 0)
        assert bar.count == len(members)
        assert (bar.confidence, bar.accuracy) == pytest.approx(means, rel=1e-12)
    rng.shuffle(case)
    again = diagram(case)
    assert [b.count for b in again.bins] == [b.count for b in ours.bins]
    assert again.expected_error == pytest.approx(ours.expected_error, rel=1e-12)


def test_counts_stand_for_as_many_predictions():
    once = calibration.reliability([0.2, 0.2, 0.9], [1, 0, 1], counts=[3, 1, 2], bins=5)
    assert once == calibration.reliability(
        [0.2] * 4 + [0.9] * 2, [1, 1, 1, 0, 1, 1], bins=5
    )


@pytest.fixture
def scored():
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (40, 25, 6)).astype(np.float32)
    labels = rng.integers(-1, 6, (40, 25))
    return logits, labels


def in_bins(probabilities):
    """Return the lower edge of each probability's bin, as a probability."""
    place = np.floor((logit(probabilities) + LIMIT) / WIDTH).clip(0, BINS - 1)
    return place.astype(int)


def test_each_element_is_counted_in_its_bin(scored):
    logits, labels = scored
    counts = np.asarray(count_scores(logits, labels, kind="classes"))
    labelled = labels >= 0
    place = in_bins(softmax(logits[labelled].astype(np.float64), axis=-1))
    expected = np.zeros((6, 2, BINS), int)
    for row, gold in zip(place, labels[labelled], strict=True):
        for c, at in enumerate(row):
            expected[c, int(c == gold), at] += 1
    # Rounding may move one that lies on an edge to the neighbour.
    assert np.abs(counts - expected).sum() <= 4
    assert counts.sum() == 6 * labelled.sum()
    np.testing.assert_array_equal(
        counts[:, 1].sum(axis=-1), np.bincount(labels[labelled], minlength=6)
    )


def test_parts_add_up_to_the_whole(scored):
    logits, labels = scored
    parts = [
        np.asarray(count_scores(logits[cut], labels[cut], kind="classes"))
        for cut in (slice(0, 20), slice(20, None))
    ]
    whole = np.asarray(count_scores(logits, labels, kind="classes"))
    np.testing.assert_array_equal(sum(parts), whole)


def test_the_curve_is_that_of_scikit_learn(scored):
    logits, labels = scored
    labels = (labels > 2).astype(int)[..., None]
    logits = logits[..., :1] + 2 * labels
    counts = np.asarray(count_scores(logits, labels, kind="multi_label"))
    place = in_bins(expit(logits.astype(np.float64))).ravel()
    gold = labels.ravel()
    result = curve(counts)
    assert result.average_precision == pytest.approx(
        average_precision_score(gold, place), abs=1e-3
    )
    precision, recall, thresholds = precision_recall_curve(gold, place)
    np.testing.assert_allclose(
        result.precision[thresholds.astype(int)], precision[:-1], atol=3e-3
    )
    np.testing.assert_allclose(
        result.recall[thresholds.astype(int)], recall[:-1], atol=3e-3
    )
    half = np.searchsorted(result.thresholds, 0.5)
    predicted = (logits >= 0).ravel()
    f1 = 2 * (predicted & (gold == 1)).sum() / (predicted.sum() + gold.sum())
    assert result.f1[half] == pytest.approx(f1)


def test_calibrated_scores_have_little_error_and_sharpened_ones_much():
    rng = np.random.default_rng(1)
    z = rng.normal(0, 2, (20_000, 1))
    labels = (rng.random((20_000, 1)) < expit(z)).astype(int)
    errors = {}
    for factor in (1.0, 3.0):
        counts = count_scores(jnp.asarray(factor * z), labels, kind="multi_label")
        p = expit(factor * z)
        place = np.minimum((p * 15).astype(int), 14)
        direct = sum(
            (place == b).sum() * abs(labels[place == b].mean() - p[place == b].mean())
            for b in range(15)
            if (place == b).any()
        )
        bars = reliability(np.asarray(counts))
        errors[factor] = bars.expected_error
        assert errors[factor] == pytest.approx(direct / 20_000, abs=2e-3)

        # Of predictions alone, from probabilities of the middles of the counts' bins.
        middle = expit((np.floor(factor * z / WIDTH) + 0.5) * WIDTH)
        bins = [(middle > 0.5) & ((middle * 15).astype(int) == b) for b in range(15)]
        gaps = [b.sum() * abs((labels - middle)[b].mean()) for b in bins if b.any()]
        assert calibration_error(np.asarray(counts)) == pytest.approx(
            sum(gaps) / (middle > 0.5).sum(), abs=1e-4
        )
    assert errors[1.0] < 0.01 < 0.1 < errors[3.0]
    assert bars.count == 20_000


def test_extreme_logits_count_at_the_ends():
    logits = jnp.array([[1e4, -1e4, 0.0], [0.0, 0.0, -jnp.inf]])
    counts = np.asarray(count_scores(logits, jnp.array([0, 1]), kind="classes"))
    assert counts[0, 1, -1] == 1 and counts[1, 0, 0] == 1
    assert counts[2, 0, 0] == 2 and counts.sum() == 6
    assert counts[1, 1, int(LIMIT / WIDTH)] == 1
    assert not count_scores(logits, jnp.array([-100, -1]), kind="classes").any()
    nothing = curve(np.zeros((2, 2, BINS), int))
    assert nothing.average_precision == 0.0 and nothing.f1.max() == 0.0


@pytest.mark.parametrize("classes", [2, 4])
def test_scores_of_probabilities_are_those_of_scikit_learn(classes):
    rng = np.random.default_rng(classes)
    logits, gold = rng.normal(size=(60, classes)), rng.integers(classes, size=60)
    for temperature in (1.0, 0.4, 3.0):
        scores = calibration.probability_scores(logits, gold, temperature)
        shares = softmax(logits / temperature, axis=1)
        assert scores.log_loss == pytest.approx(log_loss(gold, shares))
        expected = brier_score_loss(gold, shares[:, 1] if classes == 2 else shares)
        assert scores.brier == pytest.approx(expected)
        top = np.ones(60, int) if classes == 2 else shares.argmax(1)
        pairs = zip(shares[np.arange(60), top], top == gold, strict=True)
        assert scores.expected_error == pytest.approx(
            expected_error(by_width([*pairs], 15))
        )


@pytest.mark.parametrize("true", [0.5, 1.0, 2.5])
def test_the_temperature_of_drawn_labels_is_estimated(true):
    rng = np.random.default_rng(0)
    logits = rng.normal(scale=3, size=(20_000, 3))
    shares = softmax(logits / true, axis=1)
    gold = (shares.cumsum(1) < rng.random((20_000, 1))).sum(1)
    fitted = calibration.fit_temperature(logits, gold)
    assert fitted == pytest.approx(true, rel=0.04)
    # It is the likeliest of all: none of a grid is better.
    losses = [log_loss(gold, softmax(logits / t, axis=1)) for t in true * GRID]
    best = log_loss(gold, softmax(logits / fitted, axis=1))
    assert best <= min(losses) + 1e-9
    after = calibration.Calibration.from_outcomes(fitted, logits, gold).after
    assert after.log_loss == pytest.approx(best) and after.expected_error < 0.02


def test_a_logarithm_of_nan_is_refused():
    with pytest.raises(ValueError, match="log_shares has NaN"):
        calibration.fit_temperature([[np.nan, 0.0], [0.0, -2.0]], [0, 1])


def test_without_an_error_or_an_example_there_is_no_temperature():
    assert calibration.fit_temperature([[2.0, 0.0], [0.0, 1.0]], [0, 1]) is None
    assert calibration.fit_temperature([[2.0, 0.0], [0.0, 1.0]], [1, 0]) is None
    assert calibration.fit_temperature(np.zeros((0, 2)), []) is None
    assert calibration.Calibration.from_outcomes(2.0, np.zeros((0, 2)), []) is None
