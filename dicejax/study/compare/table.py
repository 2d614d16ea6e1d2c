"""Tables, verdict and warnings of a comparison for the terminal."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from dicejax.config import ScratchEncoder
from dicejax.io.terminal import literal
from dicejax.metrics.scores import FEWEST
from dicejax.study.compare.failures import is_repeated, learnt_nothing, one_class
from dicejax.study.compare.jobs import Status
from dicejax.study.compare.statistics import Row, columns_of, results_of
from dicejax.study.sentences import paragraphs, sentences

GAP = 3
"""Blanks between two columns."""
LOSS_WIDTH = 34
"""Longer names of losses are folded where the table is too wide."""
LACKING: dict[Status, str] = {"diverged": "diverged", "missing": "not finished"}
MOST_SEEDS = 20
"""Seeds of a list; of more their number is said."""
LEARNT = 0.5
"""Mean F1 of the baseline on a class from which it has learnt it."""


def table(rows: Sequence[Row], title: str, width: int | None = None) -> Table:
    """Return a table of means and spreads over seeds, in percent.

    The primary metric is first, then F1 and recall of the rarest class. Scores that do
    not fit a width in characters are left out and named below.
    """
    cells = {k: [*map(mean_and_spread, x)] for k, x in columns_of(rows).items()}
    names = list(cells)
    losses = max(len(row.loss) for row in rows)
    if width is not None:
        losses = min(losses, LOSS_WIDTH)
        room, fitting = width - losses - 4, list[str]()
        for name in names:
            room -= max(map(len, [name, *cells[name]])) + GAP
            if room >= 0 or not fitting:
                fitting.append(name)
        names = fitting
    left = [name for name in cells if name not in names]

    seeds = seeds_of(rows)
    more = f"; in the report: {', '.join(left)}" if left else ""
    caption = f"test set, {seeds}{more}"
    out = Table(title=literal(title), caption=literal(caption), box=SIMPLE_HEAD)
    out.add_column("loss", width=losses, overflow="fold")
    for name in names:
        out.add_column(literal(name), justify="right", no_wrap=True)
    for row, *scores in zip(rows, *(cells[name] for name in names), strict=True):
        out.add_row(literal(row.loss), *scores)
    return out


def remarks(rows: Sequence[Row]) -> list[str]:
    """Return the verdict on each loss, and its runs without a score."""
    lines = []
    for row in rows:
        parts = [] if row.against is None else [row.against.verdict.sentence]
        for status, words in LACKING.items():
            if count := row.count(status):
                parts.append(f"{count} of {len(row.runs)} {words}")
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


def seeds_of(rows: Sequence[Row]) -> str:
    """Say over how many seeds means are, of each loss where the numbers differ."""
    by_count: dict[int, list[str]] = {}
    for row in rows:
        count = sum(bool(run.result) for run in row.runs)
        by_count.setdefault(count, []).append(row.loss)
    return sentences("cells").seeds(by_count)


def remedy(rows: Sequence[Row]) -> str:
    """Return what may help where runs learnt nothing."""
    experiments = [row.experiment for row in rows]
    scratch = any(x and isinstance(x.encoder, ScratchEncoder) for x in experiments)
    return sentences("warnings").remedy(from_scratch=scratch)


def warnings_of(rows: Sequence[Row]) -> list[str]:
    """Return the warnings to show before any number, the gravest first."""
    runs = [(f"{row.loss} seed {run.seed}", run) for row in rows for run in row.runs]
    untaught = [(name, run) for name, run in runs if learnt_nothing(run)]
    seeds = {run.seed for _, run in runs}
    lacking = {
        row.loss: sorted(seeds - {run.seed for run in row.runs})
        for row in rows
        if not row.is_control
    }
    sums = {k: x.result.get("checksums") or {} for k, x in runs if x.result}
    older = [name for name, checksums in sums.items() if "test" not in checksums]
    text = sentences("warnings").warnings(
        runs=len(runs),
        untaught=[name for name, _ in untaught],
        alike=sum(one_class(run.result["test"]) for _, run in untaught),
        remedy=remedy(rows),
        unlearnt=unlearnt(rows),
        missing=[name for name, run in runs if run.status == "missing"],
        diverged=[name for name, run in runs if run.status == "diverged"],
        repeated=[row.loss for row in rows if is_repeated(row.runs)],
        source=rows[0].source,
        lacking={loss: some for loss, some in lacking.items() if some},
        most=MOST_SEEDS,
        older=older if len(older) < len(sums) else (),
    )
    cut = (text for result in results_of(rows) for text in result.get("cut", ()))
    return [*paragraphs(text), *dict.fromkeys(cut)]


def unlearnt(rows: Sequence[Row]) -> list[str]:
    """Return a sentence on each loss with no right answer on a class in any run.

    That is on classes of at least `FEWEST` test examples that the baseline has learnt,
    and losses that have learnt something else: a score of all may hide it.
    """
    base, *others = rows
    names = base.results[0]["test"].get("per_type", {})
    learnt: dict[str, float] = {}  # by the baseline
    for name, scores in names.items():
        f1 = base.class_scores(name, "f1")
        if f1 and scores.get("support", 0) >= FEWEST and statistics.fmean(f1) >= LEARNT:
            learnt[name] = statistics.fmean(f1)
    texts = []
    for row in others:
        by_name = {name: row.class_scores(name, "f1") for name in learnt}
        missed = {k: learnt[k] for k, f1 in by_name.items() if f1 and not any(f1)}
        if missed and len(missed) < len(names):  # else it learnt nothing at all
            runs = len(by_name[next(iter(missed))])
            text = sentences("warnings").unlearnt(row.loss, missed, runs, base.name)
            texts.append(text)
    return texts
