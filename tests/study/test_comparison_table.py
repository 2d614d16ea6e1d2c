"""The table of a comparison shows whole numbers at every width."""

import io

import pytest
from rich.console import Console

from dicejax.study.compare.jobs import Outcome
from dicejax.study.compare.statistics import Row
from dicejax.study.compare.table import table

SCORES = ("accuracy", "precision", "recall", "f1", "matthews", "average_precision")
LONG = "dsc-alpha=1.0-smooth=0.01-stop_gradient_weight=True"


def row(loss, first):
    """Return two runs whose scores all differ."""
    outcomes = [
        Outcome(
            loss,
            seed,
            "folder",
            "finished",
            {
                "primary_metric": "f1",
                "test": {
                    name: first + 0.01 * place + 0.002 * seed
                    for place, name in enumerate(SCORES)
                },
            },
        )
        for seed in (0, 1)
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


def shown_in(text):
    return [
        name for name, cells in CELLS.items() if all(cell in text for cell in cells)
    ]


def test_without_a_width_everything_is_shown():
    text = printed(None)
    assert shown_in(text) == list(SCORES)
    assert LONG in text and "in the report" not in text


@pytest.mark.parametrize("width", range(60, 170, 10))
def test_no_number_and_no_name_is_cut(width):
    text = printed(width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    shown = shown_in(text)
    assert "f1" in shown and len(shown) >= min(6, (width - 45) // 16)
    assert text.count("±") == 2 * len(shown) + 1  # the caption has one
    names = "".join(line[2:36].strip() for line in text.splitlines())
    assert LONG in names
    caption = " ".join(text.split())
    left = [name.replace("_", " ") for name in SCORES if name not in shown]
    assert caption.endswith(f"in the report: {', '.join(left)}" if left else "2 seeds")


def test_a_wider_window_shows_no_less():
    counts = [len(shown_in(printed(width))) for width in range(60, 170, 5)]
    assert counts == sorted(counts) and counts[-1] == 6
