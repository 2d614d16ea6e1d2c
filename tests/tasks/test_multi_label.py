"""Texts with any number of labels: targets, decisions, scores."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import metrics

from dicejax.data.examples import MultiLabelText
from dicejax.data.pack import fill
from dicejax.errors import InputError
from dicejax.metrics import score_counts
from dicejax.metrics.multi_label import label_ranking_average_precision
from dicejax.metrics.multi_label import scores as score
from dicejax.metrics.thresholds import tune_per_label
from dicejax.tasks import MultiLabelClassification
from dicejax.tasks.multi_label import HEAD
from dicejax.tasks.task import IGNORED

from ..data import made
from .perfect import remarks_of

TASK = MultiLabelClassification()


def texts(*sets, second=None):
    return [MultiLabelText("a b", second, x, str(i), i) for i, x in enumerate(sets)]


def drawn(names, count, seed=0):
    """Return examples whose labels are drawn, some without any."""
    random = np.random.default_rng(seed)
    chosen = random.random((count, len(names))) < 0.35
    return texts(*(tuple(np.array(names)[row].tolist()) for row in chosen))


def random_candidates(examples, labels, seed=1):
    random = np.random.default_rng(seed)
    chances = random.random((len(examples), len(labels)))
    return [dict(zip(labels, row.tolist(), strict=True)) for row in chances]


def held(sets, names):
    return np.array([[name in labels for name in names] for labels in sets])


# All labels of train are in the split; "rare" is not; "new" is not in train.
@pytest.mark.parametrize(
    ("train", "split"),
    [("abc", "abc"), (["a", "b", "rare"], "ab"), ("ab", ["a", "b", "new"]), ("a", "a")],
)
def test_scores_are_over_the_labels_of_train_and_of_the_split(train, split):
    labels, examples = tuple(train), drawn(list(split), 90)
    assert any(example.labels == () for example in examples)
    candidates = random_candidates(examples, labels)
    decided = [TASK.decide(x) for x in candidates]
    names = [*labels, *sorted(set(split) - set(labels))]
    gold = held((example.labels for example in examples), names)
    chances = np.array([[x.get(name, 0.0) for name in names] for x in candidates])
    guesses = chances >= 0.5
    assert (held((x.values for x in decided), names) == guesses).all()
    scores, expected = TASK.score(examples, decided, labels), score(gold, guesses)
    areas = [
        metrics.average_precision_score(gold[:, n], chances[:, n])
        for n in range(len(names))
        if gold[:, n].any()
    ]
    assert scores.values == {
        "micro_f1": expected.micro.f1,
        "micro_precision": expected.micro.precision,
        "micro_recall": expected.micro.recall,
        "macro_f1": expected.macro.f1,
        "macro_average_precision": pytest.approx(np.mean(areas), abs=1e-12),
        "lrap": label_ranking_average_precision(gold, chances).mean(),
        "subset_accuracy": expected.subset_accuracy,
    }
    assert list(scores.groups) == names
    assert [row["f1"] for row in scores.groups.values()] == [
        row.f1 for row in expected.per_label
    ]


def test_the_split_of_no_labels_at_all_has_scores():
    decided = [TASK.decide({"a": 0.1}), TASK.decide({"a": 0.9})]
    scores = TASK.score(texts((), ()), decided, ("a",)).values
    assert scores["micro_f1"] == scores["macro_average_precision"] == 0.0
    assert scores["lrap"] == 1.0 and scores["subset_accuracy"] == 0.5


def test_labels_are_those_of_train_and_gold_must_be_known():
    assert TASK.label_names(texts(("b", "a"), (), ("c",))) == ("a", "b", "c")
    with pytest.raises(InputError, match="no text of train has a label"):
        TASK.label_names(texts((), ()))
    with pytest.raises(InputError, match="1 of 2 examples of train have no label"):
        TASK.label_names(texts(("a",), None))
    with pytest.raises(InputError, match="examples of test have no label"):
        TASK.score(texts(None), [TASK.decide({"a": 0.2})], ("a",))


def test_targets_are_rows_of_0_and_1_also_where_rows_are_empty(tmp_path):
    tokenizer = made.read("wordpiece", tmp_path, words=False)
    examples, labels = texts(("b",), (), ("b", "new"), None), ("a", "b", "c")
    items = TASK.encode(examples, tokenizer, labels, 20)
    expected = [[0, 1, 0], [0, 0, 0], [0, 1, 0], [IGNORED] * 3]
    assert [item.arrays[HEAD].tolist() for item in items] == expected
    assert TASK.class_counts(items, labels)[HEAD].tolist() == [[3, 0], [1, 2], [3, 0]]
    (remark,) = remarks_of(TASK, "dev", examples[:3], items[:3], labels)
    assert remark.startswith("dev has 1 example of label 'new', which train lacks")
    layout = TASK.layout(tokenizer)
    rows = [[items[0].arrays, items[1].arrays], [items[2].arrays], []]
    batch = fill(rows, 40, layout)
    padding = [IGNORED] * 3
    assert batch[HEAD].tolist() == [
        expected[:2],
        [expected[2], padding],
        [padding, padding],
    ]
    # Of a process without rows too: all have one shape.
    alone = fill([[], []], 40, layout, sequences=2, like=items[0].arrays)
    assert alone[HEAD].tolist() == [[padding] * 2] * 2
    logits = jnp.zeros(batch[HEAD].shape)
    counts = score_counts.count_scores(logits, batch[HEAD], kind="multi_label")
    assert counts.sum((1, 2)).tolist() == [3, 3, 3]


def test_probabilities_are_sigmoids_and_each_label_has_its_threshold():
    logits = jnp.array([[[1.0, -2.0]]])
    chances = TASK.reduce_logits({HEAD: logits}, {}).sequences[HEAD]
    np.testing.assert_allclose(chances[0, 0], 1 / (1 + np.exp([-1.0, 2.0])), rtol=1e-6)
    candidates = {"a": 0.5, "b": 0.3, "c": 0.2}
    assert TASK.decide(candidates).values == ("a",)
    assert TASK.decide(candidates, {"a": 0.6, "b": 0.3, "c": 0.5}).values == ("b",)
    assert TASK.decide(candidates, {"a": 0.6, "b": 0.4}).values == ()


def test_tuned_thresholds_are_those_of_each_label_and_raise_the_score():
    task = MultiLabelClassification(tune_thresholds=True, primary_metric="macro_f1")
    examples, labels = drawn(["a", "b"], 50), ("a", "absent", "b")
    candidates = random_candidates(examples, labels)
    tuned = task.tune(examples, candidates, labels)
    assert task.threshold_rule.tunes and tuned.threshold["absent"] == 0.5
    before, after = (
        task.score(
            examples, [task.decide(each, limits) for each in candidates], labels
        ).values["macro_f1"]
        for limits in (None, tuned.threshold)
    )
    assert (before, after) == pytest.approx((tuned.default_score, tuned.score))
    assert after > before
    chances = [[chances_of[name] for name in labels] for chances_of in candidates]
    gold = held((chances_of.labels for chances_of in examples), labels)
    assert tuned == tune_per_label(chances, gold, labels)


def test_prediction_reads_one_text_or_two_and_shows_each_probability():
    pair = TASK.parse("one\ttwo", 2)
    assert (pair.first, pair.second, pair.labels) == ("one", "two", None)
    record, lines = TASK.show(pair, TASK.decide({"a": 0.75, "b": 0.25, "c": 0.5}))
    assert record == {
        "texts": ["one", "two"],
        "labels": ["a", "c"],
        "probabilities": {"a": 0.75, "b": 0.25, "c": 0.5},
    }
    assert lines == ["one", "two", "  a  (0.750), c  (0.500)"]
    alone = TASK.parse("one", 1)
    assert alone.second is None
    assert TASK.show(alone, TASK.decide({"a": 0.1}))[1] == ["one", "  -"]
