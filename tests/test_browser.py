"""The report and the site in a browser: errors, overflow, contrast, keyboard, links."""

import contextlib
import functools
import importlib.util
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from etils import epath

from dicejax.objectives import (
    CrossEntropy,
    Focal,
    SelfAdjustingDice,
    Tversky,
    WeightedCrossEntropy,
)
from dicejax.study import compare as comparison
from dicejax.study import report
from dicejax.training.run_folder import Run

from .browser import CHROMIUM
from .study.made_runs import SENTENCES, made
from .visible import TEXTS, beyond, contrast, faint, is_light

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")

WIDTHS = (1280, 500)
LONG = SelfAdjustingDice(alpha=0.015625, smooth=0.25, stop_gradient_weight=True)
CLASSES = ("PER", "A-class-with-a-long-name-that-no-line-can-break", "LOC")
# Its first pages, wide tables and wide formulas.
SOME = ("index", "losses", "choosing", "results", "api/losses", "api/objectives")
everywhere = pytest.mark.parametrize(
    "addresses",
    [
        "many",
        "one",
        pytest.param("some of the site", marks=pytest.mark.slow),
        pytest.param("site", marks=[pytest.mark.slow, pytest.mark.exhaustive]),
    ],
    indirect=True,
)

OPEN = "document.querySelectorAll('details').forEach(part => part.open = true)"
# Pairs of texts of a figure that lie over one another.
OVERLAPPING = """
[...document.querySelectorAll('svg')].flatMap(svg => {
  const texts = [...svg.querySelectorAll('text')].map(
    text => [text.textContent, text.getBoundingClientRect()]);
  return texts.flatMap(([a, x], i) => texts.slice(i + 1).filter(([b, y]) =>
    Math.min(x.right, y.right) - Math.max(x.left, y.left) > 1
    && Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top) > 3
  ).map(([b, _]) => a + ' / ' + b));
})
"""
FOCUSED = """(() => {
  const focus = document.activeElement;
  const all = [...document.querySelectorAll('summary')];
  return [all.indexOf(focus), getComputedStyle(focus).outlineStyle];
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A comparison with verdicts of all kinds, and one of a seed without any."""
    many, single = (tmp_path_factory.mktemp(name) for name in ("many", "one"))
    losses = (CrossEntropy(), Focal(), LONG, WeightedCrossEntropy())
    skill = (0.7, 0.85, 0.5, 0.7)
    jobs = made(many, losses, 3, skill=skill, types=CLASSES)
    report.write(comparison.evaluate_runs(jobs, str(many)))
    jobs = made(single, (CrossEntropy(), Tversky()), 1)
    run = Run(epath.Path(jobs[-1].folder))
    result = run.result()
    run.write_result(result | {"test": result["test"] | {"f1": 0.0}})
    run.write_statistics(np.tile([0.0, 2.0], (SENTENCES, 1, 1)))
    report.write(comparison.evaluate_runs(jobs, str(single)))
    return {"many": many / "report.html", "one": single / "report.html"}


@contextlib.contextmanager
def serve(folder):
    """Yield the address of a folder; from disk a browser has no search."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=folder)
    handler.func.log_message = lambda *_: None
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def addresses(request, pages):
    """Yield addresses, and whether they are those of the site."""
    if request.param in pages:
        yield [pages[request.param]], False
        return
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("there is no MkDocs")
    site = request.getfixturevalue("site_folder")
    files = [file.relative_to(site).as_posix() for file in site.rglob("*.html")]
    paths = sorted(files) if request.param == "site" else [f"{n}.html" for n in SOME]
    with serve(site) as root:  # a new port: no scheme is remembered
        yield [f"{root}/{path}" for path in paths], True


@everywhere
def test_nothing_is_wider_than_the_window_and_nothing_fails(browser, addresses):
    urls, is_site = addresses
    outside = beyond("document.querySelector('article')") if is_site else beyond()
    faults = {}
    for url in urls:
        browser.open(url, WIDTHS[0])
        for width, script in [(width, s) for width in WIDTHS for s in ("0", OPEN)]:
            browser.resize(width)
            browser.evaluate(script)
            overflow = browser.evaluate(
                "document.documentElement.scrollWidth"
                " - document.documentElement.clientWidth"
            )
            lost = browser.evaluate(outside) + browser.evaluate(OVERLAPPING)
            if overflow > 0 or lost or browser.errors:
                faults[url, width] = (overflow, *lost, *browser.errors)
    assert faults == {}


@everywhere
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out(browser, addresses, scheme):
    urls, is_site = addresses
    for url in urls:
        browser.open(url, 1280, scheme)
        assert is_light(browser) == (scheme == "light")
        browser.evaluate(OPEN)
        texts = browser.evaluate(TEXTS)
        assert len(texts) > (10 if is_site else 100), url
        assert faint(texts, least_of_large=3 if is_site else 4.5) == [], url


# The lines that the name in front of each row of a table takes.
NAMED_LINES = """
[...document.querySelectorAll('th[scope=row]')].map(cell => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  const tops = [...range.getClientRects()].map(part => Math.round(part.top));
  return [cell.textContent, new Set(tops).size];
})"""


@pytest.mark.parametrize("width", WIDTHS)
def test_a_name_without_a_place_to_break_is_on_one_line(browser, pages, width):
    browser.open(pages["many"], width)
    browser.evaluate(OPEN)
    lines = dict(browser.evaluate(NAMED_LINES))
    assert {"PER", "LOC", "ce"} <= lines.keys()
    whole = {name: n for name, n in lines.items() if not set(name) & set(" -_")}
    assert set(whole.values()) == {1}


@pytest.mark.parametrize("width", WIDTHS)
def test_every_table_is_whole(browser, pages, width):
    browser.open(pages["many"], width)
    browser.evaluate(OPEN)
    ends = browser.evaluate(
        "[...document.querySelectorAll('td')].filter(cell => cell.textContent)"
        ".map(cell => [cell.dataset.column, cell.getBoundingClientRect().right])"
    )
    columns = {"difference", "95% CI", "seeds needed", "detectable"}
    assert columns | {"count in test set"} <= {column for column, _ in ends}
    assert max(right for _, right in ends) <= width - 16


HOSTILE = (
    "<img src=x onerror=document.title='hit'>",
    "</td></table><script>document.title='hit'</script>",
    "</style><svg onload=document.title='hit'>",
    "\u202e\"' javascript:alert(1)",
)


def test_names_of_strangers_are_text_and_the_page_loads_nothing(browser, tmp_path):
    jobs = made(tmp_path, (CrossEntropy(), Focal()), 2, types=HOSTILE)
    report.write(comparison.evaluate_runs(jobs, str(tmp_path)))
    page = tmp_path / "report.html"
    browser.open(page, 1280)
    title = browser.evaluate("document.title")
    assert title and title != "hit"
    assert browser.errors == []
    assert browser.evaluate("document.querySelectorAll('img, script').length") == 0
    text = browser.evaluate("document.body.textContent")
    assert all(name in text for name in HOSTILE[:3])
    # Escapes that somebody forgot: the policy of the page holds them back.
    forgotten = "".join(HOSTILE[:2]) + "<img src=http://127.0.0.1:9/x>"
    page.write_text(page.read_text().replace("</body>", f"{forgotten}</body>"))
    browser.open(page, 1280)
    assert browser.evaluate("document.querySelectorAll('img').length") == 2
    assert browser.evaluate("document.title") == title
    assert any("Content Security Policy" in error for error in browser.errors)


@pytest.mark.parametrize("name", ["many", "one"])
def test_a_card_names_what_a_column_names(browser, pages, name):
    browser.open(pages[name], 500)
    browser.evaluate(OPEN)
    labels = browser.evaluate(
        "[...document.querySelectorAll('td')].map(cell => [cell.dataset.column, "
        "getComputedStyle(cell, '::before').content])"
    )
    assert labels
    assert all(f'"{column}"' == text for column, text in labels)


def test_contrast_is_that_of_known_colours():
    assert contrast("rgb(0, 0, 0)", 1, ["rgb(255, 255, 255)"]) == pytest.approx(21)
    grey = contrast("rgb(118, 118, 118)", 1, ["rgba(0, 0, 0, 0)", "rgb(255, 255, 255)"])
    assert grey == pytest.approx(4.54, abs=0.005)  # #767676, the least that passes


def test_folded_parts_open_by_keyboard(browser, pages):
    browser.open(pages["many"], 1280)
    count = browser.evaluate("document.querySelectorAll('summary').length")
    opened = set()
    for _ in range(200):
        browser.press("Tab", 9)
        place, outline = browser.evaluate(FOCUSED)
        if place >= 0 and place not in opened:
            assert outline != "none"  # the focus is seen
            browser.press("Enter", 13)
            opened.add(place)
        if len(opened) == count:
            break
    assert opened == set(range(count)) and count > 5
    assert (
        browser.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    )
