"""Validation of input arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def truths(values: ArrayLike, name: str) -> np.ndarray:
    """Return an array of bool.

    Raises:
      ValueError: a value is neither 0 nor 1.
    """
    array = np.asarray(values)
    strange = array[(array != 0) & (array != 1)]
    if strange.size:
        raise ValueError(f"{name} holds {strange[0]}, which is neither 0 nor 1")
    return array.astype(bool)


def numbers(values: ArrayLike, name: str) -> np.ndarray:
    """Return an array of float64.

    Raises:
      ValueError: a value is NaN.
    """
    array = np.asarray(values, np.float64)
    if np.isnan(array).any():
        raise ValueError(f"{name} hold NaN")
    return array


def require_table(gold: np.ndarray, other: np.ndarray, name: str) -> None:
    """Raise a ValueError unless both arrays have the same shape [N, C]."""
    if gold.ndim != 2 or gold.shape != other.shape:
        raise ValueError(
            f"gold has shape {gold.shape} and {name} {other.shape}, not both [N, C]"
        )
