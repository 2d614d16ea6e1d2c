"""Approximate randomisation: would these runs differ so much by chance of sentences?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dicejax.metrics.significance import parts

_CHUNK = 2**22  # signs, or sums, at once: 32 MiB as float64


def approximate_randomisation(
    ours: ArrayLike, baseline: ArrayLike, *, resamples: int = 10_000, seed: int = 0
) -> float:
    """Test the difference of mean scores by swapping the systems' outputs at random.

    Without a difference it is chance which of the two systems gave which output for a
    sentence. Each resample swaps them for about half of the sentences, for all seeds of
    a sentence together. With D_0 the difference as it is and D_r as resampled,

        p = (#{r: |D_r| >= |D_0|} + 1) / (R + 1).

    A valid test however unevenly sentences count, but of these runs only: other seeds
    may well say otherwise, for which there is `seeds_and_items`.

    Source: Noreen, Computer-Intensive Methods for Testing Hypotheses, 1989; Yeh, "More
    accurate tests for the statistical significance of result differences", COLING 2000.

    >>> right = np.ones((1, 6, 1, 2))
    >>> wrong = right * [0, 1]
    >>> round(approximate_randomisation(right, wrong), 2)  # 2 of 2^6 ways to swap
    0.03

    Args:
      ours: [S, N, C, 2], see `score`; one seed is enough.
      baseline: the same shape: the same seeds and sentences in the same order.
      resamples: R.
      seed: of the random swaps; the same one gives the same number.

    Raises:
      ValueError: the shapes differ or are no such shape, or a number is not finite.
    """
    ours, baseline = parts.check_paired(ours, baseline, least_seeds=1)
    total = ours.sum(1, dtype=np.float64) + baseline.sum(1, dtype=np.float64)
    apart = np.subtract(ours, baseline, dtype=np.float64).swapaxes(0, 1)
    observed = abs(_difference(total, apart.sum(0)))
    # Sums in another order round otherwise, and ties count as reached.
    reached = observed * (1 - 1e-12) - 1e-15
    rng = np.random.default_rng(seed)
    hits = 0
    rows = max(1, _CHUNK // max(len(apart), total.size))
    for start in range(0, resamples, rows):
        signs = _signs(rng, min(rows, resamples - start), len(apart))
        resampled = (signs @ apart.reshape(len(apart), -1)).reshape(-1, *total.shape)
        hits += int((np.abs(_difference(total, resampled)) >= reached).sum())
    return (hits + 1) / (resamples + 1)


def _difference(total: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """Return the difference of mean scores from ours + baseline and ours - baseline.

    Swapping turns the sign of a sentence's difference and leaves its total alone.
    """
    ours, baseline = (total + apart) / 2, (total - apart) / 2
    return (parts.of_sums(ours) - parts.of_sums(baseline)).mean(-1)


def _signs(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Draw -1 and 1 as float64, which BLAS multiplies, from one random bit each."""
    bits = np.frombuffer(rng.bytes((rows * columns + 7) // 8), np.uint8)
    ones = np.unpackbits(bits, count=rows * columns).reshape(rows, columns)
    return ones * 2.0 - 1.0
