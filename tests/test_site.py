"""The site builds without a warning, its links resolve, and it needs no network."""

import dataclasses
import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import markdown
import pytest

import dicejax
from dicejax import losses, objectives, tasks
from dicejax.data import sources

from .documented import ROOT, script

READ_ON_ITS_OWN = (
    "README.md",
    "CONTRIBUTING.md",
    "RESULTS.md",
    *(f"{folder}/README.md" for folder in ("benchmarks", "experiments", "notebooks")),
)


@dataclasses.dataclass
class Page(HTMLParser):
    """Anchors and links of an HTML page."""

    anchors: set[str] = dataclasses.field(default_factory=set)
    links: list[str] = dataclasses.field(default_factory=list)
    fetched: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self):
        super().__init__()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        for name in ("src", "href"):
            if tag != "a" and values.get(name):
                self.links.append(values[name])
                self.fetched.append(values[name])


@pytest.fixture(scope="module")
def site(site_folder):
    """The pages of the built site, by their paths."""
    pages = {}
    for file in site_folder.rglob("*.html"):
        pages[file] = Page()
        pages[file].feed(file.read_text(encoding="utf-8"))
    return pages


def module(name):
    return script(ROOT / "docs" / f"{name}.py")


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
                known = site[target].anchors
                assert unquote(parts.fragment) in known, f"{file.name}: {link}"
            checked += 1
    assert checked > 1000


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site):
    for file, page in site.items():
        elsewhere = [one for one in page.fetched if re.match(r"(https?:)?//", one)]
        assert not elsewhere, f"{file.name}: {elsewhere}"
    (styles,) = {file.parent for file in site if file.name == "404.html"}
    for file in styles.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", file.read_text())


@pytest.mark.slow
def test_every_public_name_has_its_entry(site):
    anchors = {name for page in site.values() for name in page.anchors}
    shown = {name.rpartition(".")[2] for name in anchors if name.startswith("dicejax.")}
    public = {*losses.__all__, *objectives.__all__, *tasks.__all__, *sources.__all__}
    assert public - shown == {"class_weights"}  # a module, whose functions are shown
    assert {"log_ratio", "inverse", "effective_number"} <= shown


@pytest.mark.slow
def test_every_page_is_in_the_navigation_and_no_formula_is_left(site):
    (folder,) = {file.parent for file in site if file.name == "404.html"}
    home = site[folder / "index.html"]
    linked = {(folder / link.partition("#")[0]).resolve() for link in home.links}
    assert {file for file in site if file.name != "404.html"} <= linked
    titles = set()
    for file in site:
        text = file.read_text(encoding="utf-8")
        titles.add(re.search("<title>(.*?)</title>", text)[1])
        assert 'class="arithmatex"' not in text, file
        assert ".. math::" not in text, file
        assert "<blockquote>" not in text, file  # what a bare doctest becomes
    assert len(titles) >= len(site) - 1  # each its own; that of 404.html is the home's
    assert (folder / "losses.html").read_text(encoding="utf-8").count("<math") > 60


@pytest.mark.parametrize("name", READ_ON_ITS_OWN)
def test_links_of_pages_outside_the_site_lead_somewhere(name):
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not urlsplit(link).scheme:
            path = (ROOT / name).parent / link.partition("#")[0]
            assert path.exists(), f"{name}: {link}"


def test_docstrings_become_markdown():
    text = module("docstrings").as_markdown(
        "Add.\n\n.. math::\n    a +\n    b\n\nWords.\n\n"
        ">>> 1 + 1\n2\n\nExample:\n  >>> print(\n  ...     3)\n  3\n"
    )
    assert text == (
        "Add.\n\n$$\na + b\n$$\n\nWords.\n\n"
        "```pycon\n>>> 1 + 1\n2\n```\n\n```pycon\n>>> print(\n...     3)\n3\n```\n"
    )


def rendered(text, extension):
    formulas = "pymdownx.arithmatex"
    extensions = [formulas, module(extension).makeExtension()]
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
    with_links = module("repository").with_links
    text = "[a\nb](docs/start.md#x), [c](RESULTS.md), [d](LICENSE), [e](#f), [g](https://h.i)"
    assert with_links(text, "README.md") == (
        "[a\nb](start.md#x), [c](results.md), d (`LICENSE`), [e](#f), [g](https://h.i)"
    )
    text = "![Open](https://a.b/c.svg), [d](README.md#e)\n```\n[f](g)\n```"
    assert with_links(text, "notebooks/2_imbalance.ipynb") == (
        "Open, [d](index.md#e)\n```\n[f](g)\n```"  # no code is changed
    )


def test_the_home_page_is_the_first_part_of_the_readme():
    made = rendered((ROOT / "docs" / "index.md").read_text(), "repository")
    assert dicejax.DESCRIPTION in made
    for part in ('src="evidence/curve.svg"', "pip install -e .", 'href="results.md"'):
        assert part in made
    assert "Features" not in made


def test_a_notebook_is_a_page_with_its_outputs():
    repository = module("repository")
    for file, page in repository.PAGES.items():
        shown = (ROOT / "docs" / page).read_text().splitlines()[0]
        assert repository.MARKER.fullmatch(shown)["file"] == file
    made = rendered("<!-- notebooks/1_losses_and_gradients.ipynb -->", "repository")
    assert made.startswith("<h1>Losses and their gradients</h1>")
    assert made.count('src="data:image/png;base64,') == 3
    assert "assets/colab-badge" not in made  # nothing is fetched
