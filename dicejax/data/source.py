"""Base class of data sets, and their three splits."""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

from dicejax.data.examples import (
    LabelledText,
    MultiLabelText,
    ReadingExample,
    labels_of,
)
from dicejax.data.identity import SplitDigest
from dicejax.errors import quote, truncate
from dicejax.io import limits

Examples = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The three splits of a data set.

    Attributes:
      train: training examples.
      dev: examples that select the best checkpoint.
      test: held-out examples.
      notes: remarks on how the splits were made, one line each.
      digests: identity of splits that are samples of more examples: that of all.
    """

    train: Examples
    dev: Examples
    test: Examples
    notes: tuple[str, ...] = ()
    digests: Mapping[str, SplitDigest] = dataclasses.field(
        default_factory=dict, compare=False
    )

    def label_counts(self) -> dict[str, dict[str, int]]:
        """Count the examples with each label, by split."""
        counts = {
            split: Counter(x for e in getattr(self, split) for x in set(labels_of(e)))
            for split in ("train", "dev", "test")
        }
        return {split: dict(sorted(count.items())) for split, count in counts.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source(abc.ABC):
    """Base class of data sets."""

    @abc.abstractmethod
    def load(self) -> Corpus:
        """Return the three splits.

        Raises:
          InputError: the data is missing or malformed.
        """

    def _check_counts(self, *names: str) -> None:
        for name in names:
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} is {value}; want at least 1")

    def _check_sizes(self, *names: str) -> None:
        """Check the numbers of a source that makes its examples up."""
        limit = limits.MADE_UP
        for name in names:
            if (value := getattr(self, name)) > limit.most:
                fault = f"{name} is {value:,}, more than {limit.most:,} {limit.noun}"
                raise ValueError(f"{fault}; {limit.remedy}")

    @classmethod
    def recorded(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a run's record, with what an earlier version did."""
        return fields

    def offline(self) -> Source:
        """Return this source, restricted to what needs no network and runs no code.

        Raises:
          InputError: there is no such restriction.
        """
        return self


def shared(corpus: Corpus) -> list[str]:
    """Return notes on texts of train that are in dev or test too, whatever their gold.

    >>> from dicejax.data.examples import LabelledText
    >>> train = tuple(LabelledText(x, None, "a", x, 1) for x in ("fine", "dull"))
    >>> shared(Corpus(train, train[1:], ()))
    ["1 of 1 dev texts are in train as well, which flatters scores: 'dull'"]
    """
    train = set(map(text_of, corpus.train))
    others = {"dev": corpus.dev}
    if corpus.test is not corpus.dev:
        others["test"] = corpus.test
    notes = []
    for split, examples in others.items():
        texts = [text for text in map(text_of, examples) if text in train]
        if texts:
            first = itertools.islice(dict.fromkeys(texts), 3)
            listed = ", ".join(
                quote(truncate(" ".join(filter(None, text)), 60)) for text in first
            )
            repeated = f"{len(texts)} of {len(examples)} {split} texts are in train as"
            notes.append(f"{repeated} well, which flatters scores: {listed}")
    return notes


def text_of(example: Any) -> tuple[str | None, ...]:
    """Return all that is read of an example."""
    if isinstance(example, LabelledText | MultiLabelText):
        return example.first, example.second
    if isinstance(example, ReadingExample):
        return example.question, example.context
    return example.prompt, *example.words
