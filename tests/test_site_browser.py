"""The site in a browser: no errors, no overflow, contrast; its first pages, or all."""

import contextlib
import functools
import importlib.util
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from .browser import CHROMIUM
from .visible import TEXTS, beyond, faint, is_light

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
    pytest.mark.skipif(
        importlib.util.find_spec("mkdocs") is None, reason="there is no MkDocs"
    ),
]

SOME = ("index.html", "losses.html", "choosing.html", "results.html")
ARTICLE = "document.querySelector('article')"


def some_or_all(*names):
    every = pytest.param(None, marks=pytest.mark.exhaustive, id="all")
    some = pytest.param((*SOME, *names), id="some")
    return pytest.mark.parametrize("paths", [some, every])


@contextlib.contextmanager
def served(folder):
    """The address of a folder; from disk a browser has no search."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=folder)
    handler.func.log_message = lambda *_: None
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def listed(folder, paths):
    every = (file.relative_to(folder).as_posix() for file in folder.rglob("*.html"))
    return paths or sorted(every)


@some_or_all("api/losses.html")  # wide tables, wide formulas
def test_pages_fit_a_browser_and_fail_at_nothing(browser, site_folder, paths):
    found = {}
    with served(site_folder) as address:
        for path in listed(site_folder, paths):
            browser.open(f"{address}/{path}", 1280)
            for width in (1280, 500):
                browser.resize(width)
                wide = browser.evaluate(
                    "document.documentElement.scrollWidth"
                    " - document.documentElement.clientWidth"
                )
                lost = browser.evaluate(beyond(ARTICLE))
                if wide > 0 or lost or browser.errors:
                    found[path, width] = (wide, *lost, *browser.errors)
    assert found == {}


@some_or_all("api/objectives.html")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out(browser, site_folder, paths, scheme):
    found = []
    with served(site_folder) as address:  # a new port: no scheme is remembered
        for path in listed(site_folder, paths):
            browser.open(f"{address}/{path}", 1280, scheme)
            assert is_light(browser) == (scheme == "light")
            texts = browser.evaluate(TEXTS)
            assert len(texts) > 10, path
            found += [(path, *text) for text in faint(texts, least_of_large=3)]
    assert found == []
