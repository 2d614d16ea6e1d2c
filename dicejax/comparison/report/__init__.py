"""The report of a comparison: one HTML page, the same as Markdown, the same as JSON.

report.html       one file with its pictures, which opens from disk
report.md         the same in text, with tables in the place of pictures
comparison.json   the same for programs
rerun.py          the experiment that trains all of it again

The same runs give the same bytes: there are no dates and no times in them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from etils import epath

from dicejax.comparison.report import figures, numbers, scores
from dicejax.comparison.report.beside_paper import beside_paper
from dicejax.comparison.report.document import Document, Drawing, Section
from dicejax.comparison.report.gradients import drawings_of
from dicejax.comparison.report.markdown import markdown
from dicejax.comparison.report.material import Material, gathered
from dicejax.comparison.report.page import page
from dicejax.comparison.report.rerun import FILE as RERUN
from dicejax.comparison.report.rerun import Rerun, experiment_file, rerun_of
from dicejax.comparison.report.rerun import section as rerun_section
from dicejax.comparison.report.tuning import tuning_section
from dicejax.comparison.statistics import Row
from dicejax.files import write_whole
from dicejax.metrics.scores import heading

__all__ = ["Drawing", "write"]


def write(
    rows: Sequence[Row],
    folder: str,
    *,
    drawings: Sequence[Drawing] | None = None,
) -> str:
    """Write the report of a comparison, and complete its `comparison.json`.

    Losses stand in the order of their names, the baseline first.

    Args:
      rows: as `comparison.evaluated` returns them.
      folder: of the comparison.
      drawings: pictures of gradients; None takes those of the runs.

    Returns:
      Where the page is.

    Raises:
      InputError: a run cannot be read, or the folder cannot be written to.
    """
    path = epath.Path(folder)
    rows = [rows[0], *sorted(rows[1:], key=lambda row: row.loss)]
    materials = gathered(rows)
    runs = [one for row in rows for one in row.outcomes]
    folders = dict.fromkeys(shown(one.folder, path) for one in runs)
    rerun = rerun_of(rows, materials, tuple(folders))
    file = path / "comparison.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    tuning = tuning_section(known.get("tuning"))
    drawings = drawings_of(rows) if drawings is None else drawings
    document = _document(rows, materials, rerun, drawings, tuning)
    content = numbers.completed(known, rows, materials, document, rerun)
    for run in (run for one in content["losses"].values() for run in one["runs"]):
        run["folder"] = shown(run["folder"], path)
    files = {
        RERUN: experiment_file(rerun.experiment),
        "comparison.json": json.dumps(content, indent=2) + "\n",
        "report.md": markdown(document),
        "report.html": page(document),
    }
    for name, text in files.items():
        write_whole(path, name, text)
    return str(path / "report.html")


def shown(folder: str, report: epath.Path) -> str:
    """Name a run's folder as seen from the report's, so that both can be moved.

    >>> shown("runs/mine/ce/seed-0", epath.Path("runs/mine"))
    'ce/seed-0'
    """
    path = epath.Path(folder)
    return str(path.relative_to(report)) if path.is_relative_to(report) else str(path)


def _document(
    rows: Sequence[Row],
    materials: Sequence[Material],
    rerun: Rerun,
    drawings: Sequence[Drawing],
    tuning: Section,
) -> Document:
    test = next(one for row in rows for one in row.outcomes if one.result).result
    primary_metric, baseline = test["primary_metric"], rows[0].loss
    own = [m for m in materials if m.experiment is not None]
    rooms = [
        *scores.statistics(rows, primary_metric),
        _drawn("learning", "Learning curves", figures.learning(own, primary_metric)),
        _drawn(
            "thresholds",
            "Precision, recall and thresholds",
            figures.thresholds(own),
            _uncounted(own),
        ),
        _drawn("calibration", "Calibration", figures.calibration(own), _uncounted(own)),
        _drawn("classes", "Rare and frequent classes", figures.by_class(materials)),
        Section(key="gradients", title="Gradients", drawings=tuple(drawings)),
        tuning,
        *beside_paper(rows, materials, primary_metric),
        rerun_section(rerun),
        scores.reading(baseline),
    ]
    return Document(
        title=f"{rerun.experiment.name}: does the loss help?",
        about=f"{heading(primary_metric)} on test of {_counted(materials)} beside "
        f"{baseline}: the same data order, the same initial weights, the same budget.",
        warnings=tuple(scores.warnings_of(rows)),
        claims=tuple(scores.claims_of(rows)),
        sections=tuple(one for one in rooms if _has_content(one)),
    )


def _counted(materials: Sequence[Material]) -> str:
    losses = sum(m.has_runs for m in materials[1:])
    controls = len(materials) - 1 - losses
    told = f"{losses} {'loss' if losses == 1 else 'losses'}"
    if controls:
        told += f" and {controls} {'control' if controls == 1 else 'controls'}"
    return told


def _drawn(
    key: str, title: str, drawn: Sequence[figures.Figure], text: Sequence[str] = ()
) -> Section:
    return Section(key=key, title=title, text=tuple(text), figures=tuple(drawn))


def _uncounted(materials: Sequence[Material]) -> list[str]:
    """Say which runs a picture lacks."""
    missing = [f"{m.loss} seed {seed}" for m in materials for seed in m.uncounted]
    if not missing:
        return []
    return [
        "Not drawn, since these runs kept no counts of their scores (test_scores.npz; "
        "an earlier version trained them, or their task has none): "
        f"{', '.join(missing)}."
    ]


def _has_content(section: Section) -> bool:
    return any(
        (
            section.text,
            section.items,
            section.tables,
            section.figures,
            section.drawings,
            section.code,
        )
    )
