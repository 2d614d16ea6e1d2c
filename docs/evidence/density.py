r"""Gradient norms of CLUENER before and after GHM, which its article leaves open.

    dicejax train experiments/ner/cluener.py --data.dir DATA/cluener2020 \
        --encoder.path MULTILINGUAL --loss ce --data.max_train 2000 \
        --data.max_dev 200 --training.epochs 3 --training.batch_size 16 \
        --optimizer.learning_rate 3e-4 --optimizer.warmup 0.1 \
        --optimizer.head_learning_rate 10 --training.head_bias prior \
        --training.precision float32 --analysis.every 15 --out runs/density
    python docs/evidence/density.py runs/density

archives the words and the gradient by gradient norm, of both pointers together, as
docs/evidence/scores/density.json; `draw` makes the figure from that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import archive
import numpy as np
from cluener_tagging import CLUENER
from matplotlib.figure import Figure

from dicejax import config
from dicejax.study import figures
from dicejax.study.gradients import history
from dicejax.training.run_folder import Run

FILE = archive.SCORES / "density.json"


def main(folders: Sequence[str]) -> None:
    """Write the archive of a run."""
    (folder,) = folders
    config.load(CLUENER)  # its class of data
    run = Run.at(folder)
    outputs = history.read(run)
    sums = {
        key: sum(each.sums[key].sum(axis=1) for each in outputs).round(4).tolist()
        for key in ("hardness", "hardness_norm")
    }
    steps = outputs[0].steps.tolist()
    content = {"f1": run.result()["test"]["f1"], "steps": steps, **sums}
    lines = [f"{json.dumps(name)}: {json.dumps(x)}" for name, x in content.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")


def archived() -> dict[str, Any]:
    """Return the updates looked at, and by bin of 1 - p words and gradient of each."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def of_part(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return words, gradient and gradient after GHM by bin, of the run's first or last.

    GHM's weight of a word is N / (n B): N words, n in its bin, B bins with any.

    Args:
      name: "first third" or "last third" of the updates.
    """
    content = archived()
    steps = np.array(content["steps"])
    last = steps > 2 / 3 * steps[-1]
    chosen = last if name == "last third" else steps <= steps[-1] / 3
    words, before = (
        np.array(content[key])[chosen].sum(axis=0)
        for key in ("hardness", "hardness_norm")
    )
    filled = words > 0
    weights = words.sum() / np.where(filled, words, 1) / filled.sum()
    return words, before, weights * before


def percent(part: str, quantity: int, low: float, high: float) -> str:
    """Return the percent of words, gradient or that after GHM with 1 - p in a range."""
    values = of_part(part)[quantity]
    bins = (np.arange(len(values)) + 0.5) / len(values)
    inside = (bins > low) & (bins < high)
    share = 100 * values[inside].sum() / values.sum()
    return f"{share:.0f}%" if share >= 0.5 else "less than 1%"


def draw() -> Figure:
    """Draw the words, and the gradient before and after, by gradient norm."""
    figure, (left, right) = figures.panels(1, 2)
    for number, part in enumerate(("first third", "last third")):
        words, before, after = of_part(part)
        x = (np.arange(len(words)) + 0.5) / len(words)
        shares = np.where(words > 0, words / words.sum(), np.nan)
        left.plot(x, shares, **figures.style(number), marker=".", label=part)
    for number, (label, values) in enumerate(
        (("last third, cross-entropy", before), ("after GHM", after)), start=1
    ):
        shares = values / values.sum()
        right.plot(x, shares, **figures.style(number), marker=".", label=label)
    left.set(yscale="log", ylabel="share of the words")
    right.set(ylabel="share of the gradient", ylim=(0, None))
    for axes in (left, right):
        axes.set(xlabel="gradient norm, 1 - p of the own class", xlim=(0, 1))
        axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main(sys.argv[1:])
