"""Counts of scores by log-odds vs. scikit-learn on the same scores."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from sklearn.metrics import average_precision_score, precision_recall_curve

from dicejax.metrics.score_counts import (
    BINS,
    LIMIT,
    WIDTH,
    calibration_error,
    count_scores,
    curve,
    reliability,
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
