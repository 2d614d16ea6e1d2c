"""Part-of-speech tagging, without and with word segmentation."""

import numpy as np
import pytest
from sklearn import metrics

from dicejax.data import tokenize
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.errors import InputError
from dicejax.tasks.tagging import NONE, JointTagging, WordTagging
from dicejax.tasks.task import Prediction

SENTENCE = TaggedWords(("Anna", "lives", "in", "York"), ("N", "V", "P", "N"), 1)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenize.learn_wordpiece(SENTENCE.words * 3, 60)


def test_scores_equal_scikit_learn():
    random = np.random.default_rng(0)
    labels = ("A", "B", "C", "D")
    gold = [random.choice(labels[:3], size=n) for n in (4, 9, 1)]
    found = [random.choice(labels, size=len(one)) for one in gold]
    examples = [TaggedWords(("w",) * len(one), tuple(one), 1) for one in gold]
    predictions = list(map(Prediction, found))
    scores = WordTagging().score(examples, predictions, labels)
    flat = np.concatenate(gold), np.concatenate(found)
    for name, function in (
        ("precision", metrics.precision_score),
        ("recall", metrics.recall_score),
        ("f1", metrics.f1_score),
    ):
        wanted = function(*flat, average="micro")
        assert scores.values[name] == pytest.approx(wanted, abs=1e-12)
    macro = metrics.f1_score(*flat, labels=labels[:3], average="macro")
    assert scores.values["macro_f1"] == pytest.approx(macro, abs=1e-12)
    assert scores.groups["D"]["support"] == 0


def test_words_without_a_label_count_as_missed():
    scores = WordTagging().score(
        [SENTENCE], [Prediction(["N", "V", NONE, NONE])], ["N", "V"]
    )
    assert scores.values["precision"] == 1.0 and scores.values["recall"] == 0.5
    assert scores.values["f1"] == pytest.approx(2 / 3)


def test_a_label_that_training_lacks_is_counted_and_wrong(tokenizer):
    task = WordTagging()
    (item,) = task.encode([SENTENCE], tokenizer, ("N", "V"), 20)
    (said,) = task.warnings("dev", [SENTENCE], [item], ("N", "V"))
    assert said.startswith("dev has 1 word labelled 'P', which train lacks")
    assert (item.arrays["tags"] >= 0).sum() == 3
    scores = task.score([SENTENCE], [Prediction(["N", "V", "N", "N"])], ("N", "V"))
    assert scores.values["f1"] == 0.75


def test_data_of_another_kind_is_refused():
    with pytest.raises(InputError, match="WordTagging takes TaggedWords, but"):
        WordTagging().adapt([Sentence(("a",), (), 1)])


def test_prediction_reads_and_shows_words():
    task = WordTagging()
    example = task.parse("Anna  sings\n", 3)
    assert example.words == ("Anna", "sings") and example.line == 3
    record, lines = task.show(example, Prediction(["N", NONE]))
    assert record == {"words": ["Anna", "sings"], "labels": ["N", NONE]}
    assert lines == ["Anna/N sings/-"]


def test_joint_tagging_scores_borders_and_labels_together():
    task = JointTagging()
    (gold,) = task.adapt([TaggedWords(("我", "喜欢", "书"), ("R", "V", "N"), 1)])
    assert gold == by_character(TaggedWords(("我", "喜欢", "书"), ("R", "V", "N"), 1))
    (other,) = task.adapt([TaggedWords(("我", "喜欢", "书"), ("R", "N", "N"), 1)])
    scores = task.score([gold], [Prediction(other.spans)]).values
    assert scores["f1"] == pytest.approx(2 / 3) and scores["words_f1"] == 1.0
    assert scores["character_accuracy"] == 0.5
    _, lines = task.show(gold, Prediction(gold.spans))
    assert lines == ["我/R 喜欢/V 书/N"]
    assert task.parse("我 喜欢\n", 1).words == ("我", "喜", "欢")
