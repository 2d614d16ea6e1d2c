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
    names = sorted(loss.function.__name__ for loss in REGISTRY.values())
    assert sorted(name for name, _, _ in sections) == names
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
    registry, repository = script(DOCS / "registry.py"), script(DOCS / "repository.py")
    fill = registry.Markers().run
    seen = set()
    for page in DOCS.rglob("*.md"):
        lines = page.read_text().splitlines()
        seen |= {line for line in lines if line in registry.MARKERS}
        left = [line for line in fill(lines) if "<!--" in line]
        assert all(repository.MARKER.fullmatch(line) for line in left), page
    assert seen == set(registry.MARKERS)
    listed = "\n".join(fill(list(registry.MARKERS))) + "\n"
    for name, cls in by_short_name().items():
        assert f"`{cls.__name__}` | `{name}` |" in listed
    for loss in REGISTRY.values():
        name = loss.function.__name__
        assert f"::: {loss.function.__module__}.{name}\n" in listed
        assert f"[`{name}`](#{name})" in listed


def test_formulas_survive_markdown():
    # Markdown drops a backslash before punctuation, and takes a `_` or `*` that
    # follows a bracket for the start of emphasis.
    for formula in re.findall(r"\$[^$\n]+\$", PAGE.read_text()):
        assert not re.search(r"\\[^a-zA-Z]|[})\]][_*]|\*", formula), formula


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
    assert {file.name for file in tmp_path.iterdir()} == set(drawn)
    # Those in the docs are the same ones.
    assert {picture.name for picture in (DOCS / "figures").glob("*.svg")} == set(drawn)


@pytest.mark.parametrize(
    ("page", "folder"), [("losses.md", "figures"), ("analysis.md", "figures/analysis")]
)
def test_pictures_are_there_small_and_shown(page, folder):
    text = (DOCS / page).read_text()
    shown_paths = set(re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text))
    files = [file for file in (DOCS / folder).iterdir() if file.suffix == ".svg"]
    assert {f"{folder}/{file.name}" for file in files} == shown_paths
    assert len(files) > 5 and all(f.stat().st_size < 150_000 for f in files)
