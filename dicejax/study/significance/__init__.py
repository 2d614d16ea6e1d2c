"""Tests of the difference between two losses, over seeds and test sentences.

Runs of the same seed share their initial weights and the order of their batches, so
they are compared pair by pair. The final claim is `seeds_and_items`.
"""

from dicejax.study.sentences import signed
from dicejax.study.significance.crossed import (
    CrossedDifference,
    contrast,
    over_seeds,
    seeds_and_items,
    shrink_variances,
)
from dicejax.study.significance.differences import approximate_randomisation, score
from dicejax.study.significance.looks import (
    MIN_SEEDS,
    nominal_level,
    sequential_p_value,
)
from dicejax.study.significance.planning import (
    detectable,
    power,
    seeds_needed,
    seeds_range,
)
from dicejax.study.significance.verdicts import (
    Outcome,
    Verdict,
    failure_limit,
    holm,
    verdict,
)

__all__ = [
    "MIN_SEEDS",
    "CrossedDifference",
    "Outcome",
    "Verdict",
    "approximate_randomisation",
    "contrast",
    "detectable",
    "failure_limit",
    "holm",
    "nominal_level",
    "over_seeds",
    "power",
    "score",
    "seeds_and_items",
    "seeds_needed",
    "seeds_range",
    "sequential_p_value",
    "shrink_variances",
    "signed",
    "verdict",
]
