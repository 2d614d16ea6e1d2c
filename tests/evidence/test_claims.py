"""Pages say of a loss what the advice says of the archive, and the primaries."""

import re

import pytest

from ..documented import ROOT

QUOTED = re.compile("“(.+?)”", re.DOTALL)
LOSS = r"(?:dice|dsc|dl|focal|wce|class weights|ce\+prior|threshold)"
CLAIM = r"(?:leads?|led|gain(?:s|ed)?|better|beats?|ahead|behind|loses?|lost|worse)"


@pytest.fixture(scope="module")
def said(evidence):
    """Return the module with what is said of each archive."""
    return evidence("said")


@pytest.fixture(scope="module")
def sentences(said):
    """Return every sentence of the advice on the archives, without line breaks."""
    pairs = [(name, "ce") for name in said.COMPARISONS]
    pairs += [(x, "ce+prior") for x in said.COMPARISONS if re.match("mech|third", x)]
    found = set()
    for name, baseline in pairs:
        for line in said.lines(name, baseline):
            found |= {line, *(f"{part}." for part in line.rstrip(".").split(". "))}
    return found


def part_of(page: str) -> str:
    """Return the part of a page that sums up what was found."""
    text = (ROOT / page).read_text(encoding="utf-8")
    first, last = {
        "README.md": ("## What we found", "[Choosing a loss]"),
        "docs/choosing.md": ("# Choosing", "## Start at"),
        "docs/reproduced.md": ("## What did help", "## Why it may differ"),
        "RESULTS.md": ("## What `dicejax compare` says", "## Primary comparisons"),
    }[page]
    return text.partition(first)[2].partition(last)[0]


PAGES = ("README.md", "docs/choosing.md", "docs/reproduced.md", "RESULTS.md")


@pytest.mark.parametrize("page", PAGES)
def test_quotations_are_what_the_advice_says(page, sentences):
    text = (ROOT / page).read_text(encoding="utf-8")
    quoted = [" ".join(each.split()) for each in QUOTED.findall(text)]
    assert quoted
    for each in quoted:
        assert each in sentences, each


@pytest.mark.parametrize("page", PAGES)
def test_a_sum_of_results_has_no_number_of_a_loss_but_in_quotations(page):
    for sentence in re.split(r"(?<=[.:]) |\n", QUOTED.sub("", part_of(page))):
        if re.search(LOSS, sentence, re.IGNORECASE):
            assert not re.search(r"\d (?:points|F1)", sentence), sentence


@pytest.mark.parametrize("page", PAGES[:2])
def test_a_sum_of_results_claims_what_a_primary_comparison_shows(page, said, evidence):
    part = evidence("mechanism").MECHANISM
    claims = []
    for sentence in re.split(r"(?<=[.:]) |\n", QUOTED.sub("", part_of(page))):
        loss = re.search(rf"\b{LOSS}", sentence, re.IGNORECASE)
        if loss and re.search(rf"\b{CLAIM}\b", sentence):
            claims.append(sentence)
    allowed = {"README.md": ["Dice has a lead in very short ones"]}.get(page, [])
    left = [x for x in claims if not any(each in x for each in allowed)]
    left = [x for x in left if "property" not in x]
    assert not left, left
    shortest = min(part.finished(), key=lambda cell: cell.updates)
    assert part.claim(shortest).startswith("dice leads there")
    assert said.lines("mechanism/250-2", "ce+prior")[0].startswith("Use dsc")


def test_the_paper_is_not_read_against_an_interval_of_another_encoder():
    page = (ROOT / "docs/reproduced.md").read_text(encoding="utf-8")
    assert "gain lies inside" not in page and "outside" not in page


def test_the_guide_to_a_loss_is_short():
    text = (ROOT / "docs/choosing.md").read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<[^>]*>|\]\([^)]*\)", "", text)
    assert len([word for word in text.split() if re.search(r"\w", word)]) <= 900
