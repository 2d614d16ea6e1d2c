"""The forest plot of the README shows the numbers of RESULTS.md."""

import re

from .documented import ROOT, script

FIGURES = ROOT / "docs" / "figures"


def test_the_figure_shows_the_table():
    module = script(FIGURES / "results.py")
    page = (ROOT / "RESULTS.md").read_text()
    found = module.rows(page)
    lines = page.partition("\n## CoNLL-2003")[2].partition("\n## ")[0].splitlines()
    expected = [re.findall(r"[+-]\d+\.\d\d", line) for line in lines]
    expected = sorted((row for row in expected if row), key=lambda row: -float(row[0]))
    assert [[f"{x:+.2f}" for x in row[1:]] for row in found] == expected
    drawn = (FIGURES / "results.svg").read_text()
    for name, mean, low, high in found:
        assert f">{mean:+.2f} ({low:+.2f} to {high:+.2f})</text>" in drawn
        assert f">{name}</text>" in drawn
