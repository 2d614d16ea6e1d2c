"""Scores in tables: all scores, classes, changed answers, training time."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from dicejax.errors import shown
from dicejax.metrics.scores import heading
from dicejax.study.compare.statistics import Row, class_counts, results_of
from dicejax.study.compare.table import baseline_name, mean_and_spread
from dicejax.study.report.document import Section, TextTable
from dicejax.study.report.facts import Changed, LossFacts, rivals_of
from dicejax.study.significance import signed


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


def table_of(rows: Sequence[Row], primary_metric: str) -> Section:
    """Return the table of all losses: differences first, then all scores."""
    test = results_of(rows)[0]["test"]
    others = [name for name, value in test.items() if isinstance(value, float)]
    names = dict.fromkeys([primary_metric, *others])
    lines = [
        {
            "loss": row.loss,
            **_difference(row),
            **{heading(name): mean_and_spread(row.scores(name)) for name in names},
            "seeds": str(row.summary.n),
            "diverged": str(row.summary.diverged or "-"),
            "missing": str(row.missing or "-"),
            **_planning(row),
        }
        for row in rows
    ]
    columns = [
        name
        for name in lines[0]
        if name == "loss" or any(line[name] not in ("", "-") for line in lines)
    ]
    table = TextTable(
        f"Test {heading(primary_metric)} (%): difference to "
        f"{baseline_name(rows[0].loss)}, and mean ± SD of all scores over seeds",
        tuple(columns),
        tuple(tuple(line[name] for name in columns) for line in lines),
    )
    return Section("scores", "Scores", text=all_positive(test), tables=(table,))


def _difference(row: Row) -> dict[str, str]:
    if row.against is None:
        return {"difference": "baseline", "95% CI": ""}
    mean, crossed = row.against.mean, row.against.crossed
    return {
        "difference": "-" if mean is None else signed(100 * mean),
        "95% CI": f"{signed(100 * crossed.low)} to {signed(100 * crossed.high)}"
        if crossed
        else "-",
    }


def _planning(row: Row) -> dict[str, str]:
    if row.against is None:
        return {"p (Holm)": "", "seeds needed": "", "detectable": ""}
    if row.against.test is None:
        return {"p (Holm)": "-", "seeds needed": row.against.needed, "detectable": "-"}
    p, least = row.against.test.p_value, row.against.test.detectable
    return {
        "p (Holm)": "< 0.001" if p < 0.001 else f"{p:.3f}",
        "seeds needed": row.against.needed,
        "detectable": f"±{100 * least:.2f}",
    }


def classes(rows: Sequence[Row], losses: Sequence[LossFacts]) -> Section:
    """Return precision, recall and F1 of each class: baseline and best rival."""
    both = {row.loss for row in (rows[0], *rivals_of(rows)[:1])}
    compared = {m.loss: m.classes for m in losses if m.loss in both and m.classes}
    support = {name: n for by in compared.values() for name, (n, _) in by.items()}
    runs = [run for by in compared.values() for _, of in by.values() for run in of]
    scores = [k for k in ("f1", "precision", "recall") if any(k in one for one in runs)]

    def cell(loss: str, name: str, score: str) -> str:
        if name not in compared[loss]:
            return "-"
        return _mean([run.get(score) for run in compared[loss][name][1]])

    columns = [(score, loss) for score in scores for loss in compared]
    table = TextTable(
        "Scores (%) of each class on the test set, mean over seeds: "
        + " vs. ".join(compared),
        (
            "class",
            *(f"{heading(score)} {loss}" for score, loss in columns),
            "count in test set",
        ),
        tuple(
            (
                name,
                *(cell(loss, name, score) for score, loss in columns),
                f"{support[name]:,}",
            )
            for name in sorted(support, key=lambda name: (-support[name], name))
        ),
    )
    return Section("classes", "Classes", tables=(table,) if compared else ())


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{100 * statistics.fmean(known):.1f}" if known else "-"


def changed(facts: Changed | None) -> Section:
    """Return the section of examples whose answers change; empty without any."""
    if facts is None:
        return Section("changed", "Changed answers")
    baseline, loss = facts.losses
    where = "" if facts.texts else " Numbers count from 1 in the test set."
    table = TextTable(
        "Seeds in which an example is wholly right",
        ("test example", *facts.losses, *(("text", "gold") if facts.texts else ())),
        tuple(
            (
                name,
                *(f"{n} of {of}" for n, of in zip(right, facts.runs, strict=True)),
                *facts.texts.get(name, ()),
            )
            for name, right in facts.right.items()
        ),
    )
    text = (
        f"{loss} is right in more seeds than {baseline} on {facts.better} test "
        f"examples, and in fewer on {facts.worse}; those that change in most seeds "
        f"come first.{where}"
    )
    return Section("changed", "Changed answers", text=(text,), tables=(table,))


def time(rows: Sequence[Row]) -> Section:
    """Return the training time of each loss; empty where runs do not record it."""
    lines = []
    for row in rows:
        runs = [one.result for one in row.outcomes if one.result]
        runs = [one for one in runs if one.get("seconds") and "control" not in one]
        if runs:
            seconds = statistics.fmean(one["seconds"] for one in runs)
            rate = statistics.fmean(one["tokens_per_s"] for one in runs)
            lines.append((row.loss, f"{seconds / 60:.1f}", f"{rate:,.0f}"))
    table = TextTable(
        "Training time, mean over seeds, compilation and evaluation apart",
        ("loss", "minutes a run", "tokens/s"),
        tuple(lines),
    )
    return Section("time", "Training time", tables=(table,) if lines else ())


def reading(baseline: str) -> Section:
    """Explain the statistics in plain words."""
    return Section(
        "reading",
        "How to read this",
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
