"""The first updates of the mechanism's arms: what their gradients are made of.

    python docs/evidence/early.py runs/early/250-2 ...

archives runs that `dicejax compare --analysis.every 1` has analysed, as
docs/evidence/scores/early/250-2.json; `draw` makes the figure from those.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import archive
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from mechanism import SEEDS

from dicejax.study import figures

ARMS = {"ce": "ce", "ce+prior": "ce+prior", "dsc": "dsc-smooth=0.01"}
"""The folder of each arm."""
UPDATES = 20
QUANTITIES = {
    "share": "share of entities in the gradient",
    "cosine": "cosine with the gradient of soft F1",
    "predicted": "predicted share of entities\non words outside",
}
Points = dict[str, list[list[float]]]
"""Of each quantity a row for each seed, a column for each update."""


def main(folders: Sequence[str]) -> None:
    """Write an archive for each folder."""
    for folder in map(Path, folders):
        by_arm = {arm: points(folder / name) for arm, name in ARMS.items()}
        lines = [f"{json.dumps(arm)}: {json.dumps(p)}" for arm, p in by_arm.items()]
        file = archive.SCORES / "early" / f"{folder.name}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"{file}: {file.stat().st_size:,} bytes")


def points(folder: Path) -> Points:
    """Return the quantities of the first updates of each seed.

    The share is that of all positive classes of the gradient by logits; the cosine is
    with the gradient of micro soft F1; `predicted` is the mean of 1 - p over the words
    outside entities, from a histogram.
    """
    rows: Points = {name: [] for name in QUANTITIES}
    for seed in SEEDS:
        lines = (folder / f"seed-{seed}" / "analysis.jsonl").read_text().splitlines()
        outputs = [next(iter(json.loads(x)["outputs"].values())) for x in lines]
        for name in rows:
            rows[name].append([_value(name, x) for x in outputs[:UPDATES]])
    fewest = min(map(len, rows["share"]))  # samples differ in their updates
    return {name: [row[:fewest] for row in values] for name, values in rows.items()}


def _value(name: str, output: dict) -> float:
    if name == "cosine":
        return round(output["cosine"]["micro"], 4)
    if name == "share":
        norms = output["gradient_norm"]
        return round(sum(norms[1:]) / sum(norms), 4)
    counts = np.array(output["hardness"][0])
    middles = (np.arange(len(counts)) + 0.5) / len(counts)
    return round(float(counts @ middles / counts.sum()), 4)


def archived() -> dict[str, dict[str, Points]]:
    """Return the points of each arm, by cell."""
    cells = {file.stem: file for file in (archive.SCORES / "early").glob("*.json")}
    by_size = sorted(cells, key=lambda name: [*map(int, name.split("-"))])
    return {name: json.loads(cells[name].read_text()) for name in by_size}


def mean(arms: dict[str, Points], arm: str, quantity: str, update: int) -> float:
    """Return the mean over seeds of a quantity in an update, from 1 on."""
    return float(np.mean([row[update - 1] for row in arms[arm][quantity]]))


def draw(cells: dict[str, dict[str, Points]]) -> Figure:
    """Draw means over seeds within their range, a column for each cell."""
    figure = Figure(
        figsize=(4.5 * len(cells) + 1, 8), layout="constrained", facecolor="white"
    )
    grid = figure.subplots(
        len(QUANTITIES), len(cells), sharex=True, sharey="row", squeeze=False
    )
    for column, (name, arms) in zip(grid.T, cells.items(), strict=True):
        for number, (arm, quantities) in enumerate(arms.items()):
            for axes, quantity in zip(column, QUANTITIES, strict=True):
                rows = np.array(quantities[quantity])
                updates = np.arange(1, rows.shape[1] + 1)
                color = figures.COLORS[number]
                axes.fill_between(
                    updates, rows.min(0), rows.max(0), color=color, alpha=0.15, lw=0
                )
                axes.plot(
                    updates,
                    rows.mean(0),
                    color=color,
                    linestyle=figures.STYLES[number],
                    label=ARMS[arm],
                )
                axes.grid(axis="y")
        sentences, epochs = map(int, name.split("-"))
        column[0].set_title(f"{sentences:,} sentences, {epochs} epochs")
        column[-1].set_xlabel("update")
        column[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes, label in zip(grid[:, 0], QUANTITIES.values(), strict=True):
        axes.set_ylabel(label)
    figure.legend(
        *grid[0, 0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=len(ARMS),
        frameon=False,
    )
    return figure


if __name__ == "__main__":
    main(sys.argv[1:])
