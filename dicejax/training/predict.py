"""Prediction with given parameters."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh
from tokenizers import Tokenizer

from dicejax.controls import ControlModel
from dicejax.data.pipeline import Batches, Packed
from dicejax.data.plan import packing_plan
from dicejax.mesh import batch_parts
from dicejax.models.network import Network, Params
from dicejax.tasks import Item, Predicted, Task
from dicejax.training.sharding import global_batch, rows_here, to_host
from dicejax.training.step import predict_step

ROWS = 16
Shift = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Decoded:
    """Results of `Task.decode` for each shift and example, and counts by output.

    `sequences` is the number of items that rows had room for.
    """

    candidates: list[list[Any]]
    counts: dict[str, np.ndarray]
    sequences: int


def decode_examples(
    params: Params | ControlModel,
    examples: Sequence[Any],
    items: Sequence[Item],
    *,
    task: Task,
    network: Network,
    labels: tuple[str, ...],
    tokenizer: Tokenizer,
    max_length: int,
    mesh: Mesh,
    shifts: Sequence[Shift] = ({},),
    count: Callable[..., Array] | None = None,
    min_sequences: int = 0,
    between: Callable[[], None] = lambda: None,
    decoded: Callable[[], None] = lambda: None,
) -> Decoded:
    """Decode each example of the task, in order.

    Items are packed as in training. Every process has all results. The network runs
    once for all `shifts`, `[C]` by output, which are added to its logits; the logits of
    all outputs but positions are counted by `count`, a function of
    `metrics.score_counts`. Rows have room for `min_sequences` items at least: with what
    was needed before, the program is not compiled anew. `between` is called before
    each batch, and may raise to stop; `decoded` is called after each example.

    Of a control, which has no network, the logits are computed on the host.
    """
    if isinstance(params, ControlModel):
        between()
        options: dict[str, Any] = {"task": task, "labels": labels, "shifts": shifts}
        logits = params.logits(examples)
        options |= {"count": count, "decoded": decoded}
        return decode_logits(logits, examples, items, **options)
    batches = Batches(
        [item.arrays for item in items],
        layout=task.layout(tokenizer),
        plan=packing_plan(
            [len(item) for item in items], max_length=max_length, rows=ROWS
        ),
        multiple_of=batch_parts(mesh),
        min_sequences=min_sequences,
    )
    targets = task.targets(labels).items() if count else ()
    settings = {
        "network": network,
        "task": task,
        "mesh": mesh,
        "counted": tuple(pair for pair in targets if pair[1].kind != "positions"),
        "count": count,
    }
    nothing = [[None] * len(examples) for _ in shifts]
    result = Decoded(nothing, {}, batches.sequences)
    decode_rows = _decoder(result, examples, items, task, labels, decoded)

    def decode(batch: Packed, outputs: Any) -> None:
        predicted, counts = to_host(outputs, mesh)
        for name, part in counts.items():
            result.counts[name] = result.counts.get(name, 0) + part.astype(np.int64)
        decode_rows(batch.rows, predicted)

    # One batch behind: the device computes the next while the host decodes.
    pending: tuple[Packed, Any] | None = None
    for batch in batches.iterate(rows_here=rows_here(batches.rows, mesh)):
        between()
        arrays = global_batch(batch.arrays, mesh, batches.rows)
        outputs = predict_step(params, arrays, shifts, **settings)
        if pending is not None:
            decode(*pending)
        pending = batch, outputs
    if pending is not None:
        decode(*pending)
    return result


def _decoder(
    result: Decoded,
    examples: Sequence[Any],
    items: Sequence[Item],
    task: Task,
    labels: tuple[str, ...],
    decoded: Callable[[], None],
) -> Callable[[Sequence[Sequence[int]], Sequence[Predicted]], None]:
    """Return a function that decodes what is predicted of rows of items, by shift."""
    num_items = Counter(item.example for item in items)
    waiting: dict[int, dict[int, list[Any]]] = {}

    def decode(rows: Sequence[Sequence[int]], predicted: Sequence[Predicted]) -> None:
        for row, segments in enumerate(rows):
            end = 0
            for segment, index in enumerate(segments):
                start, end = end, end + len(items[index])
                example = items[index].example
                parts = waiting.setdefault(example, {})
                parts[index] = [x.item(row, segment, start, end) for x in predicted]
                # Decoded as soon as it is whole: numbers for pairs of tokens are many.
                if len(parts) < num_items[example]:
                    continue
                for shift, candidates in enumerate(result.candidates):
                    candidates[example] = task.decode(
                        examples[example],
                        [items[part] for part in sorted(parts)],
                        [parts[part][shift] for part in sorted(parts)],
                        labels,
                    )
                del waiting[example]
                decoded()

    return decode


def decode_logits(
    logits: Sequence[np.ndarray],
    examples: Sequence[Any],
    items: Sequence[Item],
    *,
    task: Task,
    labels: tuple[str, ...],
    shifts: Sequence[Shift] = ({},),
    count: Callable[..., Array] | None = None,
    decoded: Callable[[], None] = lambda: None,
) -> Decoded:
    """Decode logits that a control gives, as `decode_examples` does those of a network.

    They are float `[C]` of each text, of a sentence `[W, C]`, which the place of each
    word in the items gets.
    """
    ((name, target),) = task.targets(labels).items()
    arrays = []
    for item in items:
        values = logits[item.example]
        if item.detail is not None:
            words = np.flatnonzero(item.detail >= 0)
            of_tokens = np.zeros((len(item), len(labels)), np.float32)
            of_tokens[item.detail[words]] = values[words]
            values = of_tokens
        arrays.append(values)
    result = Decoded([[None] * len(examples) for _ in shifts], {}, 0)
    if not items:
        return result
    of_words = items[0].detail is not None
    outputs = (np.concatenate if of_words else np.stack)(arrays)[None]
    moved = (jnp.asarray(outputs + shift.get(name, 0.0)) for shift in shifts)
    predicted = [jax.device_get(task.reduce_logits({name: x}, {})) for x in moved]
    decode = _decoder(result, examples, items, task, labels, decoded)
    decode([range(len(items))], predicted)
    if count is not None:
        golds = [item.arrays[name] for item in items]
        gold = (np.concatenate if of_words else np.stack)(golds)
        counts = count(jnp.asarray(outputs[0]), jnp.asarray(gold), kind=target.kind)
        result.counts[name] = np.asarray(counts, np.int64)
    return result
