"""What a classifier scores that never looks: the least that a run must do better."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any


def has_one_answer(test: Mapping[str, Any]) -> bool:
    """Whether texts of several classes were classified, and all alike.

    >>> of = {"0": {"precision": 0.0, "recall": 0.0, "support": 346},
    ...       "1": {"precision": 0.654, "recall": 1.0, "support": 654}}
    >>> has_one_answer({"matthews": 0.0, "per_type": of})
    True

    Args:
      test: the scores of a run on test, of any task.
    """
    counts = _counts(test)
    return any(
        scores["recall"] == 1
        and scores["support"] < counts.total()
        # All of the class were found, and as many were called so as there are texts.
        and round(scores["precision"] * counts.total()) == scores["support"]
        for scores in (test["per_type"][name] for name in counts)
    )


def without_looking(test: Mapping[str, Any]) -> tuple[str, ...]:
    """Say what it scores to call every text positive, where there are two classes.

        F1 = 2 s / (1 + s),  accuracy = s  for a share s of positives

    so that F1 is high without any knowledge where positives are frequent.

    >>> of = {"0": {"support": 346}, "1": {"support": 654}}
    >>> without_looking({"matthews": 0.3, "per_type": of})
    ("Calling every text '1' has F1 79.08, accuracy 65.40, Matthews' correlation 0.",)

    Args:
      test: the scores of any run on test; of two classes the last is the positive one.

    Returns:
      One sentence; none where there are not two classes of texts.
    """
    counts = _counts(test)
    if len(counts) != 2:
        return ()
    positive = list(counts)[-1]
    share = counts[positive] / counts.total()
    return (
        f"Calling every text {positive!r} has F1 {200 * share / (1 + share):.2f}, "
        f"accuracy {100 * share:.2f}, Matthews' correlation 0.",
    )


def _counts(test: Mapping[str, Any]) -> Counter[str]:
    """Count the examples of each class; Matthews' correlation is of texts alone."""
    if "matthews" not in test:
        return Counter()
    return Counter({name: int(of["support"]) for name, of in test["per_type"].items()})
