"""Predict with given parameters."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax.sharding import Mesh
from tokenizers import Tokenizer

from dicejax.data.pipeline import Batches, Packed
from dicejax.data.plan import packing_plan
from dicejax.models.network import Network, Params
from dicejax.tasks import Item, Predicted, Task
from dicejax.training.devices.mesh import batch_parts
from dicejax.training.devices.sharding import global_batch, rows_here, to_host
from dicejax.training.steps.step import predict_step

ROWS = 16


@dataclasses.dataclass(frozen=True)
class Predictor:
    """Finds in encoded examples what a task looks for.

    Attributes:
      task: what is looked for.
      network: the architecture.
      labels: what the network chooses from.
      tokenizer: what the examples were encoded with.
      row_length: tokens per packed row.
      mesh: the devices.
    """

    task: Task
    network: Network
    labels: tuple[str, ...]
    tokenizer: Tokenizer
    row_length: int
    mesh: Mesh

    def __call__(
        self,
        params: Params,
        examples: Sequence[Any],
        items: Sequence[Item],
        *,
        between: Callable[[], None] = lambda: None,
    ) -> list[Any]:
        """Return what `Task.decode` finds in each example, in their order.

        Items are packed as in training: those in one row do not see each other. Every
        process finds all.

        Args:
          params: of the network.
          examples: as the task knows them.
          items: what they were encoded as.
          between: called before each batch; what it raises ends the search.
        """
        waiting: dict[int, dict[int, Any]] = {}
        wanted = Counter(item.example for item in items)
        found: list[Any] = [None] * len(examples)
        for place, outputs in self._outputs(params, items, between):
            example = items[place].example
            parts = waiting.setdefault(example, {})
            parts[place] = outputs
            # Decoded as soon as it is whole: numbers for pairs of tokens are many.
            if len(parts) == wanted[example]:
                found[example] = self.task.decode(
                    examples[example],
                    [items[one] for one in sorted(parts)],
                    [parts[one] for one in sorted(parts)],
                    self.labels,
                )
                del waiting[example]
        return found

    def _outputs(
        self, params: Params, items: Sequence[Item], between: Callable[[], None]
    ) -> Iterator[tuple[int, Any]]:
        """Yield the place of each item and what the network gives for it."""
        plan = packing_plan(
            [len(item) for item in items],
            row_length=self.row_length,
            rows=ROWS,
        )
        batches = Batches(
            [item.arrays for item in items],
            layout=self.task.layout(self.tokenizer),
            plan=plan,
            multiple_of=batch_parts(self.mesh),
        )
        here = rows_here(batches.rows, self.mesh)
        # One batch behind: the device computes the next while the host decodes.
        pending: tuple[Packed, Predicted] | None = None
        for batch in itertools.chain(batches.iterate(rows_here=here), [None]):
            following = None
            if batch is not None:
                between()
                arrays = global_batch(batch.arrays, self.mesh, batches.rows)
                following = (
                    batch,
                    predict_step(params, arrays, network=self.network, task=self.task),
                )
            if pending is not None:
                yield from _cut(pending[0], to_host(pending[1], self.mesh), items)
            pending = following


def _cut(
    batch: Packed, predicted: Predicted, items: Sequence[Item]
) -> Iterator[tuple[int, Any]]:
    for row, places in enumerate(batch.rows):
        start = 0
        for number, place in enumerate(places):
            end = start + len(items[place])
            yield place, predicted.item(row, number, start, end)
            start = end
