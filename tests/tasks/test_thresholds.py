"""Thresholds of tasks: no better one than the tuned, and those that keep a promise."""

import dataclasses
import math

import numpy as np
import pytest

from dicejax.data.examples import (
    AnswerSpan,
    LabelledText,
    MultiLabelText,
    ReadingExample,
    Sentence,
    Span,
)
from dicejax.errors import InputError
from dicejax.metrics.bounds import Observation
from dicejax.metrics.guarantees import Constraint, guarantee_of
from dicejax.tasks import (
    Classification,
    MachineReading,
    MultiLabelClassification,
    QuestionAnswering,
    Tagging,
)
from dicejax.tasks.answers import Candidate, RankedAnswers

from .perfect import guaranteed, observed_on, require_kept


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


def two_classes(count, rng):
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
    "classes": (
        Classification(tune_threshold=True),
        two_classes,
        np.arange(52) / 51 - 0.01,
    ),
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
    assert tuned.score == pytest.approx(max(map(f1, grid)), abs=1e-12)
    assert f1(tuned.threshold) == pytest.approx(tuned.score, abs=1e-12)
    assert f1(None) == pytest.approx(tuned.default_score, abs=1e-12)
    assert tuned.positives == positives
    if name == "refusal":
        assert (tuned.default_threshold, tuned.examples) == (0.0, count)
        default = scores(None)
        assert default.values["f1_at_own_best_threshold"] <= tuned.score + 1e-9
        assert default.groups["answerable"]["support"] == positives


def texts(gold):
    labels = ["spam" if positive else "fine" for positive in gold]
    return [LabelledText("a", None, y, str(n), n) for n, y in enumerate(labels)]


def draw(count, seed=0, prior=0.3):
    """Return gold and probabilities."""
    rng = np.random.default_rng(seed)
    gold = rng.random(count) < prior
    return gold, 1 / (1 + np.exp(2 - 4 * gold - 1.5 * rng.normal(size=count)))


@pytest.mark.parametrize("text", ["recall:0.9", "fpr:0.1", "precision:0.7"])
@pytest.mark.parametrize("epochs", [1, 3])
def test_two_classes_have_the_threshold_of_the_constraint(text, epochs):
    task = Classification(threshold=text, threshold_delta=0.2)
    gold, chances = draw(900)
    candidates = [{"fine": 1 - p, "spam": p} for p in chances]
    labels = ("fine", "spam")
    require_kept(task, texts(gold), labels, epochs)
    chosen = guaranteed(task, texts(gold), candidates, labels, epochs)
    constraint = Constraint.parse(text, 0.2 / epochs)
    assert chosen.threshold == constraint.choose(chances, gold)
    assert chosen.constraint == Constraint.parse(text, 0.2)
    assert chosen.checkpoints == epochs and not chosen.unattained
    # On other examples it is what the scores of the decisions are.
    gold, chances = draw(500, seed=1)
    candidates = [{"fine": 1 - p, "spam": p} for p in chances]
    (observed,) = observed_on(task, chosen, texts(gold), candidates, labels).values()
    decided = [task.decide(each, chosen.threshold) for each in candidates]
    scores = task.score(texts(gold), decided, labels).values
    if constraint.measure in scores:
        assert observed.value == pytest.approx(scores[constraint.measure])
    else:
        accepted = np.array([guess.values[0] == "spam" for guess in decided])
        assert observed[:2] == ((accepted & ~gold).sum(), (~gold).sum())


def test_labels_hold_together_and_those_that_cannot_keep_the_default():
    task = MultiLabelClassification(threshold="precision:0.9")
    rng, labels = np.random.default_rng(2), ("clear", "noise")
    gold = rng.random((800, 2)) < 0.5
    clear = 1 / (1 + np.exp(3 - 6 * gold[:, 0] - rng.normal(size=800)))
    chances = np.stack([clear, rng.random(800)], axis=1)
    examples = [
        MultiLabelText("a", None, tuple(np.array(labels)[row]), str(n), n)
        for n, row in enumerate(gold)
    ]
    candidates = [dict(zip(labels, row, strict=True)) for row in chances.tolist()]
    chosen = guaranteed(task, examples, candidates, labels, 2)
    stricter = Constraint("precision", 0.9, 0.1 / 4)  # two labels, two checkpoints
    assert chosen.threshold == {"clear": stricter.choose(chances[:, 0], gold[:, 0])}
    (warning,) = chosen.warnings
    assert "0.9 of 'noise' cannot be promised: at best " in warning
    assert "accepted on dev are right; the default threshold 0.5 decides" in warning
    decided = [task.decide(each, chosen.threshold) for each in candidates]
    assert [("noise" in guess.values) for guess in decided] == [
        each["noise"] >= 0.5 for each in candidates
    ]
    assert set(observed_on(task, chosen, examples, candidates, labels)) == {"clear"}
    alone = Classification(threshold="precision:0.9")
    pairs = [{"fine": 1 - p, "spam": p} for p in chances[:, 1].tolist()]
    lost = guaranteed(alone, texts(gold[:, 1]), pairs, ("fine", "spam"), 1)
    assert lost.threshold is None and str(lost) == lost.warnings[0]
    assert observed_on(alone, lost, texts(gold[:, 1]), pairs, ("fine", "spam")) == {}
    record = {name: getattr(lost, name) for name in lost.__dataclass_fields__}
    assert guarantee_of(record) == lost


@pytest.mark.parametrize("nested", [False, True])
def test_an_example_is_complete_from_the_lowest_score_of_its_spans(nested):
    task = MachineReading(queries=QUERIES, threshold="complete:0.7", nested=nested)
    examples, candidates = [], []
    for number in range(20):  # 1 of 20 has a lost span, 4 have none
        spans = (Span("LOC", 0, 1), Span("LOC", 2, 3))
        gold = spans if number < 16 else ()
        examples.append(Sentence(("x",) * 4, gold, number))
        scored = [(spans[0], 0.9), (spans[1], 0.4 + number / 50)]
        scored = scored[: 1 if number == 0 else 2]
        scored.append((Span("LOC", 3, 4), 0.1 + number / 40))
        candidates.append(scored)
    chosen = guaranteed(task, examples, candidates, (), 1)
    lowest = [-math.inf, *(0.4 + n / 50 for n in range(1, 16))]
    # Of 16 the 3 worst may be lost: P(Binomial(16, 0.3) >= 3) = 0.9006.
    limit = sorted(lowest)[2]
    below = max(s for each in candidates for _, s in each if s < limit)
    assert chosen.threshold == pytest.approx((limit + below) / 2)
    decided = [task.decide(each, chosen.threshold).values for each in candidates]
    complete = [
        set(x.spans) <= set(spans)
        for x, spans in zip(examples, decided, strict=True)
        if x.spans
    ]
    assert sum(complete) == 14
    observed = observed_on(task, chosen, examples, candidates, ())
    assert observed == {"": Observation(14, 16)}
    text = chosen.compare(observed)
    assert text == "complete examples on test 0.875 (0.617 to 0.984); promised 0.7"
    with pytest.raises(InputError, match="6 examples with spans on dev, and it takes"):
        require_kept(task, examples[10:], (), 1)


def by_type(count):
    """Return sentences of documents of two, and candidates of two types with scores."""
    rng, examples, candidates = np.random.default_rng(8), [], []
    for number in range(count):
        person, place = Span("PER", 0, 1), Span("LOC", 2, 3)
        wrong = Span("LOC", 0, 1)  # overlaps with the person
        gold = (person, place) if number % 3 else (place,)
        document = str(number // 2)
        examples.append(Sentence(("x",) * 4, gold, number, document=document))
        scores = rng.random(3) / 2
        scored = [(person, 0.5 + scores[0]), (place, 0.4 + scores[1])]
        scored = scored[number == 0 :]  # the first person is never proposed
        candidates.append([*scored, (wrong, scores[2])])
    return examples, candidates


QUERIES_OF_TWO = (("LOC", "where"), ("PER", "who"))


@pytest.mark.parametrize(("measure", "bound"), [("recall", 0.7), ("precision", 0.5)])
def test_types_of_spans_have_a_threshold_each(measure, bound):
    examples, candidates = by_type(240)
    text = f"{measure}:{bound}"
    task = MachineReading(queries=QUERIES_OF_TWO, threshold=text)
    chosen = guaranteed(task, examples, candidates, (), 1)
    assert set(chosen.threshold) == {"LOC", "PER"} and not chosen.unattained
    decided = [task.decide(each, chosen.threshold).values for each in candidates]
    observed = observed_on(task, chosen, examples, candidates, ())
    for kind, limit in chosen.threshold.items():
        shares = []
        for number in range(0, len(examples), 2):
            pairs = list(zip(examples, decided, strict=True))[number : number + 2]
            gold = [{s for s in x.spans if s.type == kind} for x, _ in pairs]
            spans = [{s for s in y if s.type == kind} for _, y in pairs]
            right = sum(len(x & y) for x, y in zip(gold, spans, strict=True))
            if total := sum(map(len, gold if measure == "recall" else spans)):
                shares.append(right / total)
        assert observed[kind].value == pytest.approx(np.mean(shares))
        assert observed[kind].units == "documents" and observed[kind].value > bound
        # Alone, a type has all of delta, and so no stricter a threshold for recall.
        alone = MachineReading(queries=QUERIES_OF_TWO, threshold=f"{text}:{kind}")
        single = guaranteed(alone, examples, candidates, (), 1)
        assert set(single.threshold) == {kind} and single.label == kind
        sign = 1 if measure == "recall" else -1
        assert sign * single.threshold[kind] >= sign * limit
        spans = [alone.decide(x, single.threshold).values for x in candidates]
        other = [s for x in spans for s in x if s.type != kind]
        default = [s for x in candidates for s in alone.decide(x).values]
        assert other == [span for span in default if span.type != kind]
    if measure == "recall":
        assert Constraint.parse(text).required == 7
        with pytest.raises(InputError, match="'LOC', the rarest of 2: 2 documents wi"):
            require_kept(task, examples[:4], (), 1)
    task = MachineReading(queries=QUERIES_OF_TWO, threshold=f"{text}:ORG")
    with pytest.raises(InputError, match="no label 'ORG'; take 'LOC', 'PER'"):
        require_kept(task, examples, (), 1)


def test_documents_are_the_units_of_texts_and_of_complete_examples():
    gold, chances = draw(600)
    examples = [
        dataclasses.replace(example, document=str(number // 3))
        for number, example in enumerate(texts(gold))
    ]
    candidates = [{"fine": 1 - p, "spam": p} for p in chances]
    task = Classification(threshold="fpr:0.1")
    chosen = guaranteed(task, examples, candidates, ("fine", "spam"), 1)
    units = np.arange(600) // 3
    constraint = Constraint("fpr", 0.1)
    assert chosen.threshold == constraint.choose(chances, gold, units)
    assert chosen.threshold != constraint.choose(chances, gold)
    (observed,) = observed_on(
        task, chosen, examples, candidates, ("fine", "spam")
    ).values()
    accepted = (chances >= chosen.threshold).reshape(-1, 3)
    negative = ~gold.reshape(-1, 3)
    some = negative.any(axis=1)
    shares = (accepted & negative).sum(axis=1)[some] / negative.sum(axis=1)[some]
    assert observed.value == pytest.approx(shares.mean())
    assert observed[1:] == (some.sum(), "documents")
    examples, candidates = by_type(240)
    task = MachineReading(queries=QUERIES_OF_TWO, threshold="complete:0.7")
    chosen = guaranteed(task, examples, candidates, (), 1)
    decided = [task.decide(each, chosen.threshold).values for each in candidates]
    complete = [
        all(set(examples[n].spans) <= set(decided[n]) for n in (place, place + 1))
        for place in range(0, 240, 2)
    ]
    observed = observed_on(task, chosen, examples, candidates, ())
    assert observed == {"": Observation(sum(complete), 120)}


@pytest.mark.parametrize("text", ["fpr:0.2", "recall:0.8"])
@pytest.mark.parametrize("per_context", [1, 2])
def test_questions_are_answered_as_often_as_promised(text, per_context):
    examples, candidates, _ = questions(300, np.random.default_rng(4))
    examples = [
        dataclasses.replace(x, context=f"{x.context} {n // per_context}")
        for n, x in enumerate(examples)
    ]
    task = QuestionAnswering(unanswerable=True, threshold=text)
    require_kept(task, examples, (), 1)
    chosen = guaranteed(task, examples, candidates, (), 1)
    answered = np.array(
        [bool(task.decide(each, chosen.threshold).spans) for each in candidates]
    )
    gold = np.array([not example.impossible for example in examples])
    among = gold if text.startswith("recall") else ~gold
    (observed,) = observed_on(task, chosen, examples, candidates, ()).values()
    if per_context == 1:
        assert observed == Observation((answered & among).sum(), among.sum())
        refusal = np.array([each.no_answer for each in candidates])
        limit = Constraint.parse(text).choose(-refusal, gold)
        assert chosen.threshold == -limit
    else:
        rows = zip(answered.reshape(-1, 2), among.reshape(-1, 2), strict=True)
        shares = [row[mask].mean() for row, mask in rows if mask.any()]
        assert observed.value == pytest.approx(np.mean(shares))
        assert observed[1:] == (len(shares), "contexts")
    assert observed.value < 0.2 if text.startswith("fpr") else observed.value > 0.8


def test_what_dev_cannot_promise_is_refused_with_what_it_takes():
    task = Classification(threshold="recall:0.95")
    examples = texts([True] * 41 + [False] * 300)
    with pytest.raises(InputError) as error:
        require_kept(task, examples, ("fine", "spam"), 1)
    assert str(error.value) == (
        "task.threshold: recall at least 0.95 cannot be promised: 41 positives on dev, "
        "and it takes 45 (delta 0.1); take more dev data, another bound or a larger "
        "--task.threshold_delta"
    )
    with pytest.raises(InputError, match=r"it takes 67 \(delta 0.1, the best of 3 ep"):
        require_kept(task, examples, ("fine", "spam"), 3)
    require_kept(task, texts([True] * 45), ("fine", "spam"), 1)
    several = MultiLabelClassification(threshold="recall:0.95")
    rows = [("a",)] * 90 + [("b",)] * 9
    labelled = [MultiLabelText("x", None, y, str(n), n) for n, y in enumerate(rows)]
    message = r"promised for label 'b': 9 positives on dev, and it takes 59 \(delta "
    with pytest.raises(InputError, match=message):
        require_kept(several, labelled, ("a", "b"), 1)
    require_kept(Classification(), [], ("fine", "spam"), 1)  # promises nothing


RECALL = {"threshold": "recall:0.9"}


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Classification, {"threshold": "f1:0.9"}, "'f1' is not a measure"),
        (Classification, {"threshold": "complete:0.9"}, "tion cannot promise"),
        (Classification, {**RECALL, "tune_threshold": True}, "exclude each other"),
        (MultiLabelClassification, {**RECALL, "tune_thresholds": True}, "exclude each"),
        (MachineReading, {"threshold": "fpr:0.1", "queries": QUERIES}, "promise fpr; "),
        (QuestionAnswering, RECALL, "threshold recall:0.9 is for unanswerable"),
    ],
)
def test_settings_that_contradict_are_refused(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(**settings)


def test_tasks_without_a_threshold_promise_nothing():
    for task in (Tagging(), QuestionAnswering()):
        assert task.threshold_rule is None
        for decide in (task.judge, task.tune):
            with pytest.raises(ValueError, match="decides nothing by a threshold"):
                decide([], (), ())
    with pytest.raises(ValueError, match="has no constraint"):
        guaranteed(Classification(), [], [], ("a", "b"), 1)
