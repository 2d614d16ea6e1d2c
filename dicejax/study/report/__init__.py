"""The report of a comparison: one HTML page, the same as Markdown, the same as JSON.

report.html       one file with its figures, which opens from disk
report.md         the same in text, with tables in the place of figures
comparison.json   the same for programs
rerun.py          the experiment that trains all of it again; not of scores from a file

The same runs give the same bytes: there are no dates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from etils import epath

from dicejax import config
from dicejax.io import files
from dicejax.metrics import score_counts
from dicejax.study.compare.statistics import Row, results_of
from dicejax.study.compare.testing import MARGIN
from dicejax.study.report.changed import changed_answers
from dicejax.study.report.code import experiment_file
from dicejax.study.report.document import markdown, page
from dicejax.study.report.facts import RERUN, Facts, facts_of
from dicejax.study.report.pictures import THRESHOLD
from dicejax.study.report.sections import document_of
from dicejax.training.identity import test_checksum

__all__ = ["contents_of", "write"]

PAGE = "report.html"


def write(
    rows: Sequence[Row],
    folder: str,
    *,
    margin: float = MARGIN,
    read_examples: Callable[[], Sequence[Any] | None] = lambda: None,
    texts: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Write the report of a comparison, and return the path of its page.

    All files appear or none. Arguments are those of `contents_of`.

    Raises:
      InputError: a run cannot be read, or the folder cannot be written to.
    """
    contents = contents_of(
        rows, folder, margin=margin, read_examples=read_examples, texts=texts
    )
    files.write_together(epath.Path(folder), contents)
    return str(epath.Path(folder) / PAGE)


def contents_of(
    rows: Sequence[Row],
    folder: str,
    *,
    margin: float = MARGIN,
    name: str = "",
    command: str = "",
    read_examples: Callable[[], Sequence[Any] | None] = lambda: None,
    texts: Mapping[str, str] = MappingProxyType({}),
    drawn: bool = True,
) -> dict[str, str]:
    """Return the files of the report of a comparison by name, in their order.

    The last is `comparison.json`, which is completed: that of the other `texts` to
    write, or else that in the folder. Examples whose answers change are read. Scores
    from elsewhere have a name and the command that reads them. Figures need most of the
    time; where they are not drawn, a table is in their place.

    Raises:
      InputError: a run cannot be read.
    """
    path = epath.Path(folder)
    file = path / "comparison.json"
    written = files.read_bytes(file) if file.exists() else "{}"
    content = json.loads(texts.get(file.name) or written)
    checksum = test_checksum(results_of(rows)[0])
    earlier = content.pop("changed", {})
    before = earlier.get("checksum", earlier.get("test_data"))
    quoted = earlier.get("texts") if before == checksum else None
    quoted = {
        number: pair
        for number, pair in (quoted if isinstance(quoted, dict) else {}).items()
        if isinstance(pair, list) and [type(text) for text in pair] == [str, str]
    }
    losses = {row.loss: row.to_json() for row in rows}
    runs = [run for loss in losses.values() for run in loss["runs"]]
    # Relative to the report, so that both can be moved.
    places = {name: epath.Path(name) for name in {run["folder"] for run in runs}}
    inside = {
        k: x.relative_to(path) for k, x in places.items() if x.is_relative_to(path)
    }
    for run in runs:
        run["folder"] = str(inside.get(run["folder"], run["folder"]))
    facts = facts_of(
        rows,
        margin=margin,
        name=name,
        command=command,
        tuning=content.get("tuning"),
        changed=changed_answers(rows, read_examples, quoted, margin),
        folders=list(dict.fromkeys(run["folder"] for run in runs)),
    )
    document = document_of(facts, drawn=drawn)
    content |= {
        "baseline": facts.baseline,
        "primary_metric": facts.metric,
        "losses": losses,
        "verdict": document.verdict,
        "warnings": document.warnings,
        "curves": curves(facts),
        "rerun": {
            "command": facts.command,
            **facts.provenance,
            "differences": facts.differences,
        },
        "sections": {s.title: s.text for s in document.sections},
    }
    if facts.changed and facts.changed.texts:
        content["changed"] = {"checksum": checksum, "texts": facts.changed.texts}
    contents = {name: text for name, text in texts.items() if name != file.name}
    if facts.experiment is not None:
        resolved = json.loads(config.to_json(facts.experiment))
        content["rerun"]["experiment"] = resolved
        about = "All compared losses, with every setting.\n\n"
        about += f"command:  {facts.command}\n"
        contents[RERUN] = experiment_file(facts.experiment, about)
    contents |= {
        "report.md": markdown(document),
        PAGE: page(document),
        file.name: json.dumps(content, indent=2) + "\n",
    }
    return contents


def curves(facts: Facts) -> dict[str, Any]:
    """Return the drawn curves of each loss, at every eighth threshold."""
    content: dict[str, Any] = {}
    for loss, measured in facts.losses.items():
        bands = {"dev": measured.dev, "training_loss": measured.training}
        content[loss] = {
            name: {
                "step": band.steps.tolist(),
                "mean": band.mean.tolist(),
                "mean_minus_sd": (band.mean - band.sd).tolist(),
                "mean_plus_sd": (band.mean + band.sd).tolist(),
                "seeds": list(band.seeds),
            }
            for name, band in bands.items()
        }
        content[loss]["scores"] = {
            output: {
                "average_precision": pooled.curve.average_precision,
                "f1_at_default": pooled.curve.f1_at(THRESHOLD),
                "calibration_error": score_counts.calibration_error(pooled.counts),
                "threshold": pooled.curve.thresholds[::8].tolist(),
                "precision": pooled.curve.precision[::8].tolist(),
                "recall": pooled.curve.recall[::8].tolist(),
                "reliability": [
                    (x.confidence, x.accuracy, x.count) for x in pooled.bins
                ],
            }
            for output, pooled in measured.probabilities.items()
        }
        content[loss]["classes"] = {
            name: {"support": int(runs[0]["support"]), "f1": f1}
            for name, runs in facts.classes[loss].items()
            if (f1 := [scores["f1"] for scores in runs if "f1" in scores])
        }
    return content
