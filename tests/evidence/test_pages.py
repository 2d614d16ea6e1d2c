"""The pages of the evidence follow from their archives, commands and tables."""

import itertools
import re
import shlex

import pytest

from dicejax.cli import parse
from dicejax.objectives import names_of
from dicejax.objectives.parsing import objective_named

from ..documented import ROOT, blocks, commands_of
from .conftest import EVIDENCE

VERSION = re.compile(rb"Matplotlib v[\d.]+")


def test_results_are_made_from_the_archives_to_the_byte(evidence, tmp_path):
    evidence("results").main([str(tmp_path)])
    for page in evidence("results").PAGES.keys() | {"README.md"}:
        assert (tmp_path / page).read_bytes() == (ROOT / page).read_bytes(), page
    drawn_by = ("curve", "summary", "thinned", "why", "early", "density")
    for name in (*drawn_by, "cluener_losses"):
        figure = f"docs/evidence/{name}.svg"
        drawn, committed = ((root / figure).read_bytes() for root in (tmp_path, ROOT))
        if VERSION.search(committed)[0] == VERSION.search(drawn)[0]:
            assert drawn == committed


PAGE = "docs/evidence/earlier.md"


HEADER = (
    "| loss | n | mean ± sd | min to max | difference | 95% CI | p (Holm) | verdict |"
)


# Tables on separate questions, which are not in the overview.
APART = ("Tversky", "Imbalance", "Cross-entropy plus dice")


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def tables():
    """Yield heading and rows of each table of a comparison."""
    heading, lines = None, iter((ROOT / PAGE).read_text().splitlines())
    for line in lines:
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line == HEADER:
            yield heading, [*map(cells, itertools.takewhile(bool, lines))][1:]


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
    overview = [*map(cells, lines[first : lines.index("", first)])]
    sets = [title.rpartition(",")[0] for title in overview[0][1:]]
    assert len(sets) == sum(not heading.startswith(APART) for heading, _ in TABLES)
    for column, name in enumerate(sets, start=1):
        (rows,) = [rows for heading, rows in TABLES if heading.startswith(name)]
        by_loss = {row[0]: row for row in rows}
        for line in overview[2:]:
            loss, cell = line[0], line[column]
            row = by_loss.get(loss)
            if row is None:
                assert cell == "–", (name, loss)
            elif row[-1] == "baseline":
                assert cell == row[2], name
            else:
                assert cell.strip("*") == row[4], (name, loss)
                assert cell.startswith("**") == row[7].startswith(("better", "worse"))
        assert set(by_loss) <= {line[0] for line in overview}, name


@pytest.mark.parametrize("page", ["README.md", "docs/choosing.md"])
def test_no_sentence_has_more_than_two_numbers(page):
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.S | re.M)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|<[^>]*>", "", text)
    sentences = re.split(r"(?<=[.:;?])\s|\n\s*\n|\n- |\n#+ |\|", text)
    for sentence in sentences:
        numbers = re.findall(r"(?<![\w.,])[+−-]?\d[\d.,]*(?![\w])", sentence)
        assert len(numbers) <= 2, sentence


@pytest.mark.parametrize("name", ["readme.md.jinja", "choosing.md.jinja"])
def test_measured_numbers_of_the_first_pages_are_computed(name):
    """Updates and points are expressions of the templates, with no digit typed."""
    template = (EVIDENCE / name).read_text()
    measured = r"(?:\w+ )?(?:updates|points|F1)\b"
    assert len(re.findall(rf"\}}\}} {measured}", template)) >= 3
    assert not re.findall(rf"\d[\d.,]* {measured}", template)


def test_the_quickstart_of_the_readme_has_the_scores_of_its_experiment():
    (output,) = (x for x in blocks("README.md") if x.language == "text")
    rows = re.findall(r"^  (?:ce|dsc)\b.* ± .*$", output.text, re.M)
    printed = [re.findall(r"[\d.]+ ± [\d.]+", row)[0] for row in rows]  # F1
    measured = (ROOT / "experiments/quickstart.py").read_text().partition("With --")[0]
    measured = " ".join(measured.replace("+-", "±").split())
    assert printed == re.findall(r"[\d.]+ ± [\d.]+", measured)


def test_the_readme_is_short():
    text = re.sub(
        r"^```.*?^```", "", (ROOT / "README.md").read_text(), flags=re.S | re.M
    )
    text = re.sub(r"<[^>]*>|\]\([^)]*\)", "", text)
    assert len([word for word in text.split() if re.search(r"\w", word)]) <= 500


def test_the_page_on_the_paper_has_numbers_of_the_archives():
    """Each row has the printed gain of the paper, and the archived one of ours."""
    page = (ROOT / "docs/reproduced.md").read_text().partition("## What did help")[0]
    gains = re.findall(r"^\|.*\| ?([+−.\d]*) \| (\S+) \((.*?)\) \|", page, re.M)
    assert len(gains) == 13
    papers = (ROOT / "experiments/paper.toml").read_text()
    tables = (ROOT / "docs/evidence/tables.md").read_text()
    for published, gain, interval in gains:
        assert not published or re.search(rf"\d{re.escape(published)}\b", papers)
        assert f"{gain} | {interval} |" in tables, gain
