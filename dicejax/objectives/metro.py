"""Cross-entropy whose class weights follow the F-beta that is reached on dev."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from dicejax.losses import class_weights
from dicejax.losses.declaration import REGISTRY, Declaration
from dicejax.objectives.gold import Gold, as_gold
from dicejax.objectives.loss_objective import LossObjective
from dicejax.objectives.objective import Objective, State, _Target, objective


@objective
class Metro(LossObjective):
    r"""Cross-entropy with the class weights of a reached F-beta (METRO).

    .. math::
        L = -(1 + \beta^2 - F) \, y \log p - F \, (1 - y) \log (1 - p)

    Several labels have an F each. Of a softmax F is micro-averaged over all classes but
    the first, the negative one: its elements weigh F, the others' :math:`1 + \beta^2 -
    F`. F is 1 in the first epoch, so that with :math:`\beta = 1` it begins as `ce`.
    After each epoch it is that of the decisions on dev, element by element, but no less
    than that of calling every element positive, :math:`(1 + \beta^2) \pi / (\beta^2 \pi
    + 1)` with :math:`\pi` the share of positives: weights of 0 would be of no use. A
    class without positives on dev keeps its F.

    Use it for F1 where no threshold can be tuned, as where tags are chosen by argmax.

    Pitfalls: An F of few positives on dev is noisy. Weights are not divided by their
    mean, so that the loss of another F is on another scale.

    Args:
      beta: above 0; recall counts beta times as much as precision.
      f: F-beta of the first epoch, one for each label of several, in [0, 1]; 1 if
        empty.

    Source: METRO (https://arxiv.org/abs/2512.23133); the weights are the costs of
    Parambath et al., NeurIPS 2014 (https://nips.cc/virtual/2014/poster/4712), whose
    Bayes threshold is :math:`F / (1 + \beta^2)`.
    """

    short_name: ClassVar[str] = "metro"
    declaration: ClassVar[Declaration] = REGISTRY["ce"]

    beta: float = 1.0
    f: tuple[float, ...] = ()

    def values(
        self, logits: Array, labels: Array | Gold, state: State = (), **layout: Any
    ) -> tuple[Array, State]:
        """Return the loss of each element, and of each label of several."""
        several = as_gold(labels).labels.ndim == logits.ndim
        f = jnp.stack([jnp.asarray(value, float) for value in self.f or (1.0,)])
        weights = class_weights.f_measure(f, beta=self.beta)  # [1 or C, 2]
        classes = logits.shape[-1]
        if several:
            weights = jnp.broadcast_to(weights, (classes, 2))
        else:
            weights = weights[0, jnp.minimum(np.arange(classes), 1)]
        layout |= {"class_weights": weights}
        return super().values(logits, labels, state, **layout)

    def fit(self, target: _Target, counts: np.ndarray | None) -> Objective:
        """Return the objective with an F for each label of several, or one."""
        output = f"output {self.output!r}"
        if target.kind == "positions":
            raise ValueError(
                f"objective {self._name} needs classes, but the labels of {output} are "
                "positions"
            )
        if target.kind == "classes" and not target.has_negative:
            raise ValueError(f"weights positives, but no class of {output} is negative")
        expected = len(target.classes) if target.kind == "multi_label" else 1
        if len(self.f or [1.0] * expected) != expected:
            raise ValueError(f"f has {len(self.f)} numbers; want {expected}")
        return dataclasses.replace(self, f=self.f or (1.0,) * expected)

    def after_epoch(self, decisions: Mapping[str, ArrayLike]) -> Objective:
        """Return the objective with the F of the decisions on dev."""
        name = self._output_among(decisions)
        if name not in decisions:  # before the first epoch
            return self
        cells = np.asarray(decisions[name], np.float64)
        if len(cells) > len(self.f):  # a softmax; `fit` gave it one F
            elements = cells[0].sum()
            cells = cells[1:].sum(axis=0, keepdims=True)
        else:
            elements = cells.sum(axis=(1, 2))
        missed, correct, wrong = cells[:, 1, 0], cells[:, 1, 1], cells[:, 0, 1]
        actual, square = missed + correct, self.beta**2
        reached = (1 + square) * correct / (square * actual + correct + wrong + 1e-300)
        least = (1 + square) * actual / (square * actual + elements + 1e-300)
        f = np.where(actual > 0, np.maximum(reached, least), self.f)
        return dataclasses.replace(self, f=tuple(f.tolist()))
