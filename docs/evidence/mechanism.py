"""Parts 1 and 4 of the second protocol: dice and a cross-entropy whose head is mended.

    python docs/evidence/mechanism.py runs/mpnet-rate

archives the dev scores that part 4 chooses its rate by, as scores/mpnet/rates.json.
Statistics and tables, for `results.py`, are from the archives of runs. The items of all
intervals are documents.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import archive
import documents
import numpy as np
import tables

from dicejax.study.compare.failures import Failures, failures_of
from dicejax.study.compare.jobs import ScoredRun
from dicejax.study.significance import (
    CrossedDifference,
    Verdict,
    detectable,
    holm,
    seeds_and_items,
    signed,
    verdict,
)

SEEDS = range(10, 20)
STEP = "step-first=dsc-smooth=0.01-then=ce-at=0.2"
PRIMARY = ("dsc", "ce+prior")
NO_LARGER = 0.02
"""Largest gain that leaves the lead to the head, by the protocol."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """The runs of a cell.

    Attributes:
      sentences: of training.
      epochs: of training.
      some: outcomes of each arm so far, in the order of seeds, with documents as
        items.
    """

    sentences: int
    epochs: int
    some: dict[str, list[ScoredRun]]

    @functools.cached_property
    def runs(self) -> dict[str, list[ScoredRun]]:
        """Outcomes of the arms that have all seeds; of others none."""
        return {
            arm: runs if len(runs) == len(SEEDS) else []
            for arm, runs in self.some.items()
        }

    @property
    def is_finished(self) -> bool:
        """Whether both arms of the primary comparison have all seeds."""
        return all(self.runs[arm] for arm in PRIMARY)

    @property
    def updates(self) -> float:
        """Updates per run, mean over seeds."""
        return float(np.mean([run.result["steps"] for run in self._finished()]))

    @property
    def hours(self) -> float:
        """Hours of training of all runs."""
        return archive.hours_of(self._finished())

    @property
    def devices(self) -> str:
        """Runs and hours of training on each kind of device."""
        return archive.devices_of(self._finished())

    def _finished(self) -> list[ScoredRun]:
        return [run for runs in self.runs.values() for run in runs if run.result]

    def failures(self, arm: str) -> Failures:
        """Return the failed runs of an arm."""
        return failures_of(self.runs[arm])

    @property
    def lead(self) -> float:
        """Lead of dice over plain cross-entropy, of means, in points."""
        return self.mean("dsc") - self.mean("ce")

    @property
    def lead_in_words(self) -> str:
        """The lead with its sign, or that there is none to claim."""
        failures = self.failures("ce")
        if failures.is_unstable:
            return f"`ce` fails in {len(failures.seeds)} of {failures.runs}"
        if failures.seeds:
            return "`ce` learns nothing"
        return signed(self.lead)

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


def _score(run: ScoredRun) -> float:
    return run.score if run.result else 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """A part of the protocol, whose primary comparison is the same in each cell.

    Attributes:
      folder: of its archives.
      cells: sentences and epochs of each, in the order of the protocol.
      arms: of each the ending of its archive, and its loss there.
    """

    folder: str
    cells: tuple[tuple[int, int], ...]
    arms: Mapping[str, tuple[str, str]]

    @functools.cache  # noqa: B019, parts live as long as the program
    def cell(self, sentences: int, epochs: int) -> Cell:
        """Read the archives of a cell."""
        runs: dict[str, list[ScoredRun]] = {}
        for arm, (ending, loss) in self.arms.items():
            archived = archive.read(f"{self.folder}/{sentences}-{epochs}{ending}")
            by_seed = {run.seed: run for run in archived.runs if run.loss == loss}
            runs[arm] = [
                documents.in_documents(by_seed[seed])
                for seed in SEEDS
                if seed in by_seed
            ]
        return Cell(sentences, epochs, runs)

    def all_cells(self) -> list[Cell]:
        """Return the cells of the protocol, trained or not."""
        return [self.cell(*key) for key in self.cells]

    def finished(self) -> list[Cell]:
        """Return the cells that have their primary comparison."""
        return [cell for cell in self.all_cells() if cell.is_finished]

    def begun(self) -> list[Cell]:
        """Return the cells that have runs and no primary comparison yet."""
        cells = [cell for cell in self.all_cells() if not cell.is_finished]
        return [cell for cell in cells if any(cell.some.values())]

    def waiting(self) -> str:
        """Return the cells and arms that have not all seeds, in words."""
        parts = []
        for cell in self.all_cells():
            lacking = [f"`{arm}`" for arm in self.arms if not cell.runs[arm]]
            arms = "all arms" if len(lacking) == len(self.arms) else ", ".join(lacking)
            if lacking:
                size = f"{cell.sentences:,} sentences and {cell.epochs} epochs"
                parts.append(f"{size} ({arms})")
        return "; ".join(parts)

    def adjusted_p(self) -> dict[tuple[int, int], float]:
        """Return the p-values of the primaries, by Holm over all cells of the part.

        A cell that is not trained counts as a test with p = 1.
        """
        alone = [
            cell.difference(*PRIMARY).p_value if cell.is_finished else 1.0
            for cell in self.all_cells()
        ]
        return dict(zip(self.cells, map(float, holm(alone)), strict=True))

    @property
    def level(self) -> float:
        """Level of a test of one cell, by Bonferroni: Holm's is no lower."""
        return 0.05 / len(self.cells)

    def primary(self, cell: Cell) -> Verdict:
        """Return the verdict on the primary comparison of a cell."""
        p = self.adjusted_p()[cell.sentences, cell.epochs]
        return verdict(cell.difference(*PRIMARY), p, comparisons=len(self.cells))

    def claim(self, cell: Cell) -> str:
        """Return the protocol's conclusion from a primary comparison."""
        if any(cell.failures(arm).is_unstable for arm in PRIMARY):
            return "unstable: no claim"
        outcome, high = self.primary(cell).outcome, cell.difference(*PRIMARY).high
        if outcome == "better":
            return "dice leads there also over a mended cross-entropy"
        if outcome == "worse":
            return "a mended cross-entropy is the better choice there"
        if high <= NO_LARGER:
            return "the lead of the curve is owed to the head"
        return f"open; a gain of up to {100 * high:.1f} remains possible"

    def of_primaries(self) -> str:
        """Return the table of the primary comparisons."""
        rows = []
        for cell in self.finished():
            rows.append(
                [
                    f"{cell.sentences:,} sentences, {cell.epochs} epochs",
                    f"{cell.updates:.0f}",
                    str(len(SEEDS)),
                    tables.with_interval(cell.difference(*PRIMARY)),
                    f"{100 * detectable(cell.difference(*PRIMARY), self.level):.1f}",
                    tables.p_value(self.adjusted_p()[cell.sentences, cell.epochs]),
                    *(tables.failed_of(cell.runs[arm]) for arm in PRIMARY),
                    self.claim(cell),
                ]
            )
        return tables.table(
            "cell | updates | n | `dsc` minus `ce+prior` (95% CI) | detectable | "
            f"p (Holm over {len(self.cells)}) | "
            "`dsc` failed | `ce+prior` failed | what follows",
            rows,
        )

    def primary_gain(self, cell: Cell) -> str:
        """Return the primary difference of a cell with its interval and p-value."""
        difference = tables.with_interval(cell.difference(*PRIMARY))
        p = tables.p_value(self.adjusted_p()[cell.sentences, cell.epochs])
        return (
            f"{difference} (p {p})" if p.startswith("<") else f"{difference} (p = {p})"
        )


MECHANISM = Part(
    "mechanism",
    ((250, 2), (1000, 2), (250, 10), (3500, 2)),
    {
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
    },
)
SECOND_ENCODER = Part(
    "mpnet",
    ((250, 2), (1000, 2), (3500, 2)),
    {
        "ce": ("", "ce"),
        "ce+prior": ("", "ce+prior"),
        "dsc": ("", "dsc-smooth=0.01"),
        "focal": ("", "focal"),
        "wce": ("", "wce"),
    },
)
RATES = archive.SCORES / SECOND_ENCODER.folder / "rates.json"


def main(folders: list[str]) -> None:
    """Archive the dev scores of each rate, whose runs are in a folder of its name."""
    (folder,) = map(Path, folders)
    scores = {
        rate.name: {
            file.parent.name: json.loads(file.read_text())["best_dev_score"]
            for file in sorted(rate.glob("ce/seed-*/result.json"))
        }
        for rate in sorted(folder.iterdir(), key=lambda rate: float(rate.name))
    }
    RATES.write_text(json.dumps(scores) + "\n")


def of_rates() -> str:
    """Return the table of the rates of part 4 with their dev scores by seed."""
    scores = json.loads(RATES.read_text())
    seeds = sorted(set().union(*scores.values()))
    rows = []
    for rate, by_seed in scores.items():
        points = [100 * by_seed[seed] for seed in seeds]
        rows.append([rate, *(f"{x:.1f}" for x in points), f"{np.mean(points):.1f}"])
    return tables.table(" | ".join(["rate", *seeds, "mean dev F1"]), rows)


def of_some(cell: Cell) -> str:
    """Return the table of the runs of a cell that has no verdict yet."""
    rows = []
    for arm, runs in cell.some.items():
        scores = (f"{run.seed}: {100 * _score(run):.1f}" for run in runs)
        rows.append([f"`{arm}`", str(len(runs)), ", ".join(scores)])
    return tables.table("arm | runs | seed: test F1", rows)


def of_arms(cell: Cell) -> str:
    """Return the table of the arms of a cell, with differences not corrected."""
    rows = []
    for arm in cell.runs:
        if not cell.runs[arm]:
            rows.append([f"`{arm}`", *["–"] * 5])
            continue
        scores = [100 * _score(run) for run in cell.runs[arm]]
        others = [other if cell.runs[other] else None for other in ("ce", PRIMARY[1])]
        minus = [
            "" if arm == other else _difference(cell, arm, other) if other else "–"
            for other in others
        ]
        row = [f"{np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f}"]
        row += [f"{np.median(scores):.2f}", tables.failed_of(cell.runs[arm]), *minus]
        rows.append([f"`{arm}`", *row])
    return tables.table(
        "arm | test F1 | median | failed | minus `ce` (95% CI) | "
        "minus `ce+prior` (95% CI)",
        rows,
    )


def _difference(cell: Cell, arm: str, other: str) -> str:
    """Return a difference; of medians where runs of either arm failed."""
    runs = [cell.runs[arm], cell.runs[other]]
    if any(not run.result for some in runs for run in some):
        return "–"
    if cell.failures(arm).is_unstable or cell.failures(other).is_unstable:
        ours, theirs = (np.median([_score(run) for run in some]) for some in runs)
        return f"unstable; of medians {signed(100 * (ours - theirs))}"
    return tables.with_interval(cell.difference(arm, other))


if __name__ == "__main__":
    main(sys.argv[1:])
