"""Scores as quotients of sums, and their paired differences over seeds or sentences."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

TOO_FEW = "there are {} paired seeds; it takes at least {}"


def score(parts: ArrayLike) -> np.ndarray:
    """Compute mean_c (sum_n parts[n, c, 0] / sum_n parts[n, c, 1]), with 0 / 0 = 0.

    Micro F1 has one class with the shares 2 TP and predicted + gold, macro F1 the same
    per class, accuracy the shares "is right" and 1.

    >>> float(score([[[2, 2]], [[0, 1]], [[2, 3]]]))  # 2 TP, predicted + gold
    0.6666666666666666

    Args:
      parts: [..., N, C, 2]: N sentences, C classes, numerators and denominators.

    Returns:
      [...], a score in [0, 1] for each leading index.

    Raises:
      ValueError: the shape is no such shape, or a number is not finite.
    """
    parts = np.asarray(parts)
    _check(parts, "parts", "[..., N, C, 2]", fits=parts.ndim >= 3)
    return quotient_mean(parts.sum(-3, dtype=np.float64))


def quotient_mean(sums: np.ndarray) -> np.ndarray:
    """Compute the score, [...], from sums over sentences, [..., C, 2]."""
    numerators, denominators = sums[..., 0], sums[..., 1]
    quotients = np.zeros(numerators.shape)
    np.divide(numerators, denominators, out=quotients, where=denominators != 0)
    return quotients.mean(-1)


def check_paired(
    ours: ArrayLike, baseline: ArrayLike, *, least_seeds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return both as arrays [S, N, C, 2]; raise a ValueError if they do not pair."""
    ours, baseline = np.asarray(ours), np.asarray(baseline)
    if ours.shape != baseline.shape:
        raise ValueError(f"ours have shape {ours.shape} but baseline {baseline.shape}")
    for array, name in ((ours, "ours"), (baseline, "baseline")):
        _check(array, name, "[S, N, C, 2]", fits=array.ndim == 4)
    if len(ours) < least_seeds:
        raise ValueError(TOO_FEW.format(len(ours), least_seeds))
    return ours, baseline


def _check(array: np.ndarray, name: str, expected: str, *, fits: bool) -> None:
    if not fits or array.shape[-1] != 2 or 0 in array.shape[-3:]:
        raise ValueError(f"{name} have shape {array.shape}, not {expected}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} hold numbers that are not finite")


def t_test(mean: float, error: float, freedom: float) -> float:
    """Return the two-sided p-value of a mean, 1 for a mean of 0 whatever its error.

    >>> t_test(4.302652729749464, 1.0, 2), t_test(0.0, 0.0, 2), t_test(0.1, 0.0, 2)
    (0.05, 1.0, 0.0)
    """
    if mean == 0:
        return 1.0
    if error == 0:
        return 0.0
    return 2 * float(special.stdtr(freedom, -abs(mean) / error))


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
      seed: seed of the random swaps.

    Raises:
      ValueError: the shapes differ or are no such shape, or a number is not finite.
    """
    ours, baseline = check_paired(ours, baseline, least_seeds=1)
    total = ours.sum(1, dtype=np.float64) + baseline.sum(1, dtype=np.float64)
    apart = np.subtract(ours, baseline, dtype=np.float64).swapaxes(0, 1)
    observed = abs(_difference(total, apart.sum(0)))
    # Sums in another order round otherwise, and ties count as reached.
    reached = observed * (1 - 1e-12) - 1e-15
    rng = np.random.default_rng(seed)
    hits, columns = 0, len(apart)
    rows = max(1, _CHUNK // max(columns, total.size))
    # A swap of equal outputs changes nothing, and float32 counts as float64 does.
    differ = np.flatnonzero(apart.any((1, 2, 3)))
    apart = apart[differ].reshape(len(differ), total.size)
    counts = (apart == np.rint(apart)).all() and np.abs(apart).sum() < 2**24
    apart = apart.astype(np.float32 if counts else np.float64)
    whole = apart.sum(0, dtype=np.float64)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        # One random bit for each sign, as a float, which BLAS multiplies.
        bits = np.frombuffer(rng.bytes((size * columns + 7) // 8), np.uint8)
        signs = np.unpackbits(bits, count=size * columns).reshape(size, columns)
        resampled = 2.0 * (signs[:, differ].astype(apart.dtype) @ apart) - whole
        resampled = resampled.reshape(-1, *total.shape)
        hits += int((np.abs(_difference(total, resampled)) >= reached).sum())
    return (hits + 1) / (resamples + 1)


def _difference(total: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """Return the difference of mean scores from ours + baseline and ours - baseline."""
    ours, baseline = (total + apart) / 2, (total - apart) / 2
    return (quotient_mean(ours) - quotient_mean(baseline)).mean(-1)
