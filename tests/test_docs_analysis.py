"""The pictures of docs/analysis.md are those that its script draws."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "analysis.md").read_text()


def test_pictures_are_there_small_and_shown():
    shown = set(re.findall(r"!\[[^\]]+\]\(([^)]+)\)", TEXT))
    drawn = {f"figures/analysis/{one.name}" for one in DOCS.glob("figures/analysis/*")}
    assert shown == drawn and len(drawn) > 5
    for name in drawn:
        assert (DOCS / name).stat().st_size < 150_000
    links = re.findall(r"[^!]\[[^\]]+\]\(([^)#]+)\)", TEXT)
    assert all(one.startswith("http") or (DOCS / one).is_file() for one in links)
