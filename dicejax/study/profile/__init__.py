"""Profile of a data set before training: imbalance, lengths, rare labels."""

from dicejax.study.profile.imbalance import LabelCount, OutputCounts
from dicejax.study.profile.measure import DataProfile, from_json, profile, to_json

__all__ = [
    "DataProfile",
    "LabelCount",
    "OutputCounts",
    "from_json",
    "profile",
    "to_json",
]
