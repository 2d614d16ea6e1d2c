"""Models that are no fine-tuned encoders: what a fine-tuned one has to beat.

Each gives logits of texts or of words in the form of the encoder's heads, so that
decoding, thresholds and scores are those of any run.
"""

from dicejax.controls.linear import Linear, fit_logistic
from dicejax.controls.majority import Majority
from dicejax.controls.model import ControlModel, restore, targets_of
from dicejax.controls.tfidf import TfIdf

__all__ = [
    "ControlModel",
    "Linear",
    "Majority",
    "TfIdf",
    "fit_logistic",
    "restore",
    "targets_of",
]
