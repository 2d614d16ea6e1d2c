"""Classes of texts and pairs: nothing lost, a threshold for two classes."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import metrics

from dicejax.data import tokenize
from dicejax.data.examples import LabelledText
from dicejax.errors import InputError
from dicejax.formats import TextFiles
from dicejax.tasks.classification import HEAD, Classification
from dicejax.tasks.task import IGNORED

from ..data import glue, made
from .perfect import remarks_of


def texts(*labels, second=None):
    return [LabelledText("a b", second, x, str(i), i) for i, x in enumerate(labels)]


def scored(task, gold, chances):
    names = task.label_names(texts(*gold))
    decided = [task.decide(dict(zip(names, row, strict=True))) for row in chances]
    return task.score(texts(*gold), decided, names), decided


@pytest.mark.parametrize("classes", ["01", "012"])
def test_classes_are_scored_as_scikit_learn_scores_them(classes):
    """Of two classes the second one is scored, of more the mean."""
    random = np.random.default_rng(0)
    gold = random.choice(list(classes), size=200, p=[0.8, 0.2, 0.0][: len(classes)])
    gold[:2] = list(classes)[-2:]
    chances = random.dirichlet([1] * len(classes), size=200)
    scores, decided = scored(Classification(), gold, chances)
    guesses = np.array([prediction.values[0] for prediction in decided])
    assert guesses.tolist() == [str(row.argmax()) for row in chances]
    form = {"pos_label": "1"} if classes == "01" else {"average": "macro"}
    right = gold[:, None] == np.array(list(classes))
    areas = [
        metrics.average_precision_score(*columns)
        for columns in zip(right.T, chances.T, strict=True)
    ]
    for name, expected in {
        "f1": metrics.f1_score(gold, guesses, **form),
        "precision": metrics.precision_score(gold, guesses, **form),
        "recall": metrics.recall_score(gold, guesses, **form),
        "accuracy": metrics.accuracy_score(gold, guesses),
        "matthews": metrics.matthews_corrcoef(gold, guesses),
        "average_precision": areas[1] if classes == "01" else np.mean(areas),
    }.items():
        assert scores.values[name] == pytest.approx(expected, abs=1e-12)


def test_the_positive_class_may_be_named():
    task = Classification(positive="no")
    assert task.label_names(texts("yes", "no")) == ("yes", "no")
    assert Classification().label_names(texts("yes", "no")) == ("no", "yes")


@pytest.mark.parametrize(
    ("task", "labels", "message"),
    [
        (
            Classification(),
            ("1", None),
            "1 of 2 examples of train have no label, '1' among them; label or remove",
        ),
        (Classification(), ("1", "1"), "train has only '1'; want 2 classes"),
        (Classification(positive="2"), ("0", "1"), "positive is '2', but the classes"),
        (Classification(positive="2"), ("0", "1", "2"), "are for 2 classes; there are"),
        (Classification(tune_threshold=True), ("0", "1", "2"), "are for 2 classes"),
    ],
)
def test_labels_that_do_not_serve_are_named(task, labels, message):
    with pytest.raises(InputError, match=message):
        task.label_names(texts(*labels))


def test_gold_that_is_kept_back_cannot_be_scored():
    task = Classification()
    decided = [task.decide({"0": 0.2, "1": 0.8})]
    with pytest.raises(InputError, match="1 of 1 examples of test have no label"):
        task.score(texts(None), decided, ("0", "1"))
    with pytest.raises(InputError, match="examples of test have no label"):
        remarks_of(task, "test", texts(None), [], ("0", "1"))


def test_an_unknown_class_is_left_out_of_the_loss_and_wrong(tmp_path):
    task = Classification()
    tokenizer = made.read("wordpiece", tmp_path, words=False)
    examples = texts("0", "2", "1")
    items = task.encode(examples, tokenizer, ("0", "1"), 20)
    assert [item.arrays[HEAD] for item in items] == [0, IGNORED, 1]
    (remark,) = remarks_of(task, "dev", examples, items, ("0", "1"))
    assert remark.startswith("dev has 1 example of class '2', which train lacks")
    decided = [task.decide({"0": 0.9, "1": 0.1}) for _ in examples]
    scores = task.score(examples, decided, ("0", "1")).values
    assert scores["accuracy"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("kind", made.KINDS)
def test_the_summary_is_where_the_template_puts_it(kind, tmp_path):
    tokenizer = made.read(kind, tmp_path, words=False)
    pair = texts("0", "1", second="the café costs 1,000 francs")
    task = Classification()
    whole = task.encode(pair, tokenizer, ("0", "1"), 100)[0]
    for length in range(5, len(whole) + 1):
        item = task.encode(pair, tokenizer, ("0", "1"), length)[0]
        place = item.arrays["summary_positions"]
        assert place == (length - 1 if kind == "xlnet" else 0)
        names = {"xlnet": "<cls>", "byte_level": "<s>", "mpnet": "<s>"}
        piece = tokenizer.token_to_id(names.get(kind, "[CLS]"))
        assert item.arrays["input_ids"][place] == piece
        assert item.is_cut == (length < len(whole))


def test_texts_and_pairs_do_not_mix_and_too_short_rows_are_named(tmp_path):
    tokenizer = made.read("wordpiece", tmp_path, words=False)
    task = Classification()
    mixed = [*texts("0", "1"), *texts("1", second="b")]
    with pytest.raises(InputError, match="example 0 is one text, others are pairs"):
        task.encode(mixed, tokenizer, ("0", "1"), 20)
    with pytest.raises(InputError, match="max_length 1 leaves no room"):
        task.encode(texts("0", "1"), tokenizer, ("0", "1"), 1)


def test_probabilities_are_the_softmax_of_the_logits():
    logits = jnp.array([[[1.0, 3.0], [2.0, 2.0]]])
    chances = Classification().reduce_logits({HEAD: logits}, {}).sequences[HEAD]
    exact = 1 / (1 + np.exp(2.0))
    np.testing.assert_allclose(chances[0], [[exact, 1 - exact], [0.5, 0.5]], rtol=1e-6)


def test_a_class_is_shown_and_a_text_has_one_tab_at_most():
    task = Classification()
    with pytest.raises(InputError, match="text 3 has 2 tabs"):
        task.parse("a\tb\tc", 3)
    record, lines = task.show(*texts("1"), task.decide({"0": 0.25, "1": 0.75}))
    assert record["label"] == "1" and lines == ["a b", "  1  (0.750)"]


@pytest.mark.parametrize(
    ("file", "layout"),
    [
        ("mrpc/test.tsv", glue.MRPC),
        ("qqp/dev.tsv", glue.QQP),
        ("sst2/dev.tsv", glue.SST2),
        ("sst2_sentences/test.txt", None),
        ("sst5/test.txt", None),
    ],
)
def test_gold_of_every_set_comes_back(data_folder, file, layout):
    path = data_folder / file
    examples = TextFiles.read_file(path, **(layout or {"layout": "label-first"}))
    tokenizer = tokenize.read(data_folder / "vocab/bert-base-uncased", words=False)
    task = Classification()
    labels = task.label_names(examples)
    items = task.encode(examples, tokenizer, labels, 128)
    outputs = [{HEAD: np.eye(len(labels))[item.arrays[HEAD]]} for item in items]
    predictions = [
        task.decide(task.decode(example, [item], [output], labels))
        for example, item, output in zip(examples, items, outputs, strict=True)
    ]
    scores = task.score(examples, predictions, labels)
    assert scores.values["f1"] == scores.values["accuracy"] == 1.0
