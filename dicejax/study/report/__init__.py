"""The report of a comparison: one HTML page, the same as Markdown, the same as JSON.

report.html       one file with its figures, which opens from disk
report.md         the same in text, with tables in the place of figures
comparison.json   the same for programs
rerun.py          the experiment that trains all of it again; not of scores from a file

The same runs give the same bytes: there are no dates.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from etils import epath

from dicejax import config
from dicejax.io import files
from dicejax.metrics import score_counts
from dicejax.study.compare.record import Comparison
from dicejax.study.compare.results import texts_of
from dicejax.study.report.code import experiment_file
from dicejax.study.report.document import markdown, page
from dicejax.study.report.measured import (
    CURVES,
    band_of,
    bins_of,
    classes_of,
    counts_of,
    measured,
    pooled,
)
from dicejax.study.report.pictures import THRESHOLD
from dicejax.study.report.reproduce import FILE as RERUN
from dicejax.study.report.reproduce import experiment_of, rerun_of
from dicejax.study.report.sections import document_of

__all__ = ["contents_of", "write"]

PAGE = "report.html"


def write(comparison: Comparison) -> Comparison:
    """Write the report of a comparison to its folder, and return it with its page.

    All files appear or none.

    Raises:
      InputError: the folder cannot be written to.
    """
    folder = epath.Path(comparison.folder)
    files.write_together(folder, contents_of(comparison))
    return dataclasses.replace(comparison, report=str(folder / PAGE))


def contents_of(comparison: Comparison, *, drawn: bool = True) -> dict[str, str]:
    """Return the files of the report of a comparison by name, in their order.

    The last is the record, with what the page shows for those who read JSON. Figures
    need most of the time; where they are not drawn, a table is in their place.
    """
    comparison = comparison.placed()
    experiment, differences = experiment_of(comparison)
    made: dict[str, Any] = rerun_of(comparison, experiment)
    rerun = {**made, "differences": differences}
    document = document_of(comparison, experiment, rerun, drawn=drawn)
    contents: dict[str, str] = {}
    if experiment is not None:
        rerun["experiment"] = json.loads(config.to_json(experiment))
        about = "All compared losses, with every setting.\n\n"
        about += f"command:  {rerun['command']}\n"
        contents[RERUN] = experiment_file(experiment, about)
    contents |= {"report.md": markdown(document), PAGE: page(document)}
    sections = {s.title: s.text for s in document["sections"]}
    more = {"curves": curves(comparison), "rerun": rerun, "sections": sections}
    return contents | texts_of(comparison, more)


def curves(comparison: Comparison) -> dict[str, Any]:
    """Return the drawn curves of each loss, at every eighth threshold."""
    content: dict[str, Any] = {}
    for row in measured(comparison.rows):
        content[row.loss] = {}
        for name in CURVES:
            steps, mean, sd = band_of(getattr(run, name) for run in row.finished).T
            content[row.loss][name] = {
                "step": steps.astype(int).tolist(),
                "mean": mean.tolist(),
                "mean_minus_sd": (mean - sd).tolist(),
                "mean_plus_sd": (mean + sd).tolist(),
                "seeds": [run.seed for run in row.finished],
            }
        scores = content[row.loss]["scores"] = {}
        for output, by_seed in counts_of(row).items():
            counts = pooled(by_seed)
            curve = score_counts.curve(counts)
            scores[output] = {
                "average_precision": curve.average_precision,
                "f1_at_default": curve.f1_at(THRESHOLD),
                "calibration_error": score_counts.calibration_error(counts),
                "threshold": curve.thresholds[::8].tolist(),
                "precision": curve.precision[::8].tolist(),
                "recall": curve.recall[::8].tolist(),
                "reliability": [
                    (x.confidence, x.accuracy, x.count) for x in bins_of(counts)
                ],
            }
        content[row.loss]["classes"] = {
            name: {"support": count, "f1": f1}
            for name, count in classes_of(comparison.rows).items()
            if (f1 := row.class_scores(name, "f1"))
        }
    return content
