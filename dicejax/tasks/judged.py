"""What a threshold decides, and the threshold by which a constraint is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dicejax.errors import InputError, quote
from dicejax.metrics.bounds import Observation
from dicejax.metrics.guarantees import Constraint, GuaranteedThreshold
from dicejax.metrics.spans import TypeCounts


class Judged(NamedTuple):
    """Scores that a threshold cuts, and the gold of each.

    Attributes:
      gold: bool [N].
      scores: float [N], None if not decoded.
      units: int [N], the document of each, or another unit, of which draws are
        independent; None where the N are.
      noun: name of the units, in the plural.
      by_label: whether the threshold is one of several, by label.
      sign: -1 where the scores are minus those of thresholds.
    """

    gold: ArrayLike
    scores: Any
    units: np.ndarray | None = None
    noun: str = "documents"
    by_label: bool = False
    sign: int = 1


@dataclasses.dataclass(frozen=True)
class ThresholdRule:
    """How a task comes to the threshold that decides for its candidates.

    Attributes:
      default: the threshold where none is chosen.
      tunes: whether it is to be tuned on the dev split.
      constraint: what it is to keep on new data instead; None: nothing.
    """

    default: float
    tunes: bool = False
    constraint: Constraint | None = None

    @classmethod
    def for_task(
        cls, task: Any, default: float, *, tunes: bool = False
    ) -> ThresholdRule:
        """Return the rule of a task by its `threshold` and `threshold_delta`.

        Its `measures` are those that it may bound.

        Raises:
          ValueError: there is no such constraint, the task cannot keep it, or it
            contradicts tuning.
        """
        if task.threshold is None:
            return cls(default, tunes)
        try:
            constraint = Constraint.parse(task.threshold, task.threshold_delta)
        except ValueError as error:
            raise ValueError(f"threshold {task.threshold}: {error}") from None
        if tunes:
            raise ValueError(
                f"threshold {task.threshold} and a threshold tuned for F1 exclude each "
                "other; leave one out"
            )
        if constraint.measure not in task.measures:
            rest = f"; take {' or '.join(task.measures)}" if task.measures else ""
            raise ValueError(
                f"threshold {task.threshold}: {type(task).__name__} cannot promise "
                f"{constraint.measure}{rest}"
            )
        return cls(default, tunes, constraint)


def under(constraint: Constraint, judged: Mapping[str, Judged]) -> Mapping[str, Judged]:
    """Return what is judged of the constraint's label alone, or of all without one.

    Raises:
      InputError: there is no such label.
    """
    label = constraint.label
    if not label:
        return judged
    if label not in judged:
        raise InputError(
            f"task.threshold: {constraint.measure}:{constraint.bound:g}:{label}: "
            f"there is no label {quote(label)}; take {', '.join(map(quote, judged))}"
        )
    return {label: judged[label]}


def require_attainable(
    constraint: Constraint, judged: Mapping[str, Judged], checkpoints: int
) -> None:
    """Check that dev has the examples that the constraint takes, for any scores.

    Raises:
      InputError: dev has too few.
    """
    judged = under(constraint, judged)
    stricter = constraint.among(checkpoints * len(judged))
    counts = {name: constraint.available(x.gold, x.units) for name, x in judged.items()}
    scarce = [name for name, count in counts.items() if count < stricter.required]
    if not scarce:
        return
    name = min(scarce, key=counts.__getitem__)
    shares = [f"delta {constraint.delta:g}"]
    shares += [f"the best of {checkpoints} epochs"] * (checkpoints > 1)
    shares += [f"{len(judged)} labels"] * (len(judged) > 1)
    of_labels = f" for label {quote(name)}" if len(judged) > 1 else ""
    if len(scarce) > 1:
        of_labels += f", the rarest of {len(scarce)}"
    rarest = judged[name]
    lack = stricter.lack(rarest.gold, rarest.units, rarest.noun)
    raise InputError(
        f"task.threshold: {constraint} cannot be promised{of_labels}: "
        f"{lack} ({', '.join(shares)}); take more dev data, another bound or a "
        "larger --task.threshold_delta"
    )


def guarantee(
    rule: ThresholdRule, judged: Mapping[str, Judged], checkpoints: int
) -> GuaranteedThreshold:
    """Choose the threshold, or that of each label, by which the constraint holds.

    The checkpoint may be the best of so many by the same examples: delta is divided by
    their number, which covers any choice among them (Bonferroni), and by that of the
    labels, so that all constraints hold at once.

    Raises:
      ValueError: the rule has no constraint.
    """
    constraint = rule.constraint
    if constraint is None:
        raise ValueError("the rule has no constraint")
    judged = under(constraint, judged)
    stricter = constraint.among(checkpoints * len(judged))
    limits: dict[str, float] = {}
    unattained = {}
    for name, each in judged.items():
        limit = stricter.choose(each.scores, each.gold, each.units)
        if limit is None:
            unattained[name] = stricter.shortfall(each.scores, each.gold, each.units)
        else:
            limits[name] = each.sign * limit
    alone = next(iter(limits.values()), None)
    by_label = any(each.by_label for each in judged.values())
    return GuaranteedThreshold(
        threshold=(limits or None) if by_label else alone,
        **dataclasses.asdict(constraint),
        checkpoints=checkpoints,
        default_threshold=rule.default,
        unattained=unattained,
    )


def observe(
    chosen: GuaranteedThreshold, judged: Mapping[str, Judged]
) -> dict[str, Observation]:
    """Return the bounded measure on other examples, by label that has a promise."""
    limits, observed = chosen.threshold, {}
    for name, each in under(chosen.constraint, judged).items():
        limit = limits.get(name) if isinstance(limits, Mapping) else limits
        if limit is not None:
            observed[name] = chosen.constraint.observe(
                each.scores, each.gold, each.sign * limit, each.units, each.noun
            )
    return observed


def at_constraint(
    chosen: GuaranteedThreshold, counts: Iterable[TypeCounts]
) -> np.ndarray:
    """Return each example's part of the score that a constraint leaves open.

    It is precision where recall or complete examples are bounded, otherwise recall,
    over all labels that the constraint is for, of which `counts` are by example: sums
    of the column of correct ones and of predicted or gold ones are its quotient. Where
    something is not promised nothing counts as correct, as there is nothing to work
    with.

    Returns:
      float [N, 1, 2], as the example statistics of a task.
    """
    is_precision = chosen.constraint.leaves_precision
    rows = [
        (
            0 if chosen.unattained else each.true_positives,
            each.predicted if is_precision else each.gold,
        )
        for each in counts
    ]
    return np.array(rows, float).reshape(-1, 1, 2)
