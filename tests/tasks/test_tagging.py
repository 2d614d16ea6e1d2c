"""Tags of spans, labels of words, and words with labels from characters."""

import dataclasses

import numpy as np
import pytest
from scipy import special
from sklearn import metrics

from dicejax.data import tokenize
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.tags import Span
from dicejax.errors import InputError
from dicejax.tasks import JointTagging
from dicejax.tasks.spans import flat_spans
from dicejax.tasks.tagging import HEAD, NONE, Tagging, WordTagging
from dicejax.tasks.task import IGNORED, Prediction

from ..data import made
from .perfect import remarks_of, round_trip


@pytest.fixture(scope="module")
def tokenizer():
    words = ["Anna", "lives", "in", "New", "York", "City", "and", "sings"] * 3
    return tokenize.learn_wordpiece(words, 60)


SENTENCE = Sentence(
    tuple(["Anna", "lives", "in", "New", "York", "City"]),
    (Span("PER", 0, 1), Span("LOC", 3, 6)),
    1,
)


ANSWER = Sentence(
    ("York", "costs", "unbelievable", "(U.S.)", "hello"),
    (Span("NEW", 2, 3), Span("NEW", 4, 5)),
    1,
)


@pytest.mark.parametrize("prompt", ["", "the café\n in  New York, costs 1,000"])
@pytest.mark.parametrize("kind", made.KINDS)
def test_windows_keep_each_word_once_and_half_a_row_for_the_prompt(
    kind, prompt, tmp_path
):
    """Each length, for templates with special pieces on either side."""
    tokenizer = made.read(kind, tmp_path, words=True)
    task = Tagging(prompt=bool(prompt), stride=2)
    example = dataclasses.replace(ANSWER, prompt=prompt)
    texts = [[[prompt]], [example.words]] if prompt else [[example.words]]
    (whole,) = tokenize.encode(tokenizer, *texts)
    text = len(texts) - 1
    first, content = whole.first_pieces(5, text=text), whole.texts == text
    asked = np.flatnonzero((whole.texts == 0) & (text == 1))
    special = len(whole) - len(asked) - content.sum()
    for length in range(3 if text == 0 else 2 * special + 4, len(whole) + 2):
        trip = round_trip(task, [example], tokenizer, length)
        assert trip.predictions[0].values == list(example.spans)
        size = min(len(asked), max(length // 2, length - special - content.sum()))
        for item in trip.items:
            ids, types = item.arrays["input_ids"], item.arrays["token_type_ids"]
            assert len(ids) <= length
            width = len(ids) - special - size  # of the words, which are neighbours
            windows = []
            for start in np.flatnonzero(content)[: content.sum() - width + 1]:
                taken = whole.special.copy()
                taken[[*asked[:size], *range(start, start + width)]] = True
                windows.append((whole.ids[taken], whole.token_types[taken]))
            assert any((x == ids).all() and (y == types).all() for x, y in windows)
            words = np.flatnonzero(item.detail >= 0)
            places = item.detail[words]
            assert ids[places].tolist() == whole.ids[first[words]].tolist()
            assert (np.delete(item.arrays[HEAD], places) == IGNORED).all()
        held = np.sum([item.detail >= 0 for item in trip.items], axis=0)
        assert held.tolist() == [1] * 5
        assert (len(trip.items) > 1) == (size + content.sum() + special > length)
        cut = [remark for remark in trip.remarks if "cut off" in remark]
        assert len(cut) == (size < len(asked))
        assert all(x.startswith("1 of 1 dev prompts (100%) are cut") for x in cut)
    which, room = ("special or of the prompt" if prompt else "special"), special
    others = special + (room // 2 if prompt else 0)
    message = f"max_length {room} leaves no room: {others} pieces are {which}"
    with pytest.raises(InputError, match=message):
        round_trip(task, [example], tokenizer, room)


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
    (remark,) = remarks_of(task, "dev", [TAGGED], [item], ("N", "V"))
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
