"""Reference gradient harmonising from its formulas, without jax."""

from typing import NamedTuple

import numpy as np

from .oracle import elements, elementwise
from .oracle_pointwise import cross_entropy, outcomes


class Density(NamedTuple):
    """State carried from batch to batch."""

    counts: np.ndarray
    updates: int = 0


def ghm(logits, labels, density, *, momentum=0.75, **layout):
    these = elements(logits, labels, **layout)
    p, q, y, where = outcomes(these)
    # |y - p| of the gold class of a softmax, of class 1 of a sigmoid.
    norms = elementwise(lambda p, q, y: abs(y * q - (1 - y) * p), p, q, y)
    softmax = these.form == "softmax"
    norms = (norms * y).sum(-1) if softmax else norms[..., 1]
    weights, density = harmonised(norms, where, density, momentum)
    return weights * cross_entropy(logits, labels, **layout), density


def ghm_regression(predictions, targets, density, *, where, mu=0.02, momentum=0.7):
    difference = np.where(where, predictions, 0.0) - np.where(where, targets, 0.0)
    root = np.sqrt(difference**2 + mu**2)
    weights, density = harmonised(abs(difference) / root, where, density, momentum)
    return weights * np.where(where, root - mu, 0.0), density


def harmonised(norms, where, density, momentum):
    """Return N / (n B): total, count in the element's bin, number of bins reached."""
    bins = len(density.counts)
    bin_of = np.minimum((norms * bins).astype(int), bins - 1)
    reached = np.array([(bin_of[where] == b).sum() for b in range(bins)])
    counts = momentum * density.counts + (1 - momentum) * reached
    density = Density(counts, density.updates + 1)
    n = counts / (1 - momentum**density.updates)
    weights = np.zeros(norms.shape)
    for place in np.argwhere(where):
        place = tuple(place)
        weights[place] = n.sum() / (n[bin_of[place]] * (reached > 0).sum())
    return weights, density
