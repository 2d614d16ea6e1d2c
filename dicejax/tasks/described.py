"""Examples as a text and its gold answer, and vs. their predictions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from dicejax.data.examples import (
    LabelledText,
    MultiLabelText,
    ReadingExample,
    Sentence,
    TaggedWords,
    labels_of,
)
from dicejax.data.source import text_of
from dicejax.errors import InputError, truncate
from dicejax.tasks.answers import gold_texts
from dicejax.tasks.task import Examples, Labels, Prediction, Task

LONGEST = 240


def text_and_gold(example: Any) -> tuple[str, str]:
    """Return an example's text and its gold answer.

    >>> from dicejax.data.tags import Span
    >>> text_and_gold(Sentence(("Ada", "met", "Bo"), (Span("PER", 0, 1),), 1))
    ('Ada met Bo', 'PER: Ada')
    >>> text_and_gold(Sentence(("No", "one"), (), 1))
    ('No one', '-')
    """
    text = ""
    if isinstance(example, Sentence | TaggedWords):
        text = _joined(example.prompt, " ".join(example.words))
    elif isinstance(example, LabelledText | MultiLabelText | ReadingExample):
        text = _joined(*text_of(example))
    return truncate(text, LONGEST), _in_words(example, _gold_values(example))


def predicted_text(example: Any, prediction: Any) -> str:
    """Return a prediction in the words that `text_and_gold` has for gold.

    >>> from dicejax.data.tags import Span
    >>> sentence = Sentence(("Ada", "met", "Bo"), (), 1)
    >>> predicted_text(sentence, Prediction((Span("PER", 2, 3),)))
    'PER: Bo'
    """
    name = "texts" if isinstance(example, ReadingExample) else "values"
    return _in_words(example, getattr(prediction, name, ()))


def beside_gold(task: Task, example: Any, prediction: Any) -> dict[str, Any]:
    """Return the input, gold and prediction of an example, its place first."""
    predicted, gold = task.show(example, prediction)[0], _gold(task, example)
    place = "id" if isinstance(example, ReadingExample) else "line"
    row: dict[str, Any] = {place: getattr(example, place)}
    shared = {"id", "question", "texts", "prompt"}
    # "words" alone are words that the task predicts.
    shared |= {"words"} if predicted.keys() - shared != {"words"} else set()
    row |= {name: value for name, value in predicted.items() if name in shared}
    for name, record in (("gold", gold), ("predicted", predicted)):
        row[name] = {k: v for k, v in record.items() if k not in shared}
    return row


def errors_of(
    task: Task, examples: Examples, predictions: Sequence[Any], labels: Labels
) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors of each example, and the probability of its class, `[N]`.

    Errors are false positives and negatives, of answers 1 - F1. The probability is 0
    where examples have no class.
    """
    try:
        shares = task.example_statistics(examples, predictions, labels)
    except InputError:  # the metric is no sum over examples
        changes: Any = {"primary_metric": "accuracy"}
        accuracy = dataclasses.replace(task, **changes)
        shares = accuracy.example_statistics(examples, predictions, labels)
    right, total = np.moveaxis(np.asarray(shares).sum(axis=1), -1, 0)
    chances = np.zeros(len(examples))
    for place, (example, prediction) in enumerate(
        zip(examples, predictions, strict=True)
    ):
        if isinstance(example, LabelledText):
            chances[place] = prediction.probabilities.get(example.label, 0.0)
    return total - right, chances


def _joined(*texts: str | None) -> str:
    return " | ".join(filter(None, texts))


def _gold_values(example: Any) -> Sequence[Any]:
    if isinstance(example, Sentence):
        return example.spans
    is_question = isinstance(example, ReadingExample)
    return gold_texts(example) if is_question else labels_of(example)


def _in_words(example: Any, values: Sequence[Any]) -> str:
    """Return spans, labels or answers as one text, "-" for none."""
    match example:
        case Sentence(words=words):
            pairs = ((s.type, " ".join(words[s.start : s.end])) for s in values)
            text = "; ".join(map(": ".join, pairs))
        case TaggedWords():
            text = " ".join(label or "-" for label in values)
        case LabelledText() | MultiLabelText():
            text = ", ".join(values)
        case ReadingExample():
            text = "; ".join(dict.fromkeys(values))
        case _:
            text = ""
    return truncate(text, LONGEST) or "-"


def _gold(task: Task, example: Any) -> dict[str, Any]:
    values = _gold_values(example)
    match example:
        case Sentence() | TaggedWords():
            return task.show(example, Prediction(values))[0]
        case LabelledText():
            return {"label": example.label}
        case MultiLabelText():
            return {"labels": list(values)}
        case ReadingExample():
            return {"answers": list(dict.fromkeys(values))}
    return {}
