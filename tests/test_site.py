"""The site builds, its links resolve, and its pages agree with the package."""

import dataclasses
import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import markdown
import pytest

import dicejax
from dicejax import formats, losses, objectives, tasks
from dicejax.losses import class_weights
from dicejax.losses.declaration import REGISTRY
from dicejax.models.huggingface.names import FAMILIES
from dicejax.objectives import by_short_name

from .documented import ROOT, script

DOCS = ROOT / "docs"


class Page(HTMLParser):
    """Anchors, links and what is fetched of an HTML page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.fetched = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        urls = [values[name] for name in ("src", "href") if values.get(name)]
        self.links += urls
        self.fetched += urls if tag != "a" else []


@pytest.fixture(scope="module")
def site(site_folder):
    """The pages of the built site, by their paths."""
    files = site_folder.rglob("*.html")
    return {file: Page(file.read_text(encoding="utf-8")) for file in files}


@pytest.mark.slow
def test_links_and_anchors_lead_somewhere(site):
    checked = 0
    for file, page in site.items():
        if file.name == "404.html":  # its links begin at the root of a server
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve()
            target = file if not parts.path else target
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{file.name}: {link}"
            if parts.fragment and target in site:
                anchors = site[target].anchors
                assert unquote(parts.fragment) in anchors, f"{file.name}: {link}"
            checked += 1
    assert checked > 1000


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site, site_folder):
    for file, page in site.items():
        elsewhere = [url for url in page.fetched if re.match(r"(https?:)?//", url)]
        assert not elsewhere, f"{file.name}: {elsewhere}"
    for file in site_folder.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", file.read_text())


@pytest.mark.slow
def test_every_public_name_has_its_entry(site):
    anchors = {name for page in site.values() for name in page.anchors}
    entries = {n.rpartition(".")[2] for n in anchors if n.startswith("dicejax.")}
    public = {*losses.__all__, *objectives.__all__, *tasks.__all__, *formats.__all__}
    assert public - entries == {"class_weights"}  # a module, whose functions are shown
    assert {"log_ratio", "inverse", "effective_number"} <= entries


@pytest.mark.slow
def test_every_page_is_in_the_navigation_and_no_formula_is_left(site, site_folder):
    links = site[site_folder / "index.html"].links
    linked = {(site_folder / link.partition("#")[0]).resolve() for link in links}
    assert {file for file in site if file.name != "404.html"} <= linked
    titles = set()
    for file in site:
        text = file.read_text(encoding="utf-8")
        titles.add(re.search("<title>(.*?)</title>", text)[1])
        # A bare doctest becomes a quotation.
        for left in ('class="arithmatex"', ".. math::", "<blockquote>"):
            assert left not in text, file
    assert len(titles) >= len(site) - 1  # each its own; that of 404.html is the home's
    pages = [file.read_text(encoding="utf-8") for file in site_folder.glob("losses-*")]
    assert "".join(pages).count("<math") > 60


def test_docstrings_become_markdown():
    text = script(DOCS / "docstrings.py").as_markdown(
        "Add.\n\n.. math::\n    a +\n    b\n\nWords.\n\n"
        ">>> 1 + 1\n2\n\nExample:\n  >>> print(\n  ...     3)\n  3\n"
    )
    assert text == (
        "Add.\n\n$$\na + b\n$$\n\nWords.\n\n"
        "```pycon\n>>> 1 + 1\n2\n```\n\n```pycon\n>>> print(\n...     3)\n3\n```\n"
    )


def rendered(text, extension):
    formulas = "pymdownx.arithmatex"
    extensions = [formulas, script(DOCS / f"{extension}.py").makeExtension()]
    configs = {formulas: {"generic": True}}
    return markdown.markdown(text, extensions=extensions, extension_configs=configs)


def test_formulas_become_mathml():
    made = rendered("It is $a < b_c$ so.", "formulas")
    assert made.startswith('<p>It is <math xmlns="http://www.w3.org/1998/Math/MathML"')
    assert "<mo>&lt;</mo>" in made or "<mo>&#x0003C;</mo>" in made
    assert "<msub>" in made and made.endswith("</math> so.</p>")
    assert 'display="inline"' in made
    made = rendered("$$\na\n$$", "formulas")  # on a line of its own
    assert 'display="block"' in made and "arithmatex" not in made
    made = rendered("$$\na &= b \\\\ c &= d\n$$", "formulas")  # aligned
    assert made.count("<mtr>") == 2 and "&" not in re.sub(r"&#?\w+;", "", made)


def test_links_of_the_repository_become_those_of_the_site():
    with_links = script(DOCS / "repository.py").with_links
    text = "[a\nb](docs/start.md#x), [c](RESULTS.md), [d](LICENSE), [e](#f), [g](https://h.i)"
    assert with_links(text, "README.md") == (
        "[a\nb](start.md#x), [c](results.md), d (`LICENSE`), [e](#f), [g](https://h.i)"
    )
    text = "![Open](https://a.b/c.svg), [d](README.md#e)\n```\n[f](g)\n```"
    assert with_links(text, "notebooks/2_imbalance.ipynb") == (
        "Open, [d](index.md#e)\n```\n[f](g)\n```"  # no code is changed
    )


def test_the_home_page_is_the_first_part_of_the_readme():
    made = rendered((DOCS / "index.md").read_text(), "repository")
    assert dicejax.DESCRIPTION in made
    reports = [f'src="figures/report-{x}.png#only-{x}"' for x in ("light", "dark")]
    figures = ('src="evidence/summary.svg"', *reports)
    for part in (*figures, "pip install -e .", 'href="results.md"'):
        assert part in made
    assert "<h2>Limits" not in made and "CONTRIBUTING" not in made


def test_a_notebook_is_a_page_with_its_outputs():
    repository = script(DOCS / "repository.py")
    for file, page in repository.PAGES.items():
        marker = (DOCS / page).read_text().splitlines()[0]
        assert repository.MARKER.fullmatch(marker)["file"] == file
    made = rendered("<!-- notebooks/1_losses_and_gradients.ipynb -->", "repository")
    assert made.startswith("<h1>Losses and their gradients</h1>")
    assert made.count('src="data:image/png;base64,') == 5  # the first is repeated
    assert made.count("Set-up") == 2 and "attachment:" not in made
    assert "assets/colab-badge" not in made  # nothing is fetched


def test_every_loss_has_a_full_section():
    registry = script(DOCS / "registry.py")
    text = "\n".join(registry.sections(*registry.KINDS)())
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
    shipped = script(DOCS / "shipped.py").MARKERS
    fill = registry.Markers().run
    seen = set()
    for page in DOCS.rglob("*.md"):
        lines = page.read_text().splitlines()
        seen |= {line for line in lines if line in registry.MARKERS}
        left = [line for line in fill(lines) if "<!--" in line and line not in shipped]
        assert all(repository.MARKER.fullmatch(line) for line in left), page
    assert seen == set(registry.MARKERS)
    listed = "\n".join(fill(list(registry.MARKERS)))
    for name, cls in by_short_name().items():
        assert f"`{cls.__name__}` | `{name}` |" in listed
    for loss in REGISTRY.values():
        name = loss.function.__name__
        assert re.search(rf"\[`{name}`\]\(losses-\w+\.md#{name}\)", listed)


def test_shipped_dice_losses_are_what_the_page_says():
    shipped = script(DOCS / "shipped.py")
    table = "\n".join(shipped.forms())  # or it raises
    assert table.count("self_adjusting_dice(") == 4 and table.count("`dice(") == 2
    rows = {row.package.split()[0].strip(","): row for row in shipped.SHIPPED}
    # f / (f + 1) of a positive has its turn where f has its own, at 1 / (1 + alpha).
    assert shipped.fixed_point(rows["GLiNER"].theirs) == "0.50"
    assert shipped.fixed_point(rows["dice_loss_for_NLP"].theirs) == "0.99"
    assert abs(shipped.slope(rows["simpletransformers"].theirs, 0.3) - 0.21) < 1e-6
    assert shipped.trained(rows["GLiNER"].theirs)[0] == 0
    assert shipped.trained(shipped.with_dice)[0] > 50
    with pytest.raises(ValueError, match=r"optax.* differs by"):
        shipped.checked(dataclasses.replace(rows["optax"], ours=shipped.with_dice))


def test_formulas_survive_markdown():
    # Markdown drops a backslash before punctuation, and takes a `_` or `*` that
    # follows a bracket for the start of emphasis.
    pages = (page.read_text() for page in DOCS.glob("losses*.md"))
    text = "\n".join(pages) + "\n".join(
        row.formula.join("$$") for row in script(DOCS / "shipped.py").SHIPPED
    )
    for formula in re.findall(r"\$[^$\n]+\$", text):
        assert not re.search(r"\\[^a-zA-Z]|[})\]][_*]|\*", formula), formula


def test_the_page_on_models_names_what_loads():
    text = (DOCS / "models.md").read_text().partition("Unsupported settings")[0]
    table = re.findall(r"^\| (`.*?) \|", text, re.M)
    names = {name for cell in table for name in re.findall(r"`([\w-]+)`", cell)}
    assert names - {"model_type"} == set(FAMILIES)


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
    ("pages", "folder"), [("losses*", "figures"), ("analysis", "figures/analysis")]
)
def test_pictures_are_there_small_and_shown(pages, folder):
    text = "".join(page.read_text() for page in DOCS.glob(f"{pages}.md"))
    paths = set(re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text))
    files = [file for file in (DOCS / folder).iterdir() if file.suffix == ".svg"]
    assert {f"{folder}/{file.name}" for file in files} == paths
    assert len(files) > 5 and all(f.stat().st_size < 150_000 for f in files)
