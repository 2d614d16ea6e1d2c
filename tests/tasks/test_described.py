"""Gold beside predictions, and statistics that sum up to the primary metric."""

import dataclasses
import math

import numpy as np
import pytest

from dicejax.data.examples import (
    LabelledText,
    MultiLabelText,
    ReadingExample,
    Sentence,
    Span,
    TaggedWords,
)
from dicejax.errors import InputError
from dicejax.tasks import (
    Classification,
    JointTagging,
    MultiLabelClassification,
    Prediction,
    QuestionAnswering,
    Tagging,
    WordTagging,
)
from dicejax.tasks.answers import Answer, Candidate
from dicejax.tasks.compact import compact
from dicejax.tasks.tagging import NONE
from dicejax.training.beside_gold import HardestFirst

from .perfect import answered
from .test_question_answering import question


def beside_gold(task, examples, predictions, labels):
    """Return the rows in order; they are made of parts, and sorted by what is short."""
    rows = HardestFirst(task)
    for pair in zip(examples, predictions, strict=True):
        rows.add(*([x] for x in pair))
    rows.sort(examples, list(map(compact, predictions)), labels)
    assert rows[:1] == [rows[0]] and len(rows) == len(examples)
    return list(rows)


def test_spans_are_sorted_by_false_positives_and_negatives():
    words = ("Anna", "met", "Bo")
    anna, bo = Span("PER", 0, 1), Span("PER", 2, 3)
    examples = [Sentence(words, (anna, bo), line) for line in (1, 5, 9)]
    spans = [(anna, bo), (Span("LOC", 0, 1),), (anna,)]
    predictions = list(map(Prediction, spans))
    rows = beside_gold(Tagging(), examples, predictions, ())
    # One wrong and two missed; one missed; all right.
    assert [(row["line"], row["errors"]) for row in rows] == [(5, 3), (9, 1), (1, 0)]
    assert rows[1] == {
        "line": 9,
        "errors": 1.0,
        "words": list(words),
        "gold": {
            "entities": [
                {"type": "PER", "start": 0, "end": 1, "text": "Anna"},
                {"type": "PER", "start": 2, "end": 3, "text": "Bo"},
            ]
        },
        "predicted": {
            "entities": [{"type": "PER", "start": 0, "end": 1, "text": "Anna"}]
        },
    }


def test_texts_of_as_many_errors_are_sorted_by_the_probability_of_the_gold_class():
    gold = ["a", "a", "b", "b"]
    chances = [0.9, 0.4, 0.3, 0.45]  # of "a"
    examples = [LabelledText("x", None, y, str(n), n) for n, y in enumerate(gold)]
    predictions = [
        Prediction(("a" if p > 0.42 else "b",), {"a": p, "b": 1 - p}) for p in chances
    ]
    for metric in ("f1", "accuracy", "matthews"):
        rows = beside_gold(
            Classification(primary_metric=metric), examples, predictions, ("a", "b")
        )
        assert [row["line"] for row in rows] == [1, 3, 2, 0]
        assert [row["errors"] for row in rows] == [1, 1, 0, 0]
    assert rows[0]["gold"] == {"label": "a"} and rows[0]["texts"] == ["x"]
    assert rows[0]["predicted"]["probabilities"] == {"a": 0.4, "b": 0.6}


def test_each_task_has_gold_in_the_form_of_its_predictions():
    words = TaggedWords(("a", "b"), ("N", "V"), 3)
    (row,) = beside_gold(WordTagging(), [words], [Prediction(["N", "N"])], ("N", "V"))
    assert row["gold"] == {"labels": ["N", "V"]} and row["words"] == ["a", "b"]
    # One N too many, one V missed.
    assert row["predicted"] == {"labels": ["N", "N"]} and row["errors"] == 2
    joint = Sentence(("我", "喜", "欢"), (Span("R", 0, 1), Span("V", 1, 3)), 2)
    (row,) = beside_gold(JointTagging(), [joint], [Prediction([Span("R", 0, 1)])], ())
    assert [word["text"] for word in row["gold"]["words"]] == ["我", "喜欢"]
    assert [word["text"] for word in row["predicted"]["words"]] == ["我"]
    asked = question("Ada slept in Rome.", ["Rome"])
    rome = Answer((Candidate("in Rome", 10, 17, math.log(0.25)),))
    (row,) = beside_gold(QuestionAnswering(), [asked], [rome], ())
    assert row["gold"] == {"answers": ["Rome"]} and row["id"] == "q"
    places = {"start": 10, "end": 17, "probability": 0.25}
    assert row["predicted"] == {"answer": "in Rome", **places}
    assert row["errors"] == 1 - 2 / 3  # F1 of one word in two


def test_lines_are_read_and_answers_shown():
    task = QuestionAnswering(unanswerable=True)
    example = task.parse("Who?\tAda  slept.\n", 3)
    assert example == ReadingExample("3", "Who?", "Ada  slept.", (), False)
    for line in ("Who?", "Who?\t ", "\tAda"):
        with pytest.raises(InputError, match="line 4"):
            task.parse(line, 4)
    ada, slept = Candidate("Ada", 0, 3, math.log(0.5)), Candidate("slept", 5, 10, 1e-9)
    record, lines = task.show(example, Answer((ada,), -2.0, "Ada"))
    asked = {"id": "3", "question": "Who?"}
    ada_place = {"start": 0, "end": 3, "probability": 0.5}
    assert record == {**asked, "answer": "Ada", **ada_place, "no_answer": -2.0}
    assert lines == ["Who?", "  Ada"]
    record, lines = task.show(example, Answer((), 2.0, "Ada"))
    nowhere = dict.fromkeys(("start", "end", "probability"))
    assert record == {**asked, "answer": "", **nowhere, "no_answer": 2.0}
    assert lines == ["Who?", "  no answer"]
    several = QuestionAnswering(several_spans=True)
    record, lines = several.show(example, Answer((ada, slept)))
    assert record == asked | {
        "answers": [
            {"text": "Ada", **ada_place},
            {"text": "slept", "start": 5, "end": 10, "probability": 1.0},
        ]
    }
    assert len(lines) == 3
    words = list(task.texts([example, dataclasses.replace(example, id="4")]))
    assert words == ["Who?", "Who?", "Ada", "slept."]


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
