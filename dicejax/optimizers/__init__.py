"""Optimisers: dataclasses of an update rule and its learning rates."""

from dicejax.optimizers.optimizer import AdamW, Optimizer, Update, decay_mask

__all__ = ["AdamW", "Optimizer", "Update", "by_short_name", "decay_mask"]


def by_short_name() -> dict[str, type[Optimizer]]:
    """Return the optimisers by their names on the command line.

    >>> by_short_name()["adamw"].__name__
    'AdamW'
    """
    classes = Optimizer.__subclasses__()
    for cls in classes:  # it grows
        classes += cls.__subclasses__()
    return {cls.short_name: cls for cls in classes if "short_name" in vars(cls)}
