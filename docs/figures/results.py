"""Draw the forest plot of the README from the table of CoNLL-2003 in RESULTS.md.

    python docs/figures/results.py [FILE]

The same version of Matplotlib draws the same bytes each time.
"""

import re
import sys
from pathlib import Path

from matplotlib.figure import Figure

from dicejax.analysis import figures

ROOT = Path(__file__).parents[2]
HEADING = "## CoNLL-2003"
BASELINE = "cross-entropy"
ROW = 26


def rows(page: str) -> list[tuple[str, float, float, float]]:
    """Return name, difference and ends of the interval of each loss, the best first."""
    section = page.split(f"\n{HEADING}", 1)[1].split("\n## ", 1)[0]
    found = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and re.fullmatch(r"[+-]\d+\.\d+", cells[4]):
            low, high = map(float, cells[5].split(" to "))
            found.append((cells[0].replace("`", ""), float(cells[4]), low, high))
    return sorted(found, key=lambda row: -row[1])


def draw(found: list[tuple[str, float, float, float]]) -> Figure:
    """Draw differences with their intervals, one row per loss."""
    width, left, right, height = 760, 310, 170, ROW * len(found) + 44
    figure = Figure(figsize=(width / 72, height / 72), facecolor="white")
    axes = figure.add_axes(
        (left / width, 40 / height, (width - left - right) / width, 1 - 44 / height)
    )
    limit = 6.0
    axes.set(xlim=(-limit, limit), ylim=(len(found) - 0.5, -0.5), yticks=[])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"test F1 minus that of {BASELINE} (points, 95% CI)")
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.axvspan(-0.5, 0.5, color=figures.BASE, alpha=0.15, linewidth=0)
    axes.axvline(0, color=figures.TEXT, linewidth=1.2)
    text = {"transform": axes.get_yaxis_transform(), "va": "center"}
    for y, (name, mean, low, high) in enumerate(found):
        ends = max(low, -limit), min(high, limit)
        if ends[0] < ends[1]:
            axes.plot(ends, (y, y), color=figures.LOSS, linewidth=2)
        for end, edge, marker in ((low, -limit, "<"), (high, limit, ">")):
            if abs(end) > limit and end * edge > 0:
                axes.plot([edge], [y], marker, color=figures.LOSS, clip_on=False)
        if abs(mean) < limit:
            axes.plot([mean], [y], "o", color=figures.LOSS, markersize=6)
        axes.text(-0.03, y, name, ha="right", **text)
        numbers = f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"
        axes.text(1.04, y, numbers, ha="left", color=figures.SOFT, **text)
    return figure


def main(argv: list[str]) -> None:
    """Write the figure."""
    file = Path(argv[0]) if argv else ROOT / "docs" / "figures" / "results.svg"
    found = rows((ROOT / "RESULTS.md").read_text())
    with figures.look(settings={"font.size": 11}):
        file.write_bytes(figures.rendered(draw(found), "svg"))


if __name__ == "__main__":
    main(sys.argv[1:])
