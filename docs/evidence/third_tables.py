"""Statistics, tables and the figure of the third protocol, from its archives.

Nothing is shown of a length of a cell before all of its arms have all seeds.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Sequence

import archive
import numpy as np
import tables
import third
from matplotlib.figure import Figure

from dicejax.study import figures
from dicejax.study.compare.failures import failures_of
from dicejax.study.compare.jobs import ScoredRun
from dicejax.study.significance import (
    CrossedDifference,
    detectable,
    holm,
    over_seeds,
    seeds_and_items,
    signed,
)
from dicejax.study.significance.across import AcrossSets, across_sets

CONTROL = "ce+prior"
DICE = ("dsc", "dsc+prior")
TESTS = {"mpnet": 9}
"""Primary comparisons by encoder; of the others together there are 15."""
OTHER_TESTS = 15
TUNED = "test_with_tuned_threshold"
MARGIN = 0.005
NO_LARGER = 0.02
LEVEL = 0.05
FEWEST_SETS = 4
"""Data sets with fewer of which their mean has no verdict."""
NAMES = {
    "conll2003": "CoNLL-2003, entities",
    "sst2": "SST-2, one text in twenty positive",
    "ud_english": "UD English EWT, parts of speech",
    "msra": "MSRA, entities",
    "cluener": "CLUENER2020, entities",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Compared:
    """The runs of a cell at a length, which all arms have with all seeds."""

    cell: third.Cell
    length: int
    runs: dict[str, list[ScoredRun]]

    @property
    def updates(self) -> float:
        """Updates of a run, mean over all."""
        return statistics.fmean(
            run.result["steps"]
            for runs in self.runs.values()
            for run in runs
            if run.result
        )

    @property
    def hours(self) -> float:
        """Hours of training."""
        return archive.hours_of([run for runs in self.runs.values() for run in runs])

    @functools.cached_property
    def dice(self) -> str:
        """The arm of dice with the better dev scores at its best setting."""
        settings = self.cell.chosen()
        means = {arm: _dev(self.cell, arm, settings[arm]) for arm in DICE}
        return max(DICE, key=lambda arm: means[arm])

    def difference(self, ours: str, other: str) -> CrossedDifference:
        """Return the difference of two arms, of which no run diverged."""
        pair = [
            np.stack([run.item_statistics for run in self.runs[arm]])
            for arm in (ours, other)
        ]
        return seeds_and_items(*pair)

    @functools.cached_property
    def primary(self) -> CrossedDifference | None:
        """Tuned dice minus tuned `ce+prior`; None where either fails in some runs."""
        if any(failures_of(self.runs[arm]).seeds for arm in (self.dice, CONTROL)):
            return None
        return self.difference(self.dice, CONTROL)

    @property
    def p_value(self) -> float:
        """The p-value of the primary comparison, adjusted over all of its encoders."""
        encoder = self.cell.encoder.name
        family = [each for each in finished() if _family(each) == _family(self)]
        alone = [each.primary.p_value if each.primary else 1.0 for each in family]
        count = TESTS.get(encoder, OTHER_TESTS)
        adjusted = holm([*alone, *[1.0] * (count - len(alone))])
        return float(adjusted[family.index(self)])

    @property
    def called(self) -> str:
        """What the protocol calls the outcome of the primary comparison."""
        failures = {arm: failures_of(self.runs[arm]) for arm in (self.dice, CONTROL)}
        failed = {arm: len(x.seeds) for arm, x in failures.items()}
        whole = [arm for arm, number in failed.items() if number == len(third.SEEDS)]
        sound = [arm for arm, number in failed.items() if number == 0]
        if len(whole) == 2:
            return "nothing learnt"
        if whole and sound:
            return f"`{whole[0]}` does not learn there, `{sound[0]}` does"
        if self.primary is None:
            return "unstable: no claim"
        low, high = self.primary.low, self.primary.high
        if self.p_value <= LEVEL:
            if self.primary.mean > 0:
                return "dice leads a tuned cross-entropy"
            return "a tuned cross-entropy is better"
        if low >= -MARGIN and high <= MARGIN:
            return "practically equal"
        if high <= NO_LARGER:
            return "no lead above 2 points"
        return f"open; a lead of up to {100 * high:.1f} remains possible"


def compared(cell: third.Cell, length: int) -> Compared | None:
    """Return the runs of a cell at a length; None where some are missing."""
    archived = archive.read(cell.archive_of(length)).runs
    by_run = {(run.loss, run.seed): run for run in archived}
    keys = {arm: [(arm, seed) for seed in cell.seeds] for arm in cell.arms}
    if not all(key in by_run for some in keys.values() for key in some):
        return None
    return Compared(
        cell, length, {arm: [by_run[key] for key in some] for arm, some in keys.items()}
    )


@functools.cache
def finished() -> tuple[Compared, ...]:
    """Return the cells and lengths all of whose runs are archived."""
    lengths = sorted(third.LENGTHS)
    some = [compared(cell, length) for cell in third.CELLS for length in lengths]
    return tuple(each for each in some if each is not None)


def tuned_cells() -> list[third.Cell]:
    """Return the cells that have a finished length."""
    return [*dict.fromkeys(each.cell for each in finished())]


def over_sets(length: int) -> AcrossSets | None:
    """Return the mean of the primary over the data sets; None with fewer than two."""
    primaries = [
        each.primary
        for each in finished()
        if each.length == length and _family(each) == "first" and each.primary
    ]
    if len(primaries) < 2:
        return None
    errors = [float(np.hypot(x.seed_error, x.sentence_error)) for x in primaries]
    return across_sets([x.mean for x in primaries], errors)


def of_primaries() -> str:
    """Return the table of the primary comparisons."""
    rows = []
    for each in finished():
        runs = [each.runs[arm] for arm in (each.dice, CONTROL)]
        shown = seen = "–"
        if each.primary:
            shown = tables.with_interval(each.primary)
            seen = f"{100 * detectable(each.primary, LEVEL):.1f}"
        rows.append(
            [
                f"{NAMES[each.cell.data.name]}, `{each.cell.encoder.name}`",
                f"{each.updates:.0f}",
                f"`{each.dice}`",
                shown,
                tables.p_value(each.p_value) if each.primary else "–",
                seen,
                *map(tables.failed_of, runs),
                each.called,
            ]
        )
    return tables.table(
        "data, encoder | updates | tuned dice | minus tuned `ce+prior` (95% CI) | "
        "p (Holm) | seen with 80% | dice failed | `ce+prior` failed | called",
        rows,
    )


def of_beginning() -> str:
    """Return the table of the settings of `ce+prior` that all sets have tried.

    Scores are those on dev of the first seed, with `minilm`.
    """
    cells = [cell for cell in tuned_cells() if cell.encoder == third.MINILM]
    every = [_of_first_seed(cell.scores(CONTROL)) for cell in cells]
    shared = set.intersection(*({*each} for each in every))
    points = {s: [100 * each[s] for each in every] for s in shared}
    means = {s: statistics.fmean(values) for s, values in points.items()}
    best, rows = max(means, key=means.__getitem__), []
    for setting in sorted(shared, key=dataclasses.astuple):
        mark = "**" if setting == best else ""
        cells_of_row = [f"{x:.1f}" for x in points[setting]]
        mean = f"{mark}{means[setting]:.1f}{mark}"
        rows.append([f"{setting.rate:g}", f"{setting.factor:g}", *cells_of_row, mean])
    names = " | ".join(NAMES[cell.data.name] for cell in cells)
    return tables.table(f"rate | head factor | {names} | mean", rows)


def gains_of_beginning() -> list[str]:
    """Return by how much `ce+prior` is ahead of `ce` on dev, each at its best."""
    gains = []
    for cell in tuned_cells():
        best = cell.chosen()
        ours, theirs = (_dev(cell, arm, best[arm]) for arm in (CONTROL, "ce"))
        gains.append(f"{signed(100 * (ours - theirs))} ({NAMES[cell.data.name]})")
    return gains


def in_words(each: Compared) -> str:
    """Return the primary comparison in a few words."""
    if each.primary:
        return f"{tables.with_interval(each.primary)}, {each.called}"
    failed = {
        arm: len(failures_of(each.runs[arm]).seeds) for arm in (each.dice, CONTROL)
    }
    counts = (f"`{arm}` {number}" for arm, number in failed.items())
    return f"{each.called}; failed of {len(third.SEEDS)} runs: {', '.join(counts)}"


def of_sets() -> str:
    """Return the table of the means over the data sets."""
    rows = []
    for length in sorted(third.LENGTHS):
        x = over_sets(length)
        if x is None:
            continue
        mean, low, high = (signed(100 * end) for end in (x.mean, x.low, x.high))
        p = tables.p_value(x.p_value) if x.sets >= FEWEST_SETS else "no verdict"
        rows.append([str(length), str(x.sets), f"{mean} ({low} to {high})", p])
    return tables.table("updates | sets | mean difference (95% CI) | p, alone", rows)


def of_arms(each: Compared) -> str:
    """Return the table of all arms, with differences not corrected."""
    rows = []
    for arm, setting in each.cell.chosen().items():
        runs = each.runs[arm]
        scores = [100 * run.score if run.result else 0.0 for run in runs]
        others = ["" if arm == x else _minus(each, arm, x) for x in (CONTROL, "ce")]
        rows.append(
            [
                f"`{arm}`",
                f"{setting.rate:g}, {setting.factor:g}",
                f"{np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f}",
                f"{np.median(scores):.2f}",
                tables.failed_of(runs),
                *others,
            ]
        )
    return tables.table(
        "arm | rate, head factor | test score | median | failed | "
        "minus `ce+prior` (95% CI) | minus `ce` (95% CI)",
        rows,
    )


def of_tuned_thresholds(each: Compared) -> str:
    """Return the table with the thresholds that dev tunes, if they are archived.

    Regressions that are archived beside have such too. Intervals are over seeds alone,
    since the decisions are not archived.
    """
    scores = {
        arm: [run.result[TUNED]["f1"] for run in runs if run.result]
        for arm, runs in each.runs.items()
        if all(run.result and TUNED in run.result for run in runs)
    }
    beside = archive.read(f"{each.cell.archive_of(each.length)}-regressions").runs
    for run in sorted(beside, key=lambda run: run.seed):
        scores[run.loss] = [*scores.get(run.loss, ()), run.score]
    rows = []
    for name, ours in scores.items():
        apart = over_seeds(np.array(ours), np.array(scores[CONTROL]))
        spread = f"{100 * np.mean(ours):.2f} ± {100 * np.std(ours, ddof=1):.2f}"
        shown = "" if name == CONTROL else tables.with_interval(apart)
        rows.append([f"`{name}`" if name in each.runs else name, spread, shown])
    heading = f"model | test score | minus `{CONTROL}` (95% CI)"
    return tables.table(heading, rows) if rows else ""


def of_trials(cell: third.Cell) -> str:
    """Return the table of all settings tried, with their mean dev scores."""
    rows = []
    for arm, best in cell.chosen().items():
        scores = cell.scores(arm)
        for setting in sorted({s for s, _ in scores}, key=dataclasses.astuple):
            points = [100 * scores[key] for key in _by_seed(scores, setting)]
            mark = "**" if setting == best else ""
            rows.append(
                [
                    f"`{arm}`",
                    f"{setting.rate:g}",
                    f"{setting.factor:g}",
                    ", ".join(f"{x:.1f}" for x in points),
                    f"{mark}{statistics.fmean(points):.2f}{mark}",
                ]
            )
    return tables.table("arm | rate | head factor | dev scores | mean", rows)


def _of_first_seed(scores: third.Scores) -> dict[third.Setting, float]:
    return {s: score for (s, seed), score in scores.items() if seed == third.FIRST_SEED}


def _minus(each: Compared, arm: str, other: str) -> str:
    if any(failures_of(each.runs[x]).seeds for x in (arm, other)):
        ours, theirs = (
            np.median([run.score if run.result else 0.0 for run in each.runs[x]])
            for x in (arm, other)
        )
        return f"of medians {signed(100 * (ours - theirs))}"
    return tables.with_interval(each.difference(arm, other))


def _dev(cell: third.Cell, arm: str, setting: third.Setting) -> float:
    scores = cell.scores(arm)
    return statistics.fmean(scores[setting, seed] for seed in third.TRIAL_SEEDS)


def draw(compared: Sequence[Compared]) -> Figure:
    """Draw the primary comparisons with their intervals, a row for each data set."""
    cells = [*dict.fromkeys(each.cell for each in compared)]
    figure = Figure(
        figsize=(8, 1.4 + 0.7 * len(cells)), layout="constrained", facecolor="white"
    )
    axes = figure.subplots()
    axes.axvline(0, **figures.REFERENCE)
    axes.axvspan(-100 * MARGIN, 100 * MARGIN, color="#8C8C8C", alpha=0.15, lw=0)
    lengths = sorted(third.LENGTHS)
    for number, length in enumerate(lengths):
        color = figures.COLORS[number]
        some = [each for each in compared if each.length == length]
        if some:
            axes.plot([], [], "o", color=color, label=f"{length} updates")
        for each in some:
            height = cells.index(each.cell) + 0.2 * (number - 1)
            if each.primary is None:  # an arm fails
                place = axes.get_yaxis_transform()  # from the left edge
                axes.text(0.02, height, each.called, color=color, transform=place)
                continue
            x = each.primary
            low, high = 100 * (x.mean - x.low), 100 * (x.high - x.mean)
            axes.errorbar(
                [100 * x.mean], [height], xerr=[[low], [high]], fmt="o", color=color
            )
    names = [f"{NAMES[cell.data.name]}\n{cell.encoder.name}" for cell in cells]
    axes.set_yticks(range(len(cells)), names)
    axes.set_ylim(len(cells) - 0.5, -0.5)
    axes.set_xlabel("points of tuned dice minus tuned ce+prior, 95% intervals")
    axes.grid(axis="x")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def _by_seed(
    scores: third.Scores, setting: third.Setting
) -> Sequence[tuple[third.Setting, int]]:
    return sorted((k for k in scores if k[0] == setting), key=lambda key: key[1])


def _family(each: Compared) -> str:
    encoder = each.cell.encoder.name
    return encoder if encoder in TESTS else "first"
