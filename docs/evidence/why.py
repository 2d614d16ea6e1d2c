"""Why: gradients of each loss along training, of one seed of some cells.

    python docs/evidence/why.py runs/why/250-2 ...

archives runs that `dicejax train --analysis.every` has analysed, a folder per loss, as
docs/evidence/scores/why/250-2.json; `draw` makes the figure from those.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import archive
from matplotlib.figure import Figure

from dicejax.study import figures

LOSSES = ("ce", "focal", "dl", "dsc-official", "dsc-eq11", "dsc")
NAMES = {"dsc": "dsc-smooth=0.01"}
Points = list[dict[str, float]]


def main(folders: Sequence[str]) -> None:
    """Write an archive for each folder."""
    for folder in map(Path, folders):
        by_loss = {loss: points(folder / loss / "analysis.jsonl") for loss in LOSSES}
        lines = [f"{json.dumps(loss)}: {json.dumps(p)}" for loss, p in by_loss.items()]
        file = archive.SCORES / "why" / f"{folder.name}.json"
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"{file}: {len(by_loss)} runs, {file.stat().st_size:,} bytes")


def points(file: Path) -> Points:
    """Return of each analysed step the share of positives and the agreement with F1.

    The share is that of all positive classes of the gradient, the agreement the cosine
    between the gradients of the loss and of micro soft F1, both by logits.
    """
    records = []
    for line in file.read_text().splitlines():
        record = json.loads(line)
        (output,) = record["outputs"].values()
        norms = output["gradient_norm"]
        records.append(
            {
                "step": record["step"],
                "share": round(sum(norms[1:]) / sum(norms), 4) if sum(norms) else 0.0,
                "cosine": output["cosine"]["micro"],
            }
        )
    return records


def archived() -> dict[str, dict[str, Points]]:
    """Return the points of each loss, by cell."""
    cells = {file.stem: file for file in (archive.SCORES / "why").glob("*.json")}
    by_size = sorted(cells, key=lambda name: [*map(int, name.split("-"))])
    return {name: json.loads(cells[name].read_text()) for name in by_size}


def late(records: Points, after: int = 100) -> dict[str, float]:
    """Return the mean share and cosine of the steps after an update."""
    some = [point for point in records if point["step"] > after]
    return {
        key: statistics.mean(point[key] for point in some)
        for key in ("share", "cosine")
    }


def draw(cells: dict[str, dict[str, Points]]) -> Figure:
    """Draw shares above and agreement below, a column for each cell."""
    figure = Figure(
        figsize=(4.5 * len(cells) + 1, 6), layout="constrained", facecolor="white"
    )
    grid = figure.subplots(2, len(cells), sharex="col", sharey="row", squeeze=False)
    for column, (name, losses) in zip(grid.T, cells.items(), strict=True):
        for number, (loss, records) in enumerate(losses.items()):
            for axes, key in zip(column, ("share", "cosine"), strict=True):
                axes.plot(
                    [point["step"] for point in records],
                    [point[key] for point in records],
                    color=figures.COLORS[number],
                    linestyle=figures.STYLES[number],
                    label=NAMES.get(loss, loss),
                )
        sentences, epochs = map(int, name.split("-"))
        column[0].set_title(f"{sentences:,} sentences, {epochs} epochs")
        column[-1].set_xlabel("update")
        column[-1].axhline(0, color=figures.TEXT, linewidth=0.8)
        for axes in column:
            axes.grid(axis="y")
    grid[0, 0].set_ylabel("share of positives in the gradient")
    grid[1, 0].set_ylabel("cosine with the gradient of soft F1")
    figure.legend(
        *grid[0, 0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3 * len(cells),
        frameon=False,
    )
    return figure


if __name__ == "__main__":
    main(sys.argv[1:])
