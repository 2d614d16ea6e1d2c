"""The identity of a split is its content and order, whatever file it is from."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from dicejax.data.examples import (
    AnswerSpan,
    LabelledText,
    MultiLabelText,
    ReadingExample,
    Sentence,
    TaggedWords,
)
from dicejax.data.identity import digest
from dicejax.data.tags import Span
from dicejax.formats import ConllFiles

ANSWERS = ((AnswerSpan(0, "a"),),)
EXAMPLES = {
    "sentence": Sentence(("a", "b"), (Span("X", 0, 1),), 1),
    "words": TaggedWords(("a", "b"), ("X", "Y"), 1),
    "question": ReadingExample("1", "who", "a b", ANSWERS, impossible=False),
    "text": LabelledText("a", None, "x", "0", 1),
    "labels": MultiLabelText("a", "b", ("x",), "0", 1),
}
OTHER = {
    "words": ("a", "c"),
    "spans": (Span("X", 1, 2),),
    "before": ("a",),
    "after": ("b",),
    "prompt": "a",
    "weight": 0.5,
    "labels": ("Y", "X"),
    "question": "why",
    "context": "a b c",
    "answers": ((AnswerSpan(2, "b"),),),
    "impossible": True,
    "unlocated": ("d",),
    "first": "b",
    "second": "c",
    "label": "y",
    "probabilities": (("x", 0.6), ("y", 0.4)),
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_field_counts_but_the_place_in_the_file(kind):
    example = EXAMPLES[kind]
    first = digest([example, example])
    for field in dataclasses.fields(example):
        place = {"line": 7, "id": "7", "document": "d"}.get(field.name)
        value = OTHER[field.name] if place is None else place
        other = dataclasses.replace(example, **{field.name: value})
        now = digest([example, other])
        if field.name in ("line", "id"):
            assert now.checksum == first.checksum
        elif field.name == "document":
            assert now.difference(first) == "2 examples are of other documents"
        else:
            assert now.difference(first) == "1 of 2 examples differs"


def test_documents_are_what_shares_one_and_not_their_names():
    def texts(documents):
        return [LabelledText("a", None, "x", "0", 1, document=d) for d in documents]

    assert digest(texts("aab")).checksum == digest(texts("xxy")).checksum
    assert digest(texts("aab")).checksum != digest(texts("abb")).checksum


def test_differences_count_examples_as_multisets_do():
    rng = np.random.default_rng(0)
    for _ in range(200):
        old, new = (
            list(map(str, rng.integers(0, 4, rng.integers(1, 9)))) for _ in "ab"
        )
        before, now = (
            digest([LabelledText(x, None, "y", "0", 1) for x in texts])
            for texts in (old, new)
        )
        gone = sum((Counter(old) - Counter(new)).values())
        added = sum((Counter(new) - Counter(old)).values())
        text = now.difference(before, "texts")
        if old == new:
            assert text is None
        elif not gone and not added:
            assert text == f"{len(old)} texts are in another order"
        elif gone:
            assert text.startswith(f"{gone} of {len(old)} texts ")
            assert text.endswith(f", now {len(new)}") == (0 < added != gone)
        else:
            assert text == f"{added} more than the {len(old)} texts"


def test_of_a_sample_all_that_it_is_drawn_from_counts(tmp_path):
    for name, count in {"train": 40, "dev": 5, "test": 5}.items():
        rows = (f"w{n} B-X\n" for n in range(count))
        (tmp_path / f"{name}.txt").write_text("\n".join(rows))
    whole = ConllFiles(dir=str(tmp_path)).load()
    drawn = [
        ConllFiles(dir=str(tmp_path), max_train=10, train_sample=seed).load()
        for seed in (0, 1)
    ]
    assert drawn[0].train != drawn[1].train
    for corpus in drawn:
        assert corpus.digests["train"].checksum == digest(whole.train).checksum
