"""Classes that a loss gets wrong in all runs, and cross-entropy learns."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from dicejax.metrics.scores import FEWEST
from dicejax.study.compare.statistics import Row
from dicejax.study.sentences import sentences

LEARNT = 0.5
"""Mean F1 of the baseline on a class from which it has learnt it."""


def unlearnt(rows: Sequence[Row]) -> list[str]:
    """Return a sentence on each loss with no right answer on a class in any run.

    That is on classes of at least `FEWEST` test examples that the baseline has learnt,
    and losses that have learnt something else: a score of all may hide it.
    """
    if not rows or not rows[0].results:
        return []
    base, *others = rows
    names = base.results[0]["test"].get("per_type", {})
    texts = []
    for row in others:
        missed, runs = {}, 0
        for name, scores in names.items():
            ours, theirs = row.class_scores(name, "f1"), base.class_scores(name, "f1")
            is_scored = ours and theirs and scores.get("support", 0) >= FEWEST
            if is_scored and not any(ours) and statistics.fmean(theirs) >= LEARNT:
                missed[name] = statistics.fmean(theirs)
                runs = runs or len(ours)
        if not missed or len(missed) == len(names):  # or it learnt nothing at all
            continue
        values = {"missed": missed, "runs": runs, "baseline": base.name}
        texts.append(sentences("warnings").unlearnt(loss=row.loss, **values))
    return texts
