"""Classes that a loss gets wrong in all runs, and cross-entropy learns."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from dicejax.errors import quote
from dicejax.metrics.scores import FEWEST
from dicejax.study.compare.statistics import Row, results_of
from dicejax.study.compare.testing import baseline_name

LEARNT = 0.5
"""Mean F1 of the baseline on a class from which it has learnt it."""


def unlearnt(rows: Sequence[Row]) -> list[str]:
    """Return a sentence on each loss with no right answer on a class in any run.

    That is on classes of at least `FEWEST` test examples that the baseline has learnt,
    and losses that have learnt something else: a score of all may hide it.
    """
    if not rows or not results_of(rows[:1]):
        return []
    base, *others = rows
    names = results_of([base])[0]["test"].get("per_type", {})
    sentences = []
    for row in others:
        missed = []
        for name, scores in names.items():
            ours, theirs = row.class_scores(name, "f1"), base.class_scores(name, "f1")
            is_scored = ours and theirs and scores.get("support", 0) >= FEWEST
            if is_scored and not any(ours) and statistics.fmean(theirs) >= LEARNT:
                missed.append((name, len(ours), statistics.fmean(theirs)))
        if not missed or len(missed) == len(names):  # or it learnt nothing at all
            continue
        runs = missed[0][1]
        texts = ", ".join(f"{quote(name)} ({100 * f1:.1f})" for name, _, f1 in missed)
        sentences.append(
            f"{row.loss} gets nothing of {texts} right in {runs} of {runs} runs; in "
            f"brackets the F1 of {baseline_name(base.loss)}."
        )
    return sentences
