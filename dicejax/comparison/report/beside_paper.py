"""What others printed for a data set, beside what was measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dicejax.analysis import paper
from dicejax.comparison.report.document import Section, Table
from dicejax.comparison.report.material import Material
from dicejax.comparison.statistics import Row
from dicejax.comparison.table import mean_and_spread
from dicejax.metrics.scores import heading
from dicejax.objectives import CrossEntropy, Objective, Tversky


def beside_paper(
    rows: Sequence[Row], materials: Sequence[Material], primary_metric: str
) -> list[Section]:
    """Put the printed rows of a data set beside ours of the same loss.

    Nothing where none is printed: the experiment's name says which data set it is.
    """
    ours = {m.loss: m.experiment for m in materials if m.experiment is not None}
    dataset = next(iter(ours.values())).name
    printed = [
        row
        for row in paper.rows(dataset=dataset)
        if row.loss is not None and row[primary_metric] is not None
    ]
    if not printed:
        return []
    by_loss = {row.loss: row for row in rows}
    objectives = {loss: experiment.objective for loss, experiment in ours.items()}
    score = heading(primary_metric)
    sources = dict.fromkeys(row.source for row in printed)
    return [
        Section(
            key="paper",
            title="Beside what others printed",
            text=(
                f"What publications print for {dataset}, by the name of the "
                "experiment, and ours of the same loss. The two are not the same "
                "experiment: ours is another encoder, and may be a part of the data, "
                "another budget, other numbers of the loss; the printed scores have no "
                "spread over seeds. What may be set side by side is what a loss gains "
                "over cross-entropy.",
            ),
            items=tuple(_told(source) for source in sources),
            tables=(
                Table(
                    caption=f"{score}, in percent; gains are over cross-entropy",
                    columns=(
                        "printed row",
                        f"{score} there",
                        "gain there",
                        f"ours, {score} ± sd",
                        "gain here",
                    ),
                    rows=tuple(
                        cells
                        for row in printed
                        for cells in _cells(row, by_loss, objectives, primary_metric)
                    ),
                ),
            ),
        )
    ]


def _told(source: paper.Source) -> str:
    parts = [f"{source.citation}, table {source.table}"]
    parts += [part for part in (source.notes, source.read_from) if part]
    return "; ".join(parts) + "."


def _cells(
    printed: paper.Row,
    rows: Mapping[str, Row],
    objectives: Mapping[str, Objective],
    primary_metric: str,
) -> list[tuple[str, ...]]:
    """A line for each of ours that is of the printed loss; one where none is."""
    alpha = "" if printed.alpha is None else f" alpha={printed.alpha}"
    where = f"table {printed.table}"
    if printed.variant:
        where += f", {printed.variant}"
    names = " ".join(part for part in (printed.loss + alpha, printed.model) if part)
    score = next(s for s in printed.scores if s.metric == primary_metric)
    gain = "-" if score.gain is None else f"{score.gain:+.2f}"
    theirs = (f"{names} ({where})", f"{score.percent:.2f}", gain)
    matching = [loss for loss, one in objectives.items() if is_of(printed, one)]
    if not matching:
        return [(*theirs, "not compared", "-")]
    return [
        (
            *theirs,
            f"{loss}: {mean_and_spread(rows[loss].scores(primary_metric))}",
            _gain(rows[loss]),
        )
        for loss in matching
    ]


def _gain(row: Row) -> str:
    if row.against is None or row.against.over_seeds is None:
        return "-"
    return f"{100 * row.against.over_seeds.mean:+.2f}"


def is_of(printed: paper.Row, objective: Objective) -> bool:
    """Whether an objective is of the kind that a printed row is of.

    >>> from dicejax.objectives import SelfAdjustingDice
    >>> is_of(paper.best("conll03"), SelfAdjustingDice(alpha=0.5))
    True
    >>> is_of(paper.best("cluener"), CrossEntropy())
    False
    """
    if isinstance(objective, CrossEntropy):
        kind = "lsr" if objective.label_smoothing else "ce"
        return printed.loss == kind
    if printed.alpha is not None and isinstance(objective, Tversky):
        return printed.alpha == objective.alpha and printed.loss == "tversky"
    return printed.loss == objective.short_name
