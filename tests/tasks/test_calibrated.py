"""A temperature changes the probabilities of predictions, and none of their values."""

import numpy as np
import pytest
from scipy.special import expit, log_softmax, logit, softmax

from dicejax.data.examples import (
    LabelledText,
    MultiLabelText,
    Sentence,
    Span,
    TaggedWords,
)
from dicejax.metrics.calibration import Calibration
from dicejax.tasks import (
    Classification,
    MultiLabelClassification,
    Prediction,
    QuestionAnswering,
    Tagging,
    WordTagging,
)
from dicejax.tasks.calibrated import calibrate, fit, has_probabilities, outcomes


@pytest.mark.parametrize("names", [("bad", "good"), ("a", "b", "c")])
def test_classes_are_those_of_logits_over_the_temperature(names):
    task, rng = Classification(), np.random.default_rng(0)
    logits = rng.normal(scale=3, size=(50, len(names)))
    candidates = [
        dict(zip(names, row, strict=True)) for row in softmax(logits, axis=1).tolist()
    ]
    threshold = 0.2 if len(names) == 2 else None
    decided = [task.decide(each, threshold) for each in candidates]
    for temperature in (0.3, 1.7, 8.0):
        scaled = [calibrate(task, each, temperature) for each in decided]
        shares = np.array([[*x.probabilities.values()] for x in scaled])
        np.testing.assert_allclose(shares, softmax(logits / temperature, 1), rtol=1e-9)
        assert [x.values for x in scaled] == [x.values for x in decided]
    labels = [*rng.choice(names, 49), "new"]
    examples = [
        LabelledText(f"t{n}", None, label, str(n), n) for n, label in enumerate(labels)
    ]
    log_shares, gold = outcomes(task, examples, decided)
    np.testing.assert_allclose(log_shares, log_softmax(logits, axis=1)[:49])
    assert [names[n] for n in gold] == labels[:49]


def test_labels_and_spans_are_right_or_wrong():
    task = MultiLabelClassification()
    chances = {"art": 0.9, "sport": 0.2}
    predictions = [task.decide(chances)]
    examples = [MultiLabelText("t", None, ("art",), "0", 1)]
    log_shares, right = outcomes(task, examples, predictions)
    np.testing.assert_allclose(np.exp(log_shares), [[0.1, 0.9], [0.8, 0.2]])
    assert right.tolist() == [1, 0]
    scaled = calibrate(task, predictions[0], 2.0).probabilities
    expected = expit(logit(np.array([0.9, 0.2])) / 2)
    assert [*scaled.values()] == pytest.approx(expected)

    sentence = Sentence(("Anna", "in", "Oslo"), (Span("PER", 0, 1),), 1)
    spans = [Span("PER", 0, 1), Span("PER", 2, 3)]
    guess = Prediction(spans, [0.9, 0.2], (0.9, 0.99, 0.2))
    log_shares, right = outcomes(Tagging(), [sentence], [guess])
    np.testing.assert_allclose(np.exp(log_shares), [[0.1, 0.9], [0.8, 0.2]])
    assert right.tolist() == [1, 0]
    scaled = calibrate(Tagging(), guess, 2.0)
    assert scaled.probabilities == pytest.approx(expected)
    assert (scaled.values, scaled.word_probabilities) == (spans, (0.9, 0.99, 0.2))

    words = TaggedWords(("a", "b", "c"), ("X", "Y", "Y"), 1)
    guess = Prediction(["X", "X", ""], [0.9, 0.2, None])
    log_shares, right = outcomes(WordTagging(), [words], [guess])
    np.testing.assert_allclose(np.exp(log_shares), [[0.1, 0.9], [0.8, 0.2]])
    assert right.tolist() == [1, 0]
    assert calibrate(WordTagging(), guess, 2.0).probabilities[2] is None


def test_what_is_certain_stays_ordered_and_finite():
    task = MultiLabelClassification()
    chances = {"sure": 1.0, "likely": 0.999, "never": 0.0}
    guess = task.decide(chances)
    scaled = calibrate(task, guess, 3.0).probabilities
    assert 1 > scaled["sure"] > scaled["likely"] > scaled["never"] > 0
    two = calibrate(Classification(), Classification().decide({"n": 0.0, "p": 1.0}), 3)
    assert two.probabilities == {"n": 0.0, "p": 1.0}
    examples = [MultiLabelText("t", None, ("never",), "0", 1)]
    calibration = Calibration.from_outcomes(3.0, *outcomes(task, examples, [guess]))
    assert np.isfinite(calibration.before.log_loss)


def test_a_split_without_errors_has_no_temperature():
    task = Tagging()
    sentence = Sentence(("Anna",), (Span("PER", 0, 1),), 1)
    right = [Prediction([Span("PER", 0, 1)], [0.8], [0.8])]
    assert fit(task, {"dev": ([sentence], right)}) is None
    assert fit(task, {"dev": ([sentence], [Prediction([], [], [0.6])])}) is None
    assert calibrate(task, right[0], None) is right[0]
    wrong = [Prediction([Span("LOC", 0, 1)], [0.8], [0.8])]
    sentences = [sentence] * 4
    splits = {"dev": (sentences, right * 3 + wrong), "test": ([sentence], right)}
    assert "threshold" not in fit(task, splits)
    content = fit(task, splits, {"PER": 0.8, "LOC": 0.5})
    assert content["threshold"] == pytest.approx({"PER": 0.75, "LOC": 0.5}, rel=1e-4)
    assert fit(task, splits, 0.8)["threshold"] == content["threshold"]["PER"]
    assert content["temperature"] == pytest.approx(logit(0.8) / logit(0.75), rel=1e-3)
    assert content["dev"]["after"]["count"] == 4
    assert content["test"]["before"]["log_loss"] == pytest.approx(-np.log(0.8))
    assert not has_probabilities(QuestionAnswering())
