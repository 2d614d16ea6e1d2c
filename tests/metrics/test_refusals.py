"""Metrics refuse what does not fit, in one line."""

import functools
import math

import numpy as np
import pytest

from dicejax.metrics import calibration, classification, quoref, segmentation, spans
from dicejax.metrics.multi_label import label_ranking_average_precision
from dicejax.metrics.multi_label import scores as multi_label_scores
from dicejax.metrics.ranking import average_precision, average_precision_per_class
from dicejax.metrics.squad import score_v1, score_v2
from dicejax.metrics.thresholds import tune, tune_per_label, tune_spans

confusion, reliability = classification.confusion, calibration.reliability
ONE, UNANSWERABLE = confusion([0], [0], 2), {"q1": [], "q2": []}
BLANK = dict.fromkeys(UNANSWERABLE, "")


@pytest.mark.parametrize(
    ("message", "function", "arguments"),
    [
        ("is not a probability", reliability, ([1.5], [1])),
        ("is not a probability", reliability, ([-0.1], [1])),
        ("is not a probability", reliability, ([math.nan], [1])),
        (r"shape \(1,\) and correct \(2,\)", reliability, ([0.5], [1, 0])),
        ("correct holds", reliability, ([0.5], [2])),
        ("bins is 0; it must be", functools.partial(reliability, bins=0), ([0], [1])),
        (r"gold has shape \(2,\), predicted \(1,\)", confusion, ([0, 1], [0], 2)),
        ("gold holds -100; classes go from 0 to", confusion, ([0, -100], [0, 1], 2)),
        ("predicted holds 2; classes go from 0 to 1", confusion, ([0, 1], [0, 2], 2)),
        ("predicted has dtype float64, not i", confusion, ([0, 1], [0.2, 0.8], 2)),
        ("are not all among 2", classification.scores, (ONE, [0, 2])),
        ("of 2 and of 3 classes do not add", ONE.__add__, (confusion([0], [0], 3),)),
        (r"gold has shape \(2, 2\) and p", multi_label_scores, (np.eye(2), np.eye(3))),
        ("gold holds 2, which is neither", multi_label_scores, ([[2]], [[1]])),
        ("scores hold NaN", label_ranking_average_precision, ([[1]], [[math.nan]])),
        (r"gold has shape \(1,\) and scores", average_precision, ([1], [1, 2])),
        ("scores hold NaN", average_precision, ([1, 0], [1, math.nan])),
        ("gold holds -100, which is neither", average_precision, ([1, -100], [1, 2])),
        (r"scores \(2,\), not both", average_precision_per_class, ([[1, 1]], [1, 2])),
        ("no scores to choose a threshold from", tune, ([], [])),
        ("scores hold NaN", tune, ([math.nan], [1])),
        ("gold holds -100", tune, ([0.5], [-100])),
        (r"scores have shape \(1,\), gold \(2,\)", tune, ([0.5], [1, 0])),
        ("2 candidates are correct but gold is 1", tune_spans, ([0.5, 0.6], [1, 1], 1)),
        (r"shape \(1,\), gold \(2,\)", tune_spans, ([0.5], [True, True], 2)),
        ("argument 2 is longer", tune_per_label, (np.eye(3), np.eye(3), ["a", "b"])),
        ("question 'q' has no gold span", quoref.score, ({"q": []}, {"q": ["x"]})),
        ("'q' has no gold answer: is this SQuAD v2", score_v1, ({"q": []}, {"q": ""})),
        ("1 of 2 questions have no pred.*'q2'", score_v2, (UNANSWERABLE, {"q1": ""})),
        ("2 of 2 questions have no no-answer", score_v2, (UNANSWERABLE, BLANK, {})),
        (
            "a no-answer score is NaN",
            score_v2,
            (UNANSWERABLE, BLANK, dict.fromkeys(BLANK, math.nan)),
        ),
        ("gold has 1 sentences but pred.* 2", spans.count, ([[]], [[], []])),
        (
            "gold has 1 sentences but predicted has 2",
            segmentation.score,
            ([["O"]], [["O"], ["O"]], "BIO"),
        ),
        (
            "sentence 1 has 2 predicted tags but 1 gold",
            spans.decode_tags,
            ([["O"], ["O"]], [["O"], ["O", "O"]], "BIO"),
        ),
        *(
            ("does not belong to BIO", spans.decode_tags, ([["O"]], [[tag]], "BIO"))
            for tag in ("X-PER", "E-PER", "o", "")
        ),
    ],
)
def test_what_does_not_fit_is_refused(message, function, arguments):
    with pytest.raises(ValueError, match=message):
        function(*arguments)
