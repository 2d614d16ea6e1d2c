"""Which gold labels held-out models contradict, the most consistently first."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dicejax.data import tags
from dicejax.data.examples import Sentence, Span
from dicejax.data.source import text_of
from dicejax.study.review.held_out import HeldOut
from dicejax.tasks.described import text_and_gold
from dicejax.tasks.spans import flat_spans
from dicejax.tasks.tagging import Tagging
from dicejax.tasks.texts import TextTask

_LEAST = 1e-9  # a probability below tells no more


@dataclasses.dataclass(frozen=True)
class Doubt:
    """An example whose gold models contradict, or one that was drawn to be checked.

    Attributes:
      number: its number among the examples of `HeldOut`.
      example: the example with its gold.
      key: its split, and its number there from 1.
      rank: its place in the order, from 1.
      label: class that it is listed under: that of gold, or of what gold lacks.
      kinds: what is wrong if the models are right, such as "boundary of PER".
      contradicting: how many models contradict gold where it is contradicted most.
      judges: how many models were held out.
      proposed: the example with what the models say.
      chance: probability of being checked by a person.
      mark: what that person said: "right", "wrong" or "neither".
    """

    number: int
    example: Any
    key: tuple[str, int]
    rank: int
    label: str
    kinds: tuple[str, ...]
    contradicting: int
    judges: int
    proposed: Any
    chance: float = 0.0
    mark: str = ""


def margins(shares: np.ndarray, gold: np.ndarray) -> np.ndarray:
    r"""Return how much likelier gold is than the likeliest other class, `[M, P]`.

    $m = \log p_{gold} - \max_{c \ne gold} \log p_c$ of each model, in nats: below 0
    where it contradicts gold. NaN where it was not held out or gold is unknown.

    >>> shares = np.array([[[0.7, 0.2, 0.1], [0.5, 0.1, 0.4]]])
    >>> margins(shares, np.array([0, 2])).round(2)
    array([[ 1.25, -0.22]])

    Args:
      shares: probabilities of M models, float `[M, P, C]`.
      gold: class of each place, int `[P]`, -1 where it is unknown.
    """
    places = np.arange(len(gold))
    others = np.log(np.maximum(shares, _LEAST, dtype=np.float64))
    of_gold = others[:, places, gold].copy()
    others[:, places, gold] = -np.inf
    margin = of_gold - others.max(-1)
    margin[:, gold < 0] = np.nan
    return margin


def scores_of(
    shares: np.ndarray, gold: np.ndarray, classes: np.ndarray | None = None
) -> np.ndarray:
    r"""Return the score of each place, float `[P]`: the less, the more doubtful.

    $s = \bar m - \bar m_{class} / 2$: the mean margin over the models, less half of
    what is usual for its class, so that neither the classes that models are sure of nor
    the others have all the first places. Infinite where no model judges the place.

    Source: docs/review.md has how it compares with the scores of cleanlab, among them
    those of Northcutt, Jiang and Chuang, "Confident learning", JAIR 70, 2021.

    >>> shares = np.array([[[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]]])
    >>> scores_of(shares, np.array([0, 0, 1])).round(2)
    array([ 1.75, -0.85,  0.42])

    Args:
      shares: see `margins`.
      gold: see `margins`.
      classes: class by which places are alike, int `[P]`; by default gold.
    """
    margin = margins(shares, gold)
    judged = ~np.isnan(margin)
    count = judged.sum(0)
    mean = np.where(judged, margin, 0.0).sum(0) / np.maximum(count, 1)
    places = count > 0
    kinds = (gold if classes is None else classes)[places]
    total, number = (np.bincount(kinds, x) for x in (mean[places], None))
    scores = np.full(len(gold), np.inf)
    usual = total / np.maximum(number, 1)
    scores[places] = mean[places] - usual[kinds] / 2
    return scores


def worst_places(scores: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the place of the least score of each example, int `[N]`.

    >>> worst_places(np.array([0.5, -0.25, 1.0]), np.array([0, 2, 3])).tolist()
    [1, 2]
    """
    pairs = itertools.pairwise(starts)
    return np.array([a + int(np.argmin(scores[a:b])) for a, b in pairs], int)


def doubts(held_out: HeldOut) -> list[Doubt]:
    """Return what models say of examples, by the least score of their places.

    They propose the class with the highest mean probability; where no model judges a
    place, or knows its gold, none contradicts it.
    """
    gold, shares, classes = held_out.gold, held_out.shares, None
    if isinstance(held_out.task, TextTask) and held_out.task.has_several:
        classes = gold + 2 * (np.arange(len(gold)) % len(held_out.labels))
    scores = scores_of(shares, gold, classes)
    worst = worst_places(scores, held_out.starts)
    judged = ~np.isnan(shares).any(-1)  # by model and place
    total = np.nansum(shares, 0, dtype=np.float64)
    consensus = np.where(judged.any(0), total.argmax(-1), gold)
    judged &= gold >= 0
    against = judged & (np.nan_to_num(shares).argmax(-1) != gold)
    made = []
    for rank, number in enumerate(scores[worst].argsort(kind="stable").tolist(), 1):
        start, end = held_out.starts[number : number + 2]
        example, place = held_out.examples[number], int(worst[number])
        proposed, kinds = _proposed(held_out, example, consensus[start:end])
        split, in_split = held_out.splits[number]
        doubt = Doubt(
            number=number,
            example=example,
            key=(split, in_split + 1),
            rank=rank,
            label=_label(held_out, example, place, consensus[place], place - start),
            kinds=kinds,
            contradicting=int(against[:, place].sum()),
            judges=int(judged[:, place].sum()),
            proposed=proposed,
        )
        made.append(doubt)
    return made


def copies(examples: Mapping[str, Sequence[Any]]) -> dict[Any, list[tuple[str, str]]]:
    """Return the gold and the place of each text that occurs with several golds.

    >>> from dicejax.data.examples import LabelledText
    >>> texts = [LabelledText("fine", None, x, x, n) for n, x in enumerate("abb", 1)]
    >>> copies({"train": texts[:2], "test": texts[2:]})
    {('fine', None): [('a', 'train, line 1'), ('b', 'train, line 2'), \
('b', 'test, line 3')]}
    """
    by_text: dict[Any, list[tuple[str, str]]] = {}
    for split, some in examples.items():
        for example in some:
            gold = text_and_gold(example)[1]
            where = f"{split}, line {example.line}"
            by_text.setdefault(text_of(example), []).append((gold, where))
    return {k: x for k, x in by_text.items() if len({gold for gold, _ in x}) > 1}


def _proposed(
    held_out: HeldOut, example: Any, classes: np.ndarray
) -> tuple[Any, tuple[str, ...]]:
    """Return an example as models label it, and in what that differs from gold."""
    task, labels = held_out.task, held_out.labels
    if isinstance(task, TextTask):
        if not task.has_several:
            label = labels[int(classes[0])] if classes[0] >= 0 else example.label
            if label == example.label:
                return example, ()
            changed = dataclasses.replace(example, label=label, probabilities=None)
            return changed, (f"{example.label} instead of {label}",)
        names = [x for x in example.labels if x in labels and classes[labels.index(x)]]
        names += [
            x for x, y in zip(labels, classes, strict=True) if y and x not in names
        ]
        extra = [f"extra {x}" for x in example.labels if x in labels and x not in names]
        missing = [f"missing {x}" for x in names if x not in example.labels]
        changed = dataclasses.replace(example, labels=tuple(names))
        return (changed if extra or missing else example), (*extra, *missing)
    golds = task.word_classes(example)
    names = [
        labels[n] if n >= 0 else gold for n, gold in zip(classes, golds, strict=True)
    ]
    if not isinstance(task, Tagging):
        rows = zip(example.words, example.labels, names, strict=True)
        kinds = [f"{word}: {x} instead of {y}" for word, x, y in rows if x != y]
        return dataclasses.replace(example, labels=tuple(names)), tuple(kinds)
    spans = tags.spans(names, task.scheme)
    flat = flat_spans(example.spans)
    wrong = differences(flat, spans)
    if not wrong:
        return example, ()
    others = [span for span in example.spans if span not in flat]  # no tags have them
    ordered = sorted([*spans, *others], key=lambda span: span[1:])
    return dataclasses.replace(example, spans=tuple(ordered)), wrong


def differences(gold: Sequence[Span], right: Sequence[Span]) -> tuple[str, ...]:
    """Return in what gold entities are wrong if others are right.

    >>> gold = [Span("PER", 0, 1), Span("LOC", 3, 4), Span("ORG", 5, 6)]
    >>> right = [Span("PER", 0, 2), Span("ORG", 3, 4), Span("LOC", 8, 9)]
    >>> for kind in differences(gold, right):
    ...     print(kind)
    boundary of PER
    type LOC instead of ORG
    extra ORG
    missing LOC
    """
    kinds = []
    for span in gold:
        if span in right:
            continue
        over = [x for x in right if x.start < span.end and span.start < x.end]
        if not over:
            kinds.append(f"extra {span.type}")
        elif span.type in {x.type for x in over}:
            kinds.append(f"boundary of {span.type}")
        else:
            is_same = any(x[1:] == span[1:] for x in over)
            both = "" if is_same else "boundary and "
            kinds.append(f"{both}type {span.type} instead of {over[0].type}")
    for span in right:
        if not any(x.start < span.end and span.start < x.end for x in gold):
            kinds.append(f"missing {span.type}")
    return tuple(dict.fromkeys(kinds))


def _label(held_out: HeldOut, example: Any, place: int, right: int, within: int) -> str:
    """Return the class that an example is listed under, by its worst place."""
    labels, gold = held_out.labels, held_out.gold[place]
    if isinstance(held_out.task, TextTask):
        several = held_out.task.has_several
        return labels[within] if several else str(example.label)
    if not isinstance(example, Sentence):
        return str(example.labels[within])
    names = (labels[n].partition("-")[2] for n in (gold, right) if n >= 0)
    return next(filter(None, names), "O")
