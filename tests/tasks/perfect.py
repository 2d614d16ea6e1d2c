"""A sentence and queries, outputs of a perfect network, and what comes back of them."""

from typing import Any, NamedTuple

import numpy as np

from dicejax.data.examples import Sentence, Span
from dicejax.tasks import MachineReading, QuestionAnswering, TwoPointerNER
from dicejax.tasks.answers import Answer, Candidate
from dicejax.tasks.judged import guarantee, observe, require_attainable
from dicejax.tasks.spans import spans_of
from dicejax.tasks.task import IGNORED

TASK = MachineReading(queries=(("LOC-city", "where it is"), ("ORG", "who plays")))
WORDS = ("York", "beats", "New", "York", "in", "York")
SENTENCE = Sentence(
    WORDS,
    (
        Span("ORG", 0, 1),  # one word
        Span("ORG", 2, 4),
        Span("LOC-city", 5, 6),  # the last word, named twice before
    ),
    1,
)


def words_of(item):
    """Return the place of each word's first piece, -1 where it is not decided."""
    return getattr(item.detail, "words", item.detail)


def perfect_output(task, item, example):
    """Return the outputs of a perfect network for one item."""
    gold, size = item.arrays, len(item)
    output = {}
    match task:
        case MachineReading():
            for name in ("start", "end"):
                output[name] = np.where(gold[name] == 1, 9.0, -9.0)
            if task.match:
                output["match"] = np.full((size, size), -9.0, np.float16)
                for span in spans_of(example, item.detail.kind):
                    places = item.detail.words[list(span)]
                    if (places >= 0).all():
                        output["match"][tuple(places)] = 9.0
        case TwoPointerNER():
            for name in ("start", "end"):
                output[name] = np.where(gold[name] == IGNORED, 0, gold[name])
                output[f"{name}_score"] = np.zeros(size, np.float32)
        case QuestionAnswering():
            for name in ("start", "end"):
                output[name] = np.full(size, -12, np.float32)
                if task.form == "sigmoid":
                    output[name][gold[name] == 1] = -1e-5
                elif gold[name] >= 0:
                    output[name][gold[name]] = 0
            if "impossible" in gold:
                output["impossible"] = np.float32(
                    12 if gold["impossible"] == 1 else -12
                )
        case _:
            output["tags"] = np.where(gold["tags"] == IGNORED, 0, gold["tags"])
            output["probability"] = np.ones(size, np.float32)
    return output


def decode_perfectly(task, examples, items, labels=()):
    """Return the candidates of each example, from perfect outputs of its items."""
    groups = [[] for _ in examples]
    for item in items:
        groups[item.example].append(item)
    candidates = []
    for example, group in zip(examples, groups, strict=True):
        outputs = [perfect_output(task, item, example) for item in group]
        candidates.append(task.decode(example, group, outputs, labels))
    return candidates


def answered(*texts, **more):
    """Return a prediction of texts whose places and probabilities do not matter."""
    return Answer(tuple(Candidate(text, 0, len(text), 0.0) for text in texts), **more)


class RoundTrip(NamedTuple):
    scores: dict[str, float]
    remarks: list[str]
    predictions: list[Any]
    items: list[Any]


def round_trip(task, examples, tokenizer, max_length, split="dev"):
    """Encode gold, decode a perfect network, and score."""
    labels = task.label_names(examples)
    items = task.encode(examples, tokenizer, labels, max_length)
    candidates = decode_perfectly(task, examples, items, labels)
    predictions = list(map(task.decide, candidates))
    remarks = list(map(str, remarks_of(task, split, examples, items, labels)))
    scores = task.score(examples, predictions, labels).values
    return RoundTrip(scores, remarks, predictions, items)


def remarks_of(task, split, examples, items, labels=()):
    """Return the remarks on a split that is encoded at once."""
    return task.remarks(split, examples, task.fit(examples, items), labels)


def require_kept(task, examples, labels, checkpoints):
    """Check that the examples are enough for the task's constraint."""
    if (constraint := task.threshold_rule.constraint) is not None:
        require_attainable(constraint, task.judge(examples, labels), checkpoints)


def guaranteed(task, examples, candidates, labels, checkpoints):
    """Return the threshold that keeps the task's constraint."""
    judged = task.judge(examples, labels, candidates)
    return guarantee(task.threshold_rule, judged, checkpoints)


def observed_on(task, chosen, examples, candidates, labels):
    """Return the measure of a threshold on examples."""
    return observe(chosen, task.judge(examples, labels, candidates))
