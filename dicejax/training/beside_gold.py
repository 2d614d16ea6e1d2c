"""Predictions vs. the gold of their examples, the hardest first, on disk."""

from __future__ import annotations

import json
import tempfile
import weakref
from array import array
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from etils import epath

from dicejax.io import files
from dicejax.tasks import Task
from dicejax.tasks.described import beside_gold, errors_of
from dicejax.tasks.task import Examples, Labels


class HardestFirst(Sequence[dict[str, Any]]):
    """The input, gold and prediction of each example, the hardest first.

    Hardest has the most `errors`: false positives and negatives, of answers 1 - F1. Of
    as many, classes are sorted by the probability of the right one. The rows are in a
    temporary file, so that any number takes little memory.
    """

    def __init__(self, task: Task):
        self._task, self._ends = task, array("q", [0])
        self._errors, self._order = np.zeros(0), np.zeros(0, int)
        self._folder = epath.Path(tempfile.gettempdir())
        with files.input_errors(self._folder):
            self._file = tempfile.TemporaryFile()  # noqa: SIM115, closed with the rows
        weakref.finalize(self, self._file.close)

    def add(self, examples: Examples, predictions: Sequence[Any]) -> None:
        """Write the rows of some more examples."""
        with files.input_errors(self._folder):
            for pair in zip(examples, predictions, strict=True):
                line = json.dumps(beside_gold(self._task, *pair)).encode()
                self._ends.append(self._ends[-1] + self._file.write(line))

    def sort(
        self, examples: Examples, predictions: Sequence[Any], labels: Labels
    ) -> None:
        """Put the rows in order, given all examples and predictions."""
        self._errors, chances = errors_of(self._task, examples, predictions, labels)
        self._order = np.lexsort((chances, -self._errors))

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(place, slice):
            return [self[index] for index in range(len(self))[place]]
        example = int(self._order[place])
        start, end = self._ends[example : example + 2]
        with files.input_errors(self._folder, "read"):
            self._file.seek(start)
            (name, value), *rest = json.loads(self._file.read(end - start)).items()
        return {name: value, "errors": float(self._errors[example]), **dict(rest)}
