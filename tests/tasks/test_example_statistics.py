"""Per-example statistics sum up to the primary metric that the task reports."""

import numpy as np
import pytest

from dicejax.data.examples import (
    LabelledText,
    MultiLabelText,
    Sentence,
    Span,
    TaggedWords,
)
from dicejax.errors import InputError
from dicejax.tasks import (
    Classification,
    MultiLabelClassification,
    Prediction,
    QuestionAnswering,
    Tagging,
    WordTagging,
)
from dicejax.tasks.tagging import NONE, JointTagging

from .perfect import answered
from .test_question_answering import question

RNG = np.random.default_rng(0)


def of_shares(shares):
    """Compute the definition in loops."""
    assert shares.ndim == 3 and shares.shape[-1] == 2
    quotients = []
    for column in range(shares.shape[1]):
        above = sum(row[column][0] for row in shares)
        below = sum(row[column][1] for row in shares)
        quotients.append(above / below if below else 0.0)
    return sum(quotients) / len(quotients)


def agree(task, examples, predictions, labels=()):
    scores = task.score(examples, predictions, labels)
    shares = task.example_statistics(examples, predictions, labels)
    assert len(shares) == len(examples)
    primary_metric = scores.values[task.primary_metric]
    assert 0.05 < primary_metric < 0.95
    assert of_shares(shares) == pytest.approx(primary_metric, abs=1e-12)


def random_spans():
    starts = RNG.choice(4, size=RNG.integers(0, 4), replace=False)
    return tuple(Span(str(RNG.choice(["A", "B"])), int(s), int(s) + 1) for s in starts)


def test_spans():
    words = ("a", "b", "c", "d")
    sentences = [Sentence(words, random_spans(), n) for n in range(60)]
    agree(Tagging(), sentences, [Prediction(random_spans()) for _ in sentences])


def test_labels_of_words():
    names = ["N", "V", "X"]
    examples = [
        TaggedWords(("a", "b"), tuple(map(str, RNG.choice(names, 2))), n)
        for n in range(50)
    ]
    predictions = [Prediction(RNG.choice([*names, NONE], 2).tolist()) for _ in examples]
    agree(WordTagging(), examples, predictions, names)


def test_words_of_characters():
    def cut():
        if RNG.random() < 0.5:
            return (Span("N", 0, 2), Span("V", 2, 4))
        return (Span("N", 0, 2), Span("N", 2, 3), Span("V", 3, 4))

    sentences = [Sentence(("我", "们", "去", "了"), cut(), n) for n in range(40)]
    agree(JointTagging(), sentences, [Prediction(cut()) for _ in sentences])


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("primary_metric", ["f1", "accuracy"])
def test_classes(classes, primary_metric):
    names = [str(n) for n in range(classes)]
    examples = [
        LabelledText("a", None, str(RNG.choice(names)), str(n), n) for n in range(80)
    ]
    decided = [
        Prediction((str(RNG.choice(names)),), dict.fromkeys(names, 1 / classes))
        for _ in examples
    ]
    task = Classification(primary_metric=primary_metric)
    agree(task, examples, decided, names)
    with pytest.raises(InputError, match="primary_metric f1 or accuracy"):
        Classification(primary_metric="matthews").example_statistics(
            examples, decided, names
        )


@pytest.mark.parametrize("primary_metric", ["micro_f1", "macro_f1", "lrap"])
def test_several_labels(primary_metric):
    names = ["a", "b", "c", "absent"]
    task = MultiLabelClassification(primary_metric=primary_metric)
    examples, decided = [], []
    for number in range(60):
        labels = tuple(name for name in (*"abc", "new") if RNG.random() < 0.4)
        examples.append(MultiLabelText("a", None, labels, str(number), number))
        chances = dict(zip(names, RNG.random(4).tolist(), strict=True))
        decided.append(task.decide(chances))
    agree(task, examples, decided, names)


@pytest.mark.parametrize("unanswerable", [False, True])
def test_answers(unanswerable):
    task = QuestionAnswering(unanswerable=unanswerable)
    examples, answers = [], []
    for number in range(30):
        gold = [["in London"]] if number % 3 or not unanswerable else []
        named = {"id_": str(number), "impossible": not gold}
        examples.append(question("He was in London , he said", *gold, **named))
        text = str(RNG.choice(["London", "in London", "he said"]))
        answers.append(answered(*[text] * (number % 2), best=text))
    agree(task, examples, answers)
