"""Parameters of tests of which some run by default; the rest are exhaustive."""

import pytest

from dicejax.objectives import by_short_name


def exhaustive_but(fast, values):
    """Return parameters, of which all but the fast ones are behind --exhaustive."""
    marks = pytest.mark.exhaustive
    return [pytest.param(x, marks=() if x in fast else marks) for x in values]


# Of each element, of each with the others, with state, of a set, made of others; and
# those that are multi-label only, binary only, or not of single classes.
CHOSEN = ("ce", "hard_negatives", "ghm", "dice", "sum", "zlpr", "unified_focal")
NAMES = exhaustive_but(CHOSEN, by_short_name())
