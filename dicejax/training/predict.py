"""Prediction with given parameters."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh
from tokenizers import Tokenizer

from dicejax.data.pipeline import Batches, Packed
from dicejax.data.plan import packing_plan
from dicejax.mesh import batch_parts
from dicejax.models.network import Network, Params
from dicejax.tasks import Item, Predicted, Task
from dicejax.training.sharding import global_batch, rows_here, to_host
from dicejax.training.step import predict_step

ROWS = 16

Shift = Mapping[str, np.ndarray]
"""Added to the logits, `[C]` by output."""


@dataclasses.dataclass(frozen=True)
class Search:
    """Predictions for a split.

    Attributes:
      found: for each shift, the result of `Task.decode` for each example.
      counts: int `[C, 2, BINS]` by output, see `metrics.score_counts`; empty unless
        requested.
    """

    found: list[list[Any]]
    counts: dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Predictor:
    """Predictor for encoded examples.

    Attributes:
      task: decodes the logits.
      network: the architecture.
      labels: that the network chooses from.
      tokenizer: that encoded the examples.
      max_length: tokens per packed row.
      mesh: the devices.
    """

    task: Task
    network: Network
    labels: tuple[str, ...]
    tokenizer: Tokenizer
    max_length: int
    mesh: Mesh

    def search(
        self,
        params: Params,
        examples: Sequence[Any],
        items: Sequence[Item],
        *,
        shifts: Sequence[Shift] = ({},),
        counted: bool = False,
        between: Callable[[], None] = lambda: None,
        decoded: Callable[[], None] = lambda: None,
    ) -> Search:
        """Decode each example, in order.

        Items are packed as in training. Every process has all results.

        Args:
          params: of the network.
          examples: as the task reads them.
          items: the encoded examples.
          shifts: added to logits, `[C]` by output; the network runs once for all.
          counted: whether to count scores; positions have no classes to count.
          between: called before each batch; may raise to stop.
          decoded: called after each example.
        """
        waiting: dict[int, dict[int, list[Any]]] = {}
        wanted = Counter(item.example for item in items)
        result = Search([[None] * len(examples) for _ in shifts], {})
        outputs = self._outputs(params, items, shifts, counted, result.counts, between)
        for place, given in outputs:
            example = items[place].example
            parts = waiting.setdefault(example, {})
            parts[place] = given
            # Decoded as soon as it is whole: numbers for pairs of tokens are many.
            if len(parts) == wanted[example]:
                for number, found in enumerate(result.found):
                    found[example] = self.task.decode(
                        examples[example],
                        [items[one] for one in sorted(parts)],
                        [parts[one][number] for one in sorted(parts)],
                        self.labels,
                    )
                del waiting[example]
                decoded()
        return result

    def _outputs(
        self,
        params: Params,
        items: Sequence[Item],
        shifts: Sequence[Shift],
        counted: bool,
        counts: dict[str, np.ndarray],
        between: Callable[[], None],
    ) -> Iterator[tuple[int, list[Any]]]:
        """Yield the place of each item and its outputs; add to the counts."""
        plan = packing_plan(
            [len(item) for item in items],
            max_length=self.max_length,
            rows=ROWS,
        )
        batches = Batches(
            [item.arrays for item in items],
            layout=self.task.layout(self.tokenizer),
            plan=plan,
            multiple_of=batch_parts(self.mesh),
        )
        targets = self.task.targets(self.labels).items() if counted else ()
        settings = {
            "network": self.network,
            "task": self.task,
            "mesh": self.mesh,
            "counted": tuple(one for one in targets if one[1].kind != "positions"),
        }
        here = rows_here(batches.rows, self.mesh)
        # One batch behind: the device computes the next while the host decodes.
        pending: tuple[Packed, Any] | None = None
        for batch in itertools.chain(batches.iterate(rows_here=here), [None]):
            following = None
            if batch is not None:
                between()
                arrays = global_batch(batch.arrays, self.mesh, batches.rows)
                following = (batch, predict_step(params, arrays, shifts, **settings))
            if pending is not None:
                predicted, of_batch = to_host(pending[1], self.mesh)
                yield from _cut(pending[0], predicted, items)
                for name, number in of_batch.items():
                    counts[name] = counts.get(name, 0) + number.astype(np.int64)
            pending = following


def _cut(
    batch: Packed, predicted: Sequence[Predicted], items: Sequence[Item]
) -> Iterator[tuple[int, list[Any]]]:
    for row, places in enumerate(batch.rows):
        start = 0
        for number, place in enumerate(places):
            end = start + len(items[place])
            yield place, [one.item(row, number, start, end) for one in predicted]
            start = end
