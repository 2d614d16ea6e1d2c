"""Scores and the statistics of their examples are of the same metric, or it is said."""

import dataclasses
import json
from typing import ClassVar

import numpy as np
import pytest
from sklearn import metrics

from dicejax import train
from dicejax.config import Experiment, ScratchEncoder, Training
from dicejax.data.examples import LabelledText, MultiLabelText
from dicejax.data.synthetic import SyntheticNER
from dicejax.errors import InputError
from dicejax.metrics.scores import Scores, are_of_texts
from dicejax.tasks import Classification, MultiLabelClassification, Prediction, Tagging
from dicejax.tasks.scoring import count, score, total
from dicejax.tasks.task import mean_statistics

RNG = np.random.default_rng(3)
CLASSES = ("no", "yes")
GOLD = np.where(RNG.random(400) < 0.15, "yes", "no")
GUESSES = np.where(RNG.random(400) < 0.25, RNG.choice(CLASSES, 400), GOLD)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Balanced(Classification):
    """Two classes by the mean of their recalls, as anybody would add a metric."""

    metrics: ClassVar[tuple[str, ...]] = (*Classification.metrics, "balanced_accuracy")

    primary_metric: str = "balanced_accuracy"

    def score(self, examples, predictions, labels):
        """Add balanced accuracy to the scores."""
        scores = super().score(examples, predictions, labels)
        mean = np.mean([row["recall"] for row in scores.groups.values()])
        values = {"balanced_accuracy": float(mean), **scores.values}
        return dataclasses.replace(scores, values=values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Right(Balanced):
    """The same with its statistics: right texts and all texts of each class."""

    def example_statistics(self, examples, predictions, labels):
        """Return hits and texts of each class."""
        shares = np.zeros((len(examples), len(labels), 2))
        for row, example, guess in zip(shares, examples, predictions, strict=True):
            row[labels.index(example.label)] = example.label in guess.values, 1
        return shares


def texts():
    examples = [LabelledText("a", None, x, str(n), n) for n, x in enumerate(GOLD)]
    even = dict.fromkeys(CLASSES, 0.5)
    return examples, [Prediction((guess,), even) for guess in GUESSES]


def test_a_metric_without_its_statistics_is_an_error_with_both_numbers():
    balanced = metrics.balanced_accuracy_score(GOLD, GUESSES)
    # Of one text alone the other class has a recall of 0.
    mean = metrics.accuracy_score(GOLD, GUESSES) / 2
    message = rf"balanced_accuracy is {balanced:.4f}, .* is {mean:.4f}: return those of"
    with pytest.raises(InputError, match=f"^task Balanced: {message}"):
        score(Balanced(), *texts(), CLASSES)


def test_a_metric_with_its_statistics_is_scored_and_tested_alike():
    scores, shares = score(Right(), *texts(), CLASSES)
    balanced = metrics.balanced_accuracy_score(GOLD, GUESSES)
    assert scores.values["balanced_accuracy"] == pytest.approx(balanced, abs=1e-12)
    assert total(shares) == pytest.approx(balanced, abs=1e-12)


@pytest.mark.parametrize("off", [1e-6, float("nan")])
def test_statistics_that_differ_by_little_or_are_no_number_are_seen(off):
    class Wrong(Classification):
        def example_statistics(self, examples, predictions, labels):
            return super().example_statistics(examples, predictions, labels) * [
                1 + off,
                1,
            ]

    with pytest.raises(InputError, match="task Wrong: accuracy is"):
        score(Wrong(primary_metric="accuracy"), *texts(), CLASSES)


def test_what_is_no_sum_over_examples_is_scored_alone():
    scores, shares = score(Classification(primary_metric="matthews"), *texts(), CLASSES)
    expected = metrics.matthews_corrcoef(GOLD, GUESSES)
    assert scores.values["matthews"] == pytest.approx(expected) and shares is None


@pytest.mark.parametrize("metric", ["micro_f1", "macro_f1", "lrap", "f1:b"])
def test_statistics_of_labels_are_those_of_the_metric(metric):
    names = ("a", "b", "c")
    gold, guesses = RNG.random((2, 300, 3)) < [0.1, 0.3, 0.5]
    examples, predictions = [], []
    for number, (right, guess) in enumerate(zip(gold, guesses, strict=True)):
        labels = tuple(np.array(names)[right])
        examples.append(MultiLabelText("a", None, labels, str(number), number))
        chances = dict(zip(names, RNG.random(3).tolist(), strict=True))
        predictions.append(Prediction(tuple(np.array(names)[guess]), chances))
    task = MultiLabelClassification(primary_metric=metric)
    scores, shares = score(task, examples, predictions, names)
    average = {"micro_f1": "micro", "macro_f1": "macro"}.get(metric)
    if average is not None:
        expected = metrics.f1_score(gold, guesses, average=average)
        assert total(shares) == pytest.approx(expected, abs=1e-12)
    assert total(shares) == pytest.approx(scores.values[metric], abs=1e-12)


def test_training_stops_at_the_first_evaluation_of_a_wrong_metric(tmp_path):
    class Halved(Tagging):
        def example_statistics(self, examples, predictions, labels=()):
            return mean_statistics([0.5] * len(examples))

    experiment = Experiment(
        name="wrong",
        data=SyntheticNER(train=8, dev=8, test=8),
        task=Halved(),
        encoder=ScratchEncoder(
            vocab_size=60,
            hidden_size=8,
            intermediate_size=8,
            num_attention_heads=2,
            num_hidden_layers=1,
        ),
        training=Training(epochs=1, batch_size=8, max_length=32),
    )
    with pytest.raises(InputError, match=r"^task Halved: f1 is 0.*, is 0\.5000: "):
        train(experiment, tmp_path / "run")
    assert not (tmp_path / "run" / "result.json").exists()


def test_a_task_that_defines_what_tasks_no_longer_have_is_told_what_they_have():
    with pytest.raises(
        InputError, match=r"^task Old defines loss_weights, .* define targets$"
    ):

        class Old(Tagging):
            @property
            def loss_weights(self):
                return {}


def test_counts_are_of_the_named_classes_or_of_all():
    examples, predictions = texts()
    pairs = list(zip(examples, predictions, strict=True))
    counts = [count(Classification(), *pair, ["yes"]) for pair in pairs]
    assert sum(n.true_positives for n in counts) == sum(
        (GOLD == GUESSES)[GOLD == "yes"]
    )
    assert sum(n.predicted for n in counts) == sum(GUESSES == "yes")
    assert sum(n.gold for n in counts) == sum(GOLD == "yes")
    counts = [count(Classification(), *pair) for pair in pairs]
    assert sum(n.true_positives for n in counts) == sum(GOLD == GUESSES)


def test_a_score_of_words_does_not_make_them_texts():
    """Matthews' correlation is a score, not what tells one kind from another."""
    groups = {name: {"f1": 0.5, "support": 3} for name in "abc"}
    words = Scores({"f1": 0.5, "matthews": 0.25}, groups)
    assert words.name("f1") == "F1"
    content = json.loads(json.dumps(words.to_json()))
    assert not are_of_texts(content) and Scores.from_json(content) == words
    of_texts = dataclasses.replace(words, of_texts=True)
    assert of_texts.name("f1") == "macro F1" and "of_texts" not in of_texts.to_json()
    assert Scores.from_json(of_texts.to_json()) == of_texts
    other = Scores({"f1": 0.5}, groups, of_texts=True)
    assert Scores.from_json(other.to_json()) == other
