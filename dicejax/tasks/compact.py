"""Probabilities of many predictions in little memory."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

from dicejax.tasks.task import Prediction


def compact(prediction: Any) -> Any:
    """Return what scores need of a prediction, in little memory.

    That is of texts the probability of each label, of words and spans none.
    """
    if not isinstance(prediction, Prediction):
        return prediction
    chances = prediction.probabilities
    if isinstance(chances, Mapping):
        return Prediction(prediction.values, CompactChances(chances))
    return Prediction(tuple(prediction.values))


class CompactChances(Mapping[str, float]):
    """Probabilities by label, eight bytes each; the labels are shared by all.

    >>> dict(CompactChances({"no": 0.75, "yes": 0.25}))
    {'no': 0.75, 'yes': 0.25}
    """

    __slots__ = ("_places", "_values")

    def __init__(self, chances: Mapping[str, float]):
        self._places = _places(tuple(chances))
        self._values = array("d", chances.values())

    def __getitem__(self, label: str) -> float:
        return self._values[self._places[label]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@functools.lru_cache(maxsize=16)
def _places(labels: tuple[str, ...]) -> dict[str, int]:
    return {label: place for place, label in enumerate(labels)}
