"""Plans: the examples in each row of each batch, for all steps of a run.

They depend on the lengths and the seed, never on the number of devices.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dicejax.data.pack import check_lengths, pack
from dicejax.data.resample import Epoch

MULTIPLE = 8  # widths of buckets are multiples of it: lengths in between gain nothing

Drawn = Callable[[int], Epoch]  # the examples of an epoch, by its number


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BatchPlan:
    """The batches of a run: a few bytes for each time that an example is seen.

    Attributes:
      lengths: int `[E]`, tokens of each example.
      items: int32 `[N]`, indices of examples in the order of batches, rows and places.
      row_starts: int `[R + 1]`, where each row begins in `items`, and its end.
      batch_starts: int `[steps + 1]`, where each batch begins in the rows, and its end.
      epochs: int `[steps]`, the pass over the data that a batch belongs to, from 0.
      widths: int `[steps]`, tokens per row of a batch.
      rows: rows of a full batch; an epoch's last may have fewer.
      weights: float32 `[N]`, of each item's loss; None: all are 1.
    """

    lengths: np.ndarray
    items: np.ndarray
    row_starts: np.ndarray
    batch_starts: np.ndarray
    epochs: np.ndarray
    widths: np.ndarray
    rows: int
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.epochs)

    @property
    def tokens(self) -> int:
        """Real tokens of all batches."""
        return int(self.lengths[self.items].sum())

    def places(self, rows: int | None = None) -> int:
        """Count the places of batches of `rows` rows, or as many as a full one has."""
        return int(self.widths.sum()) * (self.rows if rows is None else rows)

    def epoch_ends(self) -> list[int]:
        """Return the number of steps at the end of each epoch."""
        ends = np.flatnonzero(np.diff(self.epochs)) + 1
        return [*ends.tolist(), len(self)] if len(self) else []


def packing_plan(
    lengths: Sequence[int],
    *,
    max_length: int,
    rows: int,
    epochs: int = 1,
    seed: int | None = None,
    drawn: Drawn | None = None,
) -> BatchPlan:
    """Put several examples in a row; every epoch is packed anew.

    The seed is that of the order; None keeps the order. Without `drawn` each epoch has
    all examples.

    >>> plan = packing_plan([5, 6, 2, 3], max_length=8, rows=2)
    >>> plan.items.tolist(), plan.row_starts.tolist(), plan.batch_starts.tolist()
    ([0, 3, 1, 2], [0, 2, 4], [0, 2])
    >>> plan.tokens, plan.places()
    (16, 16)

    Raises:
      ValueError: an example is longer than a row.
    """

    def arrange(lengths: np.ndarray, random: np.random.Generator | None) -> _Arranged:
        packed = pack(lengths, max_length)
        order = np.fromiter(itertools.chain.from_iterable(packed), int, len(lengths))
        counts = np.fromiter(map(len, packed), int, len(packed))
        batches = np.diff([*range(0, len(packed), rows), len(packed)])
        return _Arranged(order, counts, batches, np.full(len(batches), max_length))

    return _plan(lengths, max_length, rows, epochs, seed, drawn, arrange)


def bucket_plan(
    lengths: Sequence[int],
    *,
    max_length: int,
    rows: int,
    buckets: int = 8,
    epochs: int = 1,
    seed: int | None = None,
    drawn: Drawn | None = None,
) -> BatchPlan:
    """Put one example in a row, and examples of about one length in a batch.

    Each example belongs to the narrowest width that holds it. Where those of a width do
    not fill its last batch, some of the next narrower join them, so an epoch has no
    more batches than with one width. An epoch's examples are shuffled, and then its
    batches; without a seed wide batches come first. Each of the `buckets` widths at
    most takes a compilation.

    >>> plan = bucket_plan([3, 30, 7, 29, 25], max_length=64, rows=2, buckets=2)
    >>> plan.items.tolist(), plan.batch_starts.tolist(), plan.widths.tolist()
    ([1, 3, 4, 0, 2], [0, 2, 4, 5], [32, 32, 8])

    Raises:
      ValueError: an example is longer than a row, or `buckets` is less than 1.
    """
    widths = np.array(bucket_widths(lengths, max_length, buckets), int)

    def arrange(lengths: np.ndarray, random: np.random.Generator | None) -> _Arranged:
        bucket = np.searchsorted(widths, lengths)
        order = np.argsort(-bucket, kind="stable")
        batches = np.split(order, range(rows, len(order), rows)) if len(order) else []
        if random is not None:
            batches = [batches[number] for number in random.permutation(len(batches))]
        widest = np.array([batch[0] for batch in batches], int)
        return _Arranged(
            np.concatenate([np.zeros(0, int), *batches]),
            np.ones(len(order), int),
            np.array([len(batch) for batch in batches], int),
            widths[bucket[widest]],
        )

    return _plan(lengths, max_length, rows, epochs, seed, drawn, arrange)


def bucket_widths(
    lengths: Sequence[int], max_length: int, buckets: int
) -> tuple[int, ...]:
    """Choose the widths, `buckets` at most, that minimize padding; return them rising.

    They are multiples of 8, or the row length: an optimum by dynamic programming over
    the number of examples of each such length.

    Raises:
      ValueError: an example is longer than a row, or `buckets` is less than 1.
    """
    if buckets < 1:
        raise ValueError(f"buckets is {buckets}; want at least 1")
    sizes = check_lengths(lengths, max_length)
    rounded = np.minimum(-(-sizes // MULTIPLE) * MULTIPLE, max_length)
    widths, counts = np.unique(rounded, return_counts=True)
    held = np.concatenate([[0], np.cumsum(counts)])  # examples of the first n widths
    # places[m, n]: in one bucket, as wide as the n-th width, for all above the m-th.
    places = (held - held[:, None]) * np.concatenate([[0], widths])
    places[np.tril_indices_from(places, -1)] = np.iinfo(int).max // 2
    # least[n]: for all of the first n widths; each turn adds a bucket, whose first
    # width is behind the cut.
    least, cuts = places[0], []
    for _ in range(min(buckets, len(widths)) - 1):
        choices = least[:, None] + places
        cuts.append(choices.argmin(axis=0))
        least = choices.min(axis=0)
    chosen, end = set(), len(widths)
    while end:
        chosen.add(int(widths[end - 1]))
        end = int(cuts.pop()[end]) if cuts else 0
    return tuple(sorted(chosen))


def rows_per_batch(lengths: Sequence[int], max_length: int, sentences: int) -> int:
    """Choose the number of packed rows that hold about `sentences` sentences."""
    rows = len(pack(lengths, max_length))
    return max(1, round(sentences * rows / len(lengths)))


class _Arranged(NamedTuple):
    order: np.ndarray  # of the epoch's examples, by batches, rows and places
    examples: np.ndarray  # in each row
    rows: np.ndarray  # in each batch
    widths: np.ndarray  # of each batch


def _plan(
    lengths: Sequence[int],
    max_length: int,
    rows: int,
    epochs: int,
    seed: int | None,
    drawn: Drawn | None,
    arrange: Callable[[np.ndarray, np.random.Generator | None], _Arranged],
) -> BatchPlan:
    """Shuffle and arrange each epoch, from the lengths of its examples."""
    sizes = check_lengths(lengths, max_length)
    items, weights, arranged = [], [], []
    for epoch in range(epochs):
        chosen, of_chosen = np.arange(len(sizes)), None
        if drawn is not None:
            chosen, of_chosen = drawn(epoch)
        order, random = np.arange(len(chosen)), None
        if seed is not None:
            random = np.random.default_rng((seed, epoch))
            random.shuffle(order)
        epoch_rows = arrange(sizes[chosen[order]], random)
        order = order[epoch_rows.order]
        items.append(chosen[order].astype(np.int32))
        if of_chosen is not None:
            weights.append(of_chosen[order].astype(np.float32))
        arranged.append(epoch_rows)
    if weights and len(weights) < epochs:
        raise ValueError(f"{len(weights)} of {epochs} epochs drawn have weights")
    nothing = np.zeros(0, int)
    return BatchPlan(
        lengths=sizes,
        items=np.concatenate([nothing.astype(np.int32), *items]),
        row_starts=np.cumsum(np.concatenate([[0], *(x.examples for x in arranged)])),
        batch_starts=np.cumsum(np.concatenate([[0], *(x.rows for x in arranged)])),
        epochs=np.repeat(np.arange(epochs), [len(part.rows) for part in arranged]),
        widths=np.concatenate([nothing, *(part.widths for part in arranged)]),
        rows=rows,
        weights=np.concatenate(weights) if weights else None,
    )
