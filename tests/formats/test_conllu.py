"""CoNLL-U: rows that are words, the column of labels, errors."""

from __future__ import annotations

import functools
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from dicejax.data.examples import TaggedWords
from dicejax.formats import ConllFiles

read = functools.partial(ConllFiles.read_file, layout="conllu")


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


def test_other_columns(write):
    path = write(FRENCH)
    assert read(path, label_column="XPOS")[1].labels == ("UH",)
    assert read(path, label_column="DEPREL")[1].labels == ("dep",)
    assert read(path, label_column="FEATS")[0].labels[:2] == ("Number=Sing", "_")


def test_a_hash_and_spaces_may_be_words(write):
    content = "\n".join([row(1, "#"), row(2, "10 000"), row(3, "_")])
    assert read(write(content))[0].words == ("#", "10 000", "_")


def test_comments_alone_are_no_sentence(write):
    assert len(read(write("# newdoc\n\n" + FRENCH))) == 2


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


def test_ranges_empty_nodes_and_comments_come_back_around_predictions(write):
    unlabelled = re.sub("\t(PRON|VERB|ADP|DET|NOUN|INTJ)\t", "\t_\t", FRENCH)
    labels = [["PRON", "VERB", "ADP", "DET", "NOUN"], ["INTJ"]]
    source = ConllFiles(layout="conllu", dir=".")
    texts = [*source.texts(write(f"# newdoc\n\n{unlabelled}"))]
    assert [(e.line, e.words) for e in texts] == [
        (5, ("Il", "va", "à", "le", "lit")),
        (14, ("Oui",)),
    ]
    records = [{"words": [], "labels": row} for row in labels]
    written = "\n".join(map(source.write, texts, records)) + "\n"
    empty = row("0.1", "il", "PRON")
    expected = FRENCH.replace(empty, empty.replace("PRON", "_"))
    assert written == f"# newdoc\n\n{expected}"
