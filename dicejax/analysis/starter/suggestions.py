"""From a profile of the data to settings that are a fair beginning."""

from __future__ import annotations

import dataclasses
import math
import unicodedata
from collections.abc import Iterable

from dicejax.analysis.profile import Profile

ROWS = (64, 128, 256, 384, 512)
IMBALANCED = 4.0
"""From so many negatives per positive on, losses for imbalanced data are compared."""
UPDATES = 200
"""Fewer updates than these teach an encoder little, however small the data."""


@dataclasses.dataclass(frozen=True)
class Suggestions:
    """Settings, each with the reason that stands beside it in the file.

    Attributes:
      max_length: holds 99 % of the sequences whole.
      batch_size: fewer for small data.
      epochs: enough for some hundred updates.
      encoder: a model of the language's script; None for one from random weights.
      learning_rate: usual for the encoder.
      ratio: negatives per positive of the output that is most imbalanced; None where
        no output has both.
      losses: expressions to compare, cross-entropy first.
    """

    max_length: int
    batch_size: int
    epochs: int
    encoder: str | None
    learning_rate: float
    ratio: float | None
    losses: tuple[str, ...]


def suggest(profile: Profile, texts: Iterable[str], encoder: str | None) -> Suggestions:
    """Choose settings for data.

    Args:
      profile: of the data, with the vocabulary of any tokenizer.
      texts: some of its words or texts, by whose script the encoder is chosen.
      encoder: "scratch", a folder or a hub id; None chooses.
    """
    train = profile.splits["train"]
    most = train.lengths.quantiles[99] if train.lengths else ROWS[0]
    sentences = 32 if train.sequences >= 2000 else 16
    per_epoch = max(1, math.ceil(train.sequences / sentences))
    from_scratch = encoder == "scratch"
    ratios = [one.ratio for one in train.outputs if one.ratio is not None]
    ratio = max(ratios, default=None)
    of_positions = any(one.rule == "positions" for one in train.outputs)
    return Suggestions(
        max_length=next((row for row in ROWS if row >= most), ROWS[-1]),
        batch_size=sentences,
        epochs=min(30, max(3, math.ceil(UPDATES / per_epoch))),
        encoder=None if from_scratch else encoder or _pretrained(texts),
        learning_rate=1e-3 if from_scratch else 5e-5,
        ratio=ratio,
        losses=_losses(ratio, of_positions),
    )


def _losses(ratio: float | None, of_positions: bool) -> tuple[str, ...]:
    if of_positions:  # no classes to be imbalanced
        return ("CrossEntropy()", "Focal()")
    if ratio is None or ratio < IMBALANCED:
        return ("CrossEntropy()", "CrossEntropy(label_smoothing=0.1)", "Focal()")
    return (
        "CrossEntropy()",
        "Focal()",
        "Dice(smooth=0.01)",
        "SelfAdjustingDice(alpha=0.01, smooth=0.01)",
    )


def _pretrained(texts: Iterable[str]) -> str:
    """A hub id by the script that most letters are of."""
    letters = [c for text in texts for c in text if c.isalpha()][:20_000]
    names = [unicodedata.name(c, "?") for c in letters]
    han = sum(name.startswith("CJK") for name in names)
    latin = [c for c, name in zip(letters, names, strict=True) if "LATIN" in name]
    if han > len(letters) / 2:
        return "bert-base-chinese"
    # Umlauts and accents: some other language than English, as a rule.
    if sum(c > "\x7f" for c in latin) > len(latin) / 100 or 2 * len(latin) < len(
        letters
    ):
        return "bert-base-multilingual-cased"
    return "bert-base-cased"
