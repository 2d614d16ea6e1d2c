"""Make RESULTS.md, its figures and the pages that repeat its numbers.

    python docs/evidence/results.py [FOLDER]

writes below the folder, by default that of the repository: RESULTS.md,
docs/evidence/tables.md and rows.md, the list of README.md below its figure,
docs/choosing.md, and the figures in docs/evidence. Texts are the templates in this
folder. The numbers in them and all tables are computed here
from the archives, but for those of a pilot (pilot.jinja). The same version of
Matplotlib draws the same bytes each time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import archive
import cluener_losses
import curve
import density
import documents
import early
import jinja2
import mechanism
import plain
import pooled
import reading
import reproduced
import said
import tables
import thinned
import third_tables
import tuned
import why
from curve import Cell
from reading import Form
from thinned import Share
from tuned import Comparison

from dicejax.study import figures, significance

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGES = {
    "RESULTS.md": "results.md.jinja",
    "docs/choosing.md": "choosing.md.jinja",
    "docs/evidence/tables.md": "tables.md.jinja",
    "docs/evidence/rows.md": "rows.md.jinja",
}
CAPTION = "readme.md.jinja"
FIGURE = re.compile(r"(?<=docs/evidence/summary\.svg\)\n\n).+?(?=\n\n)", re.DOTALL)
"""The list below the figure of README.md."""
Compared = Cell | Share | Form | Comparison


def pages() -> dict[str, str]:
    """Return the text of each page, by its path in the repository."""
    cells, shares = curve.finished(), thinned.finished()
    analysed = why.archived()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,  # Markdown, of our own data
    )
    values = {
        "archive": archive,
        "curve": curve,
        "cells": cells,
        "every": curve.CELLS,
        "thinned": thinned,
        "shares": shares,
        "every_share": thinned.SHARES,
        "reading": reading,
        "reproduced": reproduced,
        "density": density,
        "cluener_losses": cluener_losses,
        "forms": reading.finished(),
        "mechanism": mechanism,
        "part_1": mechanism.MECHANISM,
        "part_4": mechanism.SECOND_ENCODER,
        "short": mechanism.MECHANISM.cell(250, 2),
        "short_base": mechanism.SECOND_ENCODER.cell(250, 2),
        "longer_base": mechanism.SECOND_ENCODER.cell(1000, 2),
        "third": third_tables,
        "said": said,
        "plain": plain,
        "pooled": pooled,
        "tuned": tuned,
        "tunings": tuned.finished(),
        "documents": documents,
        "significance": significance,
        "gain_in_reading": gain_in_reading,
        "gain_tuned": gain_tuned,
        "versus": versus,
        "mean": mean,
        "updates": updates,
        "seeds_of": seeds_of,
        "trained": trained,
        "hours": hours,
        "gain": gain,
        "over_threshold": over_threshold,
        "slopes": curve.slopes(cells),
        "tables": tables,
        "analysed": analysed,
        "early": early,
        "first": early.archived(),
        "later": {
            loss: why.late(by_loss) for loss, by_loss in analysed["14041-2"].items()
        },
    }

    def render(template: str) -> str:
        return environment.get_template(template).render(values)

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    caption = render(CAPTION).strip()
    return {page: render(template) for page, template in PAGES.items()} | {
        "README.md": FIGURE.sub(lambda match: caption, readme, count=1)
    }


def seeds_of(comparisons: Sequence[Compared]) -> str:
    """Return the seeds of the comparisons of a part."""
    seeds = [len(comparison.rows[0].finished) for comparison in comparisons]
    first, last = archive.LOOKS
    more = seeds.count(last)
    return f"{first} seeds" + (f", {last} in {more} of them" if more else "")


def trained(part: str, comparisons: Sequence[Compared]) -> str:
    """Return the number of runs of a part, and how many of them await their look."""
    runs = len(archive.runs_of(part))
    looked_at = {
        (run.folder, run.loss, run.seed)  # a run may be in several comparisons
        for comparison in comparisons
        for row in comparison.rows
        for run in row.runs
        if tables.is_trained(row)
    }
    waiting = runs - len(looked_at)
    return f"{runs} runs" + (f" ({waiting} await their look)" if waiting else "")


def hours(part: str) -> str:
    """Return the hours of training of a part."""
    return f"{archive.hours_of(archive.runs_of(part)):.1f}"


def gain(loss: str, sentences: int, epochs: int) -> str:
    """Return the gain of a loss or control in a cell, with its interval."""
    return tables.gain(curve.cell(sentences, epochs).rows, loss)


def gain_in_reading(loss: str, form: str = "plain") -> str:
    """Return the gain of a loss in a comparison of part D, by default the primary."""
    return tables.gain(reading.form(form).rows, loss)


def gain_tuned(loss: str, name: str) -> str:
    """Return the gain of a loss at tuned rates, such as with the data "1000-2"."""
    return tables.gain(tuned.comparison(name).rows, loss)


def mean(loss: str, sentences: int, epochs: int) -> str:
    """Return the mean gain of a loss in a cell, with one decimal and without a sign."""
    return f"{100 * abs(curve.cell(sentences, epochs).row(loss).against.mean):.1f}"


def updates(runs: Compared | mechanism.Cell) -> str:
    """Return the updates of the runs of a comparison."""
    return f"{runs.updates:,.0f}"


def versus(ours: str, other: str, name: str) -> str:
    """Return the difference of two losses at tuned rates, not corrected."""
    return tables.difference(tuned.comparison(name).rows, ours, other)


def over_threshold(loss: str) -> str:
    """Return the primary difference of a loss in part S."""
    return tables.gain(thinned.share(thinned.PRIMARY).over_threshold, loss)


def main(argv: list[str]) -> None:
    """Write the pages and the figures."""
    folder = Path(argv[0]) if argv else ROOT
    drawings = folder / "docs" / "evidence"
    drawings.mkdir(parents=True, exist_ok=True)
    for page, text in pages().items():
        (folder / page).write_text(text, encoding="utf-8")
    mended = mechanism.MECHANISM.finished()
    with figures.look():
        drawn = {
            "curve": curve.draw(
                curve.finished(),
                tuned.by_cell(),
                {c.updates: c.mean("ce+prior") for c in mended},
            ),
            "summary": curve.draw_summary(
                curve.finished(),
                {
                    cell.updates: cell.difference("ce+prior", "ce")
                    for cell in mended
                    if not cell.failures("ce").seeds
                },
            ),
            "thinned": thinned.draw(thinned.finished()),
            "why": why.draw(why.archived()),
            "early": early.draw(early.archived()),
            "density": density.draw(),
        }
        if cluener_losses.finished():
            drawn["cluener_losses"] = cluener_losses.draw(cluener_losses.finished())
        if third_tables.finished():
            drawn["third"] = third_tables.draw(third_tables.finished())
        for name, figure in drawn.items():
            (drawings / f"{name}.svg").write_bytes(figures.rendered(figure, "svg"))


if __name__ == "__main__":
    main(sys.argv[1:])
