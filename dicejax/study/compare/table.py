"""Tables, verdict and warnings of a comparison for the terminal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from dicejax.io.terminal import literal
from dicejax.metrics.scores import heading
from dicejax.study.compare.statistics import (
    LEVEL,
    MARGIN,
    Row,
    learnt_nothing,
    one_class,
    results_of,
    rivals_of,
    source_of,
)
from dicejax.study.significance import MIN_SEEDS, detectable, nominal_level, signed

GAP = 3
"""Blanks between two columns."""
LOSS_WIDTH = 34
"""Longer names of losses are folded where the table is too wide."""
REMEDY = "train longer, raise the learning rate, or take a pretrained encoder"


def table(rows: Sequence[Row], title: str, width: int | None = None) -> Table:
    """Return a table of means and spreads over seeds, in percent.

    Scores that do not fit a width in characters are left out, the primary metric last,
    and named below.
    """
    first = results_of(rows)[0]
    test, primary_metric = first["test"], first["primary_metric"]
    names = [name for name, value in test.items() if isinstance(value, float)]
    cells = {
        name: [mean_and_spread(row.scores(name)) for row in rows] for name in names
    }
    losses = max(len(row.loss) for row in rows)
    if width is not None:
        columns = {name: max(map(len, [heading(name), *cells[name]])) for name in names}
        losses = min(losses, LOSS_WIDTH)
        room, fitting = width - losses - 4, set()
        for name in sorted(names, key=lambda name: name != primary_metric):
            room -= columns[name] + GAP
            if room >= 0 or name == primary_metric:
                fitting.add(name)
        names = [name for name in names if name in fitting]
    left = [heading(name) for name in cells if name not in names]

    seeds = max(len(row.outcomes) for row in rows)
    what = f"mean ± SD over {seeds} seeds" if seeds > 1 else "one seed"
    more = f"; in the report: {', '.join(left)}" if left else ""
    caption = f"test set, {what}{more}"
    out = Table(title=literal(title), caption=caption, box=SIMPLE_HEAD)
    out.add_column("loss", width=losses, overflow="fold")
    for name in names:
        out.add_column(heading(name), justify="right", no_wrap=True)
    for row, *scores in zip(rows, *(cells[name] for name in names), strict=True):
        out.add_row(literal(row.loss), *scores)
    return out


def baseline_name(loss: str) -> str:
    """Return the name of a baseline in a sentence.

    >>> baseline_name("ce"), baseline_name("focal")
    ('cross-entropy', 'focal')
    """
    return "cross-entropy" if loss == "ce" else loss


def remarks(rows: Sequence[Row]) -> list[str]:
    """Return the verdict on each loss, and its runs without a score."""
    lines = []
    for row in rows:
        parts = [] if row.against is None else [row.against.verdict.sentence]
        if row.summary.diverged:
            parts.append(f"{row.summary.diverged} of {len(row.outcomes)} diverged")
        if row.missing:
            parts.append(f"{row.missing} of {len(row.outcomes)} not finished")
        if parts:
            lines.append(f"{row.loss}: {'; '.join(parts)}")
    return lines


def mean_and_spread(values: Sequence[float]) -> str:
    """Format fractions as percent: mean and sample standard deviation.

    >>> mean_and_spread([0.5, 0.6])
    '55.00 ± 7.07'
    >>> mean_and_spread([0.5]), mean_and_spread([])
    ('50.00', '-')
    """
    if not values:
        return "-"
    percent = [100 * value for value in values]
    mean = f"{statistics.fmean(percent):.2f}"
    return f"{mean} ± {statistics.stdev(percent):.2f}" if len(percent) > 1 else mean


def headline(rows: Sequence[Row], margin: float = MARGIN) -> str:
    """Return the verdict on a comparison in one line."""
    baseline = baseline_name(rows[0].loss)
    losses = rivals_of(rows) or [row for row in rows if row.against]
    if not losses:
        return f"Nothing to compare: only {baseline} has run."
    metric = heading(results_of(rows)[0]["primary_metric"])
    outcomes = {row.loss: row.against.verdict.outcome for row in losses}
    if all(outcome == "nothing learnt" for outcome in outcomes.values()):
        return f"Nothing learnt: this says nothing about the losses. To do: {REMEDY}."
    tested = [row for row in losses if row.against.crossed is not None]
    if not tested:
        seeds = max(len(row.against.seeds) for row in losses)
        return (
            f"No verdict yet: {seeds} seed{'s' * (seeds != 1)}, and it takes "
            f"{MIN_SEEDS}. Next: {_command(rows, max(MIN_SEEDS, 5))}"
            f"{_minutes(rows, max(MIN_SEEDS, 5) - seeds, losses)}."
        )
    better = [row for row in tested if outcomes[row.loss] == "better"]
    if better:
        best = max(better, key=lambda row: row.against.crossed.mean)
        crossed = best.against.crossed
        mean, low, high = (
            signed(100 * end) for end in (crossed.mean, crossed.low, crossed.high)
        )
        also = f" {len(better) - 1} more are better too." if len(better) > 1 else ""
        return (
            f"Use {best.loss}: {mean} {metric} over {baseline} "
            f"(95% CI {low} to {high}).{also}"
        )
    most = max(tested, key=lambda row: row.against.crossed.high)
    gain = max(most.against.crossed.high, 0.0)
    if gain <= margin:
        return (
            f"Keep {baseline}: nothing beats it by more than {100 * gain:.1f} {metric}."
        )
    no_better = ("worse", "identical predictions", "identical scores")
    if all(outcomes[row.loss] in no_better for row in tested):
        return f"Keep {baseline}: no loss is better, and all are worse or the same."
    return (
        f"Undecided: no loss is shown to beat {baseline}; a gain of up to "
        f"{100 * gain:.1f} {metric} ({most.loss}) is still possible.{_next(rows, most)}"
    )


def _next(rows: Sequence[Row], row: Row) -> str:
    """Say how much five further seeds would show, and the time they take."""
    crossed, more = row.against.crossed, 5
    seeds = crossed.seeds + more
    rivals = rivals_of(rows)
    level = nominal_level([crossed.seeds, seeds], LEVEL / max(len(rivals), 1))
    if detectable(crossed, level, seeds=10_000) > max(crossed.high, 0.0):
        return " More seeds will not decide it: the test set is too small."
    points = 100 * detectable(crossed, level, seeds=seeds)
    return (
        f" Next: {_command(rows, seeds)}{_minutes(rows, more, rivals)} would settle "
        f"differences of {points:.1f}."
    )


def _command(rows: Sequence[Row], seeds: int) -> str:
    """Say what leads to a number of seeds, which scores from elsewhere have not."""
    if source_of(rows) == "run":
        return f"dicejax compare with --seeds {seeds}"
    return f"scores of {seeds} seeds of each loss"


def _minutes(rows: Sequence[Row], seeds: int, rivals: Sequence[Row]) -> str:
    """Return the time of further seeds of the baseline and rivals; empty if unknown."""
    trained = [result for result in results_of(rows) if "control" not in result]
    seconds = [result["seconds"] for result in trained if result.get("seconds")]
    if not seconds:
        return ""
    runs = seeds * (1 + sum(bool(rival.outcomes) for rival in rivals))
    minutes = math.ceil(statistics.fmean(seconds) * runs / 60)
    return f" (about {minutes:,} more minute{'s' * (minutes > 1)} of training)"


def warnings_of(rows: Sequence[Row]) -> list[str]:
    """Return the warnings to show before any number, the gravest first."""
    messages = []
    runs = [
        (f"{row.loss} seed {run.seed}", run) for row in rows for run in row.outcomes
    ]
    untaught = [name for name, run in runs if learnt_nothing(run)]
    alike = [run for run in results_of(rows) if one_class(run["test"])]
    if untaught:
        answer = ""
        if alike:
            answer = (
                f" {len(alike)} of them predict the same class for every test example, "
                "so that their scores measure the frequency of that class."
            )
        messages.append(
            f"{len(untaught)} of {len(runs)} runs learnt nothing: "
            f"{', '.join(untaught)}.{answer} To do: {REMEDY}."
        )
    consequences = {
        "missing": "are not finished and left out of all numbers; the command that "
        "started the comparison resumes them",
        "diverged": "diverged: they count as a score of 0 in the verdict, and are left "
        "out of means",
    }
    for status, consequence in consequences.items():
        names = [name for name, run in runs if run.status == status]
        if names:
            messages.append(
                f"{len(names)} of {len(runs)} runs {consequence}: {', '.join(names)}."
            )
    cut = (text for result in results_of(rows) for text in result.get("cut", ()))
    return [*messages, *dict.fromkeys(cut)]
