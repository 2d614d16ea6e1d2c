"""Whether a model that is no fine-tuned encoder may be advised."""

from __future__ import annotations

from collections.abc import Sequence

from dicejax.study.compare.statistics import Row
from dicejax.study.compare.testing import Contrast


def is_beaten(control: Row, others: Sequence[Row]) -> bool:
    """Return whether the baseline or another is ahead of a control by its interval.

    The adjusted verdict may be undecided where the interval, that of one loss alone,
    does not contain 0. A model that is behind by its interval is not advised.
    """
    if control.outcome == "worse" or _is_ahead(control.against, sign=-1):
        return True
    return any(
        contrast.verdict.outcome == "better" or _is_ahead(contrast)
        for row in others
        if (contrast := row.versus.get(control.loss)) is not None
    )


def _is_ahead(contrast: Contrast | None, sign: int = 1) -> bool:
    """Return whether the interval lies above 0, or below it."""
    crossed = None if contrast is None else contrast.crossed
    return crossed is not None and min(sign * crossed.low, sign * crossed.high) > 0
