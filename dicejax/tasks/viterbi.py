"""The likeliest tags of a sentence among the sequences that a scheme allows."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import numpy as np

from dicejax.data.tags import parse
from dicejax.errors import InputError

Decoding = Literal["greedy", "viterbi"]

_FOLLOWING = {"IOB1": "B", "BIO": "I", "IOBES": "IE", "BMES": "ME", "BILOU": "IL"}
"""Prefixes that only stand behind a tag of the same type."""
_FOLLOWED = {"IOBES": "BI", "BMES": "BM", "BILOU": "BI"}
"""Prefixes that one of those must stand behind; without any, they may behind each."""
_LEAST = -1e9
"""Log-probabilities below it are taken as it: any allowed tag beats what is not."""


@functools.lru_cache(maxsize=16)
def transitions(labels: tuple[str, ...], scheme: str) -> np.ndarray:
    """Return which tag may stand in front of which, bool `[C, C]`.

    A sentence begins and ends as if O were around it. A sequence is allowed if it is
    what its spans are written as.

    >>> transitions(("O", "B-PER", "I-PER"), "BIO").astype(int).tolist()
    [[1, 1, 0], [1, 1, 1], [1, 1, 1]]
    """
    tags = [parse(label, scheme) for label in labels]
    following, followed = _FOLLOWING[scheme], _FOLLOWED.get(scheme, "")
    rows = [
        [
            kind == other and (before in followed if followed else before != "O")
            if behind in following
            else before not in followed
            for behind, other in tags
        ]
        for before, kind in tags
    ]
    return np.array(rows)


def best_tags(scores: np.ndarray, labels: tuple[str, ...], scheme: str) -> np.ndarray:
    """Return the allowed tags with the largest sum of log-probabilities, int `[W]`.

    Words whose scores, of `[W, C]`, are not numbers are O. Where the likeliest tag of
    each word makes an allowed sequence, it is that.
    """
    allowed, outside = transitions(labels, scheme), labels.index("O")
    scores = np.maximum(scores, _LEAST, dtype=np.float64)
    blank = np.isnan(scores).any(axis=1)
    scores[blank] = np.where(np.arange(len(labels)) == outside, 0.0, -np.inf)
    tags = scores.argmax(axis=1)
    if allowed[[outside, *tags], [*tags, outside]].all():
        return tags
    forbidden = np.where(allowed, 0.0, -np.inf)
    best, sources = forbidden[outside] + scores[0], []
    for row in scores[1:]:
        sums = best[:, None] + forbidden
        sources.append(sums.argmax(axis=0))
        best = sums.max(axis=0) + row
    tags[-1] = (best + forbidden[:, outside]).argmax()
    for place in range(len(sources), 0, -1):
        tags[place - 1] = sources[place - 1][tags[place]]
    return tags


def decoded_by(task: Any, decoding: Decoding | None) -> Any:
    """Return a task of tags that decodes otherwise; the same for None.

    Raises:
      InputError: it has no tags, or marks words by a threshold.
    """
    if decoding is None:
        return task
    if not hasattr(task, "decoding"):
        name = type(task).__name__
        raise InputError(f"task {name} has no tags of spans; leave out --decoding")
    try:
        return dataclasses.replace(task, decoding=decoding)
    except ValueError as error:
        raise InputError(f"--decoding: {error}") from None


def left_to_reader(task: Any) -> str:
    """Return a sentence on what a program does that reads a model's logits, or ""."""
    if getattr(task, "decoding", "greedy") == "greedy":
        return ""
    return (
        f" It gives logits of single tokens: to decode them by {task.decoding}, as the "
        f"run does, with the transitions that {task.scheme} allows, is left to the "
        "program that reads them."
    )
