"""Scores in words and tables: warnings, verdicts, statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dicejax.comparison.jobs import Outcome
from dicejax.comparison.report.document import Claim, Section, TextTable
from dicejax.comparison.report.pictures import strip
from dicejax.comparison.statistics import Row, class_counts, one_class
from dicejax.comparison.table import baseline_name, mean_and_spread
from dicejax.errors import shown
from dicejax.metrics.scores import heading
from dicejax.metrics.significance import signed

ADVISABLE = 5
"""Seeds, below which an interval is wide whatever the loss."""


def warnings_of(rows: Sequence[Row]) -> list[str]:
    """Return the warnings to show before any number."""
    said = []
    seeds = min(row.summary.n for row in rows)
    if seeds < 2:
        said.append(
            "A loss has fewer than 2 finished seeds and cannot be tested: a single run "
            "may be better or worse by chance."
        )
    elif seeds < ADVISABLE:
        said.append(
            f"A loss has only {seeds} finished seeds: confidence intervals are wide, "
            f"and only large differences can show. Use {ADVISABLE} or more."
        )
    runs = sum(len(row.outcomes) for row in rows)
    for status, consequence in (
        (
            "missing",
            "are not finished and left out of all numbers; the command that started "
            "the comparison resumes them",
        ),
        (
            "diverged",
            "diverged and are left out of all means: a loss that diverges is worse "
            "than its mean",
        ),
    ):
        found = _named(rows, lambda one, status=status: one.status == status)
        if found:
            said.append(f"{len(found)} of {runs} runs {consequence}: {_listed(found)}.")
    alike = _named(rows, lambda one: bool(one.result) and one_class(one.result["test"]))
    if alike:
        some = "1 run predicts" if len(alike) == 1 else f"{len(alike)} runs predict"
        said.append(
            f"{some} the same class for every test example, so that its scores measure "
            f"the frequency of that class and nothing else: {_listed(alike)}."
        )
    return said


def _named(rows: Sequence[Row], wanted: Callable[[Outcome], bool]) -> list[str]:
    found = ((row.loss, one) for row in rows for one in row.outcomes)
    return [f"{loss} seed {one.seed}" for loss, one in found if wanted(one)]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def all_positive(test: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the scores of predicting positive for every text of two classes.

        F1 = 2 s / (1 + s),  accuracy = s  for a share s of positives

    so that F1 is high without any skill where positives are frequent.

    >>> of = {"0": {"support": 346}, "1": {"support": 654}}
    >>> all_positive({"matthews": 0.3, "per_type": of})
    ("Predicting '1' for every text gives F1 79.08, accuracy 65.40 and Matthews 0.",)

    Args:
      test: scores of any run on the test set; of two classes the last is the positive
        one.

    Returns:
      One sentence; none where there are not two classes of texts.
    """
    counts = class_counts(test)
    if len(counts) != 2:
        return ()
    positive = list(counts)[-1]
    share = counts[positive] / counts.total()
    return (
        f"Predicting {shown(positive)} for every text gives F1 "
        f"{200 * share / (1 + share):.2f}, accuracy {100 * share:.2f} and Matthews 0.",
    )


def claims_of(rows: Sequence[Row]) -> list[Claim]:
    """Return the verdicts on all losses but the baseline."""
    verdicts = ((row.loss, row.against.verdict) for row in rows if row.against)
    return [
        Claim(loss=loss, outcome=one.outcome, sentence=one.sentence)
        for loss, one in verdicts
    ]


def statistics(rows: Sequence[Row], primary_metric: str) -> list[Section]:
    """Return the tables of all losses and the figure of all runs."""
    test = next(one for row in rows for one in row.outcomes if one.result).result[
        "test"
    ]
    names = [name for name, value in test.items() if isinstance(value, float)]
    all_scores = TextTable(
        caption="All scores (%) on the test set: mean ± SD over seeds",
        columns=("loss", *map(heading, names)),
        rows=tuple(
            (row.loss, *(mean_and_spread(row.scores(name)) for name in names))
            for row in rows
        ),
    )
    return [
        Section(
            key="scores",
            title="Scores",
            text=all_positive(test),
            tables=(_headline_table(rows, primary_metric), all_scores),
        ),
        Section(key="runs", title="Runs", pictures=(strip(rows, primary_metric),)),
    ]


def _headline_table(rows: Sequence[Row], primary_metric: str) -> TextTable:
    return TextTable(
        caption=f"Test {heading(primary_metric)} (%), and its difference to "
        f"{baseline_name(rows[0].loss)} (95% CI over seeds and test examples)",
        columns=(
            "loss",
            "n",
            "mean",
            "SD",
            "median",
            "min",
            "max",
            "diverged",
            "missing",
            "difference",
            "95% CI",
            "Holm p",
            "seeds needed",
        ),
        rows=tuple((row.loss, *_described(row), *_compared(row)) for row in rows),
    )


def _described(row: Row) -> list[str]:
    one = row.summary
    numbers = (one.mean, one.sd, one.median, one.min, one.max)
    return [str(one.n), *map(_percent, numbers), str(one.diverged), str(row.missing)]


def _compared(row: Row) -> list[str]:
    if row.against is None:
        return ["baseline", "", "", ""]
    crossed = row.against.crossed
    if crossed is None:
        return ["-", "-", "-", "-"]
    return [
        signed(100 * crossed.mean),
        f"{signed(100 * crossed.low)} to {signed(100 * crossed.high)}",
        "< 0.001" if row.against.p_value < 0.001 else f"{row.against.p_value:.3f}",
        row.against.needed,
    ]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"


def reading(baseline: str) -> Section:
    """Explain the statistics in plain words."""
    return Section(
        key="reading",
        title="How to read this",
        text=(
            f"All runs of a seed start from the same weights and see the same data in "
            f"the same order, so each loss is paired with {baseline} seed by seed. Two "
            "sources of chance remain: the seeds, and the examples of the test set. "
            "The confidence interval covers both (seeds crossed with examples): with "
            "other seeds and another test set of the same kind, 95 of 100 such "
            "intervals contain the true difference.",
            "Among ten losses one looks good by chance. The p-values are therefore "
            "corrected for the number of losses by Holm's procedure: the chance that "
            "any verdict of this page is wrong where no loss makes a difference is at "
            "most 5%. A confidence interval is that of one loss alone, so it may "
            "exclude 0 where the verdict is inconclusive.",
            "Inconclusive does not mean that there is no difference. It means that "
            "these runs do not show one; the interval says how large it may be. Seeds "
            "needed is how many would show a difference of the observed size with "
            "power 0.8; it is for planning, not a result, and from few seeds it is "
            "rough.",
            "Better and worse hold for this data, this encoder, this budget and these "
            "settings. Other hyper-parameters of a loss, or another learning rate, are "
            "another comparison.",
        ),
    )
