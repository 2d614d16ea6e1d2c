"""The report in a browser: no errors, no overflow, contrast, keyboard, links."""

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

OPEN = "document.querySelectorAll('details').forEach(one => one.open = true)"
# Pairs of texts of a figure that lie over one another.
OVERLAPPING = """
[...document.querySelectorAll('svg')].flatMap(svg => {
  const texts = [...svg.querySelectorAll('text')].map(
    one => [one.textContent, one.getBoundingClientRect()]);
  return texts.flatMap(([a, x], i) => texts.slice(i + 1).filter(([b, y]) =>
    Math.min(x.right, y.right) - Math.max(x.left, y.left) > 1
    && Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top) > 3
  ).map(([b, _]) => a + ' / ' + b));
})
"""
FOCUSED = """(() => {
  const one = document.activeElement, all = [...document.querySelectorAll('summary')];
  return [all.indexOf(one), getComputedStyle(one).outlineStyle];
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A comparison with verdicts of all kinds, and one of a seed without any."""
    many, one = (tmp_path_factory.mktemp(name) for name in ("many", "one"))
    losses = (CrossEntropy(), Focal(), LONG, WeightedCrossEntropy())
    skill = (0.7, 0.85, 0.5, 0.7)
    jobs = made(many, losses, 3, skill=skill, types=CLASSES)
    rows = comparison.evaluate_runs(jobs, str(many))
    report.write(rows, str(many))
    jobs = made(one, (CrossEntropy(), Tversky()), 1)
    run = Run(epath.Path(jobs[-1].folder))
    result = run.result()
    run.write_result(result | {"test": result["test"] | {"f1": 0.0}})
    run.write_statistics(np.tile([0.0, 2.0], (SENTENCES, 1, 1)))
    report.write(comparison.evaluate_runs(jobs, str(one)), str(one))
    return {"many": many / "report.html", "one": one / "report.html"}


@pytest.mark.parametrize("name", ["many", "one"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window_and_nothing_fails(
    browser, pages, name, width
):
    browser.open(pages[name], width)
    for state in ("folded", "open"):
        found = browser.evaluate(
            "[innerWidth, document.documentElement.clientWidth, "
            "document.documentElement.scrollWidth]"
        )
        assert found[0] == width
        assert found[2] <= found[1], state
        assert browser.evaluate(beyond()) == [], state
        assert browser.evaluate(OVERLAPPING) == [], state
        browser.evaluate(OPEN)
    assert browser.errors == []


def test_a_table_shows_difference_and_interval_on_a_phone(browser, pages):
    browser.open(pages["many"], 500)
    ends = browser.evaluate(
        "[...document.querySelectorAll('#scores ~ .scroll th[scope=col]')].slice(0, 3)"
        ".map(one => [one.textContent, one.getBoundingClientRect().right])"
    )
    assert [heading for heading, _ in ends] == ["loss", "difference", "95% CI"]
    assert max(right for _, right in ends) <= 500 - 16


def test_contrast_is_that_of_known_colours():
    assert contrast("rgb(0, 0, 0)", 1, ["rgb(255, 255, 255)"]) == pytest.approx(21)
    grey = contrast("rgb(118, 118, 118)", 1, ["rgba(0, 0, 0, 0)", "rgb(255, 255, 255)"])
    assert grey == pytest.approx(4.54, abs=0.005)  # #767676, the least that passes


@pytest.mark.parametrize("name", ["many", "one"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out(browser, pages, name, scheme):
    browser.open(pages[name], 1280, scheme)
    assert is_light(browser) == (scheme == "light")
    browser.evaluate(OPEN)
    texts = browser.evaluate(TEXTS)
    assert len(texts) > 100
    assert faint(texts) == []


def test_folded_parts_open_by_keyboard(browser, pages):
    browser.open(pages["many"], 1280)
    wanted = browser.evaluate("document.querySelectorAll('summary').length")
    opened = set()
    for _ in range(200):
        browser.press("Tab", 9)
        place, outline = browser.evaluate(FOCUSED)
        if place >= 0 and place not in opened:
            assert outline != "none"  # the focus is seen
            browser.press("Enter", 13)
            opened.add(place)
        if len(opened) == wanted:
            break
    assert opened == set(range(wanted)) and wanted > 5
    assert (
        browser.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    )


@pytest.mark.parametrize("name", ["many", "one"])
def test_links_and_labels_lead_somewhere(browser, pages, name):
    browser.open(pages[name], 1280)
    lost = browser.evaluate(
        """[...document.querySelectorAll('[href], [aria-labelledby]')].flatMap(one =>
          (one.getAttribute('aria-labelledby') || one.getAttribute('href')).split(' ')
        ).filter(id => !document.getElementById(id.replace(/^#/, '')))"""
    )
    assert lost == []
