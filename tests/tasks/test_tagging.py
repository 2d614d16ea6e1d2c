"""Tagging: gold survives the way from words to pieces."""

import numpy as np
import pytest

from dicejax.data import tokenize
from dicejax.data.examples import Sentence
from dicejax.data.readers import cluener, conll
from dicejax.data.tags import Span
from dicejax.tasks.spans import flat_spans
from dicejax.tasks.tagging import HEAD, Tagging
from dicejax.tasks.task import IGNORED

from ..data import made
from .perfect import class_outputs, tagged


@pytest.fixture(scope="module")
def tokenizer():
    words = ["Anna", "lives", "in", "New", "York", "City", "and", "sings"] * 3
    return tokenize.learn_wordpiece(words, 60)


SENTENCE = Sentence(
    tuple(["Anna", "lives", "in", "New", "York", "City"]),
    (Span("PER", 0, 1), Span("LOC", 3, 6)),
    1,
)


def decoded(task, sentence, item, labels):
    """Return the spans of a perfect network."""
    return task.decode(sentence, [item], class_outputs([item], HEAD), labels)


def test_the_first_piece_carries_the_label(tokenizer):
    task = Tagging()
    labels = task.label_names([SENTENCE])
    assert labels == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    (example,) = task.encode([SENTENCE], tokenizer, labels, 128)
    named = [
        labels[number] if number != IGNORED else "-" for number in example.arrays[HEAD]
    ]
    assert [n for n in named if n != "-"] == [
        "B-PER",
        "O",
        "O",
        "B-LOC",
        "I-LOC",
        "I-LOC",
    ]
    assert named[0] == named[-1] == "-"
    first = [named.index("B-PER"), named.index("B-LOC")]
    assert [example.detail[0], example.detail[3]] == first


@pytest.mark.parametrize("scheme", ["IOB1", "BIO", "IOBES", "BMES"])
def test_gold_labels_decode_to_the_gold_spans(tokenizer, scheme):
    task = Tagging(scheme=scheme)
    labels = task.label_names([SENTENCE])
    (example,) = task.encode([SENTENCE], tokenizer, labels, 128)
    found = decoded(task, SENTENCE, example, labels)
    assert found == list(SENTENCE.spans)


def test_what_is_cut_off_counts_as_missed(tokenizer):
    task = Tagging()
    labels = task.label_names([SENTENCE])
    (whole,) = task.encode([SENTENCE], tokenizer, labels, 128)
    room = int(whole.detail[3]) + 1  # the pieces before the second entity, [SEP]
    (cut,) = task.encode([SENTENCE], tokenizer, labels, room)
    assert len(cut.arrays["input_ids"]) == room
    assert cut.arrays["input_ids"][-1] == tokenizer.token_to_id("[SEP]")
    assert (cut.detail[3:] == -1).all()
    found = decoded(task, SENTENCE, cut, labels)
    scores = task.score([SENTENCE], [found]).values
    assert (scores["precision"], scores["recall"]) == (1.0, 0.5)
    (said,) = task.warnings("dev", [SENTENCE], [cut], labels)
    assert said.startswith("1 of 2 dev entities (50%) are cut off at ")


def test_a_word_that_the_tokenizer_drops_gets_the_unknown_piece(tokenizer):
    sentence = Sentence(("Anna", "\u200b", "York"), (Span("LOC", 1, 3),), 1)
    task = Tagging()
    labels = task.label_names([sentence])
    scores, (item,), _ = tagged(task, [sentence], tokenizer, labels, 128)
    place = item.detail[1]
    assert item.arrays["input_ids"][place] == tokenizer.token_to_id("[UNK]")
    assert scores.values["f1"] == 1.0 and item.detail.tolist() == [1, place, place + 1]


def test_a_type_that_training_lacks_is_counted_masked_and_missed(tokenizer):
    task = Tagging()
    labels = task.label_names([Sentence(("Anna",), (Span("PER", 0, 1),), 1)])
    (example,) = task.encode([SENTENCE], tokenizer, labels, 128)
    (said,) = task.warnings("dev", [SENTENCE], [example], labels)
    assert said.startswith("dev has 1 'LOC' span, a type that train lacks")
    assert (example.arrays[HEAD][example.detail[3:]] == IGNORED).all()
    scores = task.score([SENTENCE], [[Span("PER", 0, 1)]]).values
    assert (scores["precision"], scores["recall"]) == (1.0, 0.5)


@pytest.mark.parametrize("kind", made.KINDS)
def test_a_cut_leaves_the_template_and_the_labels_in_place(kind, tmp_path):
    """Each length, for templates with special pieces on either side."""
    tokenizer = made.read(kind, tmp_path, words=True)
    task = Tagging()
    labels = task.label_names([SENTENCE])
    (whole,) = task.encode([SENTENCE], tokenizer, labels, 128)
    ids = whole.arrays["input_ids"].tolist()
    front, behind = (0, 2) if kind == "xlnet" else (1, 1)
    for length in range(3, len(ids) + 2):
        (cut,) = task.encode([SENTENCE], tokenizer, labels, length)
        gone = max(len(ids) - length, 0)
        middle = ids[front : len(ids) - behind - gone]
        found = cut.arrays["input_ids"].tolist()
        assert found == ids[:front] + middle + ids[-behind:]
        last = len(found) - behind  # the place behind the last piece of a word
        kept = whole.detail < last
        np.testing.assert_array_equal(cut.detail, np.where(kept, whole.detail, -1))
        gold = cut.arrays[HEAD]
        np.testing.assert_array_equal(gold[:last], whole.arrays[HEAD][:last])
        assert (gold[last:] == IGNORED).all()
        types = cut.arrays["token_type_ids"].tolist()
        assert types == [0] * (len(found) - 1) + [2 if kind == "xlnet" else 0]


@pytest.mark.parametrize("kind", made.KINDS)
def test_gold_comes_back_whatever_the_words_are(kind, tmp_path):
    words = tuple(text or "x" for text in made.TEXTS)
    spans = tuple(Span("T", n, n + 1) for n in range(0, len(words), 2))
    sentence = Sentence(words, spans, 1)
    task, tokenizer = Tagging(), made.read(kind, tmp_path, words=True)
    labels = task.label_names([sentence])
    scores, _, (found,) = tagged(task, [sentence], tokenizer, labels, 2000)
    assert found == list(spans) and scores.values["f1"] == 1.0


def test_rows_are_filled_with_the_tokenizer_s_own_padding(tmp_path):
    ids = {
        kind: Tagging()
        .layout(made.read(kind, tmp_path, words=True))
        .tokens["input_ids"]
        for kind in made.KINDS
    }
    assert ids == {
        "wordpiece": 0,
        "wordpiece_uncased": 0,
        "xlnet": 5,
        "byte_level": 1,
    }


@pytest.mark.parametrize("split", ["dev", "test"])
def test_gold_of_conll_2003_survives_the_round_trip(data_folder, minilm, split):
    sentences = conll.read(data_folder / "conll2003" / f"{split}.txt")
    task, tokenizer = Tagging(), tokenize.read(minilm)
    labels = task.label_names(sentences)
    scores, _, _ = tagged(task, sentences, tokenizer, labels, 512)
    assert scores.values["f1"] == 1.0


@pytest.mark.parametrize("name", made.REAL)
def test_gold_survives_with_every_real_vocabulary(data_folder, name):
    chinese = name == "bert-base-chinese"
    file = "msra/test.txt" if chinese else "conll2003/test.txt"
    sentences = conll.read(data_folder / file)[:1500]
    task, tokenizer = Tagging(), tokenize.read(data_folder / "vocab" / name)
    labels = task.label_names(sentences)
    scores, _, _ = tagged(task, sentences, tokenizer, labels, 4000)
    assert scores.values["f1"] == 1.0


def test_of_spans_that_overlap_most_are_learnt_and_the_others_missed(tokenizer):
    crossed = (Span("ORG", 2, 7), Span("LOC", 3, 6), Span("PER", 0, 1))
    sentence = Sentence((*SENTENCE.words, "sings"), crossed, 1)
    task = Tagging()
    labels = task.label_names([sentence])
    scores, items, (found,) = tagged(task, [sentence], tokenizer, labels, 128)
    assert found == flat_spans(crossed) == list(SENTENCE.spans)
    assert scores.values["recall"] == 2 / 3
    (said,) = task.warnings("train", [sentence], items, labels)
    assert said.startswith("train: 1 of 3 spans overlap another")


def test_spans_of_types_with_hyphens_and_at_the_end_survive(tokenizer):
    spans = (Span("work-of-art", 0, 1), Span("work-of-art", 1, 2), Span("B-C", 5, 6))
    sentence = Sentence(SENTENCE.words, spans, 1)
    for scheme in ("IOB1", "BIO", "IOBES", "BMES"):
        task = Tagging(scheme=scheme)
        labels = task.label_names([sentence])
        scores, _, _ = tagged(task, [sentence], tokenizer, labels, 128)
        assert scores.values["f1"] == 1.0


@pytest.mark.parametrize(
    ("split", "lost"),
    [pytest.param("train", 1, marks=pytest.mark.exhaustive), ("dev", 0)],
)
def test_a_split_of_cluener_comes_back_but_for_what_overlaps(data_folder, split, lost):
    tokenizer = tokenize.read(data_folder / "vocab" / "bert-base-chinese")
    sentences = cluener.read(data_folder / "cluener2020" / f"{split}.json")
    task = Tagging(scheme="BMES")
    labels = task.label_names(sentences)
    scores, _, found = tagged(task, sentences, tokenizer, labels, 512)
    gold = sum(len(sentence.spans) for sentence in sentences)
    assert scores.values["precision"] == 1.0
    assert scores.values["recall"] == (gold - lost) / gold
    assert sum(map(len, found)) == gold - lost


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "lost"),
    [
        pytest.param("train.txt.gz", 0, marks=pytest.mark.exhaustive),
        ("test.txt", 516),
        pytest.param("test_same_preprocessing.txt", 0, marks=pytest.mark.exhaustive),
    ],
)
def test_every_span_of_msra_comes_back_but_for_what_is_too_long(
    data_folder, file, lost
):
    sentences = conll.read(data_folder / "msra" / file)
    tokenizer = tokenize.read(data_folder / "vocab" / "bert-base-chinese")
    task = Tagging(scheme="BMES")
    labels = task.label_names(sentences)
    scores, items, _ = tagged(task, sentences, tokenizer, labels, 512)
    gold = sum(len(sentence.spans) for sentence in sentences)
    assert scores.values["precision"] == 1.0
    assert scores.values["recall"] == (gold - lost) / gold
    said = task.warnings("test", sentences, items, labels)
    wanted = f"{lost} of {gold} test entities "
    assert len(said) == bool(lost) and all(one.startswith(wanted) for one in said)
