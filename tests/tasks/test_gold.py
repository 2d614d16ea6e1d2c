"""Gold of words survives the way to pieces and back, in every task and corpus."""

import dataclasses
import functools
import json

import bert_mrc_files as bert_mrc
import cluener_files as cluener
import numpy as np
import pytest

from dicejax.data import tokenize
from dicejax.data.examples import Sentence, Span
from dicejax.formats import ConllFiles
from dicejax.tasks import (
    JointTagging,
    MachineReading,
    Prediction,
    Tagging,
    TwoPointerNER,
    WordTagging,
)
from dicejax.tasks.task import IGNORED

from ..data import made
from .perfect import SENTENCE, TASK, WORDS, remarks_of, round_trip, words_of

MSRA = {"NR": "PER", "NS": "LOC", "NT": "ORG"}
EXHAUSTIVE = pytest.mark.exhaustive


def queried(folder, name, names=None, **settings):
    """Return machine reading with published queries."""
    text = (folder / "bert_mrc" / "queries" / f"{name}.json").read_text("utf-8")
    pairs = json.loads(text).items()
    queries = tuple(((names or {}).get(kind, kind), query) for kind, query in pairs)
    return MachineReading(queries=queries, **settings)


TASKS = {
    "tagging": lambda folder: Tagging(),
    "bmes": lambda folder: Tagging(scheme="BMES"),
    "pointers": lambda folder: TwoPointerNER(),
    "queries": lambda folder: queried(folder, "en_conll03"),
    "nearest": lambda folder: queried(folder, "en_conll03", match=False),
    "zh_queries": lambda folder: queried(folder, "zh_msra"),
    "zh_nearest": lambda folder: queried(folder, "zh_msra", match=False),
    "msra_queries": lambda folder: queried(folder, "zh_msra", MSRA),
    "msra_nearest": lambda folder: queried(folder, "zh_msra", MSRA, match=False),
    "words": lambda folder: WordTagging(),
    "joint": lambda folder: JointTagging(),
}
words = functools.partial(ConllFiles.read_file, layout="labels")
conllu = functools.partial(ConllFiles.read_file, layout="conllu")
READERS = {
    "bert_mrc": lambda path: bert_mrc.merged(path, bert_mrc.read(path)),
    "conll2000": functools.partial(words, label_column=1),
    "tweet_pos_ark": words,
    "tweet_pos_ritter": words,
    "ud_chinese_1.4": conllu,
    "ud_english_ewt": conllu,
}


@pytest.mark.parametrize("kind", made.KINDS)
@pytest.mark.parametrize(
    "task",
    [
        Tagging(),
        TwoPointerNER(),
        MachineReading(queries=(("T", "''any'' café\u0301"),)),
    ],
    ids=lambda task: type(task).__name__,
)
def test_spans_come_back_whatever_the_words_are(task, kind, tmp_path):
    words = tuple(text or "x" for text in made.TEXTS)
    spans = tuple(Span("T", n, n + 2) for n in range(0, len(words) - 1, 2))
    tokenizer = made.read(kind, tmp_path, words=True)
    trip = round_trip(task, [Sentence(words, spans, 1)], tokenizer, 2000)
    assert list(trip.predictions[0].values) == list(spans)
    assert trip.scores["f1"] == 1.0 and len(trip.items) == 1


FIRST = Sentence(("1,0002", "New", "1,0002"), (Span("T", 0, 2), Span("U-V", 2, 3)), 1)


@pytest.mark.parametrize("kind", made.KINDS)
@pytest.mark.parametrize(
    ("task", "labels", "expected"),
    [
        (Tagging(), ("O", "B-T", "I-T", "B-U-V", "I-U-V"), {"tags": [1, 2, 3]}),
        (TwoPointerNER(), ("O", "T", "U-V"), {"start": [1, 0, 2], "end": [0, 1, 2]}),
        (
            MachineReading(queries=(("U-V", "why"), ("T", "unbelievable cities"))),
            ("U-V", "T"),
            {"start": [1, 0, 0], "end": [0, 1, 0]},
        ),
    ],
    ids=lambda case: type(case).__name__,
)
def test_only_first_pieces_of_words_are_labelled(
    kind, task, labels, expected, tmp_path
):
    """The published dice loss takes the query and special pieces for negatives."""
    tokenizer = made.read(kind, tmp_path, words=True)
    assert task.label_names([FIRST]) == labels
    items = task.encode([FIRST] * 2, tokenizer, labels, 64)
    assert [item.example for item in items] == sorted([0, 1] * (len(items) // 2))
    reads, item = len(items) // 2, items[-1]  # of the last query
    texts = [[["unbelievable", "cities"]], [FIRST.words]][-reads:]
    (encoded,) = tokenize.encode(tokenizer, *texts)
    np.testing.assert_array_equal(item.arrays["input_ids"], encoded.ids)
    np.testing.assert_array_equal(item.arrays["token_type_ids"], encoded.token_types)
    inside = encoded.texts == reads - 1
    first = inside & np.append(True, encoded.words[1:] != encoded.words[:-1])
    assert first.sum() == 3 and inside.sum() > 5
    np.testing.assert_array_equal(np.flatnonzero(first), words_of(item))
    for name, values in expected.items():
        np.testing.assert_array_equal(item.arrays[name] != IGNORED, first)
        assert item.arrays[name][first].tolist() == values
        counts = np.bincount(values, minlength=len(labels)).tolist()
        if reads == 1:
            assert task.class_counts([item], labels)[name].tolist() == counts


def case(task, file, vocabulary, most=None, *, length=512, long=0, marks=()):
    name = f"{task}-{file}-{vocabulary}-{length}"
    values = (task, file, vocabulary, most, length, long)
    return pytest.param(*values, marks=marks, id=name)


DEV, TEST, MSRA_TEST = "conll2003/dev.txt", "conll2003/test.txt", "msra/test.txt"
CASED, UNCASED, CHINESE, XLNET = made.REAL
PUBLISHED = ["en_conll03_dev_first300.json", "zh_msra_test_first300.json"]
WORD_FILES = ["ud_english_ewt/dev.conllu", "tweet_pos_ark/test.txt"]
WORD_FILES += ["tweet_pos_ritter/all.txt", "conll2000/test.txt"]
CASES = [
    case("tagging", DEV, None),
    case("tagging", MSRA_TEST, CHINESE, 1500, length=4000),
    *(case("tagging", TEST, name, 1500) for name in (CASED, UNCASED, XLNET)),
    case("bmes", MSRA_TEST, CHINESE, long=4, marks=pytest.mark.slow),
    case("bmes", "msra/train.txt.gz", CHINESE, marks=EXHAUSTIVE),
    case("bmes", "msra/test_same_preprocessing.txt", CHINESE, marks=EXHAUSTIVE),
    case("pointers", DEV, CASED, 1500),
    case("pointers", TEST, XLNET, 1500),
    case("pointers", DEV, XLNET, marks=EXHAUSTIVE),
    case("pointers", MSRA_TEST, CHINESE, 1000, length=2500),
    case("pointers", MSRA_TEST, CHINESE, 1000, long=2, marks=EXHAUSTIVE),
    case("pointers", MSRA_TEST, CHINESE, 1000, length=128, long=59),
    case("queries", DEV, CASED, 1500),
    *(
        case("queries", file, name, marks=EXHAUSTIVE)
        for name in (CASED, XLNET)
        for file in (DEV, TEST)
    ),
    *(
        case(task, f"bert_mrc/{PUBLISHED[0]}", name, length=2600)
        for name in (CASED, XLNET)
        for task in ("queries", "nearest")
    ),
    *(
        case(task, f"bert_mrc/{PUBLISHED[1]}", CHINESE, length=2600)
        for task in ("zh_queries", "zh_nearest")
    ),
    case("msra_queries", MSRA_TEST, CHINESE, 1000, length=2048, long=1),
    case("msra_queries", MSRA_TEST, XLNET, 1000, length=2048, long=1, marks=EXHAUSTIVE),
    case("msra_queries", MSRA_TEST, CHINESE, 1000, length=256, long=7),
    case("msra_nearest", MSRA_TEST, CHINESE, 1000, length=256, long=7),
    *(
        case("joint", f"ud_chinese_1.4/{split}.conllu", CHINESE, marks=marks)
        for split, marks in (("train", EXHAUSTIVE), ("dev", ()), ("test", ()))
    ),
    *(case("words", file, CASED) for file in WORD_FILES),
    case("words", WORD_FILES[0], XLNET),
    *(case("words", file, XLNET, marks=EXHAUSTIVE) for file in WORD_FILES[1:]),
]


@pytest.mark.parametrize(
    ("task", "file", "vocabulary", "most", "length", "long"), CASES
)
def test_gold_of_a_corpus_comes_back(
    data_folder, minilm, task, file, vocabulary, most, length, long
):
    read = READERS.get(file.partition("/")[0], ConllFiles.read_file)
    task = TASKS[task](data_folder)
    examples = task.adapt(read(data_folder / file))[:most]
    path = data_folder / "vocab" / vocabulary if vocabulary else minilm
    trip = round_trip(task, examples, tokenize.read(path), length)
    assert trip.scores["precision"] == trip.scores["recall"] == 1.0
    assert trip.scores.get("words_f1", 1.0) == 1.0
    remarks = [f"{long} of {len(examples)} dev texts "] if long else []
    assert len(trip.remarks) == len(remarks)
    assert all(map(str.startswith, trip.remarks, remarks))


FLAT = MachineReading(queries=tuple((kind, f"找出{kind}") for kind in cluener.TYPES))
# By default the part of train with the overlap, and less where ten queries are read.
WHOLE = pytest.param(None, None, marks=EXHAUSTIVE)


@pytest.mark.parametrize(
    ("task", "lost"),
    [
        (Tagging(scheme="BMES"), 1),
        (TwoPointerNER(), 1),
        (FLAT, 2),  # of equal scores the first stays, which is the book
        (dataclasses.replace(FLAT, nested=True), 0),
    ],
    ids=["tagging", "pointers", "flat", "nested"],
)
@pytest.mark.parametrize(("most", "around"), [(170, 50), WHOLE])
def test_spans_of_cluener_come_back_but_for_the_one_overlap(
    data_folder, task, lost, most, around
):
    """A book has two companies in its title."""
    tokenizer = tokenize.read(data_folder / "vocab" / "bert-base-chinese")
    dev = cluener.read(data_folder / "cluener2020" / "dev.json")[:most]
    trip = round_trip(task, dev, tokenizer, 512)
    assert trip.scores["f1"] == 1.0 and trip.remarks == []

    train = cluener.read(data_folder / "cluener2020" / "train.json")
    place = next(n for n, sentence in enumerate(train) if sentence.line == 1507)
    if around is None and isinstance(task, MachineReading):
        around = 200
    train = train[place - around : place + around] if around else train
    gold = sum(len(sentence.spans) for sentence in train)
    trip = round_trip(task, train, tokenizer, 512)
    assert trip.scores["precision"] == 1.0
    assert trip.scores["recall"] == (gold - lost) / gold
    remarks = [f"dev: 1 of {gold} spans overlap another"] if lost else []
    assert len(trip.remarks) == len(remarks)
    assert all(map(str.startswith, trip.remarks, remarks))


QUERIES = TASK.queries
SPAN_TASKS = [Tagging(), TwoPointerNER(), TASK, dataclasses.replace(TASK, match=False)]
ADJACENT = Sentence(WORDS, tuple(Span("ORG", n, n + 1) for n in range(6)), 1)
# A span of two words, one of one next to it, and a word that is named thrice.
MIXED = Sentence(
    WORDS,
    (
        Span("LOC-city", 0, 2),
        Span("ORG", 2, 3),
        Span("LOC-city", 3, 4),
        Span("LOC-city", 5, 6),
    ),
    1,
)


@pytest.mark.parametrize(
    "task", [*SPAN_TASKS, *(Tagging(scheme=s) for s in ("IOB1", "IOBES", "BMES"))]
)
def test_adjacent_last_and_repeated_spans_survive(tokenizer, task):
    trip = round_trip(task, [SENTENCE, ADJACENT, MIXED], tokenizer, 64)
    assert trip.scores["f1"] == 1.0 and trip.remarks == []


@pytest.mark.parametrize(
    "task", [TwoPointerNER(), dataclasses.replace(TASK, queries=QUERIES[1:])]
)
def test_what_no_window_holds_counts_as_missed_and_is_no_label(tokenizer, task):
    sentence = Sentence(WORDS, (Span("ORG", 0, 1), Span("ORG", 1, 6)), 1)

    def encoded(length):
        labels = task.label_names([sentence])
        items = task.encode([sentence], tokenizer, labels, length)
        return items, list(map(words_of, items))

    room = int(encoded(64)[1][0][3]) + 1
    (first, *_, last), words = encoded(room)
    assert len(first) == room and words[0].tolist()[3:] == [-1] * 3
    assert first.arrays["start"][words[0][:2]].tolist() == [1, IGNORED]
    assert first.arrays["end"][words[0][:2]].tolist() == [1, 0]
    assert last.arrays["end"][words[-1][5]] == IGNORED
    trip = round_trip(task, [sentence], tokenizer, room)
    assert (trip.scores["precision"], trip.scores["recall"]) == (1.0, 0.5)
    assert trip.remarks[0].startswith("1 of 2 dev entities (50%) fit no window of ")
    assert trip.remarks[0].endswith(
        "raise --task.stride, up to half of --training.max_length, or both"
    )


@pytest.mark.parametrize(
    "task",
    [Tagging(), TwoPointerNER(), dataclasses.replace(TASK, queries=QUERIES[:1])],
)
def test_a_type_that_train_lacks_is_counted_masked_and_missed(tokenizer, task):
    places = SENTENCE.spans[2:]
    labels = task.label_names([dataclasses.replace(SENTENCE, spans=places)])
    (item,) = task.encode([SENTENCE], tokenizer, labels, 64)
    (remark,) = remarks_of(task, "dev", [SENTENCE], [item], labels)
    assert remark.startswith("dev has 2 'ORG' spans, a type that train lacks")
    scores = task.score([SENTENCE], [Prediction(places)], labels).values
    assert (scores["precision"], scores["recall"]) == (1.0, 1 / 3)
    match task:
        case Tagging():
            assert (item.arrays["tags"][item.detail[[0, 2, 3]]] == IGNORED).all()
        case TwoPointerNER():
            starts = item.arrays["start"][item.detail.words].tolist()
            assert starts == [IGNORED, 0, IGNORED, 0, 0, 1]
