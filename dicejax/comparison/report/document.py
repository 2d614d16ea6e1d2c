"""What a report is made of, whatever it is written as: sections, tables, figures."""

from __future__ import annotations

import dataclasses
from typing import Literal

from dicejax.comparison.report.chart import Panel, Strip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """A table of texts.

    Attributes:
      caption: what it shows.
      columns: their headings; the first is that of the rows' names.
      rows: cells; the first names the row.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture with a panel for each loss, and its numbers.

    Attributes:
      title: of the whole.
      caption: how it is read, and what is left out.
      key: what lines and marks mean: a class of the style sheet and words for it.
      panels: one beside the other.
      numbers: what it shows, as a table; for those who do not see the picture.
    """

    title: str
    caption: str
    key: tuple[tuple[str, str], ...]
    panels: tuple[Panel, ...] | Strip
    numbers: Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drawing:
    """A picture drawn elsewhere.

    Attributes:
      title: of the picture.
      caption: what it shows, in words.
      svg: an `<svg>` element, by code of this package: it is not escaped.
    """

    title: str
    caption: str
    svg: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the report.

    Attributes:
      key: its name in links.
      title: its heading.
      text: paragraphs.
      items: points of a list.
      tables: always open to see.
      figures: of this package's kind.
      drawings: pictures drawn elsewhere.
      code: what is to be copied as it stands, each with what it is.
    """

    key: str
    title: str
    text: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    code: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """What may be said of one loss."""

    loss: str
    outcome: Literal["better", "worse", "no evidence", "unknown"]
    sentence: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Document:
    """A whole report.

    Attributes:
      title: of the page.
      about: what was compared, in a sentence.
      warnings: what a reader must know first.
      claims: the answer, for each loss.
      sections: all else.
    """

    title: str
    about: str
    warnings: tuple[str, ...]
    claims: tuple[Claim, ...]
    sections: tuple[Section, ...]
