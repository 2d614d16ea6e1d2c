"""Candidates of a comparison: losses, from the prior or not, and controls."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, Literal, get_args

from dicejax.objectives.objective import Objective


@dataclasses.dataclass(frozen=True)
class FromPrior:
    """A loss whose runs begin at the class frequencies, for `compare`.

    The bias of the heads is the log of the class frequencies of train (`head_bias` of
    `Training`), and the heads learn at `FACTOR` times the rate of the encoder, or at
    the experiment's `head_learning_rate`. As "ce+prior" it is the control that says how
    much of a loss's gain is a head start.

    Attributes:
      objective: the loss.

    >>> from dicejax.objectives import SelfAdjustingDice, name_of
    >>> name_of(FromPrior(SelfAdjustingDice(alpha=1.0)))
    'dsc+prior-alpha=1.0'
    """

    SUFFIX: ClassVar[str] = "+prior"
    FACTOR: ClassVar[float] = 10.0

    objective: Objective


ControlName = Literal["majority", "tfidf", "frozen"]
"""A model that is no fine-tuned encoder; see `Experiment.control`."""


@dataclasses.dataclass(frozen=True)
class Control:
    """A model that is no fine-tuned encoder, in a comparison of such.

    >>> from dicejax.objectives import name_of
    >>> name_of(Control("tfidf"))
    'tfidf'
    """

    name: ControlName

    def __post_init__(self) -> None:
        if self.name not in (names := get_args(ControlName)):
            raise ValueError(f"control {self.name!r}; want {', '.join(names)}")


Candidate = Objective | FromPrior | Control
"""What `compare` trains."""

_Named = Candidate | str
Candidates = tuple[_Named, ...] | Sequence[Candidate] | list[str] | list[_Named]
"""Several, or their names. No str, of which each letter would be a name."""
