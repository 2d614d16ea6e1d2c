"""CoNLL-U: rows that are words, the column of labels, errors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicejax.data.examples import TaggedWords
from dicejax.data.readers.conllu import read
from dicejax.data.readers.skipping import Skipped


def row(id_, word, upos="X", *, xpos="_", feats="_", deprel="dep"):
    return "\t".join([str(id_), word, "_", upos, xpos, feats, "0", deprel, "_", "_"])


FRENCH = "\n".join(
    [
        "# sent_id = 1",
        "# text = Il va au lit",
        row(1, "Il", "PRON", feats="Number=Sing", xpos="PR"),
        row(2, "va", "VERB", xpos="VB"),
        row("3-4", "au", "_"),
        row(3, "à", "ADP", xpos="P"),
        row(4, "le", "DET", xpos="D"),
        row(5, "lit", "NOUN", xpos="NN"),
        row("5.1", "blanc", "ADJ"),
        "",
        "# newpar",
        row("0.1", "il", "PRON"),
        row(1, "Oui", "INTJ", xpos="UH"),
        "",
    ]
)


def test_words_only(write):
    first, second = read(write(FRENCH))
    assert first == TaggedWords(
        ("Il", "va", "à", "le", "lit"), ("PRON", "VERB", "ADP", "DET", "NOUN"), 3
    )
    assert second == TaggedWords(("Oui",), ("INTJ",), 12)


def test_without_comments(write):
    bare = "\n".join(line for line in FRENCH.split("\n") if not line.startswith("#"))
    labels = [example.labels for example in read(write(bare))]
    assert labels == [example.labels for example in read(write(FRENCH))]


def test_other_columns(write):
    path = write(FRENCH)
    assert read(path, column="XPOS")[1].labels == ("UH",)
    assert read(path, column="DEPREL")[1].labels == ("dep",)
    assert read(path, column="FEATS")[0].labels[:2] == ("Number=Sing", "_")


def test_a_hash_and_spaces_may_be_words(write):
    content = "\n".join([row(1, "#"), row(2, "10 000"), row(3, "_")])
    assert read(write(content))[0].words == ("#", "10 000", "_")


def test_comments_alone_are_no_sentence(write):
    assert len(read(write("# newdoc\n\n" + FRENCH))) == 2


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        ("a X\n", {}, ":1: 1 column where CoNLL-U has 10; separate them with one tab"),
        (row(1, "a") + "\tx", {}, ":1: 11 columns where CoNLL-U has 10;"),
        (row(2, "a"), {}, ":1: id 2 where 1 is next; mend the numbering"),
        (f"{row(1, 'a')}\n{row(1, 'b')}", {}, ":2: id 1 where 2 is next;"),
        (row("x", "a"), {}, ":1: id 'x' is no number, range or empty node; correct"),
        (row("01", "a"), {}, ":1: id '01' is no number,"),
        (row("1-", "a"), {}, ":1: id '1-' is no number,"),
        (row(1, ""), {}, ":1: the word is empty;"),
        (row(1, "a", "_"), {}, ":1: the word has no UPOS; add it, or name another"),
        (row(1, "a", ""), {}, ":1: the word has no UPOS;"),
        (row(1, "a"), {"column": "XPOS"}, ":1: the word has no XPOS;"),
        (row(1, "a"), {"column": "upos"}, ": no column 'upos' has labels; name one of"),
        (row(1, "a"), {"column": "DEPRELS"}, ": no column 'DEPRELS' has labels; did"),
        (row(1, "a"), {"column": "FORM"}, ": no column 'FORM' has labels; "),
        ("# only\n# comments\n", {}, ": holds no sentences;"),
    ],
)
def test_what_cannot_be_read_is_refused(write, refusal, content, settings, message):
    assert refusal(read, write(content), **settings).startswith(message)


def test_bad_sentences_are_left_out_with_their_first_flaw(write):
    bad = f"{row(1, 'a')}\nwrong\n{row(9, 'b')}\n\n"
    skipped = Skipped()
    assert len(read(write(bad + FRENCH + "\n" + bad), on_error=skipped)) == 2
    assert skipped.count == 2
    assert all("1 column where" in message for message in skipped.messages)


WORD = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"),
    min_size=1,
)


@settings(deadline=None)
@given(st.lists(st.lists(WORD, min_size=1, max_size=4), min_size=1, max_size=4))
def test_words_are_read_as_written(tmp_path_factory, corpus):
    path = tmp_path_factory.mktemp("conllu") / "file.conllu"
    rows = ["\n".join(row(n, w) for n, w in enumerate(s, 1)) for s in corpus]
    path.write_text("\n\n".join(rows) + "\n\n", "utf-8", newline="\n")
    assert [list(example.words) for example in read(path)] == corpus
