"""The losses of the paper and of its published code, by their names there.

A preset is a registered loss with other defaults. Its name is one of `--loss` and
`--losses`. Equations have the numbers of arXiv:1911.02855.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from jax import Array

from dicejax import losses
from dicejax.objectives.declared import of_loss
from dicejax.objectives.gold import Gold, as_gold
from dicejax.objectives.objective import LabelCounts, State
from dicejax.objectives.of_losses import Focal, WeightedCrossEntropy
from dicejax.objectives.of_set_losses import Dice, SelfAdjustingDice, Tversky
from dicejax.objectives.sets import Sets


@of_loss(losses.focal, "fl")
class FL(Focal):
    """Focal loss of the gold class, without class weights.

    Source: Li et al., ACL 2020, table 2, FL
    """


@of_loss(losses.dice, "dl")
class DL(Dice):
    """Dice loss of each element, with squares in the denominator.

    Source: Li et al., ACL 2020, eq. 7
    """

    over: Sets | int = "element"
    exclude_class: tuple[str, ...] = ("negatives",)
    smooth: float = 1.0
    squared: bool = True


@of_loss(losses.dice, "dl-set")
class DLSet(Dice):
    """Dice loss of the batch as one set, with squares in the denominator.

    Source: Li et al., ACL 2020, footnote 4
    """

    exclude_class: tuple[str, ...] = ("negatives",)
    smooth: float = 1.0
    squared: bool = True


@of_loss(losses.tversky, "tl")
class TL(Tversky):
    """Tversky loss of each element.

    Source: Li et al., ACL 2020, eq. 9
    """

    over: Sets | int = "element"
    exclude_class: tuple[str, ...] = ("negatives",)
    smooth: float = 1.0


@of_loss(losses.self_adjusting_dice, "dsc-eq11")
class DSCEq11(SelfAdjustingDice):
    """Self-adjusting Dice loss of each element, without squares.

    Source: Li et al., ACL 2020, eq. 11
    """

    over: Sets | int = "element"
    exclude_class: tuple[str, ...] = ("negatives",)
    alpha: float = 1.0
    squared: bool = False


@of_loss(losses.self_adjusting_dice, "dsc-official")
class DSCOfficial(SelfAdjustingDice):
    """Self-adjusting Dice loss of the published code, without mining.

    The losses of classes are added. Of a softmax of three or more classes each element
    is a set, where `over` is "batch". Of two classes the second alone counts, unless
    `exclude_class` names one.

    Source: `DiceLoss` of ShannonAI/dice_loss_for_NLP, as its scripts set it
    """

    @classmethod
    def recorded(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a run's record, by which earlier versions said it."""
        earlier = {"published": "batch", "sum": "mean", "mean": "sum"}
        words = {name: fields[name] for name in {"over", "reduce"} & fields.keys()}
        return super().recorded(
            fields | {n: earlier.get(x, x) for n, x in words.items()}
        )

    def loss_and_state(
        self,
        logits: Array,
        labels: Array | Gold,
        state: State,
        counts: LabelCounts = None,
    ) -> tuple[Array, State]:
        """Return the loss of one output, and the next state."""
        several = as_gold(labels).labels.ndim == logits.ndim
        chosen, classes = self, 1 if several else logits.shape[-1]
        if classes > 2 and self.over == "batch":
            chosen = dataclasses.replace(self, over="element")
        elif classes == 2 and not self.exclude_class:
            chosen = dataclasses.replace(self, exclude_class=("negatives",))
        return super(DSCOfficial, chosen).loss_and_state(logits, labels, state, counts)

    def values(
        self, logits: Array, labels: Array | Gold, state: State = (), **layout: Any
    ) -> tuple[Array, State]:
        """Return the loss of each set, the sum of those of its classes."""
        values, state = super().values(logits, labels, state, **layout)
        return values.sum(axis=-1) if self.average == "none" else values, state


PRESETS = {
    cls.short_name: cls
    for cls in (WeightedCrossEntropy, FL, DL, DLSet, TL, DSCEq11, DSCOfficial)
}
"""The objectives of the paper and of its code, by name on the command line."""
