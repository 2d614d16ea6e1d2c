"""A synthetic named-entity corpus: seeded, of any size, imbalanced.

The same word is a person in one sentence, a place in another and no entity in a third.
Only the nearest cue word before it, one or two words away, decides. A tagger that looks
at words alone therefore cannot score well, and most words are `O`. Or each type has its
own names, and annotators dispute some of them.
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
_AGREED = 0.4
"""Share of the places of a disputed name in which it is annotated."""


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
      own_names: size of the lexicon of names of each type, single words without a cue;
        0: the types share `ambiguous_names`.
      disputed: share of the own names that are annotated in two of five places alone,
        and `O` in the others, as where annotators disagree. The likeliest tag of such a
        name is `O`, though the F1 of a tagger that always finds it is higher.
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
    own_names: int = 0
    disputed: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.o_per_entity < 4:
            raise ValueError(f"o_per_entity is {self.o_per_entity}; want at least 4")
        if not 0 <= self.disputed <= 1:
            raise ValueError(f"disputed is {self.disputed}; want from 0 to 1")
        if self.own_names < 0:
            raise ValueError(f"own_names is {self.own_names}; want at least 0")
        names = ("train", "dev", "test", "ambiguous_names", "common_words")
        self._check_counts(*names)
        self._check_sizes(*names, "own_names")

    def load(self) -> Corpus:
        """Generate the three splits."""
        rng = np.random.default_rng(self.seed)
        names, common = self.ambiguous_names, self.common_words
        own_names = self.own_names * len(TYPES)
        total = names + common + _CUES_PER_TYPE * (len(TYPES) + 1) + own_names
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
        ambiguous = [pool.pop() for _ in range(names)]
        by_type = {kind: [pool.pop() for _ in range(self.own_names)] for kind in TYPES}
        lexicon = _Lexicon(ambiguous, cues, neutral, pool, by_type)
        train, dev, test = (
            tuple(
                self._disputed_sentence(rng, lexicon, line)
                if self.own_names
                else _sentence(rng, lexicon, self.o_per_entity, line)
                for line in range(1, size + 1)
            )
            for size in (self.train, self.dev, self.test)
        )
        return Corpus(train, dev, test)

    def _disputed_sentence(
        self, rng: np.random.Generator, lexicon: _Lexicon, line: int
    ) -> Sentence:
        """Write own names and plain words, and annotate the names or not."""
        disputed = round(self.disputed * self.own_names)
        annotated = 1 - (1 - _AGREED) * disputed / self.own_names
        words: list[str] = []
        spans: list[Span] = []
        length = rng.integers(8, 33)
        while len(words) < length:
            if rng.random() * (self.o_per_entity + 1) * annotated < 1:
                label, name = str(rng.choice(TYPES)), rng.integers(self.own_names)
                if name >= disputed or rng.random() < _AGREED:
                    spans.append(Span(label, len(words), len(words) + 1))
                words.append(lexicon.by_type[label][name])
            else:
                words += _common(rng, lexicon, 1)
        return Sentence(tuple(words), tuple(spans), line)


@dataclasses.dataclass(frozen=True)
class _Lexicon:
    names: list[str]
    cues: dict[str, list[str]]
    neutral: list[str]
    common: list[str]
    by_type: dict[str, list[str]]


def _sentence(
    rng: np.random.Generator, lexicon: _Lexicon, o_per_entity: float, line: int
) -> Sentence:
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
            words += [str(cue), *_common(rng, lexicon, int(rng.integers(0, 2)))]
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


def _common(rng: np.random.Generator, lexicon: _Lexicon, count: int) -> list[str]:
    # Zipf-like: rank r is drawn about 1/(r+1) as often as the first.
    ranks = (len(lexicon.common) ** rng.random(count)).astype(int) - 1
    return [lexicon.common[rank] for rank in ranks]
