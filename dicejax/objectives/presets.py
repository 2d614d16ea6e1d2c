"""The losses of the paper and of its published code, by their names there.

A preset is a registered loss with other defaults. Its name is one of `--loss` and
`--losses`. Equations have the numbers of arXiv:1911.02855.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from dicejax import losses
from dicejax.objectives.declared import of_loss
from dicejax.objectives.loss_objective import LossObjective
from dicejax.objectives.of_losses import Focal
from dicejax.objectives.of_set_losses import Dice, SelfAdjustingDice, Tversky
from dicejax.objectives.sets import Reduction, Sets

_Class = TypeVar("_Class", bound=type[LossObjective])


class Preset(NamedTuple):
    """A registered loss with the settings of a source.

    Attributes:
      name: name on the command line.
      class_name: name of its objective.
      loss: short name of the registered loss.
      settings: its defaults where they differ from those of the loss.
      source: equation or function. Equations have the numbers of arXiv:1911.02855.
      line: summary.
    """

    name: str
    class_name: str
    loss: str
    settings: Mapping[str, Any]
    source: str
    line: str


PRESETS = {
    "wce": Preset(
        "wce",
        "WeightedCrossEntropy",
        "wce",
        {},
        "eq. 2",
        "Weighted cross-entropy with the paper's weights lg((n - n_t) / n_t + K).",
    )
}


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _preset(name: str, function: Callable) -> Callable[[_Class], _Class]:
    """Make a class the objective of a loss with other defaults, and a preset."""

    def decorate(cls: _Class) -> _Class:
        of_loss(function, name)(cls)
        line, _, source = (inspect.getdoc(cls) or "").partition("\n\nSource: ")
        settings = {field: getattr(cls, field) for field in cls.__annotations__}
        loss = cls.declaration.short_name
        source = source.removeprefix("Li et al., ACL 2020, ")
        PRESETS[name] = Preset(name, cls.__name__, loss, settings, source, line)
        return cls

    return decorate


@_preset("fl", losses.focal)
class FL(Focal):
    """Focal loss of the gold class, without class weights.

    Source: Li et al., ACL 2020, table 2, FL
    """


@_preset("dl", losses.dice)
class DL(Dice):
    """Dice loss of each element, with squares in the denominator.

    Source: Li et al., ACL 2020, eq. 7
    """

    over: Sets | int = "element"
    classes: tuple[str, ...] = ("positive",)
    smooth: float = 1.0
    squared: bool = True


@_preset("dl-set", losses.dice)
class DLSet(Dice):
    """Dice loss of the batch as one set, with squares in the denominator.

    Source: Li et al., ACL 2020, footnote 4
    """

    classes: tuple[str, ...] = ("positive",)
    smooth: float = 1.0
    squared: bool = True


@_preset("tl", losses.tversky)
class TL(Tversky):
    """Tversky loss of each element.

    Source: Li et al., ACL 2020, eq. 9
    """

    over: Sets | int = "element"
    classes: tuple[str, ...] = ("positive",)
    smooth: float = 1.0


@_preset("dsc-eq11", losses.self_adjusting_dice)
class DSCEq11(SelfAdjustingDice):
    """Self-adjusting Dice loss of each element, without squares.

    Source: Li et al., ACL 2020, eq. 11
    """

    over: Sets | int = "element"
    classes: tuple[str, ...] = ("positive",)
    alpha: float = 1.0
    squared: bool = False


@_preset("dsc-official", losses.self_adjusting_dice)
class DSCOfficial(SelfAdjustingDice):
    """Self-adjusting Dice loss of the published code, without mining.

    Source: `DiceLoss` of ShannonAI/dice_loss_for_NLP, as its scripts set it
    """

    over: Sets | int = "published"
    classes: tuple[str, ...] = ("published",)
    reduce: Reduction = "sum"
