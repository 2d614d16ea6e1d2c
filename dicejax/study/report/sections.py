"""Context of a comparison, tuning, published scores, gradients, how to reproduce."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from dicejax import config
from dicejax.config import Experiment
from dicejax.errors import visible
from dicejax.io import files
from dicejax.metrics.scores import heading
from dicejax.objectives import CrossEntropy, Objective, is_loss
from dicejax.study import paper
from dicejax.study.compare.jobs import is_resampled
from dicejax.study.compare.statistics import Row, results_of
from dicejax.study.compare.table import mean_and_spread
from dicejax.study.gradients import plot
from dicejax.study.report.document import Panel, Picture, Section, TextTable
from dicejax.study.report.facts import RERUN, Facts, Rerun
from dicejax.study.significance import signed
from dicejax.training.gradients.collector import FILE as GRADIENTS
from dicejax.training.outline import encoder_name

CONTROLS = {
    "logit adjustment": "cross-entropy runs, logits shifted by the class frequencies",
    "tuned threshold": "cross-entropy runs, decision threshold chosen on dev",
}


def context(facts: Facts) -> tuple[tuple[str, str], ...]:
    """Return names and texts of the context; numbers that runs lack are left out."""
    experiment = facts.rerun.experiment
    first = next(one for one in results_of(facts.rows) if "control" not in one)
    seeds = sorted({one.seed for row in facts.rows for one in row.outcomes})
    sizes = first.get("examples") or {}
    data = " / ".join(f"{n:,} {split}" for split, n in sizes.items())
    data = f"{experiment.name}: {data} examples" if data else experiment.name
    if is_resampled(experiment):
        data += ", another training sample for each seed"
    training = [f"{first['steps']:,} updates"] if "steps" in first else []
    training += [
        f"learning rate {experiment.optimizer.learning_rate:g}",
        f"batches of {experiment.training.batch_size}",
        experiment.training.precision,
    ]
    texts = {
        "Data": data,
        "Task": type(experiment.task).__name__,
        "Encoder": encoder_name(experiment.encoder, first.get("parameters")),
        "Training": ", ".join(training),
        "Seeds": f"{len(seeds)} ({seeds[0]} to {seeds[-1]})" if seeds[1:] else "1",
    }
    if "device_kind" in first:
        texts["Hardware"] = f"{first['devices']} x {first['device_kind']}"
    return tuple(texts.items())


def losses(facts: Facts) -> tuple[tuple[str, str], ...]:
    """Return a description of each loss by its name."""
    objectives = {m.loss: m.experiment.objective for m in facts.trained}
    texts = []
    for row in facts.rows:
        if row.loss in objectives:
            text = (type(objectives[row.loss]).__doc__ or "").partition("\n")[0]
        else:
            text = CONTROLS.get(row.loss.rpartition(" + ")[2], "")
        text = f"{text.rstrip('.')} (control)" if row.is_control else text
        texts.append((row.loss, text))
    return tuple(texts)


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
    table = TextTable(
        f"Chosen settings and their {metric} (%)",
        ("loss", "chosen", metric, f"{metric} as given", "diverged"),
        tuple((loss, *_tuned_cells(one)) for loss, one in tuning["losses"].items()),
    )
    return Section("tuning", "Tuning", text=(text,), tables=(table,), folded=True)


def _tuned_cells(one: Mapping[str, Any]) -> list[str]:
    best, first = one["trials"][one["chosen"]], one["trials"][0]
    values = [
        f"{path.partition('.')[2]} {value:g}" for path, value in best["values"].items()
    ]
    chosen = ", ".join(values) + (" (as given)" if best is first else "")
    devs = [trial["dev"] for trial in (best, first)]
    shown = ["diverged" if dev is None else f"{100 * dev:.2f}" for dev in devs]
    return [chosen, *shown, str(sum(t["dev"] is None for t in one["trials"]))]


def versus_paper(facts: Facts) -> Section:
    """Compare published scores of the data set with ours for the same loss.

    Empty if none are published; the experiment's name identifies the data set.
    """
    dataset, primary_metric = facts.trained[0].experiment.name, facts.metric
    printed = [
        row
        for row in paper.rows(dataset=dataset)
        if row.loss is not None and row[primary_metric] is not None
    ]
    metric = heading(primary_metric)
    sources = dict.fromkeys(row.source for row in printed)
    notes = (
        (f"{one.citation}, table {one.table}", one.notes, one.read_from)
        for one in sources
    )
    text = (
        f"Published scores for {dataset}, by the name of the experiment, and "
        "ours of the same loss. The two are not the same experiment: ours has "
        "another encoder, and may use a part of the data, another budget, "
        "other hyper-parameters; the published scores have no spread over "
        "seeds. What can be compared is the gain over cross-entropy."
    )
    table = TextTable(
        f"{metric} (%); gains are over cross-entropy",
        (
            "published row",
            f"published {metric}",
            "published gain",
            f"our {metric} ± SD",
            "our gain",
        ),
        tuple(line for row in printed for line in _published(row, facts)),
    )
    return Section(
        "paper",
        "Ours vs. published scores",
        text=(text,) if printed else (),
        bullets=tuple(f"{'; '.join(filter(None, parts))}." for parts in notes),
        tables=(table,) if printed else (),
        folded=True,
    )


def _published(printed: paper.PaperRow, facts: Facts) -> list[tuple[str, ...]]:
    """Return a line for each of ours with the published loss, or one if none has it."""
    alpha = "" if printed.alpha is None else f" alpha={printed.alpha}"
    where = f"table {printed.table}"
    if printed.variant:
        where += f", {printed.variant}"
    names = " ".join(part for part in (printed.loss + alpha, printed.model) if part)
    score = next(s for s in printed.scores if s.metric == facts.metric)
    gain = "-" if score.gain is None else signed(score.gain)
    theirs = (f"{names} ({where})", f"{score.percent:.2f}", gain)
    lines = []
    for row, one in zip(facts.rows, facts.losses, strict=True):
        if one.experiment is None or not is_of(printed, one.experiment.objective):
            continue
        has_gain = row.against is not None and row.against.mean is not None
        our_gain = signed(100 * row.against.mean) if has_gain else "-"
        scores = mean_and_spread(row.scores(facts.metric))
        lines.append((*theirs, f"{row.loss}: {scores}", our_gain))
    return lines or [(*theirs, "not compared", "-")]


def is_of(printed: paper.PaperRow, objective: Objective) -> bool:
    """Return whether an objective is the loss of a published row.

    >>> from dicejax.objectives import DL, Dice, DSCOfficial
    >>> is_of(paper.best("conll03"), DSCOfficial(alpha=0.1))
    True
    >>> (row,) = paper.rows(dataset="conll03", loss="dl")
    >>> is_of(row, DL()), is_of(row, Dice())
    (True, False)
    """
    if isinstance(objective, CrossEntropy):
        kind = "lsr" if objective.label_smoothing else "ce"
        return printed.loss == kind
    if printed.loss is None or printed.loss == "lsr":
        return False
    if printed.alpha not in (None, getattr(objective, "alpha", None)):
        return False
    names = paper.DSC if printed.loss == "dsc" else (printed.loss,)
    return any(is_loss(name, objective) for name in names)


def gradients(rows: Sequence[Row]) -> Section:
    """Draw the gradients of the first run of each loss that recorded them.

    Raises:
      InputError: a run's record is damaged.
    """
    pictures = []
    for row in rows:
        recorded = (
            one
            for one in row.outcomes
            if one.result is not None
            and "control" not in one.result  # the run is that of the baseline
            and files.was_written(epath.Path(one.folder), GRADIENTS)
        )
        first = next(recorded, None)
        if first is None:
            continue
        for name, figure in plot.figures_of_run(first.folder).items():
            title = f"{row.loss}, seed {first.seed}: {name}"
            caption = plot.CAPTIONS[name.rpartition("-")[2]]
            panel = Panel(title, "", figure, caption)
            pictures.append(Picture(title, caption, key=(), panels=(panel,)))
    return Section("gradients", "Gradients", pictures=tuple(pictures), folded=True)


def reproduce(rerun: Rerun) -> Section:
    """Return the section with the provenance of the runs."""
    text = (
        f"{RERUN}, in the folder of this page, is the experiment with every "
        "setting and every loss. Paths of data and encoder in it are those of "
        "the runs; where they were relative, run the command in the same folder."
    )
    table = TextTable(
        "Hardware, versions and data of the runs",
        ("what", "value"),
        tuple(rerun.facts.items()),
    )
    return Section(
        "reproduce",
        "Reproduce",
        text=(text, *(f"{one}." for one in rerun.differences)),
        tables=(table,),
        code=(
            ("Command", rerun.command),
            ("Folders of the runs", "\n".join(map(visible, rerun.folders))),
        ),
        folded=True,
    )


def experiment_file(experiment: Experiment) -> str:
    """Return an experiment, from any source, as the text of an experiment file.

    >>> from dicejax.data.sources import SyntheticNER
    >>> text = experiment_file(Experiment(name="mine", data=SyntheticNER()))
    >>> exec(text, found := {})
    >>> found["get_config"]().name
    'mine'
    """
    lines = config.to_json(experiment).splitlines()
    literal = "\n".join(f"    {json.dumps(line)}" for line in lines)
    return (
        '"""All compared settings, resolved."""\n\n'
        "from dicejax import config\n\n"
        f"RESOLVED = (\n{literal}\n)\n\n\n"
        "def get_config() -> config.Experiment:\n"
        "    return config.from_json(RESOLVED)\n"
    )
