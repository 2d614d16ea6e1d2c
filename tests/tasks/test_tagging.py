"""Tags of spans, labels of words, and words with labels from characters."""

import numpy as np
import pytest
from scipy import special
from sklearn import metrics

from dicejax.data import tokenize
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.tags import Span
from dicejax.errors import InputError
from dicejax.tasks.spans import flat_spans
from dicejax.tasks.tagging import HEAD, NONE, JointTagging, Tagging, WordTagging
from dicejax.tasks.task import IGNORED, Prediction

from ..data import made
from .perfect import round_trip


@pytest.fixture(scope="module")
def tokenizer():
    words = ["Anna", "lives", "in", "New", "York", "City", "and", "sings"] * 3
    return tokenize.learn_wordpiece(words, 60)


SENTENCE = Sentence(
    tuple(["Anna", "lives", "in", "New", "York", "City"]),
    (Span("PER", 0, 1), Span("LOC", 3, 6)),
    1,
)


def test_a_word_that_the_tokenizer_drops_gets_the_unknown_piece(tokenizer):
    sentence = Sentence(("Anna", "\u200b", "York"), (Span("LOC", 1, 3),), 1)
    trip = round_trip(Tagging(), [sentence], tokenizer, 128)
    (item,) = trip.items
    place = item.detail[1]
    assert item.arrays["input_ids"][place] == tokenizer.token_to_id("[UNK]")
    assert trip.scores["f1"] == 1.0 and item.detail.tolist() == [1, place, place + 1]


@pytest.mark.parametrize("kind", made.KINDS)
def test_windows_leave_the_template_and_the_labels_in_place(kind, tmp_path):
    """Each length, for templates with special pieces on either side."""
    tokenizer = made.read(kind, tmp_path, words=True)
    task = Tagging()
    labels = task.label_names([SENTENCE])
    (whole,) = task.encode([SENTENCE], tokenizer, labels, 128)
    ids = whole.arrays["input_ids"].tolist()
    front, behind = (0, 2) if kind == "xlnet" else (1, 1)
    for length in range(3, len(ids) + 2):
        items = task.encode([SENTENCE], tokenizer, labels, length)
        for item in items:
            pieces = item.arrays["input_ids"].tolist()
            assert pieces[:front] == ids[:front] and pieces[-behind:] == ids[-behind:]
            inner = pieces[front : len(pieces) - behind]
            assert any(
                inner == ids[start : start + len(inner)]
                for start in range(front, len(ids) - behind)
            )
            gold = item.arrays[HEAD]
            words = np.flatnonzero(item.detail >= 0)
            places = item.detail[words]
            # Label and piece of each word are those of the whole sentence.
            of_whole = whole.detail[words]
            assert (gold[places] == whole.arrays[HEAD][of_whole]).all()
            assert [pieces[p] for p in places] == [ids[p] for p in of_whole]
            assert (np.delete(gold, places) == IGNORED).all()
            types = item.arrays["token_type_ids"].tolist()
            assert types == [0] * (len(pieces) - 1) + [2 if kind == "xlnet" else 0]
        assert np.sum([item.detail >= 0 for item in items], axis=0).tolist() == (
            [1] * len(SENTENCE.words)
        )


def test_rows_are_filled_with_the_tokenizer_s_own_padding(tmp_path):
    tokenizers = (made.read(kind, tmp_path, words=True) for kind in made.KINDS)
    layouts = [Tagging().layout(tokenizer) for tokenizer in tokenizers]
    assert [layout.tokens["input_ids"] for layout in layouts] == [0, 0, 5, 0, 1, 1]


def test_of_spans_that_overlap_most_are_learnt_and_the_others_missed(tokenizer):
    crossed = (Span("ORG", 2, 7), Span("LOC", 3, 6), Span("PER", 0, 1))
    sentence = Sentence((*SENTENCE.words, "sings"), crossed, 1)
    trip = round_trip(Tagging(), [sentence], tokenizer, 128, "train")
    (prediction,), (remark,) = trip.predictions, trip.remarks
    assert prediction.values == flat_spans(crossed) == list(SENTENCE.spans)
    assert trip.scores["recall"] == 2 / 3
    assert remark.startswith("train: 1 of 3 spans overlap another")


def test_probabilities_of_tags_and_of_spans(tokenizer):
    task, labels = Tagging(), Tagging().label_names([SENTENCE])
    (item,) = task.encode([SENTENCE], tokenizer, labels, 128)
    logits = np.random.default_rng(0).normal(size=(1, len(item), len(labels)))
    for word, tag in enumerate(["B-PER", "O", "O", "B-LOC", "I-LOC", "I-LOC"]):
        logits[0, item.detail[word], labels.index(tag)] += 5
    output = task.reduce_logits({HEAD: logits}, {}).item(0, 0, 0, len(item))
    prediction = task.decode(SENTENCE, [item], [output], labels)
    assert prediction.values == list(SENTENCE.spans)
    expected = special.softmax(logits[0, item.detail], axis=-1).max(-1)
    record, _ = task.show(SENTENCE, task.decide(prediction))
    assert record["probabilities"] == pytest.approx(expected.tolist(), rel=1e-6)
    assert [entity["probability"] for entity in record["entities"]] == pytest.approx(
        [expected[0], expected[3:].prod()], rel=1e-6
    )


TAGGED = TaggedWords(("Anna", "lives", "in", "York"), ("N", "V", "P", "N"), 1)


def test_scores_equal_scikit_learn():
    random = np.random.default_rng(0)
    labels = ("A", "B", "C", "D")
    gold = [random.choice(labels[:3], size=n) for n in (4, 9, 1)]
    guesses = [random.choice(labels, size=len(x)) for x in gold]
    examples = [TaggedWords(("w",) * len(x), tuple(x), 1) for x in gold]
    predictions = list(map(Prediction, guesses))
    scores = WordTagging().score(examples, predictions, labels)
    flat = np.concatenate(gold), np.concatenate(guesses)
    for name, function in (
        ("precision", metrics.precision_score),
        ("recall", metrics.recall_score),
        ("f1", metrics.f1_score),
    ):
        expected = function(*flat, average="micro")
        assert scores.values[name] == pytest.approx(expected, abs=1e-12)
    macro = metrics.f1_score(*flat, labels=labels[:3], average="macro")
    assert scores.values["macro_f1"] == pytest.approx(macro, abs=1e-12)
    assert scores.groups["D"]["support"] == 0


def test_words_without_a_label_count_as_missed():
    prediction = Prediction(["N", "V", NONE, NONE])
    scores = WordTagging().score([TAGGED], [prediction], ["N", "V"]).values
    assert (scores["precision"], scores["recall"]) == (1.0, 0.5)
    assert scores["f1"] == pytest.approx(2 / 3)


def test_a_label_that_training_lacks_is_counted_and_wrong(tokenizer):
    task = WordTagging()
    (item,) = task.encode([TAGGED], tokenizer, ("N", "V"), 20)
    (remark,) = task.warnings("dev", [TAGGED], [item], ("N", "V"))
    assert remark.startswith("dev has 1 word labelled 'P', which train lacks")
    assert (item.arrays["tags"] >= 0).sum() == 3
    scores = task.score([TAGGED], [Prediction(["N", "V", "N", "N"])], ("N", "V"))
    assert scores.values["f1"] == 0.75


def test_prediction_reads_and_shows_words():
    task = WordTagging()
    with pytest.raises(InputError, match="WordTagging takes TaggedWords, but"):
        task.adapt([Sentence(("a",), (), 1)])
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
