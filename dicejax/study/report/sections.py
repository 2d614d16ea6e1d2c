"""Report sections: tuning, gradients, how to reproduce."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from dicejax import config
from dicejax.config import Experiment
from dicejax.errors import visible
from dicejax.io import files
from dicejax.metrics.scores import heading
from dicejax.study.compare.jobs import is_resampled, like_seed_of
from dicejax.study.compare.statistics import Row
from dicejax.study.gradients import plot
from dicejax.study.report.document import Panel, Picture, Section, TextTable
from dicejax.study.report.material import Material
from dicejax.training.gradients.collector import FILE as GRADIENTS

RERUN = "rerun.py"


def tuned(tuning: Mapping[str, Any] | None) -> Section:
    """Return the section of chosen settings in `tuning.json`; empty without tuning."""
    if tuning is None:
        return Section(key="tuning", title="Tuning")
    metric = f"dev {heading(tuning['primary_metric'])}"
    return Section(
        key="tuning",
        title="Tuning",
        folded=True,
        text=(
            f"Before the comparison each loss or seed below had {tuning['trials']} "
            "trials of learning rate and hyper-parameters, with a seed that no run "
            "here has, and the best on dev was chosen. The test set was not used. "
            "Gains on dev are of one seed, chosen as the best of many, and no result.",
        ),
        tables=(
            TextTable(
                caption=f"Chosen settings and their {metric} (%)",
                columns=("loss", "chosen", metric, f"{metric} as given", "diverged"),
                rows=tuple(
                    (loss, *_tuned_cells(one)) for loss, one in tuning["losses"].items()
                ),
            ),
        ),
    )


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
            panel = Panel(name=title, note="", figure=figure, axes=caption)
            pictures.append(
                Picture(title=title, caption=caption, panels=(panel,), data=None)
            )
    return Section(
        key="gradients", title="Gradients", pictures=tuple(pictures), folded=True
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rerun:
    """Provenance of the runs.

    Attributes:
      experiment: experiment with all losses and the first seed.
      command: command that trains all runs again.
      facts: names and values: seeds, hardware, versions, the test set.
      differences: settings that differ between losses.
      folders: folders of all runs.
    """

    experiment: Experiment
    command: str
    facts: tuple[tuple[str, str], ...]
    differences: tuple[str, ...]
    folders: tuple[str, ...]

    @property
    def section(self) -> Section:
        """Section with the provenance."""
        return Section(
            key="reproduce",
            title="Reproduce",
            folded=True,
            text=(
                f"{RERUN}, in the folder of this page, is the experiment with every "
                "setting and every loss. Paths of data and encoder in it are those of "
                "the runs; where they were relative, run the command in the same "
                "folder.",
                *(f"{one}." for one in self.differences),
            ),
            tables=(
                TextTable(
                    caption="Hardware, versions and data of the runs",
                    columns=("what", "value"),
                    rows=self.facts,
                ),
            ),
            code=(
                ("Command", self.command),
                ("Folders of the runs", "\n".join(map(visible, self.folders))),
            ),
        )


def rerun_of(
    rows: Sequence[Row], materials: Sequence[Material], folders: Sequence[str]
) -> Rerun:
    """Return the settings that all runs share, and those that differ."""
    own = [m for m in materials if m.experiment is not None]
    first = own[0].experiment
    seeds = sorted({one.seed for row in rows for one in row.outcomes})
    results = [one.result for row in rows for one in row.outcomes if one.result]
    experiment = dataclasses.replace(
        first,
        compared=tuple(m.experiment.objective for m in own),
        training=dataclasses.replace(first.training, seed=seeds[0]),
    )
    facts = {
        "data set": experiment.name,
        "seeds": ", ".join(map(str, seeds)),
        "checksum of the encoded test set": _distinct(results, "test_data"),
        "devices": _distinct(results, "devices"),
        "hardware": _distinct(results, "device_kind"),
        **_versions(results),
    }
    changes = {m.loss: _changes(experiment, m.experiment) for m in own}
    return Rerun(
        experiment=experiment,
        command=f"dicejax compare {RERUN} --seeds {seeds[-1] - seeds[0] + 1} "
        f"{'--resample ' * is_resampled(first)}--out FOLDER",
        facts=tuple(facts.items()),
        differences=tuple(
            f"{loss} has settings of its own: {'; '.join(found)}"
            for loss, found in changes.items()
            if found
        ),
        folders=tuple(folders),
    )


def _distinct(results: Sequence[dict], name: str) -> str:
    found = dict.fromkeys(str(one[name]) for one in results if name in one)
    return ", ".join(found) or "not recorded by these runs"


def _versions(results: Sequence[dict]) -> dict[str, str]:
    known = [one["versions"] for one in results if "versions" in one]
    if not known:
        return {"versions": "not recorded by these runs"}
    names = dict.fromkeys(name for one in known for name in one)
    return {f"version of {name}": _distinct(known, name) for name in names}


def _changes(experiment: Experiment, ours: Experiment) -> list[str]:
    """Return the settings that differ, except loss and seed."""
    alike = dataclasses.replace(
        like_seed_of(ours, experiment),
        objective=experiment.objective,
        compared=experiment.compared,
    )
    return config.differences(experiment, alike)


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
