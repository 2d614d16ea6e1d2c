"""Tuned thresholds vs. trying every threshold."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicejax.metrics.thresholds import tune, tune_spans

SCORE = st.one_of(
    st.sampled_from([0.0, 0.25, 0.5, np.nextafter(0.5, 0), 1.0, -math.inf, math.inf]),
    st.floats(allow_nan=False),
)
CASES = st.lists(st.tuples(SCORE, st.booleans()), min_size=1, max_size=25)


def f_at(threshold, scores, correct, gold, beta=1.0):
    accepted = [c for s, c in zip(scores, correct, strict=True) if s >= threshold]
    total = len(accepted) + beta**2 * gold
    return (1 + beta**2) * sum(accepted) / total if total else 0.0


def check_laws(tuned, scores, correct, gold, default, beta=1.0):
    """Check all properties of `tune`."""
    case = scores, correct, gold, beta
    assert tuned.score == max(f_at(t, *case) for t in [*scores, math.nan])
    assert tuned.score == f_at(tuned.threshold, *case)
    assert tuned.default_score == f_at(default, *case)
    assert (tuned.examples, tuned.positives) == (len(scores), gold)
    assert tuned.default_threshold == default
    if tuned.default_score == tuned.score:
        assert tuned.threshold == default
    else:  # of equally good ones the highest
        accepted = sorted({score for score in scores if score >= tuned.threshold})
        fewer = accepted[1:]
        assert all(f_at(t, *case) < tuned.score for t in fewer)


BETAS = st.sampled_from([1.0, 2.0, 0.5])


@given(CASES, st.sampled_from([0.0, 0.5]), BETAS, st.randoms(use_true_random=False))
def test_tuning_equals_brute_force_in_any_order(case, default, beta, rng):
    scores, gold = zip(*case, strict=True)
    tuned = tune(scores, gold, default=default, beta=beta)
    check_laws(tuned, scores, gold, sum(gold), default, beta)
    rng.shuffle(case)
    assert tune(*zip(*case, strict=True), default=default, beta=beta) == tuned


@given(CASES, st.integers(0, 5), BETAS)
def test_tuning_spans_equals_brute_force(case, never_candidates, beta):
    scores, correct = zip(*case, strict=True)
    gold = sum(correct) + never_candidates
    tuned = tune_spans(scores, correct, gold, beta=beta)
    check_laws(tuned, scores, correct, gold, 0.5, beta)


@pytest.mark.parametrize(
    ("scores", "gold", "threshold", "f1"),
    [
        ([0.9, 0.1], [1, 0], 0.5, 1),  # the default is as good
        ([0.4, 0.1], [1, 0], 0.25, 1),  # halfway
        ([0.4, 0.1], [1, 1], 0.1, 1),  # nothing below: the lowest score
        ([0.4, 0.4, 0.1], [1, 0, 0], 0.25, 2 / 3),  # equal scores stay together
        ([0.4, 0.3, 0.2, 0.1], [1, 0, 0, 1], 0.35, 2 / 3),  # a tie: the higher
        ([0.4, 0.1], [0, 0], 0.5, 0),  # no positives
        ([0.4], [1], 0.4, 1),
        ([0.3, np.nextafter(0.3, 0)], [1, 0], 0.3, 1),  # no room between
    ],
)
def test_ties_by_hand(scores, gold, threshold, f1):
    tuned = tune(scores, gold)
    assert (tuned.threshold, tuned.score) == (pytest.approx(threshold, rel=1e-15), f1)


def test_float32_scores_are_not_rounded_across_the_threshold():
    upper = np.float32(0.3)
    lower = np.nextafter(upper, np.float32(0))
    scores = np.array([upper, lower], np.float32)
    tuned = tune(scores, [1, 0])
    assert float(lower) < tuned.threshold < float(upper)
