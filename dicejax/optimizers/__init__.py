"""Optimisers: dataclasses of an update rule and its learning rates."""

from dicejax.optimizers.optimizer import Optimizer, Update
from dicejax.optimizers.parameters import decay_mask, per_layer
from dicejax.optimizers.rules import LAMB, Adafactor, AdamW, Lion

__all__ = [
    "LAMB",
    "Adafactor",
    "AdamW",
    "Lion",
    "Optimizer",
    "Update",
    "by_short_name",
    "decay_mask",
    "per_layer",
]


def by_short_name() -> dict[str, type[Optimizer]]:
    """Return the optimisers by their names on the command line.

    >>> sorted(by_short_name())
    ['adafactor', 'adamw', 'lamb', 'lion']
    """
    found, classes = {}, Optimizer.__subclasses__()
    while classes:
        cls = classes.pop(0)
        if "short_name" in vars(cls):
            found[cls.short_name] = cls
        classes += cls.__subclasses__()
    return found
