"""Profile of a data set before training: imbalance, lengths, rare labels.

`profile` counts, `to_json` and `from_json` keep the counts, `report` shows them in the
terminal and draws them.
"""

from dicejax.study.profile.imbalance import OutputCounts
from dicejax.study.profile.measure import DataProfile, from_json, profile, to_json

__all__ = ["DataProfile", "OutputCounts", "from_json", "profile", "to_json"]
