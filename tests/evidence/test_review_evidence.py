"""What docs/review.md has is what the archive has, and labels are broken as it says."""

import json
import random
from collections import Counter

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from dicejax.data.examples import LabelledText, Sentence, Span

from ..documented import ROOT


@pytest.fixture(scope="module")
def made(evidence):
    """Return the script."""
    return evidence("review")


def test_the_page_has_the_tables_of_the_archive(made):
    page = (ROOT / "docs/review.md").read_text(encoding="utf-8")
    content = json.loads(made.FILE.read_text())
    lines = [line for line in made.lines_of(content) if line]
    assert len(lines) > 25
    assert [line for line in lines if line not in page] == []


def test_average_precision_is_that_of_the_ranks(made):
    draw = np.random.default_rng(0)
    broken = draw.random(200) < 0.1
    scores = draw.normal(size=200)
    ranks = made.ranks_of(scores, np.flatnonzero(broken))
    expected = average_precision_score(broken, -scores)
    assert made.average_precision(ranks) == pytest.approx(expected)


def test_one_label_in_twenty_is_broken_in_the_four_ways_alike(made):
    words = ("Ada", "Low", "met", "Bo", "in", "Rome", "today")
    spans = (Span("PER", 0, 2), Span("PER", 3, 4), Span("LOC", 5, 6))
    clean = [Sentence(words, spans, n) for n in range(160)]
    broken, kinds = made.break_sentences(clean, random.Random(0))
    assert Counter(kinds) == {"": 136} | dict.fromkeys(made.KINDS, 6)
    for sentence, kind in zip(broken, kinds, strict=True):
        gone = set(spans) - set(sentence.spans)
        new = set(sentence.spans) - set(spans)
        assert (len(gone), len(new)) == {
            "": (0, 0),
            "missing": (1, 0),
            "extra": (0, 1),
            "boundary": (1, 1),
            "type": (1, 1),
        }[kind]
        for before, after in zip(gone, new, strict=False):
            assert (before.type == after.type) == (kind == "boundary")
            assert (before[1:] == after[1:]) == (kind == "type")
    texts = [LabelledText(f"{n}", None, f"{n % 2}", f"{n}", n) for n in range(100)]
    flipped, kinds = made.break_texts(texts, random.Random(0))
    changed = [x.label != y.label for x, y in zip(texts, flipped, strict=True)]
    assert sum(changed) == 5
    assert changed == [kind == "flipped" for kind in kinds]
