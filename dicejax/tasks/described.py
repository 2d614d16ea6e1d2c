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
)
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
    text, gold = "", ""
    match example:
        case Sentence(words=words, spans=spans):
            text = _joined(example.prompt, " ".join(words))
            pairs = ((s.type, " ".join(words[s.start : s.end])) for s in spans)
            gold = "; ".join(map(": ".join, pairs))
        case TaggedWords():
            text = _joined(example.prompt, " ".join(example.words))
            gold = " ".join(example.labels)
        case LabelledText() | MultiLabelText():
            text = _joined(example.first, example.second)
            names = (
                [example.label] if isinstance(example, LabelledText) else example.labels
            )
            gold = ", ".join(filter(None, names or ()))
        case ReadingExample():
            text = f"{example.question} | {example.context}"
            gold = "; ".join(dict.fromkeys(gold_texts(example)))
    return truncate(text, LONGEST), truncate(gold, LONGEST) or "-"


def predicted_text(example: Any, prediction: Any) -> str:
    """Return a prediction in the words that `text_and_gold` has for gold.

    >>> from dicejax.data.tags import Span
    >>> sentence = Sentence(("Ada", "met", "Bo"), (), 1)
    >>> predicted_text(sentence, Prediction((Span("PER", 2, 3),)))
    'PER: Bo'
    """
    match example:
        case Sentence():
            spans = tuple(prediction.values)
            return text_and_gold(dataclasses.replace(example, spans=spans))[1]
        case TaggedWords():
            text = " ".join(label or "-" for label in prediction.values)
        case LabelledText() | MultiLabelText():
            text = ", ".join(prediction.values)
        case ReadingExample():
            text = "; ".join(dict.fromkeys(prediction.texts))
        case _:
            text = ""
    return truncate(text, LONGEST) or "-"


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


def _gold(task: Task, example: Any) -> dict[str, Any]:
    match example:
        case Sentence():
            return task.show(example, Prediction(example.spans))[0]
        case TaggedWords():
            return task.show(example, Prediction(example.labels))[0]
        case LabelledText():
            return {"label": example.label}
        case MultiLabelText():
            return {"labels": list(example.labels or ())}
        case ReadingExample():
            return {"answers": list(dict.fromkeys(gold_texts(example)))}
    return {}
