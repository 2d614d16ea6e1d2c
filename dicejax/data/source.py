"""Base class of data sets, and their three splits."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

Examples = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The three splits of a data set.

    Attributes:
      train: training examples.
      dev: examples that select the best checkpoint.
      test: held-out examples.
      notes: remarks on how the splits were made, one line each.
    """

    train: Examples
    dev: Examples
    test: Examples
    notes: tuple[str, ...] = ()


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

    def offline(self) -> Source:
        """Return this source, restricted to what needs no network and runs no code.

        Raises:
          InputError: there is no such restriction.
        """
        return self
