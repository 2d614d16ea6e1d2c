"""Counts of predicted probabilities by log-odds, from which curves follow.

Counts of batches add up, on the devices; precision-recall curves and calibration follow
from them on the host without the scores themselves.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.metrics import calibration
from dicejax.metrics.calibration import Reliability

LIMIT = 16.0
"""Log-odds beyond which all count as one: a probability of 1e-7 from the end."""
WIDTH = 1 / 16
"""Width of a bin of log-odds: at most 0.0157 of probability."""
BINS = int(2 * LIMIT / WIDTH)


def count_scores(
    logits: Array, labels: Array, *, kind: Literal["classes", "multi_label"]
) -> Array:
    """Count elements by class, by truth, and by the log-odds of their probability.

        z_c = log(p_c / (1 - p_c)),  p = softmax(logits)   or  sigmoid, multi-label

    >>> counts = count_scores(jnp.array([[2.0, 0.0]]), jnp.array([0]), kind="classes")
    >>> counts.shape, int(counts.sum()), int(counts[0, 1, 288])
    ((2, 2, 512), 2, 1)

    Logits are `[..., C]`; labels int `[...]` of one class, or `[..., C]` of 0 and 1.
    Negative labels are left out.

    Returns:
      int `[C, 2, BINS]`: elements of other classes, and of this one, by their log-odds
      from -LIMIT to LIMIT; those beyond count in the outermost bins.
    """
    logits = logits.astype(jnp.float32)
    classes = logits.shape[-1]
    counted, gold, log_odds = labels >= 0, labels == 1, logits
    if kind == "classes":
        gold = labels[..., None] == jnp.arange(classes)
        counted = jnp.broadcast_to(counted[..., None], gold.shape)
        # z_c - logsumexp(the others) without cancellation: the sum keeps its largest
        # term or, for the likeliest class, is taken anew.
        is_top = jnp.arange(classes) == logits.argmax(axis=-1, keepdims=True)
        top = logits.max(axis=-1, keepdims=True)
        terms = jnp.exp(logits - top)
        rest = jnp.where(is_top, 1.0, terms.sum(axis=-1, keepdims=True) - terms)
        others = jnp.where(is_top, -jnp.inf, logits)
        below = jax.nn.logsumexp(others, axis=-1, keepdims=True)
        log_odds = logits - jnp.where(is_top, below, top + jnp.log(rest))
    place = jnp.floor((log_odds + LIMIT) / WIDTH)
    place = jnp.clip(jnp.nan_to_num(place), 0, BINS - 1).astype(jnp.int32)
    column = jnp.broadcast_to(jnp.arange(classes), gold.shape)
    empty = jnp.zeros((classes, 2, BINS), jnp.int32)
    return empty.at[column, gold.astype(jnp.int32), place].add(
        counted.astype(jnp.int32)
    )


def count_decisions(
    logits: Array, labels: Array, *, kind: Literal["classes", "multi_label"]
) -> Array:
    """Count elements by class, by whether it is gold, and by whether it is predicted.

    Predicted is the class of the largest logit, or multi-label those of at least 0.
    Negative labels are left out; shapes are as of `count_scores`.

    >>> logits, labels = jnp.array([[2.0, 0.0], [0.0, 1.0]]), jnp.array([1, 1])
    >>> count_decisions(logits, labels, kind="classes")[1].tolist()
    [[0, 0], [1, 1]]

    Returns:
      int `[C, 2, 2]`.
    """
    counted, gold, decided = labels >= 0, labels == 1, logits >= 0
    if kind == "classes":
        classes = jnp.arange(logits.shape[-1])
        gold = labels[..., None] == classes
        decided = logits.argmax(axis=-1, keepdims=True) == classes
        counted = counted[..., None]
    both = itertools.product((~gold, gold), (~decided, decided))
    cells = [jnp.sum(counted & g & d, axis=range(gold.ndim - 1)) for g, d in both]
    return jnp.array(cells, jnp.int32).T.reshape(-1, 2, 2)


@dataclasses.dataclass(frozen=True)
class ThresholdCurve:
    """Precision, recall and F1 for all thresholds on the probability, from the lowest.

    `predicted` counts the elements whose probability is not below a threshold,
    `correct` those of them that are right, `actual` all that there are to find.
    """

    thresholds: np.ndarray
    predicted: np.ndarray
    correct: np.ndarray
    actual: int

    @property
    def precision(self) -> np.ndarray:
        """Correct / predicted, in [0, 1]; 1 where nothing is predicted."""
        return _share(self.correct, self.predicted, otherwise=1.0)

    @property
    def recall(self) -> np.ndarray:
        """Correct / actual, in [0, 1]; 0 where there is nothing to find."""
        return _share(self.correct, np.full_like(self.correct, self.actual))

    @property
    def f1(self) -> np.ndarray:
        """2 correct / (predicted + actual), in [0, 1]."""
        return _share(2 * self.correct, self.predicted + self.actual)

    def f1_at(self, threshold: float = 0.5) -> float:
        """Return the F1 at a threshold: the first edge of a bin that is not below."""
        place = int(np.searchsorted(self.thresholds, threshold - 1e-12))
        return float(self.f1[place])

    @property
    def average_precision(self) -> float:
        """The sum of precision times the recall gained, from the highest threshold."""
        recall, precision = self.recall[::-1], self.precision[::-1]
        return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def curve(counts: np.ndarray) -> ThresholdCurve:
    """Return the curve of all classes together, for thresholds at the edges of bins.

    >>> counts = np.zeros((1, 2, BINS), int)
    >>> counts[0, 0, 100], counts[0, 1, 300] = 3, 1
    >>> result = curve(counts)
    >>> float(result.f1.max()), result.average_precision, float(result.precision[0])
    (1.0, 1.0, 0.25)
    """
    total = np.asarray(counts).sum(axis=0)
    above = total[:, ::-1].cumsum(axis=-1)[:, ::-1]
    edges = -LIMIT + WIDTH * np.arange(BINS)
    thresholds = 1 / (1 + np.exp(-edges))
    thresholds[0] = 0.0  # the lowest bin holds everything below, too
    return ThresholdCurve(thresholds, above.sum(axis=0), above[1], int(total[1].sum()))


def calibration_error(counts: np.ndarray) -> float:
    """Return the expected calibration error of elements predicted to be of a class.

    Those have a probability over one half; 15 bins. Over all elements the error is
    small whatever the model, as most elements are surely not of most classes.

    >>> counts = np.zeros((1, 2, BINS), int)
    >>> counts[0, 0, 0], counts[0, :, -1] = 98, 1
    >>> round(reliability(counts).expected_error, 3)
    0.01
    >>> round(calibration_error(counts), 3)
    0.5
    """
    predicted = np.where(np.arange(BINS) >= BINS // 2, counts, 0)
    return reliability(predicted).expected_error


def reliability(counts: np.ndarray) -> Reliability:
    """Compare probabilities with how often they come true, each class against the rest.

    >>> counts = np.zeros((1, 2, BINS), int)
    >>> counts[0, 0, 256], counts[0, 1, 256] = 1, 3
    >>> [(b.count, round(b.confidence, 2), b.accuracy)
    ...  for b in reliability(counts).bins if b.count]
    [(4, 0.51, 0.75)]

    All classes count together, with the probabilities of the middles of their bins.
    Source: Kull et al., "Beyond temperature scaling", NeurIPS 2019 (classwise).
    """
    middle = 1 / (1 + np.exp(LIMIT - WIDTH * (np.arange(BINS) + 0.5)))
    return calibration.reliability(
        np.tile(middle, 2),
        np.repeat([0, 1], BINS),
        counts=np.asarray(counts).sum(axis=0).ravel(),
    )


def _share(part: np.ndarray, whole: np.ndarray, otherwise: float = 0.0) -> np.ndarray:
    return np.where(whole > 0, part / np.maximum(whole, 1), otherwise)
