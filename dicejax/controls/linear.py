"""Logistic regression by scikit-learn, as a kernel and a bias."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

ABSENT = -20.0
"""Logit of a class without a training example."""
ITERATIONS = 200


class Linear(NamedTuple):
    """Logits `x @ kernel + bias`: kernel `[F, C]`, bias `[C]`."""

    kernel: np.ndarray
    bias: np.ndarray

    def __call__(self, features: Any) -> np.ndarray:
        """Return logits `[N, C]` of features `[N, F]`, which may be sparse."""
        return np.asarray(features @ self.kernel) + self.bias


def fit_logistic(
    features: Any,
    targets: np.ndarray,
    *,
    strengths: Sequence[float],
    balanced: bool = False,
    classes: int | None = None,
    weights: np.ndarray | None = None,
) -> Iterator[tuple[float, Linear]]:
    """Yield logistic regressions by their inverse strength of the penalty, C.

        min_{W, b}  |W|^2 / 2 + C sum_n w_n CE(x_n W + b, y_n)

    Targets `[N]` are of one class each, fitted together; targets `[N, C]` of 0 and 1
    are fitted class by class.

    >>> x, y = np.array([[-1.0], [-0.5], [0.5], [1.0]]), np.array([0, 0, 1, 1])
    >>> ((c, fitted),) = fit_logistic(x, y, strengths=[1.0])
    >>> fitted(x).argmax(axis=1).tolist()
    [0, 0, 1, 1]

    Args:
      features: float `[N, F]`, dense or sparse.
      targets: int `[N]` from 0 to C - 1, or `[N, C]`.
      strengths: values of C, rising: each fit begins at the one before.
      balanced: weight each class by the inverse of its frequency.
      classes: number of classes, C, by default one more than the largest target. One
        that no target has is never predicted.
      weights: of the examples, float `[N]`.

    Source: scikit-learn's `LogisticRegression`, with L-BFGS.
    """
    columns = [targets] if targets.ndim == 1 else list(targets.T)
    classes = classes if targets.ndim == 1 else 2
    models = [
        LogisticRegression(
            class_weight="balanced" if balanced else None,
            max_iter=ITERATIONS,
            warm_start=True,
        )
        for _ in columns
    ]
    for strength in strengths:
        fits = [
            _fit(model.set_params(C=strength), features, column, classes, weights)
            for model, column in zip(models, columns, strict=True)
        ]
        if targets.ndim == 1:
            yield strength, fits[0]
            continue
        # Of the two logits of a label their difference counts.
        yield (
            strength,
            Linear(
                np.stack([x.kernel[:, 1] - x.kernel[:, 0] for x in fits], axis=1),
                np.stack([x.bias[1] - x.bias[0] for x in fits]),
            ),
        )


def _fit(
    model: LogisticRegression,
    features: Any,
    targets: np.ndarray,
    classes: int | None,
    weights: Any,
) -> Linear:
    classes = max(int(targets.max()) + 1, 2) if classes is None else classes
    kernel = np.zeros((features.shape[1], classes), np.float32)
    bias = np.full(classes, ABSENT, np.float32)
    present = np.unique(targets)
    if len(present) == 1:
        bias[present] = 0.0
        return Linear(kernel, bias)
    with warnings.catch_warnings():
        # What dev scores is what counts, also of a fit that has not quite converged.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(features, targets, sample_weight=weights)
    if len(present) == 2:  # one column for both
        kernel[:, present[1]], bias[present[0]] = model.coef_[0], 0.0
        bias[present[1:]] = model.intercept_
    else:
        kernel[:, present], bias[present] = model.coef_.T, model.intercept_
    return Linear(kernel, bias)
