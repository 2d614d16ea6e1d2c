"""Find out whether dice, focal or any of 25 losses beats cross-entropy on your data."""

DESCRIPTION = (
    "Find out whether dice, focal or any of 25 losses beats cross-entropy on your "
    "imbalanced text data. In JAX."
)

__version__ = "0.1.0"
