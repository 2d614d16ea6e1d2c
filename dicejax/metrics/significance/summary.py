"""The scores of one loss over its seeds, described."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a row of a table says of a loss; None where there is nothing to say.

    >>> Summary.of([0.25, 0.5, 0.75], diverged=1).mean
    0.5
    >>> Summary.of([0.5]).sd is None
    True

    Attributes:
      n: how many scores there are.
      mean: None if there are none.
      sd: of the sample, with n - 1; None for fewer than two scores.
      median: None if there are none.
      min: None if there are none.
      max: None if there are none.
      diverged: how many more runs there were that have no score. The others are
        described as if these had not been: say so beside them.
    """

    n: int
    mean: float | None
    sd: float | None
    median: float | None
    min: float | None
    max: float | None
    diverged: int

    @classmethod
    def of(cls, scores: ArrayLike, diverged: int = 0) -> Summary:
        """Describe scores.

        Args:
          scores: [S], of the runs that have one.
          diverged: the number of runs that have none.

        Raises:
          ValueError: scores are not [S], or one is not finite.
        """
        scores = np.asarray(scores, np.float64)
        if scores.ndim != 1:
            raise ValueError(f"scores have shape {scores.shape}, not [S]")
        if not np.isfinite(scores).all():
            raise ValueError("scores hold numbers that are not finite")
        n = len(scores)
        return cls(
            n=n,
            mean=float(scores.mean()) if n else None,
            sd=float(scores.std(ddof=1)) if n > 1 else None,
            median=float(np.median(scores)) if n else None,
            min=float(scores.min()) if n else None,
            max=float(scores.max()) if n else None,
            diverged=diverged,
        )
