"""No threshold is better than the tuned one, in any task that tunes one."""

import numpy as np
import pytest

from dicejax.data.examples import (
    AnswerSpan,
    LabelledText,
    ReadingExample,
    Sentence,
    Span,
)
from dicejax.tasks import Classification, MachineReading, QuestionAnswering
from dicejax.tasks.answers import Candidate, RankedAnswers


def questions(count, rng):
    """Draw questions, half without an answer, and scores with ties."""
    examples, candidates = [], []
    for number in range(count):
        impossible = bool(rng.integers(2))
        answers = () if impossible else ((AnswerSpan(0, "big cat"),),)
        text = "big cat sat there"
        examples.append(ReadingExample(str(number), "?", text, answers, impossible))
        guess = ["big cat", "big", "sat there"][rng.integers(3)]
        start = text.index(guess)
        best = Candidate(guess, start, start + len(guess), -1.0)
        score = float(rng.integers(-6, 7)) / 2 + impossible
        candidates.append(RankedAnswers((best,), score))
    return examples, candidates, sum(not e.impossible for e in examples)


def texts(count, rng):
    """Draw labels of two classes, and chances of the second one with ties."""
    gold = [str(rng.integers(2)) for _ in range(count)]
    chances = [(int(rng.integers(40)) + 9 * int(label)) / 51 for label in gold]
    examples = [LabelledText("a", None, y, str(n), n) for n, y in enumerate(gold)]
    return examples, [{"0": 1 - p, "1": p} for p in chances], gold.count("1")


def sentences(count, rng):
    """Draw candidates that may overlap, some of them right."""
    examples, candidates = [], []
    for number in range(count):
        scores = {}
        for kind, start, size, score in rng.integers(
            0, (2, 7, 4, 20), (rng.poisson(5), 4)
        ):
            span = Span(("ORG", "LOC")[kind], int(start), int(start + size + 1))
            scores[span] = (int(score) + 1) / 20
        gold = {span for span in scores or {Span("ORG", 0, 1)} if rng.integers(2)}
        examples.append(Sentence(("x",) * 11, tuple(gold), number))
        candidates.append(list(scores.items()))
    return examples, candidates, sum(len(sentence.spans) for sentence in examples)


QUERIES = (("LOC", "where"), ("ORG", "who"))
CASES = {
    "refusal": (
        QuestionAnswering(unanswerable=True, tune_threshold=True),
        questions,
        np.arange(-5, 6, 0.25),
    ),
    "classes": (Classification(tune_threshold=True), texts, np.arange(52) / 51 - 0.01),
    "flat": (MachineReading(queries=QUERIES), sentences, np.arange(1, 22) / 20),
    "nested": (
        MachineReading(queries=QUERIES, nested=True),
        sentences,
        np.arange(1, 22) / 20,
    ),
}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", CASES)
def test_no_threshold_is_better_than_the_tuned_one(name, seed):
    (task, draw, grid), labels = CASES[name], ("0", "1")
    count = [1, 2, 30][seed % 3]
    examples, candidates, positives = draw(count, np.random.default_rng(seed))

    def scores(threshold):
        decided = [task.decide(example, threshold) for example in candidates]
        return task.score(examples, decided, labels)

    def f1(threshold):
        return scores(threshold).values["f1"]

    tuned = task.tune(examples, candidates, labels)
    assert tuned.f1 == pytest.approx(max(map(f1, grid)), abs=1e-12)
    assert f1(tuned.threshold) == pytest.approx(tuned.f1, abs=1e-12)
    assert f1(None) == pytest.approx(tuned.default_f1, abs=1e-12)
    assert tuned.positives == positives
    if name == "refusal":
        assert (tuned.default_threshold, tuned.examples) == (0.0, count)
        default = scores(None)
        assert default.values["f1_at_own_best_threshold"] <= tuned.f1 + 1e-9
        assert default.groups["answerable"]["support"] == positives
