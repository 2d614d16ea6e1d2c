"""Batches from encoded examples, a function of (seed, step)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

import grain
import numpy as np

from dicejax.data.pack import BatchLayout, fill
from dicejax.data.plan import BatchPlan

Example = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Packed:
    """One batch with its metadata.

    Attributes:
      arrays: as `data.pack.fill` lays them out; and where draws have weights, float32
        `token_weights` `[B, T]` and `sequence_weights` `[B, S]`, 0 for padding; where
        examples have, `token_example_weights` and `sequence_example_weights`. They may
        hold some rows only; all other fields describe the whole batch.
      rows: for each row the indices of its examples.
      tokens: number of real tokens.
      places: number of places for tokens, padding included.
      epoch: number of the pass over the data, from 0.
    """

    arrays: dict[str, np.ndarray]
    rows: tuple[tuple[int, ...], ...]
    tokens: int
    places: int
    epoch: int

    @property
    def sentences(self) -> int:
        """Number of examples in the batch."""
        return sum(map(len, self.rows))


class Batches:
    """All batches of a run by number, each with `rows` rows of `sequences` examples.

    A batch depends on the plan and its number alone, so a run can begin anywhere. The
    number of rows is a multiple of `multiple_of`, such as the number of devices.
    `example_weights` are those of the examples, float `[E]`; None: they have none. Rows
    have room for `min_sequences` examples at least.

    >>> from dicejax.data.plan import packing_plan
    >>> examples = [{"input_ids": np.full(n, n)} for n in (5, 6, 2, 3)]
    >>> plan = packing_plan([5, 6, 2, 3], max_length=8, rows=2)
    >>> layout = BatchLayout(tokens={"input_ids": 0})
    >>> batch = Batches(examples, layout=layout, plan=plan, multiple_of=3)[0]
    >>> batch.arrays["input_ids"].tolist()[1:]
    [[6, 6, 6, 6, 6, 6, 2, 2], [0, 0, 0, 0, 0, 0, 0, 0]]
    >>> batch.rows, batch.tokens, batch.places
    (((0, 3), (1, 2)), 16, 24)

    Raises:
      ValueError: the plan is for another number of examples.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        *,
        layout: BatchLayout,
        plan: BatchPlan,
        multiple_of: int = 1,
        example_weights: np.ndarray | None = None,
        min_sequences: int = 0,
    ):
        if len(examples) != (count := len(plan.lengths)):
            raise ValueError(f"{len(examples)} examples, but the plan is for {count}")
        self.rows = -(-plan.rows // multiple_of) * multiple_of
        self._examples = examples
        self._layout = layout
        self.plan = plan
        self.example_weights = example_weights
        # Of the fullest row of any batch: with it all have one shape.
        self.sequences = int(np.diff(plan.row_starts).max(initial=min_sequences))

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, step: int) -> Packed:
        return self.part(step, 0, self.rows)

    def part(self, step: int, start: int, stop: int) -> Packed:
        """Return a batch with the arrays of some rows only.

        Raises:
          IndexError: there is no such batch.
          ValueError: there are no such rows.
        """
        if not 0 <= start <= stop <= self.rows:
            raise ValueError(f"rows {start} to {stop} of a batch of {self.rows}")
        plan, step = self.plan, range(len(self))[step]
        first, last = plan.batch_starts[step : step + 2].tolist()
        bounds = plan.row_starts[first : last + 1].tolist()
        items = plan.items[bounds[0] : bounds[-1]]
        rest = iter(items.tolist())
        sizes = (end - begin for begin, end in itertools.pairwise(bounds))
        rows = tuple(tuple(itertools.islice(rest, size)) for size in sizes)
        # Empty rows at the end: one shape, one program.
        selected = (rows + ((),) * (self.rows - len(rows)))[start:stop]
        width = int(plan.widths[step])
        arrays = fill(
            [[self._examples[item] for item in row] for row in selected],
            width,
            self._layout,
            sequences=self.sequences,
            like=None if any(selected) else self._examples[0],
        )
        first, last = (bounds[min(row, len(rows))] for row in (start, stop))
        weights = {}
        if plan.weights is not None:
            weights["weights"] = plan.weights[first:last]
        if self.example_weights is not None:
            drawn = plan.items[first:last]
            weights["example_weights"] = self.example_weights[drawn]
        for name, values in weights.items():
            counts = [len(row) for row in selected]
            pair = _weight_arrays(values, counts, arrays["segment_ids"], self.sequences)
            arrays |= {f"{kind}_{name}": array for kind, array in pair.items()}
        return Packed(
            arrays,
            rows,
            tokens=int(plan.lengths[items].sum()),
            places=self.rows * width,
            epoch=int(plan.epochs[step]),
        )

    @property
    def share_filled(self) -> float:
        """Share of the batches' places that hold a real token."""
        return self.plan.tokens / max(self.plan.places(self.rows), 1)

    def iterate(
        self, start: int = 0, *, rows_here: slice | None = None, threads: int = 2
    ) -> Iterator[Packed]:
        """Yield the batches from `start` on, prefetched; of each only `rows_here`.

        Raises:
          ValueError: `rows_here` has a stride.
        """
        first, stop, stride = (rows_here or slice(None)).indices(self.rows)
        if stride != 1:
            raise ValueError(f"{rows_here} leaves out rows in between")
        steps = grain.MapDataset.range(start, len(self))
        batches = steps.map(lambda step: self.part(int(step), first, stop))
        options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=8)
        return iter(batches.to_iter_dataset(options))


def _weight_arrays(
    weights: np.ndarray, counts: Sequence[int], segment_ids: np.ndarray, sequences: int
) -> dict[str, np.ndarray]:
    of_sequences = np.zeros((len(counts), sequences), np.float32)
    of_sequences[np.arange(sequences) < np.array(counts, int)[:, None]] = weights
    padded = np.pad(of_sequences, ((0, 0), (1, 0)))  # segment 0 is padding
    of_tokens = np.take_along_axis(padded, segment_ids, axis=1)
    return {"token": of_tokens, "sequence": of_sequences}
