"""Published data sets: counts as published, gold at its offsets."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter

import bert_mrc_files as bert_mrc
import cluener_files as cluener
import pytest

from dicejax.data.examples import by_character
from dicejax.data.readers import classification, conll, conllu, squad
from dicejax.data.readers.skipping import Skipped

from .. import glue


def labels_of(examples):
    return Counter(itertools.chain.from_iterable(e.labels for e in examples))


@pytest.mark.parametrize(
    ("file", "sentences", "tokens"),
    [
        ("ud_chinese_1.4/train.conllu", 3_997, 98_608),
        ("ud_chinese_1.4/dev.conllu", 500, 12_663),
        ("ud_chinese_1.4/test.conllu", 500, 12_012),
        ("ud_english_ewt/train.conllu", 4_276, 69_030),
        ("ud_english_ewt/dev.conllu", 2_001, 25_147),
        ("ud_english_ewt/test.conllu", 2_077, 25_094),
    ],
)
def test_treebanks(data_folder, file, sentences, tokens):
    corpus = conllu.read(data_folder / file)
    assert len(corpus) == sentences
    assert labels_of(corpus).total() == tokens
    assert all(len(e.words) == len(e.labels) for e in corpus)


def test_labels_of_treebanks(data_folder):
    chinese = conllu.read(data_folder / "ud_chinese_1.4/train.conllu")
    counts = labels_of(chinese)
    assert len(counts) == 15
    assert counts.most_common()[0] == ("NOUN", 27_096)
    assert counts.most_common()[-1] == ("SYM", 25)
    path = data_folder / "ud_chinese_1.4/train.conllu"
    assert len(labels_of(conllu.read(path, column="XPOS"))) == 42
    english = data_folder / "ud_english_ewt/train.conllu"
    counts = labels_of(conllu.read(english))
    assert (len(counts), counts["NOUN"], counts["X"]) == (17, 11_863, 176)
    assert len(labels_of(conllu.read(english, column="XPOS"))) == 49
    sentence = by_character(chinese[0])
    assert ["".join(sentence.words[s.start : s.end]) for s in sentence.spans] == list(
        chinese[0].words
    )


@pytest.mark.parametrize(
    ("file", "column", "sentences", "tokens", "tags"),
    [
        ("tweet_pos_ark/train.txt", -1, 1_000, 14_619, 25),
        ("tweet_pos_ark/dev.txt", -1, 327, 4_823, None),
        ("tweet_pos_ark/test.txt", -1, 500, 7_152, None),
        ("tweet_pos_ark/test_daily547.txt", -1, 547, 7_707, None),
        ("tweet_pos_ritter/all.txt", -1, 787, 15_185, 45),
        ("conll2000/train.txt", 1, 8_936, 211_727, 44),
        ("conll2000/test.txt", 1, 2_012, 47_377, None),
    ],
)
def test_parts_of_speech(data_folder, file, column, sentences, tokens, tags):
    corpus = conll.read_words(data_folder / file, label_column=column)
    assert len(corpus) == sentences
    counts = labels_of(corpus)
    assert counts.total() == tokens
    assert tags in (None, len(counts))


def test_chunks(data_folder):
    corpus = conll.read(data_folder / "conll2000/train.txt")
    counts = Counter(span.type for sentence in corpus for span in sentence.spans)
    assert counts.total() == 106_978
    assert (counts["NP"], counts["VP"], counts["PP"]) == (55_081, 21_467, 21_281)
    assert counts["UCP"] == 2


def test_msra_in_the_form_of_its_training_set(data_folder):
    corpus = conll.read(data_folder / "msra/test_same_preprocessing.txt")
    assert len(corpus) == 4_631
    assert sum(len(sentence.words) for sentence in corpus) == 172_601
    assert sum(len(sentence.spans) for sentence in corpus) == 6_192


def test_cluener(data_folder):
    train = cluener.read(data_folder / "cluener2020/train.json")
    assert len(train) == 10_748
    assert sum(len(sentence.words) for sentence in train) == 401_764
    assert Counter(span.type for sentence in train for span in sentence.spans) == {
        "address": 2_891,
        "book": 1_139,
        "company": 2_980,
        "game": 2_376,
        "government": 1_835,
        "movie": 1_123,
        "name": 3_755,
        "organization": 3_210,
        "position": 3_141,
        "scene": 1_521,
    }
    strings = {
        (n, span.type, sentence.words[span.start : span.end])
        for n, sentence in enumerate(train)
        for span in sentence.spans
    }
    assert len(strings) == 23_338
    dev = cluener.read(data_folder / "cluener2020/dev.json")
    assert (len(dev), sum(len(s.spans) for s in dev)) == (1_343, 3_072)
    assert sum(len(sentence.words) for sentence in dev) == 50_260


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
    sentences = conll.read(data_folder / corpus)[:300]
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
    examples = squad.read(data_folder / file)
    assert len(examples) == questions
    assert sum(len(example.answers) for example in examples) == answers
    assert sum(example.impossible for example in examples) == impossible
    assert_answers_stand_in_their_contexts(examples)


def test_quoref(data_folder):
    path = data_folder / "quoref/dev.json"
    repaired = Skipped()
    examples = squad.read(path, several_spans=True, on_repair=repaired)
    assert len(examples) == 2_418
    assert all(len(example.answers) == 1 for example in examples)
    assert sum(len(example.answers[0]) for example in examples) == 2_768
    assert repaired.count == 50
    assert_answers_stand_in_their_contexts(examples)
    skipped = Skipped()
    strict = squad.read(path, several_spans=True, on_error=skipped)
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


@pytest.mark.parametrize(
    ("file", "layout", "negatives", "positives"),
    [
        ("mrpc/train.tsv", glue.MRPC, 3_668 - 2_474, 2_474),
        ("mrpc/dev.tsv", glue.MRPC, 408 - 279, 279),
        ("mrpc/test.tsv", glue.MRPC, 1_725 - 1_147, 1_147),
        ("qqp/train.tsv", glue.QQP, 5_000, 5_000),
        ("qqp/dev.tsv", glue.QQP, 5_000, 5_000),
        ("sst2/train.tsv", glue.SST2, 67_349 - 37_569, 37_569),
        ("sst2/dev.tsv", glue.SST2, 872 - 444, 444),
    ],
)
def test_classified_texts(data_folder, file, layout, negatives, positives):
    examples = classification.read(data_folder / file, **layout)
    counts = Counter(example.label for example in examples)
    assert counts == {"0": negatives, "1": positives}
    assert all((e.second is None) == ("second" not in layout) for e in examples)
    assert len({example.id for example in examples}) == len(examples)


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("sst2_sentences/train.txt", [3_310, 3_610]),
        ("sst2_sentences/dev.txt", [428, 444]),
        ("sst2_sentences/test.txt", [912, 909]),
        ("sst5/train.txt", [1_092, 2_218, 1_624, 2_322, 1_288]),
        ("sst5/dev.txt", [139, 289, 229, 279, 165]),
        ("sst5/test.txt", [279, 633, 389, 510, 399]),
    ],
)
def test_sentiment_of_sentences(data_folder, file, counts):
    examples = classification.read_label_first(data_folder / file)
    result = Counter(example.label for example in examples)
    assert [result[str(label)] for label in range(len(counts))] == counts
    assert result.total() == sum(counts)


def test_reading_msra_peaks_under_a_gibibyte(data_folder):
    """Measured in a fresh process, for its peak."""
    program = (
        "import re, sys\n"
        "from dicejax.data.readers.conll import read\n"
        "sentences = read(sys.argv[1])\n"
        # Not ru_maxrss, which begins at the parent's peak.
        "status = open('/proc/self/status').read()\n"
        "print(len(sentences), *re.findall(r'VmHWM:\\s+(\\d+) kB', status))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, data_folder / "msra/train.txt.gz"],
        capture_output=True,
        text=True,
        check=True,
    )
    sentences, kibibytes = map(int, done.stdout.split())
    assert sentences == 50_658
    assert kibibytes < 2**20
