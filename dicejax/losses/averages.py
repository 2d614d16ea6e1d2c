"""Excluded classes, class weights and averages of set losses."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.losses.declaration import Absent, Average
from dicejax.losses.elements import Elements, as_problems
from dicejax.losses.ranking import whole


def select(
    elements: Elements,
    exclude_class: int | tuple[int, ...] | None,
    average: Average = "none",
) -> Elements:
    """Leave classes out, and make one set of those that are averaged by "micro".

    The classes of a softmax become sigmoids of the same probabilities.
    """
    if elements.form == "binary":
        if exclude_class is not None:
            raise ValueError("exclude_class wants a class axis")
        return elements
    if exclude_class is None and average != "micro":
        return elements
    if elements.form == "softmax":
        elements = as_problems(elements)
    if exclude_class is not None:
        left = _without(exclude_class, elements.logits.shape[-1])
        logits, labels, where = (
            whole(x, -1)[..., np.array(left)]
            for x in (elements.logits, elements.labels, elements.where)
        )
        elements = elements._replace(
            logits=logits, labels=labels, where=where, classes=left
        )
    if average == "micro":
        axes = (*elements.axes, elements.logits.ndim - 1)
        elements = elements._replace(form="binary", axes=axes)
    return elements


def averaged(
    losses: Array,
    elements: Elements,
    class_weights: Array | None,
    average: Average,
    absent: Absent = "smooth",
) -> Array:
    """Weigh the losses of classes, and average them by "macro"."""
    if average == "micro" and class_weights is not None:
        raise ValueError("average is 'micro', but needs no class_weights")
    if elements.form == "binary" or (average == "none" and class_weights is None):
        return losses
    if losses.ndim != elements.logits.ndim - len(elements.axes):
        raise ValueError(
            "class_weights and average need a loss for each class, but with these "
            "settings there is a single value for all classes"
        )
    if class_weights is not None:
        left = elements.classes
        losses *= class_weights if left is None else class_weights[np.array(left)]
    if average == "none":
        return losses
    if absent == "smooth":
        return jnp.mean(losses, axis=-1)
    (actual,) = elements.total(elements.targets)
    return jnp.sum(losses, axis=-1) / jnp.maximum(jnp.sum(actual > 0, axis=-1), 1)


def _without(exclude_class: int | tuple[int, ...], classes: int) -> tuple[int, ...]:
    """Return the numbers of the other classes."""
    excluded = exclude_class if isinstance(exclude_class, tuple) else (exclude_class,)
    left = tuple(number for number in range(classes) if number not in excluded)
    if not all(0 <= number < classes for number in excluded) or not left:
        raise ValueError(
            f"exclude_class is {exclude_class} but there are {classes} classes, and "
            "at least 1 must remain"
        )
    return left
