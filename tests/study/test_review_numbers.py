"""Scores of places, kinds of errors and the interval of marks, vs. plain sums."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dicejax.data.examples import Span
from dicejax.study.review import statement
from dicejax.study.review.ranking import differences, scores_of


def test_a_score_is_the_mean_log_margin_less_half_of_its_class():
    draw = np.random.default_rng(0)
    shares = draw.dirichlet([1, 1, 1], (4, 30))
    shares[1, 5:9] = np.nan  # trained on these
    shares[:, 11] = np.nan
    gold = draw.integers(0, 3, 30)
    gold[20] = -1
    means = {}
    for place in range(30):
        margins = []
        for model in range(4):
            p = shares[model, place].tolist()
            if gold[place] >= 0 and not math.isnan(p[0]):
                own = p.pop(gold[place])
                margins.append(math.log(own) - math.log(max(p)))
        if margins:
            means[place] = sum(margins) / len(margins)
    expected = np.full(30, np.inf)
    for place, mean in means.items():
        alike = [x for n, x in means.items() if gold[n] == gold[place]]
        expected[place] = mean - sum(alike) / len(alike) / 2
    np.testing.assert_allclose(scores_of(shares, gold), expected, rtol=1e-12)
    assert np.isinf(expected[[11, 20]]).all()


def test_kinds_of_errors_are_those_of_the_places():
    gold = [Span("PER", 0, 2), Span("LOC", 4, 5)]
    assert differences(gold, gold) == ()
    assert differences(gold, [Span("LOC", 0, 1), gold[1]]) == (
        "boundary and type PER instead of LOC",
    )
    assert differences([], gold) == ("missing PER", "missing LOC")


@pytest.mark.parametrize("size, drawn", [(30, 7), (60, 20), (12, 12)])
def test_the_interval_holds_whatever_share_is_wrong(size, drawn):
    for wrong in range(size + 1):
        total = math.comb(size, drawn)
        inside = 0
        for found in range(drawn + 1):
            ways = math.comb(wrong, found) * math.comb(size - wrong, drawn - found)
            if ways:
                share = statement.drawn_share(size, drawn, found)
                assert share[1] <= share[0] <= share[2]
                held = share[1] - 1e-9 <= wrong / size <= share[2] + 1e-9
                inside += ways * held
        assert Fraction(inside, total) >= Fraction(95, 100), wrong
