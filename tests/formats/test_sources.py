"""Splits: held out, sampled, skipped; deterministic and reported."""

import functools
import gzip
import json

import pytest
from cluener_files import CluenerFiles

from dicejax.data.examples import TaggedWords
from dicejax.errors import InputError
from dicejax.formats import ConllFiles, SquadFiles, TextFiles

from .test_squad import answer, document, question

ROWS = "".join(f"{n % 2} sentence {n}\n" for n in range(100))

label_first_files = functools.partial(TextFiles, layout="label-first")


def label_first(tmp_path, **settings):
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.txt").write_text(ROWS)
    return TextFiles(layout="label-first", dir=str(tmp_path), **settings).load()


def test_splits_are_read_whole(tmp_path):
    corpus = label_first(tmp_path)
    assert [len(s) for s in (corpus.train, corpus.dev, corpus.test)] == [100] * 3
    assert corpus.notes == ()


def test_what_is_held_out_is_in_no_other_split_and_always_the_same(tmp_path):
    corpus = label_first(tmp_path, dev=None, dev_share=0.2)
    assert len(corpus.dev) == 20 and len(corpus.train) == 80
    assert not set(corpus.dev) & set(corpus.train)
    assert [e.line for e in corpus.train] == sorted(e.line for e in corpus.train)
    again = label_first(tmp_path, dev=None, dev_share=0.2)
    assert again == corpus
    other = label_first(tmp_path, dev=None, dev_share=0.2, sample_seed=1)
    assert other.dev != corpus.dev
    note = corpus.notes[0]
    how = "(a share of each label, equal texts together)"
    assert note == f"split train.txt into 80 train / 20 dev texts {how}"


def test_a_missing_test_split_is_dev_and_said(tmp_path):
    corpus = label_first(tmp_path, test=None)
    assert corpus.test == corpus.dev
    assert corpus.notes[0].startswith("no test split: scores are of dev")


def test_samples_are_drawn_in_the_order_of_the_file(tmp_path):
    corpus = label_first(tmp_path, max_train=30, max_dev=10, max_test=500)
    assert [len(s) for s in (corpus.train, corpus.dev, corpus.test)] == [30, 10, 100]
    lines = [example.line for example in corpus.train]
    assert lines == sorted(set(lines)) and lines != list(range(1, 31))
    assert corpus.notes == (
        "train: 30 of 100 texts (random)",
        "dev: 10 of 100 texts (random)",
    )


def test_files_join_and_packed_files_are_found(tmp_path):
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write(ROWS)
    for name in ("b", "dev", "test"):
        (tmp_path / f"{name}.txt").write_text(ROWS)
    corpus = TextFiles(
        layout="label-first", dir=str(tmp_path), train="a.txt+b.txt"
    ).load()
    assert len(corpus.train) == 200


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_shares_are_checked(value):
    with pytest.raises(ValueError, match="dev_share is"):
        TextFiles(layout="label-first", dir="x", dev_share=value)
    with pytest.raises(ValueError, match="max_dev is 0"):
        TextFiles(layout="label-first", dir="x", max_dev=0)


def test_a_test_split_is_held_out_before_dev(tmp_path):
    corpus = label_first(tmp_path, dev=None, test=None, dev_share=0.2, test_share=0.3)
    splits = (corpus.train, corpus.dev, corpus.test)
    assert [len(split) for split in splits] == [50, 20, 30]
    lines = [example.line for split in splits for example in split]
    assert len(set(lines)) == 100
    note, rest = corpus.notes
    assert "'dev.txt', 'test.txt'" in rest
    what, how = note.removesuffix(")").split(" (")
    assert what == "split train.txt into 50 train / 20 dev / 30 test texts"
    assert how == "a share of each label, equal texts together"
    with pytest.raises(ValueError, match="test_share is 0"):
        TextFiles(layout="label-first", dir="x", test_share=0.9)
    # A file of its own is taken whole, whatever the share.
    mine = label_first(tmp_path, dev=None, dev_share=0.2, test_share=0.3)
    assert (len(mine.train), len(mine.dev), len(mine.test)) == (80, 20, 100)


ONE_TEXT = document(*(question(answer("Ada", 0), id=str(n)) for n in range(20)))


@pytest.mark.parametrize(
    ("source", "content", "message"),
    [
        (label_first_files, "1 one\n", "holds too few texts to hold some out"),
        (ConllFiles, "Ada B-PER\nslept O\n" * 20, "is a blank line missing between"),
        (SquadFiles, json.dumps(ONE_TEXT), "20 questions, all about one text, which"),
    ],
)
def test_what_cannot_be_held_out_is_said(tmp_path, source, content, message):
    (tmp_path / "data").write_text(content)
    with pytest.raises(InputError, match=message):
        source(dir=str(tmp_path), train="data", dev=None, test=None).load()


def test_questions_of_a_context_stay_together(tmp_path):
    documents = (
        document(
            *(question(answer("Ada", 0), id=f"{number}.{n}") for n in range(3)),
            context=f"Ada {number} slept.",
        )
        for number in range(10)
    )
    articles = {"data": [entry for e in documents for entry in e["data"]]}
    for name in ("train", "dev"):
        (tmp_path / f"{name}.json").write_text(json.dumps(articles))
    corpus = SquadFiles(dir=str(tmp_path), dev_share=0.3).load()
    assert (len(corpus.train), len(corpus.dev), len(corpus.test)) == (21, 9, 30)
    contexts = [{e.context for e in split} for split in (corpus.train, corpus.dev)]
    assert not contexts[0] & contexts[1]


def questions(text, start=0):
    """A document with a question, and another with an answer."""
    asked = [question(answer("Ada", 0)), question(answer(text, start), id="b")]
    return json.dumps(document(*asked))


# A file with a good example and a bad one, and what is said of it.
SOURCES = [
    (ConllFiles, "Ada B-PER\nslept O\n\nBob\n\n", "1 column"),
    (SquadFiles, questions(" ", 3), "the text of an answer is empty"),
]
NAMES = {"train": "data", "dev": "data", "test": "data"}


@pytest.mark.parametrize(("source", "content", "message"), SOURCES)
def test_bad_examples_stop_or_are_counted_listed_and_skipped(
    tmp_path, source, content, message
):
    (tmp_path / "data").write_text(content)
    with pytest.raises(InputError) as stop:
        source(dir=str(tmp_path), **NAMES).load()
    assert "\n" not in str(stop.value) and message in str(stop.value)
    assert str(tmp_path / "data") in str(stop.value)
    corpus = source(dir=str(tmp_path), on_error="skip", **NAMES).load()
    assert len(corpus.train) == len(corpus.dev) == len(corpus.test) == 1
    assert len(corpus.notes) == 1  # of one file
    assert "1 left out:" in corpus.notes[0] and message in corpus.notes[0]


def test_a_missing_folder_names_what_it_should_hold():
    with pytest.raises(InputError, match=r"no such folder; .* train.json and dev.json"):
        CluenerFiles(dir="/nowhere").load()


def test_words_are_written_as_characters_if_asked(tmp_path):
    (tmp_path / "data").write_text("喜欢 V\n书 N\n")
    names = NAMES | {"dir": str(tmp_path)}
    words = ConllFiles(layout="labels", **names).load().train
    assert words == (TaggedWords(("喜欢", "书"), ("V", "N"), 1),)
    (sentence,) = ConllFiles(layout="labels", characters=True, **names).load().train
    assert sentence.words == ("喜", "欢", "书")
