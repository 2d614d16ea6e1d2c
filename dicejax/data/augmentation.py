"""Base class of augmentations: training examples made from those of the data set."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Augmentation(abc.ABC):
    """Base class of augmentations, for experiment files to derive from."""

    @abc.abstractmethod
    def augment(self, examples: Sequence[Any]) -> tuple[tuple[Any, ...], str]:
        """Return the examples to train on, and a note that is logged.

        Raises:
          InputError: the examples do not fit.
        """
