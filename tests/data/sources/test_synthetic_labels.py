"""Synthetic texts have the labels that their cue words tell, in a long tail."""

import re

import numpy as np
import pytest

from dicejax.data.sources import SyntheticLabels

SMALL = {"train": 3000, "dev": 5, "test": 5}


def test_labels_follow_from_the_text_alone():
    for example in SyntheticLabels(**SMALL).load().train:
        cues = re.findall(r"(not )?cue(\d+)[abc]\b", example.first)
        present = {int(number) for denied, number in cues if not denied}
        assert example.labels == tuple(f"label-{n:02}" for n in sorted(present))


def test_frequencies_fall_and_pairs_come_together():
    corpus = SyntheticLabels(**SMALL, labels=4).load()
    names = [f"label-{n:02}" for n in range(1, 5)]
    held = np.array([[n in e.labels for n in names] for e in corpus.train])
    first, second, third, fourth = held.mean(0)
    assert first == pytest.approx(0.4, abs=0.03)
    assert third == pytest.approx(0.4 / 3, abs=0.02)
    # Half as often by itself, and with 0.3 of the first.
    assert second == pytest.approx(1 - (1 - 0.2) * (1 - 0.3 * 0.4), abs=0.03)
    assert (held[:, 2] & held[:, 3]).mean() > 2 * third * fourth
    assert any(e.labels == () for e in corpus.train)


def test_the_same_seed_gives_the_same_corpus():
    small = {"train": 9, "dev": 2, "test": 2}
    assert SyntheticLabels(**small).load() == SyntheticLabels(**small).load()
    assert SyntheticLabels(**small).load() != SyntheticLabels(seed=1, **small).load()
    for settings, message in (({"most": 1.0}, "most is 1"), ({"labels": 0}, "labels")):
        with pytest.raises(ValueError, match=message):
            SyntheticLabels(**settings)
