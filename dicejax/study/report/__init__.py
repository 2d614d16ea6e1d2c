"""The report of a comparison: one HTML page, the same as Markdown, the same as JSON.

report.html       one file with its figures, which opens from disk
report.md         the same in text, with tables in the place of figures
comparison.json   the same for programs
rerun.py          the experiment that trains all of it again

The same runs give the same bytes: there are no dates.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from etils import epath

from dicejax.io import files
from dicejax.study.compare.statistics import MARGIN, Row, results_of
from dicejax.study.compare.table import baseline_name
from dicejax.study.compare.verdict import headline, warnings_of
from dicejax.study.report import pictures, scores, sections
from dicejax.study.report.document import Document, Picture, Section, markdown, page
from dicejax.study.report.facts import RERUN, Facts, changed, facts_by_loss, rerun_of
from dicejax.study.report.forest import forest, strip

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
    file = path / "comparison.json"
    content = json.loads(files.read_bytes(file)) if file.exists() else {}
    earlier = content.pop("changed", {})
    test_data = results_of(rows)[0].get("test_data")
    is_same = earlier.get("test_data") == test_data
    losses = facts_by_loss(rows)
    folders = [shown(one.folder, path) for row in rows for one in row.outcomes]
    facts = Facts(
        rows=rows,
        losses=losses,
        margin=margin,
        changed=changed(rows, examples, _texts(earlier) if is_same else {}),
        rerun=rerun_of(rows, losses, dict.fromkeys(folders)),
        tuning=content.get("tuning"),
    )
    document = _document(facts)
    content |= _content(facts, document)
    if facts.changed and facts.changed.texts:
        content["changed"] = {"test_data": test_data, "texts": facts.changed.texts}
    for run in (run for one in content["losses"].values() for run in one["runs"]):
        run["folder"] = shown(run["folder"], path)
    texts = {
        RERUN: sections.experiment_file(facts.rerun.experiment),
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


def _texts(earlier: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return texts and gold answers by number, as an earlier report wrote them."""
    texts = earlier.get("texts")
    return {
        number: pair
        for number, pair in (texts if isinstance(texts, dict) else {}).items()
        if isinstance(pair, list) and [type(one) for one in pair] == [str, str]
    }


def _document(facts: Facts) -> Document:
    rows, metric = facts.rows, facts.metric
    parts = [
        scores.table_of(rows, metric),
        scores.classes(rows, facts.losses),
        scores.changed(facts.changed),
        scores.time(rows),
        _drawn(
            "frequency", "Rare and frequent classes", pictures.by_class(facts.losses)
        ),
        _drawn("runs", "Every run", [strip(rows, metric)]),
        _drawn("learning", "Learning curves", pictures.learning(facts.trained, metric)),
        _drawn(
            "thresholds",
            "Precision, recall and thresholds",
            pictures.thresholds(facts.trained),
        ),
        _drawn("calibration", "Calibration", pictures.calibration(facts.trained)),
        sections.gradients(rows),
        sections.tuned(facts.tuning),
        scores.reading(baseline_name(rows[0].loss)),
        sections.reproduce(facts.rerun),
    ]
    return Document(
        title=f"{facts.rerun.experiment.name}: loss comparison",
        context=sections.context(facts),
        losses=sections.losses(facts),
        verdict=headline(rows, facts.margin),
        forest=forest(rows, metric, facts.margin),
        warnings=tuple(warnings_of(rows)),
        claims=tuple((row.loss, row.against.verdict) for row in rows if row.against),
        sections=tuple(one for one in parts if not one.is_empty),
    )


def _drawn(key: str, title: str, drawn: Iterable[Picture]) -> Section:
    return Section(key, title, pictures=tuple(drawn), folded=True)


def _content(facts: Facts, document: Document) -> dict[str, Any]:
    """Return the fields that a report adds to comparison.json."""
    return {
        "baseline": facts.rows[0].loss,
        "primary_metric": facts.metric,
        "losses": {row.loss: row.to_json() for row in facts.rows},
        "verdict": document.verdict,
        "warnings": list(document.warnings),
        "curves": {m.loss: m.to_json() for m in facts.trained},
        "rerun": facts.rerun.to_json(),
        "sections": {one.title: [*one.text, *one.bullets] for one in document.sections},
    }
