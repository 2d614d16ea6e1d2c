"""A run's score as a quotient of sums over test sentences."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


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
    _check(parts, "parts", "[..., N, C, 2]", ndim=None)
    return of_sums(parts.sum(-3, dtype=np.float64))


def of_sums(sums: np.ndarray) -> np.ndarray:
    """Compute the score, [...], from sums over sentences, [..., C, 2].

    >>> of_sums(np.array([[4.0, 6.0], [0.0, 0.0]])).item()
    0.3333333333333333
    """
    numerators, denominators = sums[..., 0], sums[..., 1]
    quotients = np.zeros(numerators.shape)
    np.divide(numerators, denominators, out=quotients, where=denominators != 0)
    return quotients.mean(-1)


def check_paired(
    ours: ArrayLike, baseline: ArrayLike, *, least_seeds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return both as arrays [S, N, C, 2], pairs of seeds on the same sentences.

    >>> check_paired(np.ones((5, 9, 1, 2)), np.ones((5, 8, 1, 2)), least_seeds=2)
    Traceback (most recent call last):
    ValueError: ours have shape (5, 9, 1, 2) but baseline (5, 8, 1, 2)

    Raises:
      ValueError: the shapes differ or are no such shape, there are fewer seeds than
        `least_seeds`, or a number is not finite.
    """
    ours, baseline = np.asarray(ours), np.asarray(baseline)
    if ours.shape != baseline.shape:
        raise ValueError(f"ours have shape {ours.shape} but baseline {baseline.shape}")
    _check(ours, "ours", "[S, N, C, 2]", ndim=4)
    _check(baseline, "baseline", "[S, N, C, 2]", ndim=4)
    check_seeds(len(ours), least_seeds)
    return ours, baseline


def check_seeds(seeds: int, least: int) -> None:
    """Refuse what too few seeds cannot tell.

    >>> check_seeds(1, least=2)
    Traceback (most recent call last):
    ValueError: there are 1 paired seeds; it takes at least 2

    Raises:
      ValueError: there are fewer seeds than `least`.
    """
    if seeds < least:
        raise ValueError(f"there are {seeds} paired seeds; it takes at least {least}")


def _check(array: np.ndarray, name: str, wanted: str, *, ndim: int | None) -> None:
    fits = array.ndim >= 3 if ndim is None else array.ndim == ndim
    if not fits or array.shape[-1] != 2 or 0 in array.shape[-3:]:
        raise ValueError(f"{name} have shape {array.shape}, not {wanted}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} hold numbers that are not finite")
