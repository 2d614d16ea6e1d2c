"""Axes hold what they are made for, and what is left out of a line is not missed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicejax.comparison.report.chart import Axis, axis_for, decades, joined, short
from dicejax.comparison.report.figures.learning import mean_and_band
from dicejax.comparison.report.figures.strip import wrapped
from dicejax.comparison.report.figures.thresholds import (
    f1_at,
    f1_thresholds,
    recall_precision,
)
from dicejax.metrics import score_counts

from .made_runs import counts

NUMBERS = st.floats(-1e6, 1e6).map(lambda v: round(v, 6))


@given(st.lists(NUMBERS, min_size=1, max_size=20), st.integers(2, 6))
def test_an_axis_holds_its_values_with_few_round_ticks(values, wanted):
    axis = axis_for(values, "x", wanted=wanted)
    width = axis.high - axis.low
    assert axis.low <= min(values) + 1e-6 * width
    assert axis.high >= max(values) - 1e-6 * width
    assert 2 <= len(axis.ticks) <= wanted + 3
    steps = np.diff(axis.ticks)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-6)
    places = [place for place, _ in axis.marks]
    assert places == sorted(places) and (places[0], places[-1]) == (0.0, 1.0)


def test_an_axis_ends_where_it_must():
    axis = axis_for([0.3, 99.9], "F1", least=0.0, most=100.0)
    assert (axis.low, axis.high) == (0.0, 100.0)
    alike = axis_for([0.0, 0.0], "F1", least=0.0, most=100.0)
    assert alike.low == 0.0 < alike.high and alike.place(0.0) == 0.0


@given(st.lists(st.integers(1, 10**7), min_size=1, max_size=9))
def test_decades_hold_their_values(values):
    axis = decades(values, "n")
    assert axis.low <= min(values) and axis.high >= max(values)
    for value in values:
        share = math.log(value / axis.low) / math.log(axis.high / axis.low)
        assert axis.place(value) == pytest.approx(share)


@given(st.text(alphabet="ab-_ =.1", max_size=120))
def test_wrapping_loses_nothing(name):
    lines = wrapped(name, 20)
    assert "".join(lines) == name
    assert all(len(line) <= 20 for line in lines)


def test_mean_and_band_are_of_the_seeds_that_have_the_step():
    by_seed = {0: ((10, 1.0), (20, 4.0)), 1: ((10, 3.0), (20, 8.0)), 2: ((10, 5.0),)}
    mean, low, high = mean_and_band(by_seed)
    assert mean == [(10, 3.0), (20, 6.0)]
    sd = [np.std([1, 3, 5], ddof=1), np.std([4, 8], ddof=1)]
    assert [v for _, v in low] == pytest.approx([3 - sd[0], 6 - sd[1]])
    assert [v for _, v in high] == pytest.approx([3 + sd[0], 6 + sd[1]])


def test_thin_lines_pass_by_all_points():
    curve = score_counts.curve(counts(np.random.default_rng(0), 0.7, 3))
    share = Axis(label="", low=0.0, high=1.0, ticks=())
    points = recall_precision(curve)
    thin = np.array(joined(share, share, points, thin=True))
    whole = np.array(joined(share, share, points))
    assert len(thin) < len(whole) / 2
    distance = np.linalg.norm(whole[:, None] - thin[None], axis=-1).min(axis=1)
    assert distance.max() < 0.01
    np.testing.assert_array_equal(thin[[0, -1]], whole[[0, -1]])


def test_curves_agree_with_counting_elements():
    number = counts(np.random.default_rng(1), 0.8, 2)
    curve = score_counts.curve(number)
    # Log-odds of at least 0 are the upper half of the bins.
    half = number[..., score_counts.BINS // 2 :].sum(axis=(0, 2))
    f1 = 2 * half[1] / (half.sum() + number[:, 1].sum())
    assert f1_at(curve) == pytest.approx(f1)
    precision, recall = half[1] / half.sum(), half[1] / number[:, 1].sum()
    assert np.abs(np.array(recall_precision(curve)) - (recall, precision)).sum(
        axis=1
    ).min() == pytest.approx(0, abs=1e-12)
    assert max(f1_thresholds(curve), key=lambda pair: pair[1])[1] == curve.f1.max()


def test_numbers_of_an_axis_are_short():
    assert [short(v) for v in (0.0, 1500.0, 2e6, 0.05)] == ["0", "1.5k", "2M", "0.05"]
