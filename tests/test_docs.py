"""The docs agree with the package."""

import re
from pathlib import Path

import pytest

from dicejax import losses
from dicejax.losses import class_weights
from dicejax.losses.declaration import REGISTRY
from dicejax.models.huggingface.names import FAMILIES
from dicejax.objectives import by_short_name

from .documented import script

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "losses.md"


def test_every_loss_has_a_full_section():
    text = "\n".join(script(DOCS / "registry.py").sections())
    sections = re.findall(
        r"^### `(\w+)` \{ #(\w+) \}$(.*?)(?=^###|\Z)", text, re.M | re.S
    )
    assert {name for name, _, _ in sections} == {
        one.function.__name__ for one in REGISTRY.values()
    }
    assert len(sections) == len(REGISTRY)
    for name, anchor, content in sections:
        assert anchor == name
        assert re.search(
            r"Use it \w.*\$\$\n.*\w.*\n\$\$\n.*"
            r"\*\*Pitfalls:\*\* \S.*\*\*Source:\*\* \w.*"
            r"--losses \w+`.*\(api/losses\.md#dicejax\.losses\.",
            content,
            re.S,
        ), name


def test_every_marker_is_on_a_page_and_filled():
    registry, repository = (
        script(DOCS / f"{n}.py") for n in ("registry", "repository")
    )
    fill = registry.Markers().run
    seen = set()
    for page in DOCS.rglob("*.md"):
        lines = page.read_text().splitlines()
        seen |= {one for one in lines if one in registry.MARKERS}
        left = [one for one in fill(lines) if "<!--" in one]
        assert all(repository.MARKER.fullmatch(one) for one in left), page
    assert seen == set(registry.MARKERS)
    listed = "\n".join(fill(list(registry.MARKERS))) + "\n"
    for name, cls in by_short_name().items():
        assert f"`{cls.__name__}` | `{name}` |" in listed
    for one in REGISTRY.values():
        name = one.function.__name__
        assert f"::: {one.function.__module__}.{name}\n" in listed
        assert f"[`{name}`](#{name})" in listed


def test_formulas_survive_markdown():
    # Markdown drops a backslash before punctuation, and takes a `_` or `*` that
    # follows a bracket for the start of emphasis.
    for formula in re.findall(r"\$[^$\n]+\$", PAGE.read_text()):
        assert not re.search(r"\\[^a-zA-Z]|[})\]][_*]|\*", formula), formula


def test_local_links_lead_somewhere():
    def text_of(page):
        return re.sub(r"```.*?```", "", page.read_text(), flags=re.S)

    def anchors(page):
        return {
            re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-")
            for title in re.findall(r"^#+ (.*)$", text_of(page), re.M)
        }

    links = re.findall(r"\]\(([^)\s]+)\)", text_of(PAGE))
    local = [one for one in links if not one.startswith("http")]
    assert len(local) > 8
    for link in local:
        path, _, anchor = link.partition("#")
        page = DOCS / path if path else PAGE
        assert page.is_file(), link
        # The API reference has its anchors when the site is built.
        built = page.parent.name == "api"
        assert not anchor or built or anchor in anchors(page), link


def test_the_page_on_models_names_what_loads():
    text = (DOCS / "models.md").read_text().partition("Unsupported settings")[0]
    table = re.findall(r"^\| (`.*?) \|", text, re.M)
    named = {name for cell in table for name in re.findall(r"`([\w-]+)`", cell)}
    assert named - {"model_type"} == set(FAMILIES)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_pictures_show_losses_that_there_are(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    drawn = script(DOCS / "figures" / "losses.py").draw(tmp_path, points=6)
    public = {*losses.__all__} | {f"class_weights.{n}" for n in vars(class_weights)}
    assert set().union(*drawn.values()) <= public
    assert {one.name for one in tmp_path.iterdir()} == set(drawn)
    # Those in the docs are the same ones, small, and each is shown.
    text = PAGE.read_text()
    assert {one.name for one in (DOCS / "figures").glob("*.svg")} == set(drawn)
    for name in drawn:
        assert f"(figures/{name})" in text
        assert (DOCS / "figures" / name).stat().st_size < 150_000
