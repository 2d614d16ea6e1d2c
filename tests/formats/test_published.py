"""Published data sets: counts as published, gold at its offsets."""

from __future__ import annotations

import functools
import itertools
import json
import subprocess
import sys
from collections import Counter

import bert_mrc_files as bert_mrc
import cluener_files as cluener
import pytest

from dicejax.formats import ConllFiles, SquadFiles, TextFiles
from dicejax.formats.records import Skipped

from ..data import glue

conll = ConllFiles.read_file
conllu = functools.partial(conll, layout="conllu")
label_first = functools.partial(TextFiles.read_file, layout="label-first")


def words(column):
    return functools.partial(ConllFiles.read_file, layout="labels", label_column=column)


def columns(layout):
    return functools.partial(TextFiles.read_file, **layout)


XPOS = functools.partial(conllu, label_column="XPOS")
MSRA = {"LOC": 36_517, "ORG": 20_574, "PER": 17_618}
CLUENER = {"address": 2_891, "book": 1_139, "company": 2_980, "game": 2_376}
CLUENER |= {"government": 1_835, "movie": 1_123, "name": 3_755, "organization": 3_210}
CLUENER |= {"position": 3_141, "scene": 1_521}
CONLL03 = {"LOC": 7_140, "MISC": 3_438, "ORG": 6_321, "PER": 6_600}
CHUNKS = {"NP": 55_081, "VP": 21_467, "PP": 21_281, "UCP": 2}
UD_CHINESE, UD_ENGLISH = {"NOUN": 27_096, "SYM": 25}, {"NOUN": 11_863, "X": 176}
SST5 = [[1_092, 2_218, 1_624, 2_322, 1_288], [139, 289, 229, 279, 165]]
SST5 += [[279, 633, 389, 510, 399]]

# File, examples, words, labels in all (None: a label for each word), different ones.
TAGGED = [
    (conll, "conll2003/train.txt", 14_041, 203_621, 23_499, 4, CONLL03),
    (conll, "conll2003/dev.txt", 3_250, 51_362, 5_942, 4, {}),
    (conll, "conll2003/test.txt", 3_453, 46_435, 5_648, 4, {}),
    (
        *(conll, "msra/test.txt", 3_442, 172_601, 6_190, 3),
        {"LOC": 2_886, "ORG": 1_331, "PER": 1_973},
    ),
    (conll, "msra/test_same_preprocessing.txt", 4_631, 172_601, 6_192, 3, {}),
    pytest.param(
        *(conll, "msra/train.txt.gz", 50_658, 2_169_879, 74_709, 3, MSRA),
        marks=pytest.mark.exhaustive,
    ),
    (conll, "conll2000/train.txt", 8_936, 211_727, 106_978, 11, CHUNKS),
    (words(1), "conll2000/train.txt", 8_936, 211_727, None, 44, {}),
    (words(1), "conll2000/test.txt", 2_012, 47_377, None, None, {}),
    (words(-1), "tweet_pos_ark/train.txt", 1_000, 14_619, None, 25, {}),
    (words(-1), "tweet_pos_ark/dev.txt", 327, 4_823, None, None, {}),
    (words(-1), "tweet_pos_ark/test.txt", 500, 7_152, None, None, {}),
    (words(-1), "tweet_pos_ark/test_daily547.txt", 547, 7_707, None, None, {}),
    (words(-1), "tweet_pos_ritter/all.txt", 787, 15_185, None, 45, {}),
    (conllu, "ud_chinese_1.4/train.conllu", 3_997, 98_608, None, 15, UD_CHINESE),
    (XPOS, "ud_chinese_1.4/train.conllu", 3_997, 98_608, None, 42, {}),
    (conllu, "ud_chinese_1.4/dev.conllu", 500, 12_663, None, None, {}),
    (conllu, "ud_chinese_1.4/test.conllu", 500, 12_012, None, None, {}),
    (conllu, "ud_english_ewt/train.conllu", 4_276, 69_030, None, 17, UD_ENGLISH),
    (XPOS, "ud_english_ewt/train.conllu", 4_276, 69_030, None, 49, {}),
    (conllu, "ud_english_ewt/dev.conllu", 2_001, 25_147, None, None, {}),
    (conllu, "ud_english_ewt/test.conllu", 2_077, 25_094, None, None, {}),
    (cluener.read, "cluener2020/train.json", 10_748, 401_764, 23_971, 10, CLUENER),
    (cluener.read, "cluener2020/dev.json", 1_343, 50_260, 3_072, 10, {}),
]


@pytest.mark.parametrize(
    ("read", "file", "examples", "words", "total", "different", "some"), TAGGED
)
def test_words(data_folder, read, file, examples, words, total, different, some):
    corpus = read(data_folder / file)
    assert (len(corpus), sum(len(e.words) for e in corpus)) == (examples, words)
    counts = Counter(
        label
        for e in corpus
        for label in getattr(e, "labels", ()) or [span.type for span in e.spans]
    )
    assert counts.total() == (words if total is None else total)
    assert different in (None, len(counts))
    assert counts.items() >= some.items()


@pytest.mark.parametrize(
    ("read", "file", "counts"),
    [
        (columns(glue.MRPC), "mrpc/train.tsv", [3_668 - 2_474, 2_474]),
        (columns(glue.MRPC), "mrpc/dev.tsv", [408 - 279, 279]),
        (columns(glue.MRPC), "mrpc/test.tsv", [1_725 - 1_147, 1_147]),
        (columns(glue.QQP), "qqp/train.tsv", [5_000, 5_000]),
        (columns(glue.QQP), "qqp/dev.tsv", [5_000, 5_000]),
        (columns(glue.SST2), "sst2/train.tsv", [67_349 - 37_569, 37_569]),
        (columns(glue.SST2), "sst2/dev.tsv", [872 - 444, 444]),
        (label_first, "sst2_sentences/train.txt", [3_310, 3_610]),
        (label_first, "sst2_sentences/dev.txt", [428, 444]),
        (label_first, "sst2_sentences/test.txt", [912, 909]),
        (label_first, "sst5/train.txt", SST5[0]),
        (label_first, "sst5/dev.txt", SST5[1]),
        (label_first, "sst5/test.txt", SST5[2]),
    ],
)
def test_classified_texts(data_folder, read, file, counts):
    examples = read(data_folder / file)
    assert Counter(e.label for e in examples) == {
        str(label): count for label, count in enumerate(counts)
    }
    is_pair = file.startswith(("mrpc", "qqp"))
    assert all((e.second is not None) == is_pair for e in examples)
    assert len({e.id for e in examples}) == len(examples)


@pytest.mark.parametrize(
    ("file", "items", "spans", "empty", "corpus"),
    [
        ("zh_msra_test", 900, 728, 525, "msra/test_same_preprocessing.txt"),
        ("en_conll03_dev", 1_200, 534, 837, "conll2003/dev.txt"),
    ],
)
def test_bert_mrc(data_folder, file, items, spans, empty, corpus):
    queries = bert_mrc.read(data_folder / f"bert_mrc/{file}_first300.json")
    assert len(queries) == items
    assert sum(len(query.spans) for query in queries) == spans
    assert sum(not query.spans for query in queries) == empty
    named = {"NR": "PER", "NS": "LOC", "NT": "ORG"}
    asked = {}
    for query in queries:
        result = asked.setdefault(query.id.split(".")[0], (query.words, []))
        kind = named.get(query.label, query.label)
        result[1].extend(span._replace(type=kind) for span in query.spans)
    sentences = conll(data_folder / corpus)[:300]
    for (text, gold), sentence in zip(asked.values(), sentences, strict=True):
        assert text == sentence.words
        assert sorted(gold, key=lambda s: s.start) == list(sentence.spans)


@pytest.mark.parametrize(
    ("file", "questions", "answers", "impossible"),
    [
        ("squad_v1.1/train.json", 11_877, 11_877, 0),
        ("squad_v1.1/dev.json", 10_570, 34_726, 0),
        ("squad_v2.0/train.json", 4_719, 4_371, 348),
        ("squad_v2.0/dev.json", 11_873, 20_302, 5_945),
    ],
)
def test_squad(data_folder, file, questions, answers, impossible):
    examples = SquadFiles.read_file(data_folder / file)
    assert len(examples) == questions
    assert sum(len(example.answers) for example in examples) == answers
    assert sum(example.impossible for example in examples) == impossible
    assert_answers_stand_in_their_contexts(examples)


def test_quoref(data_folder):
    path = data_folder / "quoref/dev.json"
    source = SquadFiles(dir="", several_spans=True, repair=True)
    examples, notes = source.read_with_notes(path, None)
    assert len(examples) == 2_418
    assert all(len(example.answers) == 1 for example in examples)
    assert sum(len(example.answers[0]) for example in examples) == 2_768
    assert notes[0].startswith("50 repaired:\n")
    assert_answers_stand_in_their_contexts(examples)
    skipped = Skipped()
    strict = source.read_file(path, several_spans=True, on_error=skipped)
    published = {
        asked["id"]: {(a["answer_start"], a["text"]) for a in asked["answers"]}
        for article in json.loads(path.read_text("utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for asked in paragraph["qas"]
    }
    assert (len(strict), skipped.count) == (2_418, 50)
    for example in strict:
        expected = published[example.id]
        if example.unlocated:  # scored, not trained on
            assert set(example.unlocated) == {text for _, text in expected}
        else:
            assert {tuple(span) for span in example.answers[0]} == expected


def assert_answers_stand_in_their_contexts(examples):
    for example in examples:
        for span in itertools.chain(*example.answers):
            assert example.context[span.start : span.end] == span.text


def test_reading_msra_takes_16_kib_a_sentence(data_folder):
    """Measured in a fresh process, for its peak beyond the libraries.

    The 50,658 sentences of train so stay below a gibibyte.
    """
    program = (
        "import re, sys\n"
        "from dicejax.formats import ConllFiles\n"
        # Not ru_maxrss, which begins at the parent's peak.
        "status = lambda: open('/proc/self/status').read()\n"
        "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+) kB', status())[1])\n"
        "before, sentences = peak(), ConllFiles.read_file(sys.argv[1])\n"
        "print(len(sentences), peak() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, data_folder / "msra/test.txt"],
        capture_output=True,
        text=True,
        check=True,
    )
    sentences, kibibytes = map(int, done.stdout.split())
    assert sentences == 3_442
    assert kibibytes < 16 * sentences
