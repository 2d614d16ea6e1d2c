"""What it takes to run a comparison again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from dicejax import config
from dicejax.comparison.report.document import Section, Table
from dicejax.comparison.report.material import Material
from dicejax.comparison.statistics import Row
from dicejax.config import Experiment

FILE = "rerun.py"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rerun:
    """How the runs were made.

    Attributes:
      experiment: with all losses and the first seed.
      command: that trains all again.
      facts: names and values: seeds, devices, versions, the test set.
      special: what one loss has of its own, beside the loss.
      folders: of all runs, as far as there are any.
    """

    experiment: Experiment
    command: str
    facts: tuple[tuple[str, str], ...]
    special: tuple[str, ...]
    folders: tuple[str, ...]


def rerun_of(
    rows: Sequence[Row], materials: Sequence[Material], folders: Sequence[str]
) -> Rerun:
    """Find out what all runs have in common, and what not.

    Args:
      rows: of all losses.
      materials: what is known of their runs.
      folders: of all runs, as they are to be shown.
    """
    own = [m for m in materials if m.experiment is not None]
    first = own[0].experiment
    seeds = sorted({one.seed for row in rows for one in row.outcomes})
    results = [one.result for row in rows for one in row.outcomes if one.result]
    experiment = dataclasses.replace(
        first,
        compared=tuple(m.experiment.objective for m in own),
        training=dataclasses.replace(first.training, seed=seeds[0]),
    )
    number = seeds[-1] - seeds[0] + 1
    facts = {
        "data set": experiment.name,
        "seeds": ", ".join(map(str, seeds)),
        "checksum of the encoded test set": _distinct(results, "test_data"),
        "devices": _distinct(results, "devices"),
        "kind of device": _distinct(results, "device_kind"),
        **_versions(results),
    }
    return Rerun(
        experiment=experiment,
        command=f"dicejax compare {FILE} --seeds {number} --out FOLDER",
        facts=tuple(facts.items()),
        special=tuple(_special(experiment, m) for m in own if _changes(experiment, m)),
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


def _changes(experiment: Experiment, material: Material) -> list[str]:
    ours = dataclasses.replace(
        material.experiment,
        objective=experiment.objective,
        compared=experiment.compared,
        training=dataclasses.replace(
            material.experiment.training, seed=experiment.training.seed
        ),
    )
    return config.differences(experiment, ours)


def _special(experiment: Experiment, material: Material) -> str:
    changes = "; ".join(_changes(experiment, material))
    return f"{material.loss} has settings of its own: {changes}"


def experiment_file(experiment: Experiment) -> str:
    """Write an experiment as an experiment file, whatever made it first.

    >>> from dicejax.data.sources import SyntheticNER
    >>> text = experiment_file(Experiment(name="mine", data=SyntheticNER()))
    >>> exec(text, found := {})
    >>> found["get_config"]().name
    'mine'
    """
    lines = config.to_json(experiment).splitlines()
    literal = "\n".join(f"    {json.dumps(line)}" for line in lines)
    return (
        '"""Everything that was compared, as it was resolved."""\n\n'
        "from dicejax import config\n\n"
        f"RESOLVED = (\n{literal}\n)\n\n\n"
        "def get_config() -> config.Experiment:\n"
        "    return config.from_json(RESOLVED)\n"
    )


def section(rerun: Rerun) -> Section:
    """Show how to run the comparison again."""
    return Section(
        key="rerun",
        title="To run it again",
        text=(
            f"{FILE}, beside this page, is the experiment with every setting and "
            "every loss. Paths of data and encoder in it are those of the runs; where "
            "they were relative, the command is to be given in the same place.",
            *(f"{one}." for one in rerun.special),
        ),
        tables=(
            Table(
                caption="What the runs were made with",
                columns=("what", "value"),
                rows=rerun.facts,
            ),
        ),
        code=(
            ("Command", rerun.command),
            ("Folders of the runs", "\n".join(rerun.folders)),
            ("Experiment", config.to_json(rerun.experiment)),
        ),
    )
