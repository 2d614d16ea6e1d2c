"""Scores of one class, label or type, one of which may be the primary metric."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from dicejax.errors import InputError, quote
from dicejax.metrics.scores import class_of
from dicejax.tasks.decider import Decider


class ByClass(Decider):
    """What scores of a task are grouped by.

    The primary metric may be the F1 of one such class, "f1:NAME": scores and example
    statistics then have it.
    """

    primary_metric: ClassVar[str] = "f1"  # the score that selects the best checkpoint
    metrics: ClassVar[tuple[str, ...]] = ()  # others than that of one class
    noun: ClassVar[str] = "class"  # what scores are grouped by, in sentences
    unit: ClassVar[str] = "example"  # an example, in sentences

    @property
    def class_of_interest(self) -> str | None:
        """The class whose F1 is the primary metric; None if it is of all."""
        return class_of(self.primary_metric)

    def class_names(self, labels: Sequence[str]) -> tuple[str, ...]:
        """Return the classes, labels or types that scores are grouped by."""
        return tuple(labels)

    def classes_in(self, example: Any) -> Sequence[str]:
        """Return the gold classes, labels or types of an example, each as it occurs."""
        return ()

    def require_metric(self, labels: Sequence[str]) -> None:
        """Check that the class whose F1 is the primary metric occurs in train.

        Raises:
          InputError: it does not.
        """
        named, names = self.class_of_interest, self.class_names(labels)
        if named is not None and named not in names:
            raise InputError(
                f"primary_metric {self.primary_metric}: train has no "
                f"{quote(named)}; take one of {', '.join(map(quote, names))}"
            )

    def f1_statistics(
        self, examples: Sequence[Any], predictions: Sequence[Any]
    ) -> np.ndarray:
        """Return the example statistics of F1, of the class of interest or of all.

        They are twice what is correct, and what is predicted plus gold, `[N, 1, 2]`.
        """
        names = (self.class_of_interest or "",)
        pairs = zip(examples, predictions, strict=True)
        counts = (self.count(*pair, names) for pair in pairs)
        rows = ((2 * n.true_positives, n.predicted + n.gold) for n in counts)
        flat = np.fromiter(itertools.chain.from_iterable(rows), float)
        return flat.reshape(-1, 1, 2)
