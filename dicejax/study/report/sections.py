"""The document of a report, section by section."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dicejax.config import Experiment
from dicejax.errors import visible
from dicejax.metrics.scores import heading
from dicejax.study import figures
from dicejax.study.compare.advice import versus_controls
from dicejax.study.compare.changed import rival_of
from dicejax.study.compare.jobs import is_resampled
from dicejax.study.compare.record import Comparison
from dicejax.study.compare.statistics import (
    Row,
    columns_of,
    interval_of,
    items_of,
    results_of,
)
from dicejax.study.compare.table import mean_and_spread, warnings_of
from dicejax.study.compare.tuning import settings_text
from dicejax.study.gradients import plot
from dicejax.study.report import pictures
from dicejax.study.report.changed import changed_answers
from dicejax.study.report.document import (
    Lines,
    Picture,
    Section,
    scores_of_runs,
)
from dicejax.study.report.measured import classes_of, most_frequent
from dicejax.study.report.reproduce import FILE as RERUN
from dicejax.study.report.reproduce import seeds_of
from dicejax.study.sentences import paragraphs, sentences
from dicejax.training.outcome import always, constant_scores
from dicejax.training.progress import encoder_name

PARTS = ("command", "differences")
"""Names of the parts of the page, apart from the table of what made the runs."""
PRECISION = "Precision, recall and thresholds"

COSTS = {
    "seconds": ("minutes a run", "{:.1f}", 60),
    "tokens_per_s": ("tokens/s", "{:,.0f}", 1),
    "price": ("price of a run", "{:,.2f}", 1),
}
"""Of a cost of a run its name on the page, form and unit."""


def reading(rows: Sequence[Row]) -> list[str]:
    """Return how to read a page, by where its scores are from."""
    items = items_of(rows).removeprefix("test ") or "examples"
    text = sentences("reading").reading(rows[0].name, items, rows[0].source)
    return paragraphs(text)


def document_of(
    comparison: Comparison,
    experiment: Experiment | None,
    rerun: Mapping[str, Any],
    *,
    drawn: bool = True,
) -> dict[str, Any]:
    """Return the report of a comparison; sections without content are left out.

    Where nothing is drawn a table of all runs is in the place of figures.

    Args:
      comparison: the comparison to report.
      experiment: that of all losses; None of scores from elsewhere.
      rerun: what trains the runs again and what made them, as `comparison.json` has it.
      drawn: whether there are figures.
    """
    rows = comparison.rows
    plain = [scores(rows), classes(comparison), changed_answers(comparison), time(rows)]
    differences, figures_ = (
        figures_of(comparison)
        if drawn
        else (None, [Section("runs", "Every run", tables=scores_of_runs(rows))])
    )
    losses = {row.loss: text for row in rows if (text := described(row))}
    folded = [
        *figures_,
        Section("gradients", "Gradients", pictures=[*gradients(rows)]),
        tuned(comparison.tuning),
        Section("reading", "How to read this", reading(rows)),
        reproduce(comparison, rerun, is_ours=experiment is not None),
    ]
    return {
        "title": f"{comparison.name}: loss comparison",
        "heading": "Verdict",
        "context": context(comparison, experiment),
        "losses": losses,
        "verdict": comparison.verdict,
        "forest": differences,
        "warnings": warnings_of(rows),
        "claims": comparison.verdicts,
        "sections": [s for s in [*plain, *folded] if s.text or s.tables or s.pictures],
        "folded": [section.key for section in folded],
    }


def described(row: Row) -> str:
    """Return the description of a loss or control; empty for an unknown one."""
    experiment = row.experiment
    about = "" if experiment is None else type(experiment.objective).__doc__ or ""
    return sentences("page").described(row, about.partition("\n")[0].rstrip("."))


def figures_of(comparison: Comparison) -> tuple[Picture | None, list[Section]]:
    """Draw the differences, and the sections that are figures."""
    rows = comparison.rows
    with figures.look([row.loss for row in rows], pictures.SETTINGS):
        differences = pictures.forest(rows, comparison.margin)
        runs = pictures.strip(rows, comparison.primary_metric or "")
        drawn = [
            ("frequency", "Rare and frequent classes", pictures.by_class(comparison)),
            ("runs", "Every run", [runs]),
            ("learning", "Learning curves", pictures.learning(comparison)),
            ("thresholds", PRECISION, pictures.thresholds(comparison)),
            ("calibration", "Calibration", pictures.calibration(comparison)),
        ]
        sections = [Section(key, t, pictures=[*each]) for key, t, each in drawn]
    return differences, sections


def context(comparison: Comparison, experiment: Experiment | None) -> dict[str, str]:
    """Return names and texts of the context; numbers that runs lack are left out."""
    rows, texts = comparison.rows, sentences("page")
    finished = [run for row in rows for run in row.runs if run.result]
    results = [x for x in results_of(rows) if "control" not in x]
    # A model that is no fine-tuned encoder has no updates, though it may come first.
    first = next((x for x in results if x.get("steps")), results[0])
    seeds = seeds_of(comparison)
    seeds_text = f"{len(seeds)} ({seeds[0]} to {seeds[-1]})" if seeds[1:] else "1"
    sizes = dict(first.get("examples") or {})
    if rows[0].source == "example scores":
        sizes = {"test": finished[0].example_count}
    groups = None if finished[0].groups is None else items_of(rows)
    resampled = experiment is not None and is_resampled(experiment)
    data = texts.data(comparison.name, sizes, groups, resampled)
    if experiment is None:
        scores = texts.scores(len(finished), finished[0].folder)
        return {"Data": data, "Scores": scores, "Seeds": seeds_text}
    described = {
        "Data": data,
        "Task": type(experiment.task).__name__,
        "Encoder": encoder_name(experiment.encoder, first.get("parameters")),
        "Training": texts.training(first.get("steps"), experiment),
        "Seeds": seeds_text,
    }
    if "device_kind" in first:
        described["Hardware"] = f"{first['devices']} x {first['device_kind']}"
    return described


def scores(rows: Sequence[Row]) -> Section:
    """Return tables of all losses: differences, then the other scores."""
    (metric, primary), *others = columns_of(rows).items()
    scored, lines, more = rows[0].results[0]["test"], [], []
    cells = sentences("cells")
    for place, row in enumerate(rows):
        line = {
            "loss": row.loss,
            "difference": cells.difference(row),
            "95% CI": cells.interval(row.against),
            "p (Holm)": cells.p_holm(row.against),
            metric: mean_and_spread(primary[place]),
            "seeds": str(len(row.finished)),
            "diverged": str(row.count("diverged") or "-"),
            "missing": str(row.count("missing") or "-"),
            "seeds needed": cells.needed(row.against),
            "detectable": cells.detectable(row.against),
        }
        lines.append(line)
        others_of = {name: mean_and_spread(values[place]) for name, values in others}
        more.append({"loss": row.loss, **others_of})
    name, texts = rows[0].name, sentences("page")
    tables = {texts.differences(metric, name, interval_of(rows)): _filled(lines)}
    if others:
        tables[texts.other_scores()] = _filled(more)
    best, differences = versus_controls(rows)
    if differences:
        apart = [{"control": k, "difference": x} for k, x in differences.items()]
        tables[f"{best} minus each control"] = apart
    return Section("scores", "Scores", all_positive(scored), tables)


def all_positive(test: Mapping[str, Any]) -> list[str]:
    """Return the scores of predicting positive for every text of two classes.

        F1 = 2 s / (1 + s),  accuracy = s  for a share s of positives

    so that F1 is high without any skill where positives are frequent.
    """
    rows, positive = constant_scores(test), test.get("positive")
    if len(rows) != 2 or positive not in rows:
        return []
    names = {"f1": "F1", "accuracy": "accuracy", "matthews": "Matthews"}
    return [always(positive, {names[x]: y for x, y in rows[positive].items()})]


def classes(comparison: Comparison) -> Section:
    """Return precision, recall and F1 of each class: baseline and the page's rival."""
    baseline, rival = comparison.rows[0], rival_of(comparison.rows, comparison.margin)
    both = [baseline, rival] if rival is not None and rival.finished else [baseline]
    support, lines = classes_of(comparison.rows), []
    for name, count in most_frequent(support):
        line = {"class": name, "count in test set": f"{count:,}"}
        for score in ("f1", "precision", "recall"):
            for row in both:
                values = row.class_scores(name, score)
                mean = f"{100 * statistics.fmean(values):.1f}" if values else "-"
                line[f"{heading(score)} {row.loss}"] = mean
        lines.append(line)
    caption = sentences("page").classes([row.loss for row in both])
    tables = {caption: _filled(lines)} if lines else {}
    return Section("classes", "Classes", _few(support), tables)


def _few(support: Mapping[str, int]) -> list[str]:
    """Say how many points one test example of the rarest class is, if at least one."""
    name, count = min(support.items(), key=lambda each: each[1], default=("", 0))
    return [sentences("page").few_of_class(count, name)] if 0 < count <= 100 else []


def _filled(lines: Lines) -> Lines:
    """Return lines without the columns that are empty in all of them."""
    first, *names = lines[0]
    names = [k for k in names if any(line[k] not in ("", "-") for line in lines)]
    return [{k: line[k] for k in (first, *names)} for line in lines]


def time(rows: Sequence[Row]) -> Section:
    """Return the time of each loss, and its price; empty where runs have none."""
    lines, are_ours = [], rows[0].source == "run"
    for row in rows:
        runs = [run for run in row.results if "control" not in run]
        line = {"loss": row.loss}
        for key, (name, form, unit) in COSTS.items():
            values = [run[key] for run in runs if run.get(key)]
            line[name] = form.format(statistics.fmean(values) / unit) if values else ""
        if any([*line.values()][1:]):
            lines.append(line)
    title = "Training time" if are_ours else "Time and price"
    tables = {sentences("page").time(are_ours): _filled(lines)} if lines else {}
    return Section("time", title, tables=tables)


def tuned(tuning: Mapping[str, Any] | None) -> Section:
    """Return the section of chosen settings in `tuning.json`; empty without tuning."""
    if tuning is None:
        return Section("tuning", "Tuning")
    metric = f"dev {heading(tuning['primary_metric'])}"
    text = sentences("page").tuning(trials=tuning["trials"])
    cells, lines = sentences("cells"), []
    for loss, entry in tuning["losses"].items():
        trials = entry["trials"]
        best, first = trials[entry["chosen"]], trials[0]
        line = {
            "loss": loss,
            "chosen": cells.chosen(settings_text(best["values"]), best is first),
            metric: cells.dev(best),
            f"{metric} as given": cells.dev(first),
            "diverged": str(sum(trial["dev"] is None for trial in trials)),
        }
        lines.append(line)
    tables = {f"Chosen settings and their {metric} (%)": lines} if lines else {}
    return Section("tuning", "Tuning", [text], tables)


def gradients(rows: Sequence[Row]) -> Iterator[Picture]:
    """Draw the gradients of the first run of each loss that recorded them."""
    for row in rows:
        for run in (run for run in row.runs if run.gradients):
            for name, figure in plot.figures_of(run.gradients).items():
                title = f"{row.loss}, seed {run.seed}: {name}"
                caption = sentences("page").gradients(name.rpartition("-")[2])
                yield Picture(title, caption, {}, {title: figure}, about=caption)


def reproduce(
    comparison: Comparison, rerun: Mapping[str, Any], *, is_ours: bool
) -> Section:
    """Return the section with the provenance of the runs."""
    made = [{"what": k, "value": x} for k, x in rerun.items() if k not in PARTS]
    code = {"Command": rerun["command"]}
    text = sentences("page").reproduce(file=RERUN if is_ours else None)
    caption = "Data and seeds of the scores"
    if is_ours:
        caption = "Hardware, versions and data of the runs"
        runs = (run for row in comparison.rows for run in row.runs)
        folders = dict.fromkeys(visible(run.folder) for run in runs)
        code["Folders of the runs"] = "\n".join(folders)
    texts = [text, *(f"{difference}." for difference in rerun["differences"])]
    return Section("reproduce", "Reproduce", texts, {caption: made}, code=code)
