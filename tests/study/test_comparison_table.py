"""The table of a comparison shows whole numbers at every width."""

import io

import numpy as np
from rich.console import Console

from dicejax.study.compare.statistics import Row
from dicejax.study.compare.table import table

from .made_runs import outcome

SCORES = ("accuracy", "precision", "recall", "f1", "matthews", "average_precision")
LONG = "dsc-alpha=1.0-smooth=0.01-stop_gradient_weight=True"


def row(loss, first):
    """Return two runs whose scores all differ."""
    outcomes = [
        outcome(loss, seed, [1.0], test=dict(zip(SCORES, scores, strict=True)))
        for seed, scores in enumerate(first + 0.01 * np.arange(6) + [[0], [0.002]])
    ]
    return Row(loss, tuple(outcomes), summary=None, against=None)


ROWS = [row("ce", 0.6), row(LONG, 0.7)]
CELLS = {
    name: [f"{60.1 + place:.2f} ± 0.14", f"{70.1 + place:.2f} ± 0.14"]
    for place, name in enumerate(SCORES)
}


def printed(width):
    out = io.StringIO()
    Console(file=out, width=width or 500).print(table(ROWS, "mine", width))
    return out.getvalue()


def displayed(text):
    return [name for name, cells in CELLS.items() if all(x in text for x in cells)]


def test_no_number_and_no_name_is_cut_at_any_width():
    text, counts = printed(None), []
    assert displayed(text) == list(SCORES)
    assert LONG in text and "in the report" not in text
    for width in range(60, 170, 5):
        text = printed(width)
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= width
        scores = displayed(text)
        assert "f1" in scores and len(scores) >= min(6, (width - 45) // 16)
        assert text.count("±") == 2 * len(scores) + 1  # the caption has one
        assert LONG in "".join(line[2:36].strip() for line in text.splitlines())
        left = [name.replace("_", " ") for name in SCORES if name not in scores]
        end = f"in the report: {', '.join(left)}" if left else "2 seeds"
        assert " ".join(text.split()).endswith(end)
        counts.append(len(scores))
    assert counts == sorted(counts) and counts[-1] == 6
