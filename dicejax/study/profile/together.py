"""Labels that occur together, where a text may have several."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from dicejax.tasks import Item

MOST_PAIRS = 10


@dataclasses.dataclass(frozen=True)
class LabelPair:
    """Two labels of the same texts.

    Attributes:
      labels: their names.
      together: number of texts that have both.
      expected: number if they occurred independently of each other.
    """

    labels: tuple[str, str]
    together: int
    expected: float


@dataclasses.dataclass(frozen=True)
class LabelSets:
    """The sets of labels that texts have.

    Attributes:
      texts: number of texts with known labels.
      cardinality: mean number of labels per text.
      most: number of labels of the text that has most.
      without: number of texts with no label.
      distinct: number of different sets.
      pairs: the pairs that occur together most often, at most 10.
    """

    texts: int
    cardinality: float
    most: int
    without: int
    distinct: int
    pairs: tuple[LabelPair, ...]

    def __str__(self) -> str:
        share = self.without / max(self.texts, 1)
        return (
            f"{self.cardinality:.2f} labels per text on average, {self.most} at most; "
            f"{self.without:,} of {self.texts:,} texts ({share:.0%}) have none"
        )


def label_sets(
    output: str, items: Sequence[Item], classes: Sequence[str]
) -> LabelSets | None:
    """Count labels that occur together; None where items have no sets of labels.

    >>> rows = ([1, 1, 0], [1, 1, 1], [0, 0, 0], [0, 1, 0])
    >>> items = [Item({"label": np.array(row)}, n) for n, row in enumerate(rows)]
    >>> found = label_sets("label", items, ("a", "b", "c"))
    >>> print(found)
    1.50 labels per text on average, 3 at most; 1 of 4 texts (25%) have none
    >>> found.pairs[0]
    LabelPair(labels=('a', 'b'), together=2, expected=1.5)
    """
    # The windows of a long text have its labels.
    of_texts = {item.example: item.arrays[output] for item in items}
    arrays = [np.asarray(array) for array in of_texts.values()]
    size = len(classes)
    if size < 2 or any(array.shape != (size,) for array in arrays):
        return None
    rows = np.array(arrays, int).reshape(-1, size)
    rows = rows[(rows >= 0).all(axis=1)]
    number = rows.sum(axis=1)
    return LabelSets(
        texts=len(rows),
        cardinality=float(number.mean()) if len(rows) else 0.0,
        most=int(number.max(initial=0)),
        without=int((number == 0).sum()),
        distinct=len(np.unique(rows, axis=0)),
        pairs=_pairs(rows, classes),
    )


def _pairs(rows: np.ndarray, classes: Sequence[str]) -> tuple[LabelPair, ...]:
    together, counts = rows.T @ rows, rows.sum(axis=0)
    first, second = np.triu_indices(len(classes), k=1)
    chosen = np.argsort(-together[first, second], kind="stable")[:MOST_PAIRS]
    return tuple(
        LabelPair(
            (classes[a], classes[b]),
            int(together[a, b]),
            float(counts[a] * counts[b] / len(rows)),
        )
        for a, b in zip(first[chosen], second[chosen], strict=True)
        if together[a, b]
    )
