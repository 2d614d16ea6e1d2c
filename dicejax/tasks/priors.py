"""Log-odds of the classes in training data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dicejax.errors import InputError
from dicejax.tasks.task import Target


def log_priors(
    targets: Mapping[str, Target], counts: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    r"""Return the logits that predict the class frequencies, float64 `[C]` by output.

    .. math:: z_c = \log \frac{n_c}{n}, \qquad z_c = \log \frac{n_{c1}}{n_{c0}}

    of a softmax and of several labels. A count of 0 is taken as half an element, so
    that all are finite. Outputs whose labels are positions have none.

    Args:
      targets: training targets by output.
      counts: `[C]`, or of 0s and 1s `[C, 2]`, by output, as of `Task.class_counts`.

    >>> targets = {"tags": Target("classes", ("O", "PER"))}
    >>> log_priors(targets, {"tags": np.array([9, 1])})["tags"].round(3).tolist()
    [-0.105, -2.303]
    """
    priors = {}
    for name, target in targets.items():
        if target.kind == "positions":
            continue
        numbers = np.maximum(np.asarray(counts[name], np.float64), 0.5)
        if target.kind == "classes":
            priors[name] = np.log(numbers / numbers.sum())
        else:
            priors[name] = np.log(numbers[:, 1] / numbers[:, 0])
    return priors


def require_classes(targets: Mapping[str, Target]) -> None:
    """Raise an InputError if the labels of an output are positions."""
    for name, target in targets.items():
        if target.kind == "positions":
            raise InputError(
                f"training: head_bias prior needs class frequencies, but the labels of "
                f"output {name!r} are positions; leave it at zeros"
            )
