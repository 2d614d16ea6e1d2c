"""Regressions on counts of words and characters."""

import itertools
import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dicejax.controls import TfIdf, restore
from dicejax.controls.tfidf import described
from dicejax.data.examples import LabelledText, TaggedWords
from dicejax.errors import Flaw
from dicejax.tasks import Classification, WordTagging

TEXTS = ("a good film", "a bad film", "good , good", "so bad", "fine", "not fine")
LABELS = ("1", "0", "1", "0", "1", "0")


def texts(second=None):
    pairs = zip(TEXTS, LABELS, strict=True)
    return [LabelledText(text, second, label, "0", 1) for text, label in pairs]


def fits(examples, task=None):
    task = task or Classification()
    return list(TfIdf.fits(task, examples, task.label_names(examples)))


def tf_idf(documents):
    """Return (1 + log n) (1 + log((1 + N) / (1 + df))) of unit length, by hand."""
    terms = sorted({term for document in documents for term in document})
    rows = np.zeros((len(documents), len(terms)))
    for row, document in zip(rows, documents, strict=True):
        for number, term in enumerate(terms):
            if count := document.count(term):
                frequency = sum(term in other for other in documents)
                inverse = 1 + math.log((1 + len(documents)) / (1 + frequency))
                row[number] = (1 + math.log(count)) * inverse
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_logits_are_those_of_a_regression_on_tf_idf():
    words = [text.split() for text in TEXTS]
    documents = [
        [*row, *(" ".join(pair) for pair in itertools.pairwise(row))] for row in words
    ]
    x = tf_idf(documents)
    settings, model = fits(texts())[0]
    assert settings == {"form": "words", "C": 1.0, "balanced": False}
    theirs = LogisticRegression(C=1.0).fit(x, np.array(LABELS) == "1")
    ours = np.stack(model.logits(texts()))
    odds = ours[:, 1] - ours[:, 0]
    np.testing.assert_allclose(odds, theirs.decision_function(x), atol=2e-3)


@pytest.mark.parametrize("second", [None, "a good one"])
def test_each_model_is_the_same_after_it_is_written(second):
    examples = texts(second)
    for _, model in fits(examples):
        again = restore(*model.state(), Classification())
        for pair in zip(model.logits(examples), again.logits(examples), strict=True):
            np.testing.assert_array_equal(*pair)


def test_forms_and_penalties_are_offered():
    offered = [(x["form"], x["C"], x["balanced"]) for x, _ in fits(texts())]
    assert len(set(offered)) == 12
    assert {form for form, _, _ in offered} == {"words", "characters"}


def test_pairs_know_what_both_have():
    same = [("red car", "red car", "1"), ("old man", "old man", "1")]
    other = [("red car", "old man", "0"), ("old man", "red car", "0")]
    train = [LabelledText(a, b, label, "0", 1) for a, b, label in [*same, *other] * 4]
    labels = ("0", "1")
    chosen = [
        [labels[row.argmax()] for row in model.logits(train)]
        for _, model in fits(train)
    ]
    # No sum over the words of either tells these apart.
    assert [x.label for x in train] in chosen


def test_words_are_described_by_their_neighbours():
    assert "-1=in" in described(["In", "Rome"])[1]
    train = [
        TaggedWords(("to", "run"), ("PART", "VERB"), 1),
        TaggedWords(("a", "run"), ("DET", "NOUN"), 2),
    ] * 5
    task = WordTagging()
    labels = task.label_names(train)
    for settings, model in fits(train, task):
        logits = model.logits(train[:2])
        names = [[labels[n] for n in rows.argmax(axis=1)] for rows in logits]
        assert names == [["PART", "VERB"], ["DET", "NOUN"]], settings
        again = restore(*model.state(), task)
        np.testing.assert_array_equal(again.logits(train)[0], logits[0])


def test_damage_is_named():
    settings, arrays = fits(texts())[0][1].state()
    with pytest.raises(Flaw, match="no control"):
        restore({**settings, "form": "pickle"}, arrays, Classification())
    with pytest.raises(Flaw, match="no control"):
        restore({"name": "tfidf"}, arrays, Classification())
