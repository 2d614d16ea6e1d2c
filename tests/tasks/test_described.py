"""Gold beside predictions, the hardest example first."""

import dataclasses
import math

import pytest

from dicejax.data.examples import (
    LabelledText,
    ReadingExample,
    Sentence,
    Span,
    TaggedWords,
)
from dicejax.errors import InputError
from dicejax.tasks import (
    Classification,
    JointTagging,
    Prediction,
    QuestionAnswering,
    Tagging,
    WordTagging,
)
from dicejax.tasks.answers import Answer, Candidate
from dicejax.tasks.described import beside_gold

from .test_question_answering import question


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
