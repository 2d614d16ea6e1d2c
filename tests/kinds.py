"""The losses that represent their kind in tests; all others are behind --exhaustive."""

import pytest

from dicejax.objectives import by_short_name

# Of each element, of each with the others, with state, of a set, made of others; and
# those that are multi-label only, binary only, or not of single classes.
CHOSEN = ("ce", "hard_negatives", "ghm", "dice", "sum", "zlpr", "unified_focal")
NAMES = [
    pytest.param(name, marks=[] if name in CHOSEN else [pytest.mark.exhaustive])
    for name in by_short_name()
]
