"""Calibration, against loops over predictions and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from dicejax.metrics.calibration import brier, reliability, top_label

unhurried = settings(deadline=None)

# Multiples of 1/64 fall on the edges of 2, 4 and 8 bins exactly.
CASES = st.lists(
    st.tuples(st.integers(0, 64).map(lambda n: n / 64), st.booleans()), max_size=40
)


def expected_error(groups):
    """The expected calibration error of groups of (confidence, correct)."""
    total = sum(map(len, groups))
    error = 0.0
    for group in filter(None, groups):
        confidence = sum(c for c, _ in group) / len(group)
        accuracy = sum(right for _, right in group) / len(group)
        error += len(group) / total * abs(confidence - accuracy)
    return error


def by_width(case, bins):
    """Bin b holds what is above (b - 1) / M and at most b / M; 0 is in the first."""
    groups = [[] for _ in range(bins)]
    for one in case:
        below = sum(one[0] > edge / bins for edge in range(1, bins))
        groups[below].append(one)
    return groups


def by_mass(case, bins):
    groups = [[] for _ in range(bins)]
    for one in case:
        lower = sum(other[0] < one[0] for other in case)
        groups[lower * bins // len(case)].append(one)
    return groups


@pytest.mark.parametrize(("equal", "group"), [("width", by_width), ("mass", by_mass)])
@unhurried
@given(CASES, st.sampled_from([1, 2, 4, 8]), st.randoms(use_true_random=False))
def test_expected_error_equals_a_loop_in_any_order(equal, group, case, bins, rng):
    def diagram(items):
        return reliability(
            [c for c, _ in items], [r for _, r in items], bins=bins, equal=equal
        )

    ours = diagram(case)
    assert ours.expected_error == pytest.approx(
        expected_error(group(case, bins)), rel=1e-12, abs=1e-15
    )
    assert 0 <= ours.expected_error <= ours.largest_error + 1e-15
    assert ours.count == len(case)
    filled = [len(members) for members in group(case, bins) if members]
    assert [b.count for b in ours.bins if b.count] == filled
    rng.shuffle(case)
    again = diagram(case)
    assert [b.count for b in again.bins] == [b.count for b in ours.bins]
    assert again.expected_error == pytest.approx(ours.expected_error, rel=1e-12)


@pytest.mark.parametrize("bins", [5, 15])
def test_bars_equal_sklearn(bins):
    rng = np.random.default_rng(0)
    probability = rng.beta(0.7, 3, 3_000)
    gold = rng.random(3_000) < probability**1.5
    diagram = reliability(probability, gold, bins=bins)
    accuracy, confidence = calibration_curve(gold, probability, n_bins=bins)
    filled = [b for b in diagram.bins if b.count]
    assert [b.accuracy for b in filled] == pytest.approx(accuracy, rel=1e-12)
    assert [b.confidence for b in filled] == pytest.approx(confidence, rel=1e-12)
    assert len(diagram.bins) == bins


def test_bins_of_equal_mass_hold_equally_many():
    rng = np.random.default_rng(0)
    confidence = rng.random(1_000) ** 4
    diagram = reliability(confidence, rng.random(1_000) < 0.5, bins=10, equal="mass")
    assert [b.count for b in diagram.bins] == [100] * 10
    pieces = np.split(np.sort(confidence), 10)
    assert [b.lower for b in diagram.bins] == [piece[0] for piece in pieces]
    assert [b.upper for b in diagram.bins] == [piece[-1] for piece in pieces]


def test_equal_confidences_share_a_bin():
    diagram = reliability([0.7] * 9 + [0.9], [1] * 10, bins=5, equal="mass")
    assert [(b.lower, b.count) for b in diagram.bins] == [(0.7, 9), (0.9, 1)]


def test_errors_by_hand():
    diagram = reliability([0.25, 0.75, 0.75, 1.0], [1, 0, 1, 1], bins=2)
    assert diagram.expected_error == pytest.approx((0.75 + 0.5) / 4, rel=1e-15)
    assert diagram.largest_error == 0.75
    perfect = reliability([0.5, 0.5, 1.0, 0.0], [1, 0, 1, 0])
    assert perfect.expected_error == perfect.largest_error == 0


@pytest.mark.parametrize("equal", ["width", "mass"])
def test_no_predictions_have_no_error(equal):
    diagram = reliability([], [], equal=equal)
    assert (diagram.count, diagram.expected_error, diagram.largest_error) == (0, 0, 0)


@unhurried
@given(CASES.filter(len))
def test_binary_brier_equals_sklearn(case):
    probability, gold = zip(*case, strict=True)
    theirs = brier_score_loss(gold, probability, pos_label=True)
    assert brier(probability, gold) == pytest.approx(theirs, rel=1e-14)
    both = np.stack([1 - np.array(probability), probability], -1)
    labels = np.array(gold, int)
    assert brier(both, labels) == pytest.approx(2 * theirs, rel=1e-14)


def test_brier_of_several_classes_equals_sklearn():
    rng = np.random.default_rng(0)
    probabilities, labels = rng.dirichlet(np.ones(4), 500), rng.integers(0, 4, 500)
    theirs = brier_score_loss(labels, probabilities, scale_by_half=False)
    assert brier(probabilities, labels) == pytest.approx(theirs, rel=1e-12)
    assert brier(np.zeros((0, 4)), np.zeros(0, int)) == brier([], []) == 0


def test_the_top_label_is_the_likeliest_of_equals_the_first():
    confidence, correct = top_label([[0.4, 0.4, 0.2], [0.1, 0.2, 0.7]], [1, 2])
    assert confidence.tolist() == [0.4, 0.7]
    assert correct.tolist() == [False, True]


def test_what_does_not_fit_is_refused():
    for value in (1.5, -0.1, np.nan):
        with pytest.raises(ValueError, match="is no probability"):
            reliability([value], [1])
        with pytest.raises(ValueError, match="is no probability"):
            brier([value], [1])
    with pytest.raises(ValueError, match="bins is 0; it must be at least 1"):
        reliability([0.5], [1], bins=0)
    with pytest.raises(ValueError, match="choose 'width' or 'mass'"):
        reliability([0.5], [1], equal="size")
    with pytest.raises(ValueError, match=r"shape \(1,\) and correct \(2,\)"):
        reliability([0.5], [1, 0])
    with pytest.raises(ValueError, match="correct holds 2"):
        reliability([0.5], [2])
    with pytest.raises(ValueError, match="labels are not all from 0 to 2"):
        brier([[0.2, 0.3, 0.5]], [3])
    with pytest.raises(ValueError, match="for labels of shape"):
        brier([0.5], [[1]])
    with pytest.raises(ValueError, match="for labels of shape"):
        top_label([0.5], [1])
