"""A parser of HTML pages: elements with attributes, texts, tables."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser

VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}


@dataclasses.dataclass
class Element:
    """An element with its attributes and children."""

    name: str
    attributes: dict[str, str | None]
    inner: list[Element | str]

    @property
    def text(self) -> str:
        """All text within."""
        return "".join(x if isinstance(x, str) else x.text for x in self.inner)

    def all(self, *names: str) -> list[Element]:
        """The elements of these names within, in order; all without a name."""
        elements = []
        for child in self.inner:
            if isinstance(child, Element):
                elements += [child] if not names or child.name in names else []
                elements += child.all(*names)
        return elements


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = Element("", {}, [])
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"<{tag}> has an attribute twice"
        element = Element(tag, dict(attrs), [])
        self.open[-1].inner.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open[-1].name == tag, f"<{self.open[-1].name}> ends as <{tag}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].inner.append(data)


def read(text: str) -> Element:
    """Read a page; every element must be closed by its own name."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root]
    return reader.root


def tables(page: Element) -> dict[str, list[list[str]]]:
    """Return the cells of all tables by caption, headings first."""
    return {
        table.all("caption")[0].text: [
            [cell.text for cell in row.all("th", "td")] for row in table.all("tr")
        ]
        for table in page.all("table")
    }
