"""The earlier comparisons: their commands parse, the overview repeats the tables."""

import shlex

from dicejax.cli import parse
from dicejax.cli.choices import objective_named
from dicejax.objectives import names_of

from .documented import ROOT, blocks, commands_of

PAGE = "docs/evidence/earlier.md"
HEADER = (
    "| loss | n | mean ± sd | min to max | difference | 95% CI | p (Holm) | verdict |"
)
# Tables on separate questions, which are not in the overview.
APART = ("Tversky", "Imbalance", "Cross-entropy plus dice")


def tables():
    """Yield heading and rows of each table of a comparison."""
    heading, rows = None, None
    for line in [*(ROOT / PAGE).read_text().splitlines(), ""]:
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if line == HEADER:
            rows = []
        elif rows is not None and line.startswith("|"):
            if not line.startswith("| ---"):
                rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows is not None:
            yield heading, rows
            rows = None


TABLES = list(tables())
(LOSSES,) = [
    shlex.split(block.text) for block in blocks(PAGE) if block.language == "text"
]


def test_commands_can_be_given(monkeypatch):
    monkeypatch.chdir(ROOT)
    commands = commands_of(PAGE)
    assert len(commands) >= len(TABLES)
    for words in commands:
        assert words[:2] == ["dicejax", "compare"]
        if "LOSSES" in words:
            place = words.index("LOSSES")
            words[place : place + 1] = LOSSES
        command = parse(words[1:])
        losses = names_of([objective_named(loss) for loss in command.losses])
        assert len(losses) >= 3 or losses == ["ce", "sum"]
        assert command.seeds >= 3
        assert command.settings.data.dir.startswith("DATA/")


def test_the_overview_repeats_the_tables():
    lines = (ROOT / PAGE).read_text().splitlines()
    (first,) = [place for place, line in enumerate(lines) if line.startswith("| | ")]
    overview = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines[first : lines.index("", first)]
    ]
    sets = [title.rpartition(",")[0] for title in overview[0][1:]]
    assert len(sets) == sum(not heading.startswith(APART) for heading, _ in TABLES)
    for column, name in enumerate(sets, start=1):
        (rows,) = [rows for heading, rows in TABLES if heading.startswith(name)]
        by_loss = {row[0]: row for row in rows}
        for loss, *cells in overview[2:]:
            cell, row = cells[column - 1], by_loss.get(loss)
            if row is None:
                assert cell == "–", (name, loss)
            elif row[-1] == "baseline":
                assert cell == row[2], name
            else:
                assert cell.strip("*") == row[4], (name, loss)
                assert cell.startswith("**") == row[7].startswith(("better", "worse"))
        assert set(by_loss) <= {line[0] for line in overview}, name
