"""Scores in tables: all scores, classes, changed answers, training time."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dicejax.errors import shown
from dicejax.metrics.scores import heading
from dicejax.study.compare.statistics import Row, class_counts
from dicejax.study.compare.table import baseline_name, mean_and_spread
from dicejax.study.report.document import Claim, Section, TextTable
from dicejax.study.significance import signed
from dicejax.tasks.described import described

MOST_CHANGED = 10


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


def table_of(rows: Sequence[Row], primary_metric: str) -> Section:
    """Return the table of all losses: differences first, then all scores."""
    test = next(one for row in rows for one in row.outcomes if one.result).result[
        "test"
    ]
    others = [
        name
        for name, value in test.items()
        if isinstance(value, float) and name != primary_metric
    ]
    columns = {
        "loss": [row.loss for row in rows],
        "difference": [_difference(row) for row in rows],
        "95% CI": [_interval(row) for row in rows],
        heading(primary_metric): [
            mean_and_spread(row.scores(primary_metric)) for row in rows
        ],
        **{
            heading(name): [mean_and_spread(row.scores(name)) for row in rows]
            for name in others
        },
        "seeds": [str(row.summary.n) for row in rows],
        "diverged": [_count(row.summary.diverged) for row in rows],
        "missing": [_count(row.missing) for row in rows],
        "p (Holm)": [_p_value(row) for row in rows],
        "seeds needed": [row.against.needed if row.against else "" for row in rows],
        "detectable": [_detectable(row) for row in rows],
    }
    kept = {
        name: cells
        for name, cells in columns.items()
        if name == "loss" or any(cell not in ("", "-") for cell in cells)
    }
    metric = heading(primary_metric)
    return Section(
        key="scores",
        title="Scores",
        text=all_positive(test),
        tables=(
            TextTable(
                caption=f"Test {metric} (%): difference to "
                f"{baseline_name(rows[0].loss)}, and mean ± SD of all scores over "
                "seeds",
                columns=tuple(kept),
                rows=tuple(zip(*kept.values(), strict=True)),
            ),
        ),
    )


def _difference(row: Row) -> str:
    if row.against is None:
        return "baseline"
    return "-" if row.against.mean is None else signed(100 * row.against.mean)


def _interval(row: Row) -> str:
    if row.against is None:
        return ""
    one = row.against.crossed
    return f"{signed(100 * one.low)} to {signed(100 * one.high)}" if one else "-"


def _p_value(row: Row) -> str:
    if row.against is None or row.against.p_value is None:
        return "" if row.against is None else "-"
    return "< 0.001" if row.against.p_value < 0.001 else f"{row.against.p_value:.3f}"


def _detectable(row: Row) -> str:
    if row.against is None or row.against.detectable is None:
        return "" if row.against is None else "-"
    return f"±{100 * row.against.detectable:.2f}"


def _count(number: int) -> str:
    return str(number) if number else "-"


def classes(rows: Sequence[Row]) -> list[TextTable]:
    """Return precision, recall and F1 of each class: baseline and best rival."""
    rivals = [row for row in rows[1:] if row.against and not row.is_control]
    both = [row for row in (rows[0], *rivals[:1]) if _of_classes(row)]
    if not both:
        return []
    found = {row.loss: _of_classes(row) for row in both}
    support = {name: n for by in found.values() for name, (n, _) in by.items()}
    order = sorted(support, key=lambda name: (-support[name], name))
    runs = [run for by in found.values() for _, of in by.values() for run in of]
    scores = [k for k in ("f1", "precision", "recall") if any(k in one for one in runs)]
    return [
        TextTable(
            caption="Scores (%) of each class on the test set, mean over seeds: "
            + " vs. ".join(found),
            columns=(
                "class",
                *(f"{heading(one)} {loss}" for one in scores for loss in found),
                "count in test set",
            ),
            rows=tuple(
                (
                    name,
                    *(
                        _mean([run.get(one) for run in found[loss][name][1]])
                        if name in found[loss]
                        else "-"
                        for one in scores
                        for loss in found
                    ),
                    f"{support[name]:,}",
                )
                for name in order
            ),
        )
    ]


def _of_classes(row: Row) -> dict[str, tuple[int, list[Mapping[str, float]]]]:
    """Return support and the scores in each run, by class."""
    found: dict[str, tuple[int, list[Mapping[str, float]]]] = {}
    for one in row.outcomes:
        if one.result:
            for name, scores in one.result["test"].get("per_type", {}).items():
                if support := int(scores.get("support", 0)):
                    found.setdefault(name, (support, []))[1].append(scores)
    return found


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{100 * statistics.fmean(known):.1f}" if known else "-"


def changed(
    rows: Sequence[Row],
    examples: Sequence[Any] | None,
    kept: Mapping[str, Sequence[str]] = {},
) -> list[Section]:
    """Return the test examples whose answers the best rival changes most often.

    Args:
      rows: as `rows_of` orders them.
      examples: of the test set; None where the data was not read.
      kept: texts and gold answers of an earlier report, by number.
    """
    rivals = [row for row in rows[1:] if row.against and not row.is_control]
    if not rivals:
        return []
    ours, theirs = _right(rivals[0]), _right(rows[0])
    if ours is None or theirs is None or len(ours[0]) != len(theirs[0]):
        return []
    if examples is not None and len(examples) != len(ours[0]):
        examples = None  # parts of examples are scored
    gain = ours[0] / ours[1] - theirs[0] / theirs[1]
    order = sorted(np.flatnonzero(gain), key=lambda n: (-abs(gain[n]), n))
    if not len(order):
        return []
    numbers = [int(n) for n in order[:MOST_CHANGED]]
    if examples is not None:
        kept = {f"{n + 1}": described(examples[n]) for n in numbers}
    has_texts = all(f"{n + 1}" in kept for n in numbers)
    lines = [
        (
            f"{n + 1}",
            f"{int(theirs[0][n])} of {theirs[1]}",
            f"{int(ours[0][n])} of {ours[1]}",
            *(kept[f"{n + 1}"] if has_texts else ()),
        )
        for n in numbers
    ]
    loss, baseline = rivals[0].loss, rows[0].loss
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    texts = ("text", "gold") if has_texts else ()
    where = "" if has_texts else " Numbers count from 1 in the test set."
    return [
        Section(
            key="changed",
            title="Changed answers",
            text=(
                f"{loss} is right in more seeds than {baseline} on {better} test "
                f"examples, and in fewer on {worse}; those that change in most seeds "
                f"come first.{where}",
            ),
            tables=(
                TextTable(
                    caption="Seeds in which an example is wholly right",
                    columns=("test example", baseline, loss, *texts),
                    rows=tuple(lines),
                ),
            ),
        )
    ]


def _right(row: Row) -> tuple[np.ndarray, int] | None:
    """Return in how many runs each example is wholly right, and their number."""
    known = [one.example_statistics for one in row.outcomes if one.result]
    known = [one for one in known if one is not None]
    if not known:
        return None
    right = [(one[..., 0] == one[..., 1]).all(-1) for one in known]
    return np.sum(right, axis=0), len(right)


def time(rows: Sequence[Row]) -> list[TextTable]:
    """Return the training time of each loss; none where runs do not record it."""
    lines = []
    for row in rows:
        runs = [one.result for one in row.outcomes if one.result]
        runs = [one for one in runs if one.get("seconds") and "control" not in one]
        if runs:
            seconds = statistics.fmean(one["seconds"] for one in runs)
            rate = statistics.fmean(one["tokens_per_s"] for one in runs)
            lines.append((row.loss, f"{seconds / 60:.1f}", f"{rate:,.0f}"))
    if not lines:
        return []
    return [
        TextTable(
            caption="Training time, mean over seeds, compilation and evaluation apart",
            columns=("loss", "minutes a run", "tokens/s"),
            rows=tuple(lines),
        )
    ]


def reading(baseline: str) -> Section:
    """Explain the statistics in plain words."""
    return Section(
        key="reading",
        title="How to read this",
        folded=True,
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
            "exclude 0 where the verdict is inconclusive. Both hold over all looks at "
            "this comparison: seeds may be added until it is clear.",
            "Inconclusive does not mean that there is no difference. It means that "
            "these runs do not show one; the interval says how large it may be. Seeds "
            "needed is how many would show a difference of the observed size with "
            "power 0.8; it is for planning, not a result, and from few seeds it is "
            "rough; never means that the test set is too small. Detectable is the "
            "smallest difference that these runs show with power 0.8.",
            "Better and worse hold for this data, this encoder, this budget and these "
            "settings. Other hyper-parameters of a loss, or another learning rate, are "
            "another comparison.",
        ),
    )
