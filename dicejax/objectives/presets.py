"""The losses of the paper and of its published code, by their names there.

A preset is a registered loss with other defaults. Its name is one of `--loss` and
`--losses`, and its objective is a subclass of the loss's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


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


_EACH = {"over": "element", "classes": ("positive",)}
_PUBLISHED = {"over": "published", "classes": ("published",), "reduce": "sum"}

PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            "wce",
            "WeightedCrossEntropy",
            "wce",
            {},
            "eq. 2",
            "Weighted cross-entropy with the paper's weights lg((n - n_t) / n_t + K).",
        ),
        Preset(
            "fl",
            "FL",
            "focal",
            {},
            "table 2, FL",
            "Focal loss of the gold class, without class weights.",
        ),
        Preset(
            "dl",
            "DL",
            "dice",
            {**_EACH, "squared": True},
            "eq. 7",
            "Dice loss of each element, with squares in the denominator.",
        ),
        Preset(
            "dl-set",
            "DLSet",
            "dice",
            {"classes": ("positive",), "squared": True},
            "footnote 4",
            "Dice loss of the batch as one set, with squares in the denominator.",
        ),
        Preset("tl", "TL", "tversky", _EACH, "eq. 9", "Tversky loss of each element."),
        Preset(
            "dsc-eq11",
            "DSCEq11",
            "dsc",
            {**_EACH, "alpha": 1.0, "squared": False},
            "eq. 11",
            "Self-adjusting Dice loss of each element, without squares.",
        ),
        Preset(
            "dsc-official",
            "DSCOfficial",
            "dsc",
            _PUBLISHED,
            "`DiceLoss` of ShannonAI/dice_loss_for_NLP, as its scripts set it",
            "Self-adjusting Dice loss of the published code, without mining.",
        ),
    )
}


def of_loss(short_name: str) -> list[Preset]:
    """Return the presets of a loss."""
    return [preset for preset in PRESETS.values() if preset.loss == short_name]


def sentence(short_name: str) -> str:
    """Return the sentence that relates a loss to presets; empty without any.

    >>> sentence("dice")
    'None of the paper at its defaults; see the presets dl, dl-set.'
    """
    presets = of_loss(short_name)
    same = [preset.name for preset in presets if not preset.settings]
    if same:
        return f"The preset {same[0]} ({PRESETS[same[0]].source}) at its defaults."
    names = ", ".join(preset.name for preset in presets)
    return names and f"None of the paper at its defaults; see the presets {names}."
