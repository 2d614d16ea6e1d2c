"""Tests of the difference between two losses, over seeds and test sentences.

| purpose | function | random |
| --- | --- | --- |
| scores of one loss | `score`, `ScoreSummary` | |
| on this test set, over seeds | `over_seeds` | seeds |
| for these runs, over sentences | `approximate_randomisation` | sentences |
| in general: the final claim | `seeds_and_items` | seeds and sentences |
| a weighted sum of differences | `contrast` | seeds and sentences |
| with the variances of other losses | `shrink_variances` | |
| however often one looks | `sequential_p_value`, `nominal_level` | |
| of several losses | `holm` | |
| in words | `verdict` | |
| runs that fail | `failure_limit` | seeds |
| with more seeds | `power`, `seeds_needed`, `seeds_range`, `detectable` | |

Runs of the same seed share their initial weights and the order of their batches, so
they are compared pair by pair.
"""

from dicejax.study.significance.crossed import (
    CrossedDifference,
    contrast,
    seeds_and_items,
    shrink_variances,
)
from dicejax.study.significance.differences import (
    PairedDifference,
    approximate_randomisation,
    over_seeds,
    score,
)
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
    ScoreSummary,
    Verdict,
    failure_limit,
    holm,
    signed,
    verdict,
)

__all__ = [
    "MIN_SEEDS",
    "CrossedDifference",
    "Outcome",
    "PairedDifference",
    "ScoreSummary",
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
