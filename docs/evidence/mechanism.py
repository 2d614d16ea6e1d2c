"""Part 1 of the second protocol: dice and a cross-entropy whose head is mended.

Statistics and tables, for `results.py`, from the archives. The items of all intervals
are documents.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import archive
import documents
import numpy as np
import tables

from dicejax.study.compare.failures import Failures, failures_of
from dicejax.study.compare.jobs import Outcome
from dicejax.study.significance import (
    CrossedDifference,
    Verdict,
    holm,
    seeds_and_items,
    signed,
    verdict,
)

CELLS = ((250, 2), (1000, 2), (250, 10), (3500, 2))
"""Sentences and epochs, in the order of the protocol."""
SEEDS = range(10, 20)
STEP = "step-first=dsc-smooth=0.01-then=ce-at=0.2"
# By its name: the ending of its archive, and its loss there.
ARMS = {
    "ce": ("", "ce"),
    "prior bias": ("-bias", "ce"),
    "head rate": ("-rate", "ce"),
    "ce+prior": ("", "ce+prior"),
    "dsc": ("", "dsc-smooth=0.01"),
    "dsc+prior": ("", "dsc+prior-smooth=0.01"),
    "focal+prior": ("", "focal+prior"),
    "logit_adjusted": ("", "logit_adjusted"),
    "metro": ("", "metro"),
    "wce": ("", "wce"),
    "step": ("-step", STEP),
}
PRIMARY = ("dsc", "ce+prior")
NO_LARGER = 0.02
"""Largest gain that leaves the lead to the head, by the protocol."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """The runs of a cell.

    Attributes:
      sentences: of training.
      epochs: of training.
      runs: outcomes of each arm in the order of seeds, with documents as items.
    """

    sentences: int
    epochs: int
    runs: dict[str, list[Outcome]]

    @property
    def is_finished(self) -> bool:
        """Whether both arms of the primary comparison have all seeds."""
        return all(len(self.runs[arm]) == len(SEEDS) for arm in PRIMARY)

    @property
    def updates(self) -> float:
        """Updates per run, mean over seeds."""
        return float(np.mean([run.result["steps"] for run in self._finished()]))

    @property
    def hours(self) -> float:
        """Hours of training of all runs."""
        return archive.hours_of(self._finished())

    def _finished(self) -> list[Outcome]:
        return [run for runs in self.runs.values() for run in runs if run.result]

    def failures(self, arm: str) -> Failures:
        """Return the failed runs of an arm."""
        return failures_of(self.runs[arm])

    def mean(self, arm: str) -> float:
        """Return the mean test F1 of an arm, in points; a diverged run has 0."""
        return 100 * float(np.mean([_score(run) for run in self.runs[arm]]))

    def difference(self, ours: str, other: str) -> CrossedDifference:
        """Return the difference of two arms, not corrected."""
        pair = [
            np.stack([run.example_statistics for run in self.runs[arm]])
            for arm in (ours, other)
        ]
        return seeds_and_items(*pair)


def _score(run: Outcome) -> float:
    return run.score if run.result else 0.0


@functools.cache
def cell(sentences: int, epochs: int) -> Cell:
    """Read the archives of a cell; arms that lack a seed have no runs."""
    runs: dict[str, list[Outcome]] = {}
    for arm, (ending, loss) in ARMS.items():
        archived = archive.read(f"mechanism/{sentences}-{epochs}{ending}")
        some = [
            documents.in_documents(run) for run in archived.runs if run.loss == loss
        ]
        by_seed = {run.seed: run for run in some}
        complete = {*SEEDS} <= {*by_seed}
        runs[arm] = [by_seed[seed] for seed in SEEDS] if complete else []
    return Cell(sentences, epochs, runs)


def finished() -> list[Cell]:
    """Return the cells that have their primary comparison."""
    return [c for c in (cell(*key) for key in CELLS) if c.is_finished]


def waiting() -> str:
    """Return the cells and arms that have not been trained, in words."""
    parts = []
    for sentences, epochs in CELLS:
        cell_ = cell(sentences, epochs)
        lacking = [f"`{arm}`" for arm in ARMS if not cell_.runs[arm]]
        arms = "all arms" if len(lacking) == len(ARMS) else ", ".join(lacking)
        if lacking:
            parts.append(f"{sentences:,} sentences and {epochs} epochs ({arms})")
    return "; ".join(parts)


def adjusted_p() -> dict[tuple[int, int], float]:
    """Return the p-values of the primaries, by Holm over all cells of the protocol.

    A cell that is not trained counts as a test with p = 1.
    """
    alone = [
        cell(*key).difference(*PRIMARY).p_value if cell(*key).is_finished else 1.0
        for key in CELLS
    ]
    return dict(zip(CELLS, map(float, holm(alone)), strict=True))


def primary(cell_: Cell) -> Verdict:
    """Return the verdict on the primary comparison of a cell."""
    p = adjusted_p()[cell_.sentences, cell_.epochs]
    return verdict(cell_.difference(*PRIMARY), p, comparisons=len(CELLS))


def claim(cell_: Cell) -> str:
    """Return what the protocol says to follow from a primary comparison."""
    if any(cell_.failures(arm).is_unstable for arm in PRIMARY):
        return "unstable: no claim"
    outcome, high = primary(cell_).outcome, cell_.difference(*PRIMARY).high
    if outcome == "better":
        return "dice leads there also over a mended cross-entropy"
    if outcome == "worse":
        return "a mended cross-entropy is the better choice there"
    if high <= NO_LARGER:
        return "the lead of the curve is owed to the head"
    return f"open; a gain of up to {100 * high:.1f} remains possible"


def of_primaries(cells: Sequence[Cell]) -> str:
    """Return the table of the primary comparisons."""
    rows = []
    for cell_ in cells:
        difference = cell_.difference(*PRIMARY)
        rows.append(
            [
                f"{cell_.sentences:,} sentences, {cell_.epochs} epochs",
                f"{cell_.updates:.0f}",
                str(len(SEEDS)),
                tables.with_interval(difference),
                tables.p_value(adjusted_p()[cell_.sentences, cell_.epochs]),
                *(tables.failed_of(cell_.runs[arm]) for arm in PRIMARY),
                claim(cell_),
            ]
        )
    return tables.table(
        "cell | updates | n | `dsc` minus `ce+prior` (95% CI) | p (Holm over 4) | "
        "`dsc` failed | `ce+prior` failed | what follows",
        rows,
    )


def of_arms(cell_: Cell) -> str:
    """Return the table of the arms of a cell, with differences not corrected."""
    rows = []
    for arm in ARMS:
        if not cell_.runs[arm]:
            rows.append([f"`{arm}`", *["–"] * 5])
            continue
        scores = [100 * _score(run) for run in cell_.runs[arm]]
        minus = [
            "" if arm == other else _difference(cell_, arm, other)
            for other in ("ce", PRIMARY[1])
        ]
        row = [f"{np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f}"]
        row += [f"{np.median(scores):.2f}", tables.failed_of(cell_.runs[arm]), *minus]
        rows.append([f"`{arm}`", *row])
    return tables.table(
        "arm | test F1 | median | failed | minus `ce` (95% CI) | "
        "minus `ce+prior` (95% CI)",
        rows,
    )


def _difference(cell_: Cell, arm: str, other: str) -> str:
    """Return a difference; of medians where runs of either arm failed."""
    runs = [cell_.runs[arm], cell_.runs[other]]
    if any(run.result is None for some in runs for run in some):
        return "–"
    if cell_.failures(arm).is_unstable or cell_.failures(other).is_unstable:
        ours, theirs = (np.median([_score(run) for run in some]) for some in runs)
        return f"unstable; of medians {signed(100 * (ours - theirs))}"
    return tables.with_interval(cell_.difference(arm, other))


def primary_gain(sentences: int, epochs: int) -> str:
    """Return the primary difference of a cell with its interval and p-value."""
    difference = tables.with_interval(cell(sentences, epochs).difference(*PRIMARY))
    p = tables.p_value(adjusted_p()[sentences, epochs])
    return f"{difference} (p {p})" if p.startswith("<") else f"{difference} (p = {p})"


def lead(sentences: int, epochs: int) -> float:
    """Return the lead of dice over plain cross-entropy, of means, in points."""
    cell_ = cell(sentences, epochs)
    return cell_.mean("dsc") - cell_.mean("ce")
