"""A synthetic corpus of texts with several labels: seeded, of any size, long-tailed.

A label holds where one of its cue words stands in the text and the word before it is
no negation. Frequencies fall as 1, 1/2, 1/3, ..., and every second label often comes
with the one before it.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from dicejax.data.examples import MultiLabelText
from dicejax.data.source import Corpus, Source

_NEGATION = "not"
_CUES = 3  # words per label
_TOGETHER = 0.3  # how often a label brings the next one


@dataclasses.dataclass(frozen=True, kw_only=True)
class SyntheticLabels(Source):
    """A corpus of made-up texts; the same values give the same corpus.

    Args:
      train: number of training texts.
      dev: number of dev texts.
      test: number of test texts.
      labels: number of labels.
      most: share of texts with the most frequent label.
      common_words: number of words without meaning.
      seed: seed of the texts; not the seed of the training run.

    >>> corpus = SyntheticLabels(train=3, dev=1, test=1).load()
    >>> [example.labels for example in corpus.train]
    [('label-03', 'label-04', 'label-12'), ('label-02',), ('label-09', 'label-12')]
    """

    second: ClassVar[None] = None  # a tab does not separate two texts

    train: int = 2000
    dev: int = 400
    test: int = 800
    labels: int = 12
    most: float = 0.4
    common_words: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.most < 1:
            raise ValueError(f"most is {self.most}; want between 0 and 1")
        names = ("train", "dev", "test", "labels", "common_words")
        self._check_counts(*names)
        self._check_sizes(*names)

    def load(self) -> Corpus:
        """Generate the three splits."""
        rng = np.random.default_rng(self.seed)
        sizes = (self.train, self.dev, self.test)
        train, dev, test = (
            tuple(self._text(rng, row) for row in range(size)) for size in sizes
        )
        return Corpus(train, dev, test)

    def _text(self, rng: np.random.Generator, row: int) -> MultiLabelText:
        shares = self.most / np.arange(1, self.labels + 1)
        held = rng.random(self.labels) < shares
        brought = held[:-1] & (rng.random(self.labels - 1) < _TOGETHER)
        held[1::2] |= brought[::2]
        parts = [[_cue(rng, label)] for label in np.flatnonzero(held).tolist()]
        denied = np.flatnonzero(~held & (rng.random(self.labels) < shares))
        parts += [[_NEGATION, _cue(rng, label)] for label in denied.tolist()]
        common = rng.integers(self.common_words, size=rng.integers(4, 13))
        parts += [[f"w{word}"] for word in common]
        order = rng.permutation(len(parts))
        text = " ".join(word for place in order for word in parts[place])
        names = tuple(f"label-{label + 1:02}" for label in np.flatnonzero(held))
        return MultiLabelText(text, None, names, str(row), row + 1)


def _cue(rng: np.random.Generator, label: int) -> str:
    return f"cue{label + 1}{'abc'[rng.integers(_CUES)]}"
