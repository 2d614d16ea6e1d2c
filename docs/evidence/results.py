"""Make RESULTS.md and its figures from the archives.

    python docs/evidence/results.py [FOLDER]

writes RESULTS.md, and curve.svg and why.svg to docs/evidence, below the folder, by
default that of the repository: the text is results.md.jinja, the numbers in it and all
tables are computed here. The same version of Matplotlib draws the same bytes each time.
"""

from __future__ import annotations

import sys
from pathlib import Path

import curve
import jinja2
import tables
import why

from dicejax.analysis import figures

HERE = Path(__file__).parent
TEMPLATE = "results.md.jinja"


def page() -> str:
    """Return RESULTS.md."""
    cells = curve.finished()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,  # Markdown, of our own data
    )
    return environment.get_template(TEMPLATE).render(
        curve=curve,
        cells=cells,
        every=curve.CELLS,
        hours=sum(one.hours for one in cells),
        runs=sum(
            row.summary.n for one in cells for row in one.rows if " + " not in row.loss
        ),
        gain=gain,
        tables=tables,
        slopes=curve.slopes(cells),
        why=why.archived(),
    )


def gain(loss: str, sentences: int, epochs: int) -> str:
    """Return the gain of a loss or control in a cell, with its interval."""
    return tables.told(curve.cell(sentences, epochs).row(loss).against.crossed)


def main(argv: list[str]) -> None:
    """Write the page and the figures."""
    folder = Path(argv[0]) if argv else HERE.parents[1]
    drawings = folder / "docs" / "evidence"
    drawings.mkdir(parents=True, exist_ok=True)
    (folder / "RESULTS.md").write_text(page(), encoding="utf-8")
    with figures.look():
        drawn = {
            "curve": curve.draw(curve.finished()),
            "why": why.draw(why.archived()),
        }
        for name, figure in drawn.items():
            (drawings / f"{name}.svg").write_bytes(figures.rendered(figure, "svg"))


if __name__ == "__main__":
    main(sys.argv[1:])
