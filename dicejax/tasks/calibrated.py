"""Probabilities of predictions, and what came true: calibrated by a temperature.

Decisions are made before, by the network's probabilities, so none of them changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from dicejax.metrics.calibration import Calibration, fit_temperature
from dicejax.tasks.spans import SpanTask, WordsTask
from dicejax.tasks.task import Prediction, Task
from dicejax.tasks.texts import TextTask

_LEAST = 2.0**-25  # half of the spacing of float32 below 1, where sigmoids end


def has_probabilities(task: Task) -> bool:
    """Return whether predictions have probabilities of being right."""
    return isinstance(task, TextTask | WordsTask)


def outcomes(
    task: Task, examples: Sequence[Any], predictions: Sequence[Prediction]
) -> tuple[np.ndarray, np.ndarray]:
    """Return log-probabilities of outcomes, and which came true.

    Of a text with one class the outcomes are the classes; texts of a class that train
    lacks are left out. Otherwise they are wrong and right: of each label of a text, of
    each predicted span, and of each word's label.

    Returns:
      float [N, C] and int [N].
    """
    if isinstance(task, TextTask) and not task.has_several:
        pairs = [
            (list(prediction.probabilities.values()), names.index(gold))
            for example, prediction in zip(examples, predictions, strict=True)
            if (gold := example.label) in (names := list(prediction.probabilities))
        ]
        shares, classes = zip(*pairs, strict=True) if pairs else (np.zeros((0, 2)), ())
        floor = np.finfo(np.float32).smallest_subnormal
        return np.log(np.maximum(shares, floor)), np.array(classes, int)
    chances: list[float] = []
    right: list[int] = []
    for example, prediction in zip(examples, predictions, strict=True):
        by_value = prediction.probabilities
        if by_value is None:
            continue
        if isinstance(task, TextTask):
            gold = set(task.gold(example) or ())
            chances += by_value.values()
            right += [label in gold for label in by_value]
            continue
        if isinstance(task, SpanTask):
            truths = list(map(set(example.spans).__contains__, prediction.values))
        else:
            truths = list(map(str.__eq__, example.labels, prediction.values))
        outcomes = zip(by_value, truths, strict=True)
        seen = [(chance, truth) for chance, truth in outcomes if chance is not None]
        chances += [chance for chance, _ in seen]
        right += [truth for _, truth in seen]
    shares = np.clip(np.array(chances, float), _LEAST, 1 - _LEAST)
    return np.log(np.stack([1 - shares, shares], axis=-1)), np.array(right, int)


def calibrate(
    task: Task, prediction: Prediction, temperature: float | None
) -> Prediction:
    """Return a prediction with calibrated probabilities; the same without temperature.

    Those of the tags of words, of which a span is made, are the network's.
    """
    if temperature is None or prediction.probabilities is None:
        return prediction
    shares = prediction.probabilities
    is_one = not isinstance(task, TextTask) or not task.has_several
    if isinstance(shares, Mapping) and is_one:
        with np.errstate(divide="ignore"):
            logs = np.log(list(shares.values())) / temperature
        scaled: Any = dict(zip(shares, special.softmax(logs).tolist(), strict=True))
    elif isinstance(shares, Mapping):
        scaled = {label: _scale(x, temperature) for label, x in shares.items()}
    else:
        scaled = [None if x is None else _scale(x, temperature) for x in shares]
    return dataclasses.replace(prediction, probabilities=scaled)


def _scale(share: float, temperature: float) -> float:
    """Divide the log-odds."""
    inside = min(max(share, _LEAST), 1 - _LEAST)
    return float(special.expit(special.logit(inside) / temperature))


def fit(
    task: Task,
    splits: Mapping[str, tuple[Sequence[Any], Sequence[Prediction]]],
    threshold: float | Mapping[str, float] | None = None,
) -> dict[str, Any] | None:
    """Fit a temperature on dev, and score it on all splits.

    Returns:
      It, the threshold among calibrated probabilities that decides alike, and the
      `Calibration` of each split, for JSON; None where dev has no best temperature.
    """
    temperature = fit_temperature(*outcomes(task, *splits["dev"]))
    if temperature is None:
        return None
    scores = {
        split: Calibration.from_outcomes(temperature, *outcomes(task, *pair))
        for split, pair in splits.items()
    }
    by_split = {split: dataclasses.asdict(x) for split, x in scores.items() if x}
    content: dict[str, Any] = {"temperature": temperature, **by_split}
    if isinstance(threshold, Mapping):
        moved = {label: _scale(x, temperature) for label, x in threshold.items()}
        content["threshold"] = moved
    elif threshold is not None:
        content["threshold"] = _scale(threshold, temperature)
    return content
