"""Tagging of words by macro F1, for set 3 of the third protocol."""

import dataclasses
from collections import Counter
from typing import ClassVar

import numpy as np

from dicejax.tasks import WordTagging


@dataclasses.dataclass(frozen=True, kw_only=True)
class MacroWordTagging(WordTagging):
    """Tagging of words whose checkpoint is chosen, and that is compared, by macro F1.

    It is the mean of F1 over the tags that the split has.
    """

    metrics: ClassVar[tuple[str, ...]] = ("macro_f1",)

    primary_metric: str = "macro_f1"

    def example_statistics(self, examples, predictions, labels):
        """Return twice the right words of each tag, and predicted plus gold ones."""
        names = sorted({tag for example in examples for tag in example.labels})
        shares = np.zeros((len(examples), len(names), 2))
        for row, example, prediction in zip(shares, examples, predictions, strict=True):
            pairs = zip(example.labels, prediction.values, strict=True)
            right = Counter(gold for gold, tag in pairs if gold == tag)
            both = Counter(example.labels) + Counter(prediction.values)
            row[:, 0] = [2 * right[name] for name in names]
            row[:, 1] = [both[name] for name in names]
        return shares
