"""Texts longer than the input: windows that overlap, each word decided in one."""

import jax
import numpy as np
import pytest

from dicejax.data.examples import LabelledText, Sentence, Span, TaggedWords
from dicejax.data.tokenize import learn_wordpiece
from dicejax.errors import InputError
from dicejax.mesh import MeshShape
from dicejax.models.network import Network
from dicejax.tasks import Classification, Tagging, WordTagging
from dicejax.tasks.task import IGNORED
from dicejax.training.predict import Predictor

from .perfect import class_outputs

WORDS = ["Anna", "Berg", "met", "Bo", "in", "Oslo", "unforeseeable", "York", ",", "."]
LENGTH = 32


@pytest.fixture(scope="module")
def tokenizer():
    # Too small a vocabulary for the long word: it has several pieces.
    return learn_wordpiece([w for w in WORDS if len(w) < 9] * 3 + [*"unforesabl"], 60)


def document(words: int, seed: int = 0) -> Sentence:
    rng = np.random.default_rng(seed)
    found = tuple(rng.choice(WORDS, words).tolist())
    spans = tuple(Span("PER", n, n + 2) for n in range(0, words - 2, 7))
    return Sentence(found, spans, 1)


def searched(task, network, params, tokenizer, examples, labels, max_length):
    """Return the decoded examples of a network."""
    items = task.encode(examples, tokenizer, labels, max_length)
    predictor = Predictor(
        task=task,
        network=network,
        labels=labels,
        tokenizer=tokenizer,
        max_length=max_length,
        mesh=MeshShape().make(jax.local_devices()[:1]),
    )
    return predictor.search(params, examples, items).found[0]


def random_network(small_bert, task, labels):
    network = Network(encoder=small_bert, heads=task.heads(labels))
    params = jax.tree.map(
        lambda one: 8 * one, network.init(jax.random.key(1))
    )  # so that neighbours change the classes
    return network, params


@pytest.mark.parametrize("stride", [0, 5, 12, 500])
def test_each_word_is_decided_once_and_trained_there(tokenizer, stride):
    task, text = Tagging(stride=stride), document(300)
    labels = task.label_names([text])
    items = task.encode([text], tokenizer, labels, LENGTH)
    assert len(items) > 300 // LENGTH and {item.example for item in items} == {0}
    decided = np.sum([item.detail >= 0 for item in items], axis=0)
    assert decided.tolist() == [1] * 300
    trained = sum((item.arrays["tags"] != IGNORED).sum() for item in items)
    assert trained == 300 and max(map(len, items)) == LENGTH
    # Outputs that are the gold tags decode to the gold spans, across windows.
    outputs = class_outputs(items, "tags")
    assert task.decode(text, items, outputs, labels) == list(text.spans)
    # What is decided lies in the middle, but for the ends of the document.
    for item in items[1:-1]:
        places = item.detail[item.detail >= 0]
        margin = min(stride, (LENGTH - 2) // 2) // 2
        assert places.min() >= 1 + margin - 1
        assert places.max() <= LENGTH - 2 - margin + 1


def test_of_5000_words_each_is_predicted_as_in_its_window_alone(small_bert):
    """Each word is a piece here: windows have 30 and begin 18 words apart."""
    tokenizer = learn_wordpiece(WORDS * 3, 100)
    task, labels = WordTagging(stride=12), ("N", "V", "X")
    words = document(5000).words
    network, params = random_network(small_bert, task, labels)

    def predicted(*texts):
        examples = [TaggedWords(text, ("N",) * len(text), 1) for text in texts]
        return searched(task, network, params, tokenizer, examples, labels, LENGTH)

    (found,) = predicted(words)
    assert len(found) == 5000 and set(found) == set(labels)
    starts = range(0, 5000 - 30, 18)
    for start, alone in zip(
        starts, predicted(*(words[s : s + 30] for s in starts)), strict=True
    ):
        middle = slice(start + 6, start + 24)
        assert found[middle] == alone[6:24], start
    # The neighbours matter: at the border of a window other tags come out.
    shorter = predicted(*(words[s + 6 : s + 24] for s in starts))
    assert any(
        found[s + 6 : s + 24] != one for s, one in zip(starts, shorter, strict=True)
    )


def test_the_class_of_a_long_text_is_the_mean_over_its_windows(small_bert):
    tokenizer = learn_wordpiece(WORDS * 3, 100)
    task, labels = Classification(stride=12), ("bad", "good")
    words = document(84).words  # windows at 0, 18, 36, 54
    network, params = random_network(small_bert, task, labels)

    def probabilities(*texts):
        examples = [
            LabelledText(" ".join(text), None, "good", str(n), n)
            for n, text in enumerate(texts)
        ]
        found = searched(task, network, params, tokenizer, examples, labels, LENGTH)
        return np.array([[one[label] for label in labels] for one in found])

    (whole,) = probabilities(words)
    apart = probabilities(*(words[s : s + 30] for s in (0, 18, 36, 54)))
    np.testing.assert_allclose(whole, apart.mean(axis=0), atol=1e-6)
    assert np.ptp(apart[:, 0]) > 0.01
    example = LabelledText(" ".join(words), None, "good", "0", 1)
    items = task.encode([example], tokenizer, labels, LENGTH)
    assert [item.arrays["label"] for item in items] == [1] * 4
    (said,) = task.warnings("dev", [example], items, labels)
    assert said == (
        "1 of 1 dev texts (100%) are longer than 32 tokens and read in windows; "
        "--training.max_length sets their length"
    )


def test_a_window_without_room_and_a_negative_stride_are_refused(tokenizer):
    with pytest.raises(InputError, match="2 leaves no room: 2 pieces are special"):
        Tagging().encode([document(9)], tokenizer, ("O",), 2)
    with pytest.raises(ValueError, match="stride is -1"):
        Classification(stride=-1)
