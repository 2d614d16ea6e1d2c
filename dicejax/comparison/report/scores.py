"""The scores of a comparison in words and tables: warnings, claims, statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dicejax.comparison.outcomes import Outcome
from dicejax.comparison.report import one_answer
from dicejax.comparison.report.document import Claim, Section, Table
from dicejax.comparison.report.figures import strip
from dicejax.comparison.statistics import Row
from dicejax.comparison.table import mean_and_spread
from dicejax.metrics.scores import heading

ADVISABLE = 5
"""Seeds, below which an interval is wide whatever the loss."""


def warnings_of(rows: Sequence[Row]) -> list[str]:
    """Say what a reader must know before the first number."""
    said = []
    seeds = min(row.summary.n for row in rows)
    if seeds < 2:
        said.append(
            "A loss has fewer than 2 finished seeds: of such a loss nothing can be "
            "said. A single run may be better or worse by chance."
        )
    elif seeds < ADVISABLE:
        said.append(
            f"A loss has only {seeds} finished seeds: intervals are wide, and only "
            f"large differences can show. {ADVISABLE} or more are advisable."
        )
    for status, told in (
        (
            "missing",
            "not finished, and left out of all numbers; the command that began "
            "the comparison goes on with them",
        ),
        (
            "diverged",
            "diverged, and left out of all means: a loss that diverges is "
            "worse than its mean says",
        ),
    ):
        found = _named(rows, lambda one, status=status: one.status == status)
        if found:
            runs = sum(len(row.outcomes) for row in rows)
            said.append(f"{len(found)} of {runs} runs {told}: {', '.join(found)}.")
    alike = _named(rows, _classifies_alike)
    if alike:
        runs = "1 run gives" if len(alike) == 1 else f"{len(alike)} runs give"
        said.append(
            f"{runs} one and the same class to every test example, so that the scores "
            f"say how frequent it is and nothing else: {', '.join(alike)}."
        )
    return said


def _named(rows: Sequence[Row], wanted: Callable[[Outcome], bool]) -> list[str]:
    return [
        f"{row.loss} seed {one.seed}"
        for row in rows
        for one in row.outcomes
        if wanted(one)
    ]


def _classifies_alike(one: Outcome) -> bool:
    return one.result is not None and one_answer.has_one_answer(one.result["test"])


def claims_of(rows: Sequence[Row]) -> list[Claim]:
    """Return the verdict of each loss but the baseline."""
    return [
        Claim(
            loss=row.loss,
            outcome=row.against.verdict.outcome,
            sentence=row.against.verdict.sentence,
        )
        for row in rows
        if row.against is not None
    ]


def statistics(rows: Sequence[Row], primary_metric: str) -> list[Section]:
    """Return the tables of all losses and the picture of all runs."""
    test = next(one for row in rows for one in row.outcomes if one.result).result[
        "test"
    ]
    others = [name for name, value in test.items() if isinstance(value, float)]
    return [
        Section(
            key="scores",
            title="Scores",
            text=one_answer.without_looking(test),
            tables=(
                _headline_table(rows, primary_metric),
                Table(
                    caption="All scores on test, in percent: mean ± standard deviation "
                    "over seeds",
                    columns=("loss", *map(heading, others)),
                    rows=tuple(
                        (
                            row.loss,
                            *(mean_and_spread(row.scores(name)) for name in others),
                        )
                        for row in rows
                    ),
                ),
            ),
        ),
        Section(key="runs", title="Runs", figures=(strip(rows, primary_metric),)),
    ]


def _headline_table(rows: Sequence[Row], primary_metric: str) -> Table:
    return Table(
        caption=f"{heading(primary_metric)} on test, in percent, and its difference to "
        f"{rows[0].loss} with the 95 % interval for new seeds and new examples",
        columns=(
            "loss",
            "n",
            "mean",
            "sd",
            "median",
            "min",
            "max",
            "diverged",
            "missing",
            "difference",
            "interval",
            "p (Holm)",
            "seeds needed",
        ),
        rows=tuple((row.loss, *_described(row), *_compared(row)) for row in rows),
    )


def _described(row: Row) -> list[str]:
    one = row.summary
    numbers = (one.mean, one.sd, one.median, one.min, one.max)
    return [str(one.n), *map(percent, numbers), str(one.diverged), str(row.missing)]


def _compared(row: Row) -> list[str]:
    if row.against is None:
        return ["baseline", "", "", ""]
    crossed = row.against.crossed
    if crossed is None:
        return ["-", "-", "-", "-"]
    return [
        f"{100 * crossed.mean:+.2f}",
        f"{100 * crossed.low:+.2f} to {100 * crossed.high:+.2f}",
        p_value(row.against.p_holm),
        _needed(row.against.seeds_needed),
    ]


def percent(value: float | None) -> str:
    """Write a share in percent; "-" for None.

    >>> percent(0.91644), percent(None)
    ('91.64', '-')
    """
    return "-" if value is None else f"{100 * value:.2f}"


def p_value(value: float) -> str:
    """Write a p-value.

    >>> p_value(0.0312), p_value(0.00002)
    ('0.031', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _needed(seeds: int | None) -> str:
    return "> 10,000" if seeds is None else f"{seeds:,}"


def reading(baseline: str) -> Section:
    """Say in plain words what the tests are, and what they are not."""
    return Section(
        key="reading",
        title="How to read this",
        text=(
            f"All runs of a seed start from the same weights and see the same data in "
            f"the same order, so a loss is set beside {baseline} seed by seed. What "
            "remains has two sources of chance: which seeds were drawn, and which "
            "examples are in the test set. The interval allows for both (seeds crossed "
            "with examples): with other seeds and another test set of the same kind, "
            "95 of 100 such intervals hold the true difference.",
            "Who tries ten losses finds one that looks good by chance. The p-values "
            "are therefore adjusted for the number of losses by Holm's procedure: the "
            "chance that any verdict of this page is wrong where no loss makes a "
            "difference is at most 5 %. An interval is that of one loss alone, so it "
            "may leave 0 out where the verdict is no evidence.",
            "No evidence of a difference does not mean that there is none. It means "
            "that these runs do not show one; the interval says how large it may be. "
            "Seeds needed says how many would show a difference of the size that was "
            "seen, in four of five cases; it is a plan, not a result, and from few "
            "seeds it is rough.",
            "Better and worse hold for this data, this encoder, this budget and these "
            "settings. A loss with other numbers of its own, or another learning "
            "rate, is another comparison.",
        ),
    )
