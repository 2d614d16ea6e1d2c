"""Spans as pairs of a start and an end: labels and decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dicejax.data.examples import Span
from dicejax.tasks.task import IGNORED
from dicejax.tasks.windows import Window

Pairs = Literal["gold", "predicted", "gold_and_predicted", "all"]
"""The pairs of tokens that are labelled, as a span or none: see `match_labels`."""

_END = "end_of_"

Candidate = tuple[Span, float]
"""A span that may be predicted, and its score: the higher, the likelier."""


def fillers(ends_per_start: int) -> dict[str, int]:
    """Return the fill values of the arrays of `labels`, by name."""
    ends = (f"{_END}{number}" for number in range(ends_per_start))
    return {"start": IGNORED, "end": IGNORED} | dict.fromkeys(ends, -1)


def labels(
    spans: Mapping[tuple[int, int], int],
    window: Window,
    length: int,
    ends_per_start: int = 0,
) -> dict[str, np.ndarray]:
    """Write spans, as first and last words with a class each, as labels of pieces.

    `start` and `end` are the class, or 0, at the first pieces of the window's trained
    words, `IGNORED` at its other pieces. A span of which one end has no piece is left
    out of them, and so is its other end, unless a whole span has it too. `end_of_0`,
    `end_of_1`, ... hold at the start of a span how many pieces further its end is, -1
    where there is none; ends beyond `ends_per_start` are left out.

    >>> window = Window(np.array([1, 3, 4]))  # piece 2 is inside the first word
    >>> for name, array in labels({(0, 1): 1, (0, 2): 1}, window, 6, 2).items():
    ...     print(f"{name:9}", array)
    start     [-100    1 -100    0    0 -100]
    end       [-100    0 -100    1    1 -100]
    end_of_0  [-1  2 -1 -1 -1 -1]
    end_of_1  [-1  3 -1 -1 -1 -1]
    """
    arrays = {
        name: np.full(length, fill, np.int32)
        for name, fill in fillers(ends_per_start).items()
    }
    trained = window.trained_words(list(spans))
    start, end, *ends_of_spans = arrays.values()
    start[trained] = end[trained] = 0
    places = [window.words[list(span)].tolist() for span in spans]
    labelled = set(trained.tolist())
    pairs = zip(places, spans.values(), strict=True)
    for (first, last), label in sorted(pairs, key=lambda pair: min(pair[0]) >= 0):
        for array, place in ((start, first), (end, last)):
            if place in labelled:
                array[place] = label if min(first, last) >= 0 else IGNORED
        for array in ends_of_spans if {first, last} <= labelled else ():
            if array[first] < 0:
                array[first] = last - first
                break
    return arrays


def match_labels(
    outputs: Mapping[str, Array], batch: Mapping[str, Array], pairs: Pairs
) -> Array:
    """Label pairs of tokens, int32 `[B, T, T]`: 1 for spans, 0 for others.

    Tokens i and j can be a pair if both are labelled, as a start and as an end, i <= j,
    and both are of one segment. Of such pairs these are labelled, the others `IGNORED`:

    - "gold": i is a gold start and j a gold end.
    - "predicted": the logits of i as a start and of j as an end are positive.
    - "gold_and_predicted": both kinds.
    - "all": every one.

    No gradient flows through the choice. `batch` has the arrays of `labels` and
    `segment_ids`, `[B, T]`, as the logits `start` and `end` are.

    Source: `BertForQueryNER` of https://github.com/ShannonAI/mrc-for-flat-nested-ner.
    """
    start, end, segments = batch["start"], batch["end"], batch["segment_ids"]
    tokens = jnp.arange(start.shape[1])

    def each(starts: Array, ends: Array) -> Array:
        return starts[:, :, None] & ends[:, None, :]

    possible = each(start >= 0, end >= 0) & (tokens[:, None] <= tokens)
    possible &= segments[:, :, None] == segments[:, None, :]
    chosen = possible if pairs == "all" else jnp.zeros_like(possible)
    if pairs in ("gold", "gold_and_predicted"):
        chosen |= each(start == 1, end == 1)
    if pairs in ("predicted", "gold_and_predicted"):
        chosen |= each(*(lax.stop_gradient(outputs[n]) > 0 for n in ("start", "end")))
    spans = jnp.zeros_like(possible)
    for name in (name for name in batch if name.startswith(_END)):
        offsets = batch[name]
        ends = jnp.where(offsets < 0, -1, tokens + offsets)
        spans |= ends[:, :, None] == tokens
    return jnp.where(possible & chosen, spans.astype(jnp.int32), IGNORED)


def pair_counts(arrays: Mapping[str, np.ndarray], pairs: Pairs) -> np.ndarray:
    """Count pairs that `match_labels` labels as no span and as spans, int `[2]`.

    Predicted pairs are unknown, and not counted; for "predicted" gold pairs are.
    """
    lowest = 0 if pairs == "all" else 1
    starts = np.flatnonzero(arrays["start"] >= lowest)
    ends = np.flatnonzero(arrays["end"] >= lowest)
    labelled = len(starts) * len(ends) - int(np.searchsorted(ends, starts).sum())
    ends_of_spans = (x for name, x in arrays.items() if name.startswith(_END))
    spans = sum(int((array >= 0).sum()) for array in ends_of_spans)
    return np.array([labelled - spans, spans])


def nearest_ends(starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pair each start with the first end that is not before it.

    Both are places that rise. Several starts may share an end; a start behind the last
    end has none and is left out.

    >>> nearest_ends(np.array([0, 2, 3, 9]), np.array([1, 3, 8]))
    (array([0, 2, 3]), array([1, 3, 3]))
    """
    if not len(ends):
        return starts[:0], ends
    places = np.searchsorted(ends, starts)
    paired = places < len(ends)
    return starts[paired], ends[places[paired]]


def scored_pairs(
    output: Mapping[str, np.ndarray], first_pieces: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return candidate spans of one type, in the order of their words.

    Starts and ends are words whose logits, `[n]`, are positive. With logits of pairs,
    `match` `[n, n]`, each start goes with every end, and the score is the probability
    that they match. Without, it goes with the nearest end, and the score is the
    geometric mean of their probabilities.

    >>> logits = {"start": np.array([9.0, 5, -5, 9]), "end": np.array([9.0, -5, 5, 9])}
    >>> first, last, scores = scored_pairs(logits, np.array([1, 2]))
    >>> first, last, scores.round(3)
    (array([0]), array([1]), array([0.993]))

    Returns:
      The first words, the last words and the scores, each `[m]`.
    """
    words = np.flatnonzero(first_pieces >= 0)
    places = first_pieces[words]
    start, end = output["start"][places], output["end"][places]
    starts, ends = np.flatnonzero(start > 0), np.flatnonzero(end > 0)
    if "match" in output:
        rows, columns = np.nonzero(starts[:, None] <= ends)
        first, last = starts[rows], ends[columns]
        scores = _probability(output["match"][places[first], places[last]])
    else:
        first, last = nearest_ends(starts, ends)
        scores = np.sqrt(_probability(start[first]) * _probability(end[last]))
    return words[first], words[last], scores


def recoverable_spans(spans: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the spans that `nearest_ends` recovers from all starts and ends.

    >>> sorted(recoverable_spans([(0, 3), (1, 2), (5, 5)]))
    [(1, 2), (5, 5)]
    """
    ends = [np.unique(places) for places in zip(*spans, strict=True)]
    pairs = (array.tolist() for array in nearest_ends(*ends)) if ends else ((), ())
    return set(spans).intersection(zip(*pairs, strict=True))


def without_overlaps(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Keep the best candidates that share no word, in the order of their words.

    Of equals the first is kept. A threshold may be applied before or after.
    """
    ranked = sorted(candidates, key=lambda pair: (-pair[1], pair[0].start, pair[0].end))
    taken = bytearray(max((span.end for span, _ in candidates), default=0))
    best = []
    for span, score in ranked:
        if not any(taken[span.start : span.end]):
            taken[span.start : span.end] = b"\1" * (span.end - span.start)
            best.append((span, score))
    return sorted(best, key=lambda pair: pair[0].start)


def _probability(logits: np.ndarray) -> np.ndarray:
    """Compute the sigmoid in float64."""
    return np.exp(-np.logaddexp(0.0, -logits.astype(np.float64)))
