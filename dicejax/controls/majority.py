"""The most frequent class, and entities of train found again by look-up."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from dicejax.controls.model import Arrays, ControlModel, Settings, targets_of
from dicejax.data.examples import Sentence, Span
from dicejax.tasks import Tagging, Task
from dicejax.tasks.priors import log_priors
from dicejax.tasks.tagging import TokenTask

SURE = 8.0
"""Logit of a tag that was looked up, beside 0 of the others."""

Phrase = tuple[str, ...]


class Majority(ControlModel):
    """The most frequent class of train for every text.

    Labels of a text that may have several hold where most of the texts have them. Of
    words each has its most frequent label of train, and a word that train lacks the
    most frequent of all. Entities are the longest that train has, with the type that
    they have there; those of several types, and phrases that train more often has
    without, are none.

    Source: the baseline of the shared task of CoNLL-2003 (Tjong Kim Sang and De
    Meulder, section 3.4).
    """

    name = "majority"

    def __init__(
        self,
        task: Task,
        labels: Sequence[str],
        bias: np.ndarray,
        table: Mapping[Phrase, str],
    ):
        self._task, self._labels = task, tuple(labels)
        self._bias, self._table = bias.astype(np.float32), dict(table)
        self._longest = max(map(len, self._table), default=0)

    @classmethod
    def fit(cls, task: Task, examples: Sequence[Any], labels: Sequence[str]) -> Self:
        """Count the classes, words or entities of train."""
        golds = np.concatenate(
            [np.atleast_1d(x) for x in targets_of(task, examples, labels)]
        )
        ((name, target),) = task.targets(labels).items()
        if target.kind == "multi_label":
            rows = golds.reshape(-1, len(labels))
            counts = np.stack([(rows == n).sum(0) for n in (0, 1)], axis=-1)
        else:
            counts = np.bincount(golds[golds >= 0], minlength=len(labels))
        bias = log_priors({name: target}, {name: counts})[name]
        table: dict[Phrase, str] = {}
        if isinstance(task, Tagging):
            table = _entities(examples)
        elif isinstance(task, TokenTask):
            seen: dict[Phrase, Counter[str]] = defaultdict(Counter)
            for example in examples:
                classes = task.word_classes(example)
                for word, label in zip(example.words, classes, strict=True):
                    seen[word,][label] += 1
            table = {word: _most(count) for word, count in seen.items()}
        return cls(task, labels, bias, table)

    def logits(self, examples: Sequence[Any]) -> list[np.ndarray]:
        """Return the log of the class frequencies, or look up the words."""
        if not isinstance(self._task, TokenTask):
            return [self._bias] * len(examples)
        if isinstance(self._task, Tagging):
            predicted = [
                dataclasses.replace(x, spans=self._spans(x.words)) for x in examples
            ]
            numbers = targets_of(self._task, predicted, self._labels)
        else:
            index = {label: number for number, label in enumerate(self._labels)}
            usual = int(self._bias.argmax())
            numbers = [
                np.array([index.get(self._table.get((w,), ""), usual) for w in x.words])
                for x in examples
            ]
        sure = SURE * np.eye(len(self._labels), dtype=np.float32)
        return [sure[np.maximum(row.astype(int), 0)] for row in numbers]

    def _spans(self, words: Sequence[str]) -> tuple[Span, ...]:
        spans, start = [], 0
        while start < len(words):
            for size in range(min(self._longest, len(words) - start), 0, -1):
                kind = self._table.get(tuple(words[start : start + size]))
                if kind is not None:
                    spans.append(Span(kind, start, start + size))
                    start += size
                    break
            else:
                start += 1
        return tuple(spans)

    def state(self) -> tuple[Settings, Arrays]:
        """Return the table, and the log of the class frequencies."""
        table = [[*phrase, label] for phrase, label in self._table.items()]
        settings = {"name": self.name, "labels": self._labels, "table": table}
        return settings, {"bias": self._bias}

    @classmethod
    def from_state(cls, settings: Settings, arrays: Arrays, task: Task) -> Self:
        """Return the model of a `state`."""
        table = {tuple(row[:-1]): row[-1] for row in settings["table"]}
        return cls(task, settings["labels"], arrays["bias"], table)


def _most(counts: Counter[str]) -> str:
    return min(counts, key=lambda label: (-counts[label], label))


def _entities(examples: Sequence[Sentence]) -> dict[Phrase, str]:
    """Return the phrases that are mostly an entity, of one type alone."""
    types: dict[Phrase, Counter[str]] = defaultdict(Counter)
    for example in examples:
        for span in example.spans:
            types[tuple(example.words[span.start : span.end])][span.type] += 1
    longest = max(map(len, types), default=0)
    seen: Counter[Phrase] = Counter()
    for example in examples:
        words = example.words
        for start in range(len(words)):
            for end in range(start + 1, min(start + longest, len(words)) + 1):
                if (phrase := tuple(words[start:end])) in types:
                    seen[phrase] += 1
    return {
        phrase: next(iter(count))
        for phrase, count in types.items()
        if len(count) == 1 and 2 * count.total() >= seen[phrase]
    }
