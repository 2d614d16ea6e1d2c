"""Objectives bound to outputs of which tests say little."""

import numpy as np

from dicejax.tasks import Target


def bound(objective, class_counts, outputs=None):
    """Return an objective for outputs, each with its weight; those with counts if None.

    Labels are 0 or 1 for each class where there are counts of both.
    """
    targets = {}
    for name, weight in (outputs or dict.fromkeys(class_counts, 1.0)).items():
        several = np.ndim(class_counts.get(name)) == 2
        kind = "multi_label" if several else "classes"
        names = tuple(map(str, range(len(class_counts.get(name, ())))))
        targets[name] = Target(kind, names, has_negative=not several, weight=weight)
    return objective.bind(targets, class_counts)
