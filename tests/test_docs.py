"""Holds what the docs say against the package that they are about."""

import importlib.util
import re
from pathlib import Path

import pytest

from dicejax import losses
from dicejax.losses import class_weights
from dicejax.models.huggingface.names import FAMILIES

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "losses.md"

# Public names that are counts, states and what makes losses of counts.
HELPERS = {
    "GHMState",
    "OverlapCounts",
    "class_weights",
    "dice_from_counts",
    "ghm_state",
    "overlap_counts",
    "tversky_from_counts",
}


def rows() -> list[list[str]]:
    """The cells of each row of the table of losses."""
    lines = [one for one in PAGE.read_text().splitlines() if one.startswith("| `")]
    return [[cell.strip() for cell in one.strip("|").split("|")] for one in lines]


def names_in_table() -> set[str]:
    """The loss that each row is about: the first name in backticks."""
    return {re.match(r"`([\w.]+)`", cells[0]).group(1) for cells in rows()}


def public_names() -> set[str]:
    weights = {
        f"class_weights.{name}"
        for name, value in vars(class_weights).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == class_weights.__name__
    }
    return set(losses.__all__) - HELPERS | weights


def test_every_public_loss_has_a_row_and_every_row_a_public_loss():
    assert names_in_table() == public_names()


def test_helpers_are_public_and_told_of():
    assert set(losses.__all__) >= HELPERS
    text = PAGE.read_text()
    assert not [name for name in HELPERS if name not in text]


def test_every_row_is_complete():
    # A bar within a formula would make another cell.
    assert {len(cells) for cells in rows()} == {6}
    empty = [cells[0] for cells in rows() if "" in cells[:5]]
    assert not empty
    without_source = {cells[0] for cells in rows() if not cells[5]}
    assert without_source <= {
        "`class_weights.inverse`",
        "`class_weights.inverse_square_root`",
    }


def test_arguments_in_the_first_column_exist():
    for cells in rows():
        name, *settings = re.findall(r"`([^`]+)`", cells[0])
        for argument in re.findall(r"(\w+)=", ", ".join(settings)):
            assert f"  {argument}: " in getattr(losses, name).__doc__


def test_formulas_survive_markdown():
    # Markdown drops a backslash before punctuation, and takes a `_` or `*` that
    # follows a bracket for the start of emphasis.
    for formula in re.findall(r"\$[^$\n]+\$", PAGE.read_text()):
        assert not re.search(r"\\[^a-zA-Z]|[})\]][_*]|\*", formula), formula


def test_local_links_lead_somewhere():
    text = re.sub(r"```.*?```", "", PAGE.read_text(), flags=re.S)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    anchors = {
        re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", text, re.M)
    }
    local = [one for one in links if not one.startswith("http")]
    assert len(local) > 8
    for link in local:
        path, _, anchor = link.partition("#")
        assert not path or (DOCS / path).is_file(), link
        assert not anchor or anchor in anchors, link


def test_the_page_on_models_names_what_loads():
    text = (DOCS / "models.md").read_text().partition("Unsupported settings")[0]
    table = re.findall(r"^\| (`.*?) \|", text, re.M)
    named = {name for cell in table for name in re.findall(r"`([\w-]+)`", cell)}
    assert named - {"model_type"} == set(FAMILIES)


@pytest.mark.slow
def test_pictures_show_every_loss_of_the_table(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    path = DOCS / "figures" / "losses.py"
    spec = importlib.util.spec_from_file_location("figures_of_losses", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    drawn = script.draw(tmp_path, points=6)
    assert set().union(*drawn.values()) == names_in_table()
    assert {one.name for one in tmp_path.iterdir()} == set(drawn)
    # Those in the docs are the same ones, small, and each is shown.
    text = PAGE.read_text()
    assert {one.name for one in (DOCS / "figures").glob("*.svg")} == set(drawn)
    for name in drawn:
        assert f"(figures/{name})" in text
        assert (DOCS / "figures" / name).stat().st_size < 150_000
