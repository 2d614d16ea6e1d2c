"""The rare class is positive, whatever it is called, and one class may be the metric.

Scores are compared with scikit-learn's, with its `pos_label` or `labels`.
"""

import dataclasses
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import metrics

from dicejax import config
from dicejax.data.examples import (
    LabelledText,
    MultiLabelText,
    Sentence,
    Span,
    TaggedWords,
)
from dicejax.data.resample import DownSampling, UnitCounts
from dicejax.errors import InputError
from dicejax.metrics.score_counts import count_scores
from dicejax.metrics.scores import Scores, class_of, heading, rarest_of
from dicejax.objectives import PairwiseAUC
from dicejax.study.compare.baselines import threshold_shifts
from dicejax.tasks import (
    Classification,
    JointTagging,
    MachineReading,
    MultiLabelClassification,
    Tagging,
    TwoPointerNER,
    WordTagging,
)
from dicejax.tasks.classification import HEAD, choice_of
from dicejax.tasks.priors import log_priors
from dicejax.tasks.scoring import require_metric
from dicejax.tasks.task import Prediction

from ..kinds import exhaustive_but
from .perfect import remarks_of
from .test_described import agree

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
PAIRS = [
    *[("complaint", "ok"), ("spam", "ham"), ("1", "0"), ("-1", "1")],
    *[("yes", "no"), ("B", "A"), ("abuse", "none")],
]
BOTH = [*PAIRS, *(pair[::-1] for pair in PAIRS)]


def texts(labels, second=None):
    return [LabelledText("a", second, x, str(n), n) for n, x in enumerate(labels)]


def drawn(rare, frequent, size=420, seed=0):
    """Return labels at 1 : 20, and probabilities of the rare one that know a little."""
    random = np.random.default_rng(seed)
    labels = np.where(np.arange(size) % 21 == 0, rare, frequent)
    return labels, 1 / (1 + np.exp(3 - 4 * (labels == rare) - random.normal(size=size)))


@pytest.mark.parametrize("second", [None, "b"])
@pytest.mark.parametrize("pair", exhaustive_but(PAIRS[:3], BOTH), ids=str)
def test_scores_are_those_of_the_rare_class(pair, second):
    """F1, ranking, threshold and promise are of the rare class, as scikit-learn's."""
    (rare, frequent), task = pair, Classification(tune_threshold=True)
    gold, chances = drawn(rare, frequent)
    examples = texts(gold.tolist(), second)
    labels = task.label_names(examples)
    assert labels == (frequent, rare)
    candidates = [{frequent: 1 - p, rare: p} for p in chances.tolist()]
    tuned = task.tune(examples, candidates, labels)
    for limit in (None, tuned.threshold):
        decided = [task.decide(each, limit) for each in candidates]
        scores = task.score(examples, decided, labels)
        guesses = np.array([each.values[0] for each in decided])
        columns = gold, guesses
        of_rare = {"pos_label": rare, "zero_division": 0}
        for name, expected in {
            "f1": metrics.f1_score(*columns, **of_rare),
            "precision": metrics.precision_score(*columns, **of_rare),
            "recall": metrics.recall_score(*columns, **of_rare),
            "average_precision": metrics.average_precision_score(gold == rare, chances),
        }.items():
            assert scores.values[name] == pytest.approx(expected, abs=1e-12)
        assert scores.positive == rare and scores.name("f1") == f"F1 of {rare!r}"
        agree(task, examples, decided, labels)
    best = max(
        metrics.f1_score(gold == rare, chances >= limit) for limit in np.unique(chances)
    )
    assert scores.values["f1"] == pytest.approx(best)
    promise = Classification(threshold="recall:0.5")
    (judged,) = promise.judge(examples, labels, candidates).items()
    assert judged[0] == rare and sum(judged[1].gold) == 20


@pytest.mark.parametrize(("rare", "frequent"), [("complaint", "ok"), ("spam", "ham")])
def test_losses_sampling_priors_and_moves_have_the_rare_class_as_positive(
    rare, frequent
):
    task = Classification()
    gold, chances = drawn(rare, frequent)
    labels = task.label_names(texts(gold.tolist()))
    targets = task.targets(labels)
    assert targets[HEAD].has_negative and targets[HEAD].classes == (frequent, rare)
    places = np.array([labels.index(name) for name in gold])
    # A hinge over pairs of probabilities 0 and 1 is 0, 1 and 2 for pairs in order, tied
    # and in the wrong order: twice one minus the AUC.
    logits = np.where(chances >= 0.3, 30.0, -30.0)
    loss = PairwiseAUC(surrogate="hinge", margin=1.0, scores="probability")
    loss = loss.bind(targets)
    pairs = jnp.stack([-logits / 2, logits / 2], axis=-1)
    value = loss.loss(pairs[None], jnp.asarray(places)[None])
    area = metrics.roc_auc_score(gold == rare, logits)
    assert float(value) / 2 == pytest.approx(1 - area, abs=1e-5)
    units = np.eye(2, dtype=int)[places]
    epoch = DownSampling(ratio=1.0).epoch(UnitCounts(units), 0, 0)
    kept = np.bincount(places[epoch.indices])
    assert kept.tolist() == [20, 20]
    counts = {HEAD: np.bincount(places)}
    assert np.argmin(log_priors(targets, counts)[HEAD]) == 1
    shifts = threshold_shifts(targets, counts)
    assert all(shift[HEAD][1] == 0 for shift in shifts.values())
    histogram = count_scores(pairs, jnp.asarray(places), kind="classes")
    assert histogram.sum(axis=-1)[1].tolist() == [400, 20]


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        (("yes", "zero"), "yes"),
        (("1", "2"), "1"),
        (("TRUE", "unsure"), "TRUE"),
        (("b", "a"), "b"),
        (("1", "yes"), "yes"),
    ],
)
def test_equal_counts_are_decided_by_name_and_that_is_said(labels, positive):
    task, examples = Classification(), texts(labels)
    names = task.label_names(examples)
    assert names[-1] == positive
    (remark,) = remarks_of(task, "train", examples, [], names)
    assert "by its name, as the two of train are equally frequent" in remark
    assert remark.endswith(f"--task.positive {names[0]} takes the other")


def test_what_may_not_be_meant_is_said_and_nothing_else():
    def remarks(task, rare, frequent):
        examples = texts([rare] + 9 * [frequent])
        names = task.label_names(examples)
        return remarks_of(task, "train", examples, [], names)

    assert remarks(Classification(), "spam", "ham") == []
    (changed,) = remarks(Classification(), "complaint", "ok")
    assert changed == (
        "'complaint' is the positive class, the rarer one of train (1 of 10); earlier "
        "versions took the last by name; --task.positive ok takes the other"
    )
    (said,) = remarks(Classification(), "zero", "yes")
    assert "against the name 'yes'; --task.positive yes" in said
    assert remarks(Classification(positive="complaint"), "complaint", "ok") == []
    (frequent,) = remarks(Classification(positive="ok"), "complaint", "ok")
    assert frequent.startswith("the positive class 'ok' is 90% of train")
    assert frequent.endswith("--task.positive complaint takes the rarer one")
    assert choice_of({"1": 9, "0": 1}).endswith("(1 of 10), against the name '1'")


def test_a_label_without_a_text_of_its_own_is_the_rarer_one():
    soft = LabelledText("a", None, "b", "0", 0, probabilities=(("a", 0.4), ("b", 0.6)))
    assert Classification().label_names([soft]) == ("b", "a")


@pytest.mark.parametrize(
    "settings",
    [
        {"positive": "ok"},
        {"primary_metric": "f1:ok"},
        {"threshold": "recall:0.9:ok"},
        {"primary_metric": "f1:ok", "positive": "ok"},
    ],
)
def test_a_class_that_is_named_anywhere_is_positive(settings):
    examples = texts(["complaint"] + 9 * ["ok"])
    task = Classification(**settings)
    assert task.label_names(examples) == ("complaint", "ok")
    assert task.with_labels(("complaint", "ok")) == task
    assert Classification().with_labels(("complaint", "ok")).positive == "ok"
    assert Classification().with_labels(("a", "b", "c")) == Classification()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"positive": "a", "primary_metric": "f1:b"}, "'a' and primary_metric names"),
        ({"primary_metric": "f1:c"}, "primary_metric is 'c', but the classes are"),
        ({"threshold": "recall:0.9:c"}, "threshold is 'c', but the classes are"),
    ],
)
def test_classes_that_contradict_or_are_none_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Classification(**settings).label_names(texts("aab"))


def test_an_unseen_class_leaves_f1_that_of_the_positive_one():
    task = Classification()
    labels = task.label_names(texts("aaab"))
    examples = texts("aabbc")
    decided = [task.decide({"a": 1 - p, "b": p}) for p in (0.2, 0.8, 0.9, 0.1, 0.7)]
    agree(task, examples, decided, labels)
    guesses = [each.values[0] for each in decided]
    expected = metrics.f1_score(list("aabbc"), guesses, labels=["b"], average="macro")
    scores = task.score(examples, decided, labels)
    assert scores.values["f1"] == pytest.approx(expected)


# One class as the metric


RNG = np.random.default_rng(0)
NAMES = {"first": "abc", "middle": "bac", "last": "cab"}  # the rare one first


def rare_labels(where, size=210):
    """Return labels, 1 in 21 of them rare, and guesses, of which 3 in 4 are right."""
    rare, *rest = NAMES[where]
    gold = np.where(np.arange(size) % 21 == 0, rare, RNG.choice(rest, size))
    wrong = RNG.choice(list("abc"), size)
    return rare, gold, np.where(RNG.random(size) < 0.75, gold, wrong)


def checked(task, examples, predictions, labels, gold, guesses):
    """Compare with scikit-learn, and the sum of the example statistics."""
    agree(task, examples, predictions, labels)
    name = class_of(task.primary_metric)
    scores = task.score(examples, predictions, labels)
    expected = metrics.f1_score(gold, guesses, labels=[name], average="macro")
    assert next(iter(scores.values)) == task.primary_metric
    assert scores.values[task.primary_metric] == pytest.approx(expected, abs=1e-12)
    assert scores.name(task.primary_metric) == f"F1 of {name!r}"
    assert rarest_of(scores.to_json()) != name
    assert Scores.from_json(scores.to_json()) == scores
    require_metric(task, examples)
    with pytest.raises(InputError, match=r"f1:none: train has no 'none'; take one of "):
        require_metric(dataclasses.replace(task, primary_metric="f1:none"), examples)
    with pytest.raises(ValueError, match=r"or f1:NAME for the F1 of one "):
        dataclasses.replace(task, primary_metric="f0")


@pytest.mark.parametrize("where", NAMES)
def test_f1_of_one_class_of_three(where):
    rare, gold, guesses = rare_labels(where)
    examples = texts(gold.tolist())
    decided = [Prediction((x,), dict.fromkeys("abc", 1 / 3)) for x in guesses.tolist()]
    task = Classification(primary_metric=f"f1:{rare}")
    assert task.label_names(examples) == ("a", "b", "c")
    checked(task, examples, decided, ("a", "b", "c"), gold, guesses)
    assert rarest_of(Classification().score(examples, decided, "abc").to_json()) == rare
    for settings in ({"threshold": f"recall:0.9:{rare}"}, {"tune_threshold": True}):
        with pytest.raises(InputError, match=r"name the class that counts with --task"):
            Classification(**settings).label_names(examples)


@pytest.mark.parametrize("where", NAMES)
def test_f1_of_one_of_several_labels(where):
    rare, gold, guesses = rare_labels(where)
    examples = [
        MultiLabelText("a", None, (x,), str(n), n) for n, x in enumerate(gold.tolist())
    ]
    decided = [Prediction((x,), dict.fromkeys("abc", 0.5)) for x in guesses.tolist()]
    task = MultiLabelClassification(primary_metric=f"f1:{rare}")
    checked(task, examples, decided, tuple("abc"), gold, guesses)


@pytest.mark.parametrize("where", NAMES)
def test_f1_of_one_label_of_words(where):
    rare, gold, guesses = rare_labels(where)
    rows = np.split(np.stack([gold, guesses], axis=1), 30)
    examples = [
        TaggedWords(("w",) * len(row), tuple(row[:, 0].tolist()), n)
        for n, row in enumerate(rows)
    ]
    decided = [Prediction(row[:, 1].tolist()) for row in rows]
    task = WordTagging(primary_metric=f"f1:{rare}")
    checked(task, examples, decided, task.label_names(examples), gold, guesses)


@pytest.mark.parametrize("where", NAMES)
@pytest.mark.parametrize("kind", [Tagging, TwoPointerNER, JointTagging, MachineReading])
def test_f1_of_one_type_of_spans(kind, where):
    rare, gold, guesses = rare_labels(where)
    examples = [
        Sentence(("w", "x"), (Span(x, 0, 1), Span("d", 1, 2)), n)
        for n, x in enumerate(gold.tolist())
    ]
    decided = [Prediction((Span(x, 0, 1),)) for x in guesses.tolist()]
    more = {}
    if kind is MachineReading:
        more["queries"] = tuple((x, "which") for x in "abcd")
    task = kind(primary_metric=f"f1:{rare}", **more)
    labels = task.label_names(examples)
    checked(task, examples, decided, labels, gold, guesses)


def test_the_threshold_of_spans_is_that_of_the_type():
    task = MachineReading(queries=(("a", "which"), ("b", "which")))
    examples = [Sentence(("w", "x"), (Span("b", 1, 2),), n) for n in range(4)]
    # Of "a" all are wrong, of "b" those from 0.3 on are right.
    rows = [[(Span("a", 0, 1), 0.9), (Span("b", 1, 2), 0.3 + n / 10)] for n in range(4)]
    of_b = dataclasses.replace(task, primary_metric="f1:b")
    tuned = of_b.tune(examples, rows, ("a", "b"))
    assert tuned.threshold <= 0.3 and tuned.score == 1.0
    assert task.tune(examples, rows, ("a", "b")).score < 1.0


def test_scores_of_every_kind_name_their_class():
    assert heading("f1:a b") == "F1 of 'a b'"
    assert Scores({"f1": 0.5}, positive="x").to_json()["positive"] == "x"
    rows = {"a": {"f1": 0.5, "recall": 0.5, "support": 5}}
    assert rarest_of({"per_type": rows}) is None  # it is all
    rows["b"] = {"f1": 0.5, "recall": 0.5, "support": 4}
    assert rarest_of({"per_type": rows}) == "a"


# Data of the paper


@pytest.mark.parametrize(
    "file",
    [
        "paraphrase/mrpc.py",
        "paraphrase/qqp.py",
        "ablations/qqp_imbalance.py",
        "ablations/sst2.py",
    ],
)
def test_published_data_keep_their_positive_class(file):
    """The last by name, as before, whichever is rarer: also of thinned data."""
    task = config.load(EXPERIMENTS / file).task
    for zeros, ones in ((1, 3), (3, 1), (2, 2)):
        assert task.label_names(texts("0" * zeros + "1" * ones)) == ("0", "1")
