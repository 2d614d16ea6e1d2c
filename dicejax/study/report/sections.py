"""The document of a report, section by section."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etils import epath

from dicejax.errors import quote, visible
from dicejax.io import files
from dicejax.metrics.scores import heading
from dicejax.objectives import FromPrior
from dicejax.study import figures
from dicejax.study.compare.advice import headline, versus_controls
from dicejax.study.compare.jobs import is_resampled
from dicejax.study.compare.statistics import (
    Row,
    columns_of,
    interval_of,
    results_of,
    samples_of,
    source_of,
)
from dicejax.study.compare.table import mean_and_spread, warnings_of
from dicejax.study.compare.testing import baseline_name
from dicejax.study.compare.tuning import settings_text
from dicejax.study.gradients import plot
from dicejax.study.report import pictures
from dicejax.study.report.changed import rival_of
from dicejax.study.report.document import (
    Document,
    Panel,
    Picture,
    Section,
    TextTable,
    scores_of_runs,
)
from dicejax.study.report.facts import RERUN, Facts
from dicejax.study.significance import signed
from dicejax.training.gradients.probe import FILE as GRADIENTS
from dicejax.training.outcome import always, constant_scores
from dicejax.training.progress import encoder_name

CONTROLS = {
    "logit adjustment": "cross-entropy runs, logits shifted by the class frequencies",
    "tuned threshold": "cross-entropy runs, decision threshold chosen on dev",
}
FROM_PRIOR = " Heads begin at the class frequencies and learn faster."
PAIRED = (
    "All runs of a seed start from the same weights and see the same data in the same "
    "order, so each loss is paired with {baseline} seed by seed. "
)
SAMPLES = {
    "run": "Two sources of chance remain: the seeds, and the {items} of the test set. "
    "The confidence interval covers both (seeds crossed with {items}): with other "
    "seeds and another test set of the same kind, 95 of 100 such intervals contain "
    "the true difference.",
    "run scores": "There is one score for each run, so the confidence interval covers "
    "the seeds alone: it is about this test set.",
}
FAILED = {
    "run": "diverged, learnt nothing or scored far below the median of its loss",
    "run scores": "scored 0 or far below the median of its loss",
}
PRECISION = "Precision, recall and thresholds"
READING = (
    "Among ten losses one looks good by chance. The p-values are therefore corrected "
    "for the number of losses by Holm's procedure: the chance that any verdict of this "
    "page is wrong where no loss makes a difference is at most 5%. A confidence "
    "interval is that of one loss alone, so it may exclude 0 where the verdict is "
    "inconclusive. Both hold over all looks at this comparison: seeds may be added "
    "until it is clear.",
    "The first line advises the cheapest setting that nothing is shown to beat: "
    "{baseline}, then a tuned threshold, class weights or adjusted logits, heads that "
    "begin at the class frequencies, and only then a loss with hyper-parameters. "
    "Whatever it calls better is so with an error rate of 5% over all these steps.",
    "These error rates hold for runs that learn. A run has failed if it {failed}: "
    "below half of it, or by a quarter and further below the other runs than these lie "
    "apart. Where a loss or {baseline} has such runs the comparison is unstable: it "
    "shows medians, numbers of failed runs with Fisher's exact test, and no interval. "
    "No number of seeds excludes failures: after 5 runs without any, up to 45% may "
    "fail (Clopper-Pearson, one-sided 95%). Seeds that all have the same scores are "
    "one run, without a verdict.",
    "Inconclusive does not mean that there is no difference. It means that these runs "
    "do not show one; the interval says how large it may be. Seeds needed are how many "
    "would show the true difference with power 0.8, as a range with a confidence of "
    "80%; they are for planning, not a result; never means that the test set is too "
    "small. Detectable is the smallest difference that these runs show with power "
    "0.8.",
    "Better and worse hold for this data and for the settings of these runs. Other "
    "hyper-parameters of a loss, or another learning rate, are another comparison.",
)


def reading(rows: Sequence[Row]) -> list[str]:
    """Return how to read a page, by where its scores are from."""
    source, items = source_of(rows), samples_of(rows).partition(" and ")[2]
    names = {
        "baseline": baseline_name(rows[0].loss),
        "items": items.removeprefix("test ") or "examples",
        "failed": FAILED["run" if source == "run" else "run scores"],
    }
    first = PAIRED if source == "run" else "Losses are paired with {baseline} by seed. "
    first += SAMPLES["run scores" if source == "run scores" else "run"]
    return [text.format(**names) for text in (first, *READING)]


def document_of(facts: Facts, *, drawn: bool = True) -> Document:
    """Return the report of a comparison; sections without content are left out.

    Where nothing is drawn a table of all runs is in the place of figures.
    """
    rows = facts.rows
    plain = [scores(facts), classes(facts)]
    if changed := facts.changed:
        title = "Changed answers"
        plain.append(Section("changed", title, [changed.summary], changed.tables))
    plain.append(time(rows))
    differences, measured = None, []
    if drawn:
        differences, measured = figures_of(facts)
    else:
        table = scores_of_runs(rows)
        measured = [Section("runs", "Every run", tables=[table])]
    losses = {}
    for row in rows:
        text = CONTROLS.get(row.loss.rpartition(" + ")[2], "")
        if row.loss in facts.losses:  # the first sentence of its documentation
            objective = facts.losses[row.loss].experiment.objective
            text = (type(objective).__doc__ or "").partition("\n")[0]
            text += FROM_PRIOR * (FromPrior.SUFFIX in row.loss)
        if text:
            end = " (control)" if row.is_control else "."
            losses[row.loss] = f"{text.rstrip('.')}{end}"
    folded = [
        *measured,
        Section("gradients", "Gradients", pictures=[*gradients(rows)]),
        tuned(facts.tuning),
        Section("reading", "How to read this", reading(rows)),
        reproduce(facts),
    ]
    return Document(
        title=f"{facts.name}: loss comparison",
        context=context(facts),
        losses=losses,
        verdict=headline(rows, facts.margin),
        forest=differences,
        warnings=warnings_of(rows),
        claims={row.loss: row.against.verdict for row in rows if row.against},
        sections=[s for s in [*plain, *folded] if s.text or s.tables or s.pictures],
        folded=[section.key for section in folded],
    )


def figures_of(facts: Facts) -> tuple[Picture | None, list[Section]]:
    """Draw the differences, and the sections that are figures."""
    rows = facts.rows
    with figures.look([row.loss for row in rows], pictures.SETTINGS):
        differences = pictures.forest(rows, facts.margin)
        drawn = [
            ("frequency", "Rare and frequent classes", [*pictures.by_class(facts)]),
            ("runs", "Every run", [pictures.strip(rows, facts.metric)]),
            ("learning", "Learning curves", [*pictures.learning(facts)]),
            ("thresholds", PRECISION, [*pictures.thresholds(facts)]),
            ("calibration", "Calibration", [*pictures.calibration(facts)]),
        ]
    return differences, [Section(key, t, pictures=each) for key, t, each in drawn]


def context(facts: Facts) -> dict[str, str]:
    """Return names and texts of the context; numbers that runs lack are left out."""
    experiment = facts.experiment
    finished = [run for row in facts.rows for run in row.outcomes if run.result]
    first = next(x for x in results_of(facts.rows) if "control" not in x)
    seeds = sorted({run.seed for row in facts.rows for run in row.outcomes})
    seeds_text = f"{len(seeds)} ({seeds[0]} to {seeds[-1]})" if seeds[1:] else "1"
    sizes = dict(first.get("examples") or {})
    if source_of(facts.rows) == "example scores":
        sizes = {"test": len(finished[0].example_statistics)}
    data = " / ".join(f"{n:,} {split}" for split, n in sizes.items())
    data = f"{facts.name}: {data} examples" if data else facts.name
    groups = samples_of(facts.rows).partition(" and ")[2]
    data += f" in {groups}" if finished[0].groups is not None else ""
    if experiment is None:
        scores = f"{len(finished):,} runs in {finished[0].folder}"
        return {"Data": data, "Scores": scores, "Seeds": seeds_text}
    if is_resampled(experiment):
        data += ", another training sample for each seed"
    training = f"{first['steps']:,} updates, " if "steps" in first else ""
    training += f"learning rate {experiment.optimizer.learning_rate:g}, batches of "
    training += f"{experiment.training.batch_size}, {experiment.training.precision}"
    texts = {
        "Data": data,
        "Task": type(experiment.task).__name__,
        "Encoder": encoder_name(experiment.encoder, first.get("parameters")),
        "Training": training,
        "Seeds": seeds_text,
    }
    if "device_kind" in first:
        texts["Hardware"] = f"{first['devices']} x {first['device_kind']}"
    return texts


def scores(facts: Facts) -> Section:
    """Return tables of all losses: differences, then the other scores."""
    (metric, primary), *others = columns_of(facts.rows).items()
    scored, lines, more = results_of(facts.rows)[0]["test"], [], []
    for place, row in enumerate(facts.rows):
        line = {
            "loss": row.loss,
            "difference": "baseline",
            "95% CI": "",
            "p (Holm)": "",
            metric: mean_and_spread(primary[place]),
            "seeds": str(row.summary.n),
            "diverged": str(row.summary.diverged or "-"),
            "missing": str(row.missing or "-"),
            "seeds needed": "",
            "detectable": "",
        }
        if against := row.against:
            line |= dict.fromkeys(("95% CI", "p (Holm)", "detectable"), "-")
            mean, test, crossed = against.mean, against.test, against.crossed
            is_shown = mean is not None and row.outcome != "unstable"
            line["difference"] = signed(100 * mean) if is_shown else "-"
            line["seeds needed"] = against.needed
            if test is not None and crossed is not None:
                ends, p = (crossed.low, crossed.high), test.p_value
                line["95% CI"] = " to ".join(signed(100 * end) for end in ends)
                line["p (Holm)"] = "< 0.001" if p < 0.001 else f"{p:.3f}"
                line["detectable"] = f"±{100 * test.detectable:.2f}"
        lines.append(line)
        cells = {name: mean_and_spread(values[place]) for name, values in others}
        more.append({"loss": row.loss, **cells})
    over = f"({interval_of(facts.rows)}), and mean ± SD over seeds"
    name = baseline_name(facts.baseline)
    tables = [_filled(f"Test {metric} (%): difference to {name} {over}", lines)]
    if others:
        tables.append(_filled("Other test scores (%), mean ± SD over seeds", more))
    best, differences = versus_controls(facts.rows)
    apart = [{"control": k, "difference": x} for k, x in differences.items()]
    if apart:
        tables.append(TextTable(f"{best} minus each control", apart))
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


def classes(facts: Facts) -> Section:
    """Return precision, recall and F1 of each class: baseline and the page's rival."""
    rival = rival_of(facts.rows, facts.margin)
    names = [row.loss for row in (facts.rows[0], rival) if row is not None]
    both = {loss: facts.classes[loss] for loss in names if facts.classes[loss]}
    support: dict[str, int] = {}
    for by_name in both.values():
        support |= {name: int(runs[0]["support"]) for name, runs in by_name.items()}
    lines = []
    for name in sorted(support, key=lambda name: (-support[name], name)):
        line = {"class": name, "count in test set": f"{support[name]:,}"}
        for score in ("f1", "precision", "recall"):
            for loss, by_name in both.items():
                values = [run[score] for run in by_name.get(name, ()) if score in run]
                mean = f"{100 * statistics.fmean(values):.1f}" if values else "-"
                line[f"{heading(score)} {loss}"] = mean
        lines.append(line)
    caption = "Scores (%) of each class on the test set, mean over seeds: "
    caption += " vs. ".join(both)
    tables = [_filled(caption, lines)] if lines else []
    return Section("classes", "Classes", _few(support), tables)


def _few(support: Mapping[str, int]) -> list[str]:
    """Say how many points one test example of the rarest class is, if at least one."""
    name = min(support, key=lambda name: support[name], default="")
    if not 0 < support.get(name, 0) <= 100:
        return []
    return [
        f"The test set has only {support[name]} of the rarest class, {quote(name)}: "
        f"each is {100 / support[name]:.1f} points of its recall, so its scores "
        "depend on few examples."
    ]


def _table(caption: str, lines: Sequence[Mapping[str, str]]) -> list[TextTable]:
    return [TextTable(caption, lines)] if lines else []


def _filled(caption: str, lines: Sequence[Mapping[str, str]]) -> TextTable:
    """Return a table without the columns that are empty in all lines."""
    first, *names = lines[0]
    names = [k for k in names if any(line[k] not in ("", "-") for line in lines)]
    return TextTable(caption, [{k: line[k] for k in (first, *names)} for line in lines])


def time(rows: Sequence[Row]) -> Section:
    """Return the training time of each loss; empty where runs do not record it."""
    lines = []
    for row in rows:
        runs = [run for run in results_of([row]) if "control" not in run]
        runs = [run for run in runs if run.get("seconds")]
        if runs:
            seconds = statistics.fmean(run["seconds"] for run in runs)
            rate = statistics.fmean(run["tokens_per_s"] for run in runs)
            line = {"minutes a run": f"{seconds / 60:.1f}", "tokens/s": f"{rate:,.0f}"}
            lines.append({"loss": row.loss} | line)
    caption = "Training time, mean over seeds, compilation and evaluation apart"
    return Section("time", "Training time", tables=_table(caption, lines))


def tuned(tuning: Mapping[str, Any] | None) -> Section:
    """Return the section of chosen settings in `tuning.json`; empty without tuning."""
    if tuning is None:
        return Section("tuning", "Tuning")
    metric = f"dev {heading(tuning['primary_metric'])}"
    text = (
        f"Before the comparison each loss or seed below had {tuning['trials']} "
        "trials of learning rate and hyper-parameters, with a seed that no run "
        "here has, and the best on dev was chosen. The test set was not used. "
        "Gains on dev are of one seed, chosen as the best of many, and no result."
    )
    lines = []
    for loss, entry in tuning["losses"].items():
        trials = entry["trials"]
        best, first = trials[entry["chosen"]], trials[0]
        devs = [
            "diverged" if trial["dev"] is None else f"{100 * trial['dev']:.2f}"
            for trial in (best, first)
        ]
        line = {"loss": loss, "chosen": settings_text(best["values"])}
        line["chosen"] += " (as given)" * (best is first)
        line |= {metric: devs[0], f"{metric} as given": devs[1]}
        diverged = sum(trial["dev"] is None for trial in trials)
        lines.append(line | {"diverged": str(diverged)})
    tables = _table(f"Chosen settings and their {metric} (%)", lines)
    return Section("tuning", "Tuning", [text], tables)


def gradients(rows: Sequence[Row]) -> Iterator[Picture]:
    """Draw the gradients of the first run of each loss that recorded them."""
    for row in rows:
        for run in row.outcomes:
            # Controls have the runs of the baseline, scores from elsewhere have none.
            is_trained = run.source == "run" and "control" not in (run.result or ())
            folder = epath.Path(run.folder)
            if not (run.result and is_trained and files.was_written(folder, GRADIENTS)):
                continue
            for name, figure in plot.figures_of_run(run.folder).items():
                title = f"{row.loss}, seed {run.seed}: {name}"
                caption = plot.CAPTIONS[name.rpartition("-")[2]]
                yield Picture(title, caption, (), [Panel(title, caption, figure)])
            break


def reproduce(facts: Facts) -> Section:
    """Return the section with the provenance of the runs."""
    lines = [{"what": name, "value": value} for name, value in facts.provenance.items()]
    code = {"Command": facts.command}
    text = "The command reads the file of scores again; it has no settings of runs."
    caption = "Data and seeds of the scores"
    if facts.experiment is not None:
        text = (
            f"{RERUN}, in the folder of this page, is the experiment as Python, with "
            "every setting and every loss. Paths of data and encoder in it are those "
            "of the runs; where they were relative, run the command in the same "
            "folder. dicejax export RUN FOLDER writes a run as a model folder, with a "
            "card for the hub that repeats this verdict."
        )
        caption = "Hardware, versions and data of the runs"
        code["Folders of the runs"] = "\n".join(map(visible, facts.folders))
    texts = [text, *(f"{difference}." for difference in facts.differences)]
    tables = [TextTable(caption, lines)]
    return Section("reproduce", "Reproduce", texts, tables, code=code)
