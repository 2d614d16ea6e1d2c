"""Signs that a run learnt nothing or diverged, and the setting to change."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dicejax.config import Experiment, ScratchEncoder
from dicejax.data.examples import groups_of
from dicejax.errors import quote
from dicejax.metrics import quotients
from dicejax.metrics.scores import Scores
from dicejax.objectives import name_of
from dicejax.tasks import (
    Classification,
    MultiLabelClassification,
    Prediction,
    Task,
    WordTagging,
)
from dicejax.tasks.described import predicted_text

MOST_SKIPPED = 0.1
"""Share of skipped updates above which a run has diverged."""
LAST_SKIPPED = 5
"""Number of last updates that a run has diverged without."""

# Fewer updates than these teach an encoder little, however small the data.
UPDATES = {"pretrained": 200, "scratch": 1500}
RATES = {"pretrained": 5e-5, "scratch": 1e-3}
"""Peak learning rates to begin with."""


def divergence(steps: int, skipped: int, skipped_in_a_row: int) -> str | None:
    """Say why a run of some updates has diverged; None if it has not.

    A run that skips updates has another budget than the others that it is compared
    with. The last in a row are those up to the end.

    >>> divergence(48, 5, 0)
    'no finite loss or gradient in 5 of 48 updates'
    >>> divergence(480, 5, 5)
    'no finite loss or gradient in 5 of 480 updates, the last 5 among them'
    >>> divergence(480, 48, 4) is None
    True
    """
    if skipped <= MOST_SKIPPED * steps and skipped_in_a_row < LAST_SKIPPED:
        return None
    last = f", the last {skipped_in_a_row} among them" if skipped_in_a_row > 1 else ""
    return f"no finite loss or gradient in {skipped:,} of {steps:,} updates{last}"


def lower_rate(experiment: Experiment) -> str:
    """Return the remedy for a run that diverged."""
    rate = experiment.optimizer.learning_rate
    other = ""
    if experiment.training.precision == "float16":
        other = " or --training.precision bfloat16"
    return (
        f"try a lower --optimizer.learning_rate than {rate:g}{other}, with --overwrite"
    )


def nothing_learnt(
    task: Task, predictions: Sequence[Any], scores: Scores
) -> str | None:
    """Say how predictions show that nothing was learnt; None if they do not.

    Nothing is learnt where the primary metric is 0, or where texts or words of several
    classes all get the same.
    """
    values: list[Any] = []  # an answer to a question is one, whatever its parts
    for guess in predictions:
        values += guess.values if isinstance(guess, Prediction) else [guess]
    if isinstance(task, Classification | WordTagging):
        unit = "text" if isinstance(task, Classification) else "word"
        gold = [name for name, row in scores.groups.items() if row.get("support")]
        if len(gold) > 1 and len(set(values)) == 1:
            return f"every {unit} is given the class {quote(values[0])}"
    if scores.values[task.primary_metric] != 0:
        return None
    if not values:
        noun = "label" if isinstance(task, MultiLabelClassification) else "entity"
        return f"no {noun} is predicted in any of {len(predictions):,} examples"
    return f"none of {len(values):,} predictions is right"


def remedy(experiment: Experiment, steps: int, skipped: int = 0) -> str:
    """Return the likeliest cause why a run of some updates learnt nothing, and a flag.

    >>> from dicejax.data.synthetic import SyntheticNER
    >>> from dicejax.optimizers import AdamW
    >>> experiment = Experiment(
    ...     name="mine", data=SyntheticNER(), optimizer=AdamW(learning_rate=1e-3)
    ... )
    >>> remedy(experiment, 150)
    '150 updates are few for random weights: try --training.epochs 30'
    """
    from_scratch = isinstance(experiment.encoder, ScratchEncoder)
    kind = "scratch" if from_scratch else "pretrained"
    weights = "random weights" if from_scratch else "a pretrained encoder"
    rate, usual = experiment.optimizer.learning_rate, RATES[kind]
    if skipped or rate > 10 * usual:
        lower = min(rate / 10, usual)
        return (
            f"the learning rate {rate:g} is high for {weights}: "
            f"try --optimizer.learning_rate {lower:g}"
        )
    if rate < usual / 3:
        return (
            f"the learning rate {rate:g} is low for {weights}: "
            f"try --optimizer.learning_rate {usual:g}"
        )
    if steps < UPDATES[kind]:
        epochs = math.ceil(experiment.training.epochs * UPDATES[kind] / max(steps, 1))
        return (
            f"{steps:,} updates are few for {weights}: try --training.epochs {epochs}"
        )
    loss = name_of(experiment.objective)
    if loss != "ce":
        return f"{loss} may not learn at this rate and length: try --loss ce"
    return (
        f"the learning rate {rate:g} may be low: "
        f"try --optimizer.learning_rate {3 * rate:g}"
    )


def choose_threshold(
    task: Task,
    dev: tuple[Sequence[Any], Sequence[Any]],
    test: tuple[Sequence[Any], Sequence[Any]],
    labels: Sequence[str],
    epochs: int,
) -> tuple[Any, dict[str, Any], dict[str, np.ndarray]]:
    """Choose a threshold by examples of dev and their candidates, and score test's.

    Returns:
      The threshold, fields of a result, and arrays by test example.
    """
    fields: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    chosen: Any
    if task.constraint is None:
        chosen = task.tune(*dev, labels)
    else:
        chosen = task.guarantee(*dev, labels, epochs)
        if test[0] != dev[0]:  # which shows nothing of what it chose itself
            observed = task.observe(chosen, *test, labels)
            counts = {label: share.to_json() for label, share in observed.items()}
            fields["constraint_on_test"] = counts
        decided = [task.decide(each, chosen.threshold) for each in test[1]]
        shares = task.at_constraint(chosen, test[0], decided, labels)
        arrays["at_constraint"] = shares
        value = quotients.ratio(*shares.sum(axis=(0, 1)))
        fields["at_constraint"] = {"name": chosen.constraint.other, "value": value}
    fields["threshold"] = dataclasses.asdict(chosen)
    if chosen.threshold is not None:
        with_it = task.score_found(*test, labels, chosen.threshold)
        fields["test_with_tuned_threshold"] = with_it.to_json()
    return chosen, fields, arrays


def by_example(examples: Sequence[Any], decided: Sequence[Any]) -> dict[str, Any]:
    """Return the predictions in words, and the documents if the data have some."""
    pairs = zip(examples, decided, strict=True)
    arrays = {"predictions": np.array([predicted_text(*pair) for pair in pairs])}
    groups = groups_of(examples)
    return arrays if groups is None else {**arrays, "groups": groups}
