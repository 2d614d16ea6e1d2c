"""The synthetic corpus has the requested imbalance and needs its context."""

from collections import Counter, defaultdict

import pytest

from dicejax.data.sources.synthetic import TYPES, SyntheticNER


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


def test_the_same_seed_gives_the_same_corpus():
    small = {"train": 50, "dev": 5, "test": 5}
    assert SyntheticNER(**small).load() == SyntheticNER(**small).load()
    assert SyntheticNER(**small).load() != SyntheticNER(seed=1, **small).load()


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


def test_spans_lie_within_their_sentence_and_apart(sentences):
    for sentence in sentences[:500]:
        ends = [0]
        for span in sentence.spans:
            assert ends[-1] <= span.start < span.end <= len(sentence.words)
            ends.append(span.end)


@pytest.mark.parametrize(("name", "value"), [("o_per_entity", 1.0), ("train", 0)])
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}; want at least"):
        SyntheticNER(**{name: value})
