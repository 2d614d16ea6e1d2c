"""A synthetic named-entity corpus: seeded, of any size, imbalanced.

The same word is a person in one sentence, a place in another and no entity in a third.
Only the nearest cue word before it, one or two words away, decides. A tagger that looks
at words alone therefore cannot score well, and most words are `O`.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from dicejax.data.examples import Sentence
from dicejax.data.source import Corpus, Source
from dicejax.data.tags import Span

TYPES = ("LOC", "MISC", "ORG", "PER")
_ONSETS = (*"bdfgklmnprstvz", "br", "dr", "gr", "kl", "pl", "st", "tr")
_VOWELS = ["a", "e", "i", "o", "u", "ai", "ei", "ou"]
_CUES_PER_TYPE = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class SyntheticNER(Source):
    """A corpus of made-up sentences; the same values give the same corpus.

    Args:
      train: number of training sentences.
      dev: number of dev sentences.
      test: number of test sentences.
      o_per_entity: words outside entities for each word inside one.
      ambiguous_names: size of the lexicon of names, shared by all types.
      common_words: size of the lexicon of other words.
      seed: seed of lexicon and sentences; not the seed of the training run.

    >>> corpus = SyntheticNER(train=2, dev=1, test=1).load()
    >>> [len(split) for split in (corpus.train, corpus.dev, corpus.test)]
    [2, 1, 1]
    """

    train: int = 4000
    dev: int = 800
    test: int = 1600
    o_per_entity: float = 20.0
    ambiguous_names: int = 40
    common_words: int = 200
    seed: int = 0

    def __post_init__(self):
        if self.o_per_entity < 4:
            raise ValueError(f"o_per_entity is {self.o_per_entity}; want at least 4")
        names = ("train", "dev", "test", "ambiguous_names", "common_words")
        self._check_counts(*names)
        self._check_sizes(*names)

    def load(self) -> Corpus:
        """Generate the three splits."""
        rng = np.random.default_rng(self.seed)
        names, common = self.ambiguous_names, self.common_words
        total = names + common + _CUES_PER_TYPE * (len(TYPES) + 1)
        words: dict[str, None] = {}
        while len(words) < total:
            syllables = rng.integers(1, 4)
            parts = (
                rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(syllables)
            )
            words["".join(parts)] = None
        pool = list(words)
        rng.shuffle(pool)
        cues = {kind: [pool.pop() for _ in range(_CUES_PER_TYPE)] for kind in TYPES}
        neutral = [pool.pop() for _ in range(_CUES_PER_TYPE)]
        lexicon = _Lexicon([pool.pop() for _ in range(names)], cues, neutral, pool)
        splits = (
            tuple(
                _sentence(rng, lexicon, self.o_per_entity, line)
                for line in range(1, size + 1)
            )
            for size in (self.train, self.dev, self.test)
        )
        return Corpus(*splits)


@dataclasses.dataclass(frozen=True)
class _Lexicon:
    names: list[str]
    cues: dict[str, list[str]]
    neutral: list[str]
    common: list[str]


def _sentence(rng, lexicon: _Lexicon, o_per_entity: float, line: int) -> Sentence:
    """Write chunks - an entity, a decoy or a plain word - until long enough."""
    # Expected words: entity 1 cue + 0.5 between + 1.6 name = 3.1, decoy half that and
    # half 1 cue + 2 common, 3.05.
    # With both drawn at rate e and plain words else, 1.6 (ratio + 1) e words are
    # expected per draw, so 1 + (2.1 + 2.05) e = 1.6 (ratio + 1) e gives e.
    rate = 1 / (1.6 * (o_per_entity + 1) - 4.15)
    words: list[str] = []
    spans: list[Span] = []
    length = rng.integers(8, 33)
    while len(words) < length:
        draw = rng.random()
        if draw < 1.5 * rate:  # a name behind a cue, for a decoy a neutral one
            label = str(rng.choice(TYPES)) if draw < rate else None
            cue = rng.choice(lexicon.neutral if label is None else lexicon.cues[label])
            words += [str(cue), *_common(rng, lexicon, rng.integers(0, 2))]
            size = rng.choice((1, 2, 3), p=(0.55, 0.3, 0.15))
            name = [str(word) for word in rng.choice(lexicon.names, size=size)]
            if label is not None:
                spans.append(Span(label, len(words), len(words) + len(name)))
            words += name
        elif draw < 2 * rate:
            label = str(rng.choice(TYPES))
            words += [str(rng.choice(lexicon.cues[label])), *_common(rng, lexicon, 2)]
        else:
            words += _common(rng, lexicon, 1)
    return Sentence(tuple(words), tuple(spans), line)


def _common(rng, lexicon: _Lexicon, count: int) -> list[str]:
    # Zipf-like: rank r is drawn about 1/(r+1) as often as the first.
    ranks = (len(lexicon.common) ** rng.random(count)).astype(int) - 1
    return [lexicon.common[rank] for rank in ranks]
