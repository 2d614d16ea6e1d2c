"""What a data set is like before anything is trained: imbalance, lengths, rare labels.

`profile` counts, `to_json` and `from_json` keep the counts, `report` shows them in the
terminal, `picture` draws them.
"""

from dicejax.analysis.profile.measure import (
    Profile,
    SplitProfile,
    from_json,
    profile,
    to_json,
)

__all__ = ["Profile", "SplitProfile", "from_json", "profile", "to_json"]
