"""Calibration vs. loops over predictions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicejax.metrics.calibration import reliability

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
        return reliability([c for c, _ in items], [r for _, r in items], bins=bins)

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
    once = reliability([0.2, 0.2, 0.9], [1, 0, 1], counts=[3, 1, 2], bins=5)
    assert once == reliability([0.2] * 4 + [0.9] * 2, [1, 1, 1, 0, 1, 1], bins=5)
