"""Context of a comparison, tuning, gradients, how to reproduce."""

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
from dicejax.study.compare.jobs import is_resampled
from dicejax.study.compare.statistics import Row, results_of
from dicejax.study.gradients import plot
from dicejax.study.report.document import Panel, Picture, Section, TextTable
from dicejax.study.report.facts import RERUN, Facts, Rerun
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
