"""Thresholds of tasks: tuned for the best F1, or chosen to keep a constraint."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dicejax.errors import InputError, quote
from dicejax.metrics.bounds import Observation
from dicejax.metrics.guarantees import Constraint, GuaranteedThreshold
from dicejax.metrics.spans import TypeCounts
from dicejax.metrics.thresholds import TunedThreshold, TunedThresholds


class Judged(NamedTuple):
    """Scores that a threshold cuts, and the gold of each.

    Attributes:
      gold: bool [N].
      scores: float [N], None if not decoded.
      units: int [N], the document of each, or another unit, of which draws are
        independent; None where the N are.
      noun: name of the units, in the plural.
    """

    gold: ArrayLike
    scores: Any
    units: np.ndarray | None = None
    noun: str = "documents"


class Decider:
    """How a task chooses the threshold that decides for its candidates."""

    default_threshold: ClassVar[float | None] = None  # None: nothing is decided by one
    tune_threshold: ClassVar[bool] = False
    has_several: ClassVar[bool] = False  # labels, and a threshold for each
    measures: ClassVar[tuple[str, ...]] = ()  # that a constraint may bound
    threshold: ClassVar[str | None] = None
    threshold_delta: ClassVar[float] = 0.1
    score_sign: ClassVar[int] = 1  # -1: the scores judged are minus those of thresholds

    @property
    def tunes_threshold(self) -> bool:
        """Whether the decision threshold is to be tuned on the dev split."""
        return self.tune_threshold and self.default_threshold is not None

    def tune(
        self, examples: Sequence[Any], candidates: Sequence[Any], labels: Sequence[str]
    ) -> TunedThreshold | TunedThresholds:
        """Choose the threshold with the best score on examples, or one per label.

        Raises:
          ValueError: the task has no threshold.
        """
        raise ValueError(f"{type(self).__name__} decides nothing by a threshold")

    @property
    def constraint(self) -> Constraint | None:
        """The constraint that `threshold` states; None without.

        Raises:
          ValueError: it is none, the task cannot keep it, or it contradicts tuning.
        """
        if self.threshold is None:
            return None
        try:
            constraint = Constraint.parse(self.threshold, self.threshold_delta)
        except ValueError as error:
            raise ValueError(f"threshold {self.threshold}: {error}") from None
        if self.tunes_threshold:
            raise ValueError(
                f"threshold {self.threshold} and a threshold tuned for F1 exclude each "
                "other; leave one out"
            )
        if constraint.measure not in self.measures:
            rest = f"; take {' or '.join(self.measures)}" if self.measures else ""
            raise ValueError(
                f"threshold {self.threshold}: {type(self).__name__} cannot promise "
                f"{constraint.measure}{rest}"
            )
        return constraint

    def judge(
        self,
        examples: Sequence[Any],
        labels: Sequence[str],
        candidates: Sequence[Any] | None = None,
    ) -> Mapping[str, Judged]:
        """Return what a threshold decides, by label.

        Raises:
          ValueError: the task has no threshold.
        """
        raise ValueError(f"{type(self).__name__} decides nothing by a threshold")

    def _constrained(
        self,
        examples: Sequence[Any],
        labels: Sequence[str],
        candidates: Sequence[Any] | None = None,
    ) -> Mapping[str, Judged]:
        """Return what `judge` does, of the constraint's label alone if it has one.

        Raises:
          InputError: there is no such label.
        """
        judged = self.judge(examples, labels, candidates)
        label = self.constraint.label if self.constraint else ""
        if not label:
            return judged
        if label not in judged:
            raise InputError(
                f"task.threshold: {self.threshold}: there is no label {quote(label)}; "
                f"take {', '.join(map(quote, judged))}"
            )
        return {label: judged[label]}

    def require_attainable(
        self, examples: Sequence[Any], labels: Sequence[str], checkpoints: int
    ) -> None:
        """Check that dev has the examples that the constraint takes, for any scores.

        Raises:
          InputError: dev has too few.
        """
        if (constraint := self.constraint) is None:
            return
        judged = self._constrained(examples, labels)
        stricter = constraint.among(checkpoints * len(judged))
        counts = {
            name: constraint.available(x.gold, x.units) for name, x in judged.items()
        }
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
        gold, _, units, noun = judged[name]
        lack = stricter.lack(gold, units, noun)
        raise InputError(
            f"task.threshold: {constraint} cannot be promised{of_labels}: "
            f"{lack} ({', '.join(shares)}); take more dev data, another bound or a "
            "larger --task.threshold_delta"
        )

    def guarantee(
        self,
        examples: Sequence[Any],
        candidates: Sequence[Any],
        labels: Sequence[str],
        checkpoints: int,
    ) -> GuaranteedThreshold:
        """Choose the threshold, or that of each label, by which the constraint holds.

        The checkpoint may be the best of so many by the same examples: delta is divided
        by their number, which covers any choice among them (Bonferroni), and by that of
        the labels, so that all constraints hold at once.

        Raises:
          ValueError: the task has no constraint.
        """
        constraint, default = self.constraint, self.default_threshold
        if constraint is None or default is None:
            raise ValueError(f"{type(self).__name__} has no constraint")
        judged = self._constrained(examples, labels, candidates)
        stricter = constraint.among(checkpoints * len(judged))
        limits, unattained = {}, {}
        for name, (gold, scores, units, _) in judged.items():
            limit = stricter.choose(scores, gold, units)
            if limit is None:
                unattained[name] = stricter.shortfall(scores, gold, units)
            else:
                limits[name] = self.score_sign * limit
        alone = next(iter(limits.values()), None)
        return GuaranteedThreshold(
            threshold=(limits or None) if self.has_several else alone,
            **dataclasses.asdict(constraint),
            checkpoints=checkpoints,
            default_threshold=default,
            unattained=unattained,
        )

    def count(
        self, example: Any, prediction: Any, names: Collection[str] = ("",)
    ) -> TypeCounts:
        """Count what is correct, predicted and gold in one example, of some labels.

        "" stands for all labels.

        Raises:
          ValueError: the task does not count.
        """
        raise ValueError(f"{type(self).__name__} does not count what is right")

    def at_constraint(
        self,
        chosen: GuaranteedThreshold,
        examples: Sequence[Any],
        predictions: Sequence[Any],
        labels: Sequence[str],
    ) -> np.ndarray:
        """Return each example's part of the score that a constraint leaves open.

        It is precision where recall or complete examples are bounded, otherwise recall,
        over all labels that the constraint is for: sums of the column of correct ones
        and of predicted or gold ones are its quotient. Where something is not promised
        nothing counts as correct, as there is nothing to work with.

        Returns:
          float [N, 1, 2], as `example_statistics`.
        """
        is_precision = chosen.constraint.other.startswith("precision")
        names = tuple(self._constrained(examples, labels))
        shares = np.zeros((len(examples), 1, 2))
        for row, example, decided in zip(shares, examples, predictions, strict=True):
            counts = self.count(example, decided, names)
            hits = 0 if chosen.unattained else counts.true_positives
            row[0] = hits, counts.predicted if is_precision else counts.gold
        return shares

    def observe(
        self,
        chosen: GuaranteedThreshold,
        examples: Sequence[Any],
        candidates: Sequence[Any],
        labels: Sequence[str],
    ) -> dict[str, Observation]:
        """Return the bounded measure on other examples, by label that has a promise."""
        limits = chosen.threshold
        observed = {}
        judged = self._constrained(examples, labels, candidates)
        for name, (gold, scores, units, noun) in judged.items():
            limit = limits.get(name) if isinstance(limits, Mapping) else limits
            if limit is not None:
                observed[name] = chosen.constraint.observe(
                    scores, gold, self.score_sign * limit, units, noun
                )
        return observed
