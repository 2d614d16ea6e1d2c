"""Synthetic corpora: the requested imbalance, labels that follow from the text."""

import re
from collections import Counter, defaultdict

import numpy as np
import pytest

from dicejax.data.synthetic import TYPES, SyntheticNER
from dicejax.data.synthetic_labels import SyntheticLabels


def ratio(sentences) -> float:
    words = sum(len(s.words) for s in sentences)
    inside = sum(span.end - span.start for s in sentences for span in s.spans)
    return (words - inside) / inside


@pytest.mark.parametrize("expected", [5.0, 60.0])
def test_the_ratio_of_words_outside_to_inside_is_as_asked(expected):
    corpus = SyntheticNER(train=6_000, dev=1, test=1, o_per_entity=expected).load()
    assert ratio(corpus.train) == pytest.approx(expected, rel=0.04)


@pytest.fixture(scope="module")
def sentences():
    """Return 8,000 sentences of the default settings."""
    return SyntheticNER(train=8000, dev=1, test=1).load().train


@pytest.mark.parametrize("source", [SyntheticNER, SyntheticLabels])
def test_the_same_seed_gives_the_same_corpus(source):
    small = {"train": 50, "dev": 5, "test": 5}
    assert source(**small).load() == source(**small).load()
    assert source(**small).load() != source(seed=1, **small).load()


def test_words_do_not_tell_the_label(sentences):
    assert ratio(sentences) == pytest.approx(20.0, rel=0.08)  # the default
    uses = defaultdict(Counter)
    for sentence in sentences:
        labels = ["O"] * len(sentence.words)
        for span in sentence.spans:
            labels[span.start : span.end] = [span.type] * (span.end - span.start)
        for word, label in zip(sentence.words, labels, strict=True):
            uses[word][label] += 1
    names = {w: n for w, n in uses.items() if set(n) & set(TYPES)}
    assert len(names) == 40
    for counts in names.values():
        assert set(counts) == {"O", *TYPES}
        assert counts.most_common(1)[0][1] < 0.55 * counts.total()


def test_own_names_tell_the_type_and_disputed_ones_are_mostly_o():
    corpus = SyntheticNER(train=8000, dev=1, test=1, own_names=10, disputed=0.8)
    train = corpus.load().train
    assert ratio(train) == pytest.approx(20.0, rel=0.05)
    types, places = defaultdict(Counter), Counter()
    for sentence in train:
        places.update(sentence.words)
        for span in sentence.spans:
            types[sentence.words[span.start]][span.type] += 1
    assert len(types) == 40 and all(len(counts) == 1 for counts in types.values())
    shares = [counts.total() / places[name] for name, counts in types.items()]
    disputed = [share for share in shares if share < 1]
    assert len(disputed) == 32
    assert all(share == pytest.approx(0.4, abs=0.1) for share in disputed)
    # Always found: F1 0.68. The likeliest tag alone: 0.56.
    annotated, clear = sum(shares) / 40, 8 / 40
    assert 2 * clear / (clear + annotated) == pytest.approx(0.56, abs=0.01)
    assert 2 * annotated / (1 + annotated) == pytest.approx(0.68, abs=0.01)


def test_spans_lie_within_their_sentence_and_apart(sentences):
    for sentence in sentences[:500]:
        ends = [0]
        for span in sentence.spans:
            assert ends[-1] <= span.start < span.end <= len(sentence.words)
            ends.append(span.end)


@pytest.mark.parametrize(
    ("source", "name", "value", "bounds"),
    [
        (SyntheticNER, "o_per_entity", 1.0, "at least 4"),
        (SyntheticNER, "train", 0, "at least 1"),
        (SyntheticNER, "own_names", -1, "at least 0"),
        (SyntheticNER, "disputed", 1.5, "from 0 to 1"),
        (SyntheticLabels, "most", 1.0, "between 0 and 1"),
        (SyntheticLabels, "labels", 0, "at least 1"),
    ],
)
def test_impossible_settings_are_refused(source, name, value, bounds):
    with pytest.raises(ValueError, match=f"{name} is {value}; want {bounds}"):
        source(**{name: value})


LABELLED = {"train": 3000, "dev": 5, "test": 5}


def test_labels_follow_from_the_text_alone():
    for example in SyntheticLabels(**LABELLED).load().train:
        cues = re.findall(r"(not )?cue(\d+)[abc]\b", example.first)
        present = {int(number) for denied, number in cues if not denied}
        assert example.labels == tuple(f"label-{n:02}" for n in sorted(present))


def test_frequencies_fall_and_pairs_come_together():
    corpus = SyntheticLabels(**LABELLED, labels=4).load()
    names = [f"label-{n:02}" for n in range(1, 5)]
    held = np.array([[n in e.labels for n in names] for e in corpus.train])
    first, second, third, fourth = held.mean(0)
    assert first == pytest.approx(0.4, abs=0.03)
    assert third == pytest.approx(0.4 / 3, abs=0.02)
    # Half as often by itself, and with 0.3 of the first.
    assert second == pytest.approx(1 - (1 - 0.2) * (1 - 0.3 * 0.4), abs=0.03)
    assert (held[:, 2] & held[:, 3]).mean() > 2 * third * fourth
    assert any(e.labels == () for e in corpus.train)
