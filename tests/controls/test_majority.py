"""What is most frequent, and entities by look-up."""

import dataclasses

import numpy as np
import pytest

from dicejax import config
from dicejax.controls import Majority, restore
from dicejax.data.examples import LabelledText, MultiLabelText, Sentence, Span
from dicejax.data.examples import TaggedWords as Words
from dicejax.metrics import spans as span_metrics
from dicejax.tasks import (
    Classification,
    MultiLabelClassification,
    Tagging,
    WordTagging,
)


def sentence(text, *spans):
    return Sentence(tuple(text.split()), spans, 1)


TRAIN = [
    sentence("New York and York", Span("LOC", 0, 2), Span("LOC", 3, 4)),
    sentence("Paris smiled", Span("PER", 0, 1)),
    sentence("in Paris", Span("LOC", 1, 2)),
    sentence("May came in May , may May", Span("PER", 0, 1)),
]


def tags_of(text, task=None):
    task = task or Tagging()
    labels = task.label_names(TRAIN)
    model = Majority.fit(task, TRAIN, labels)
    (logits,) = model.logits([sentence(text)])
    return [labels[number] for number in logits.argmax(axis=1)]


def test_longest_entity_of_train_is_found():
    assert tags_of("New York in York") == ["B-LOC", "I-LOC", "O", "B-LOC"]
    assert tags_of("New Yorkers") == ["O", "O"]


def test_phrases_of_two_types_or_mostly_without_one_are_none():
    assert tags_of("Paris in May") == ["O", "O", "O"]  # PER and LOC; once in three


def test_words_have_their_most_frequent_label():
    task = WordTagging()
    train = [
        Words(("run", "run", "run", "a"), ("NOUN", "VERB", "VERB", "DET"), 1),
        Words(("b", "c"), ("NOUN", "NOUN"), 2),
    ]
    labels = task.label_names(train)
    model = Majority.fit(task, train, labels)
    (logits,) = model.logits([Words(("run", "new", "a"), ("",) * 3, 1)])
    assert [labels[n] for n in logits.argmax(axis=1)] == ["VERB", "NOUN", "DET"]


def test_texts_have_the_most_frequent_class_and_labels_that_most_have():
    train = [LabelledText("x", None, "no" if n else "yes", "0", 1) for n in range(5)]
    labels = Classification().label_names(train)
    (logits,) = Majority.fit(Classification(), train, labels).logits(train[:1])
    assert labels[logits.argmax()] == "no"
    np.testing.assert_allclose(np.exp(logits), [0.8, 0.2], rtol=1e-6)
    several = MultiLabelClassification()
    some = [("a", "b"), ("a",), ("a",), ()]
    texts = [MultiLabelText("x", None, held, "0", 1) for held in some]
    (logits,) = Majority.fit(several, texts, ("a", "b")).logits(texts[:1])
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), [0.75, 0.25], rtol=1e-6)


def test_model_is_the_same_after_it_is_written():
    task = Tagging()
    model = Majority.fit(task, TRAIN, task.label_names(TRAIN))
    again = restore(*model.state(), task)
    for before, after in zip(model.logits(TRAIN), again.logits(TRAIN), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(("split", "published"), [("dev", 0.7118), ("test", 0.5961)])
def test_conll_is_near_the_published_baseline(data_folder, split, published):
    # Tjong Kim Sang and De Meulder (2003), table 5. Theirs keeps phrases that train
    # more often has without a type.
    experiment = config.load("experiments/ner/conll03.py")
    folder = str(data_folder / "conll2003")
    corpus = dataclasses.replace(experiment.data, dir=folder).load()
    task, examples = Tagging(), getattr(corpus, split)
    labels = task.label_names(corpus.train)
    logits = Majority.fit(task, corpus.train, labels).logits(examples)
    counts = span_metrics.count(
        [x.spans for x in examples],
        [spans_of([labels[n] for n in rows.argmax(axis=1)]) for rows in logits],
    )
    assert abs(span_metrics.scores(counts).f1 - published) < 0.01


def spans_of(names):
    """Decode BIO tags without a mistake in them."""
    spans = []
    for place, name in enumerate(names):
        if name.startswith("B-"):
            spans.append(Span(name[2:], place, place + 1))
        elif name.startswith("I-"):
            spans[-1] = spans[-1]._replace(end=place + 1)
    return spans
