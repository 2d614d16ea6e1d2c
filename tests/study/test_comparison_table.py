"""The table of a comparison shows whole numbers at every width."""

import io
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from dicejax.study.compare import Comparison
from dicejax.study.compare.advice import headline
from dicejax.study.compare.statistics import Row
from dicejax.study.compare.table import table

from .made_runs import compared, outcome

SCORES = ("accuracy", "precision", "recall", "f1", "matthews", "average_precision")
LONG = "dsc-alpha=1.0-smooth=0.01-stop_gradient_weight=True"


def row(loss, first):
    """Return two runs whose scores all differ."""
    outcomes = [
        outcome(loss, seed, [1.0], test=dict(zip(SCORES, scores, strict=True)))
        for seed, scores in enumerate(first + 0.01 * np.arange(6) + [[0], [0.002]])
    ]
    return Row(loss, tuple(outcomes), against=None)


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


def test_a_comparison_is_short_as_text_and_a_table_in_a_notebook():
    rows = tuple(compared({"ce": 0.7, "wce": 0.75, "dsc<": 0.8}, controls=["wce"]))
    comparison = Comparison(name="mine", folder="x", rows=rows)
    first = headline(rows).splitlines()[0]
    assert repr(comparison) == f"Comparison(mine: ce, dsc<, wce; 5 seeds; {first})"
    table = ElementTree.fromstring(f"<div>{comparison._repr_html_()}</div>")
    assert table.find("p/b").text == first
    cells = [[cell.text or "" for cell in line] for line in table.iter("tr")]
    assert cells[0] == ["", "F1", "verdict"]
    assert cells[1][::2] == ["ce", "baseline"]
    for line, row in zip(cells[2:], rows[1:], strict=True):
        scores = 100 * np.array(row.scores("f1"))
        assert line[::2] == [row.loss, row.against.verdict.sentence]
        numbers = [float(number) for number in line[1].split(" ± ")]
        expected = scores.mean(), scores.std(ddof=1)
        assert numbers == pytest.approx(expected, abs=0.0051)


def test_a_comparison_without_rows_names_what_was_tuned():
    tuning = {"losses": {"focal": {}}}
    for comparison, text in (
        (Comparison(name="mine", folder="x", tuning=tuning), "tuned: focal"),
        (Comparison(name="mine", folder="x", unfinished=2), "2 unfinished, tuned: "),
    ):
        assert repr(comparison).startswith(f"Comparison(mine: {text}")
        assert comparison._repr_html_() == f"<p>{comparison!r}</p>"
