"""The report of a comparison: one HTML page, the same as Markdown, the same as JSON.

report.html       one file with its figures, which opens from disk
report.md         the same in text, with tables in the place of figures
comparison.json   the same for programs
rerun.py          the experiment that trains all of it again

The same runs give the same bytes: there are no dates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from dicejax import config
from dicejax.io import files
from dicejax.metrics import score_counts
from dicejax.study.compare.statistics import MARGIN, Row
from dicejax.study.compare.table import baseline_name
from dicejax.study.compare.verdict import headline, warnings_of
from dicejax.study.report import (
    context,
    pictures,
    probabilities,
    scores,
    sections,
)
from dicejax.study.report.document import Document, Section, markdown, page
from dicejax.study.report.forest import forest
from dicejax.study.report.material import Material, Series, gathered
from dicejax.study.report.pictures import mean_and_band

__all__ = ["write"]


def write(
    rows: Sequence[Row],
    folder: str,
    *,
    margin: float = MARGIN,
    examples: Sequence[Any] | None = None,
) -> str:
    """Write the report of a comparison, and complete its `comparison.json`.

    Args:
      rows: as `rows_of` orders them.
      folder: output directory.
      margin: differences within it do not matter in practice.
      examples: of the test set, to show those whose answers change.

    Returns:
      Path of the page.

    Raises:
      InputError: a run cannot be read, or the folder cannot be written to.
    """
    path = epath.Path(folder)
    materials = gathered(rows)
    runs = [one for row in rows for one in row.outcomes]
    folders = dict.fromkeys(shown(one.folder, path) for one in runs)
    rerun = sections.rerun_of(rows, materials, tuple(folders))
    file = path / "comparison.json"
    known = json.loads(files.read_bytes(file)) if file.exists() else {}
    earlier = known.pop("changed", {})
    test_data = _first_result(rows).get("test_data")
    document = _document(
        rows,
        materials,
        rerun,
        known.get("tuning"),
        margin=margin,
        examples=examples,
        kept=_texts(earlier) if earlier.get("test_data") == test_data else {},
    )
    content = _content(known, rows, materials, document, rerun)
    if shown_texts := _texts_shown(document):
        content["changed"] = {"test_data": test_data, "texts": shown_texts}
    for run in (run for one in content["losses"].values() for run in one["runs"]):
        run["folder"] = shown(run["folder"], path)
    texts = {
        sections.RERUN: sections.experiment_file(rerun.experiment),
        "comparison.json": json.dumps(content, indent=2) + "\n",
        "report.md": markdown(document),
        "report.html": page(document),
    }
    for name, text in texts.items():
        files.write_whole(path, name, text)
    return str(path / "report.html")


def shown(folder: str, report: epath.Path) -> str:
    """Return a run's folder relative to the report's, so that both can be moved.

    >>> shown("runs/mine/ce/seed-0", epath.Path("runs/mine"))
    'ce/seed-0'
    """
    path = epath.Path(folder)
    return str(path.relative_to(report)) if path.is_relative_to(report) else str(path)


def _metric(rows: Sequence[Row]) -> str:
    return _first_result(rows)["primary_metric"]


def _first_result(rows: Sequence[Row]) -> Mapping[str, Any]:
    results = (one.result for row in rows for one in row.outcomes)
    return next(one for one in results if one)


def _texts(earlier: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return texts and gold answers by number, as `_texts_shown` has written them."""
    texts = earlier.get("texts")
    return {
        number: pair
        for number, pair in (texts if isinstance(texts, dict) else {}).items()
        if isinstance(pair, list) and [type(one) for one in pair] == [str, str]
    }


def _texts_shown(document: Document) -> dict[str, tuple[str, ...]]:
    tables = [
        t for one in document.sections if one.key == "changed" for t in one.tables
    ]
    return {row[0]: row[3:] for table in tables for row in table.rows if row[3:]}


def _document(
    rows: Sequence[Row],
    materials: Sequence[Material],
    rerun: sections.Rerun,
    tuning: Mapping[str, Any] | None,
    *,
    margin: float,
    examples: Sequence[Any] | None,
    kept: Mapping[str, Sequence[str]],
) -> Document:
    metric, baseline = _metric(rows), baseline_name(rows[0].loss)
    own = [m for m in materials if m.experiment is not None]
    parts = [
        scores.table_of(rows, metric),
        Section(
            key="classes",
            title="Classes",
            tables=tuple(scores.classes(rows)),
        ),
        *scores.changed(rows, examples, kept),
        Section(key="time", title="Training time", tables=tuple(scores.time(rows))),
        Section(
            key="frequency",
            title="Rare and frequent classes",
            pictures=tuple(pictures.by_class(materials)),
            folded=True,
        ),
        Section(
            key="runs",
            title="Every run",
            pictures=(pictures.strip(rows, metric),),
            folded=True,
        ),
        Section(
            key="learning",
            title="Learning curves",
            pictures=tuple(pictures.learning(own, metric)),
            folded=True,
        ),
        Section(
            key="thresholds",
            title="Precision, recall and thresholds",
            pictures=tuple(probabilities.thresholds(own)),
            folded=True,
        ),
        Section(
            key="calibration",
            title="Calibration",
            pictures=tuple(probabilities.calibration(own)),
            folded=True,
        ),
        sections.gradients(rows),
        sections.tuned(tuning),
        scores.reading(baseline),
        rerun.section,
    ]
    return Document(
        title=f"{rerun.experiment.name}: loss comparison",
        context=context.of(rows, rerun.experiment),
        losses=context.losses(rows, materials),
        verdict=headline(rows, margin),
        forest=forest(rows, metric, margin),
        warnings=tuple(warnings_of(rows)),
        claims=tuple(scores.claims_of(rows)),
        sections=tuple(one for one in parts if not one.is_empty),
    )


def _content(
    known: Mapping[str, Any],
    rows: Sequence[Row],
    materials: Sequence[Material],
    document: Document,
    rerun: sections.Rerun,
) -> dict[str, Any]:
    """Return the content of comparison.json."""
    return {
        **known,
        "baseline": rows[0].loss,
        "primary_metric": _metric(rows),
        "losses": {row.loss: row.to_json() for row in rows},
        "verdict": document.verdict,
        "warnings": list(document.warnings),
        "curves": {m.loss: _curves(m) for m in materials if m.experiment},
        "rerun": {
            "experiment": json.loads(config.to_json(rerun.experiment)),
            "command": rerun.command,
            **dict(rerun.facts),
            "differences": list(rerun.differences),
        },
        "sections": {one.title: [*one.text, *one.bullets] for one in document.sections},
    }


def _curves(material: Material) -> dict[str, Any]:
    return {
        "dev": _by_step(material.dev),
        "training_loss": _by_step(material.training),
        "scores": {
            output: _scores(np.sum(list(by_seed.values()), axis=0))
            for output, by_seed in material.counts.items()
        },
        "classes": {
            name: {"support": support, "f1": list(f1)}
            for name, (support, f1) in material.classes.items()
        },
    }


def _by_step(by_seed: Mapping[int, Series]) -> dict[str, Any]:
    steps, mean, sd = mean_and_band(by_seed)
    return {
        "step": steps.tolist(),
        "mean": mean.tolist(),
        "mean_minus_sd": (mean - sd).tolist(),
        "mean_plus_sd": (mean + sd).tolist(),
        "seeds": list(by_seed),
    }


def _scores(counts: np.ndarray) -> dict[str, Any]:
    """Return pooled curves at every eighth threshold, half a unit of log-odds."""
    found = score_counts.curve(counts)
    diagram = score_counts.reliability(counts)
    kept = slice(None, None, 8)
    return {
        "average_precision": found.average_precision,
        "f1_at_default": found.f1_at(probabilities.THRESHOLD),
        "calibration_error": score_counts.calibration_error(counts),
        "threshold": found.thresholds[kept].tolist(),
        "precision": found.precision[kept].tolist(),
        "recall": found.recall[kept].tolist(),
        "reliability": [
            (one.confidence, one.accuracy, one.count)
            for one in diagram.bins
            if one.count
        ],
    }
