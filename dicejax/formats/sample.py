"""The beginning of a file, by which its format is recognised."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from etils import epath

from dicejax.errors import InputError
from dicejax.formats import containers, label_studio, mapping, separated, tables
from dicejax.formats.records import ALL_UNNAMED, LOOKED_AT, Columns
from dicejax.formats.separated import SeparatedTable
from dicejax.io import files, json_text

_CONLLU = re.compile(r"(\d{1,9})([-.]\d{1,9})?((\t[^\t]*){9}|( +[^ ]+){9})")

Container = Literal[
    "table", "brat", "document", "records", "CoNLL-U", "text", "nothing"
]
"""A table of `datasets`, a folder of brat, one JSON object, many of them, or lines."""
RECORDS: tuple[Container, ...] = ("records", "table")  # which hold objects


@dataclasses.dataclass(frozen=True)
class FileSample:
    """A file as formats look at it, and the columns that the user names."""

    path: epath.Path
    named: Columns = ALL_UNNAMED

    @functools.cached_property
    def lines(self) -> list[str]:
        """The first lines that are neither blank nor begin with `#`."""
        return [line for line in self._begin if line.strip() and line[0] != "#"]

    @functools.cached_property
    def _begin(self) -> list[str]:
        if containers.is_split(self.path):
            return []
        begin = itertools.islice(files.lines(self.path), LOOKED_AT)
        return [line for _, line in begin]

    @property
    def beginning(self) -> str:
        """The first lines from the first that is not blank; of text alone."""
        return "\n".join(self._begin).lstrip()

    @property
    def first(self) -> str:
        """The first of the lines; empty where there is none."""
        return self.lines[0] if self.lines else ""

    @property
    def ending(self) -> str:
        """The ending of the name, in small letters and without `.gz`."""
        return self.path.name.lower().removesuffix(".gz").rpartition(".")[2]

    @functools.cached_property
    def container(self) -> Container:
        """What its examples are in."""
        if tables.is_table(self.path):
            return "table"
        if containers.is_brat(self.path):
            return "brat"
        if self.first.lstrip().startswith(("{", "[")):
            return "document" if containers.is_document(self.first) else "records"
        if self._is_conllu:
            return "CoNLL-U"
        return "text" if self.first else "nothing"

    @property
    def _is_conllu(self) -> bool:
        """Whether most lines have the ten columns of CoNLL-U and count words."""
        rows = [match for line in self.lines if (match := _CONLLU.fullmatch(line))]
        ids = [int(row[1]) for row in rows]
        steps = sum(b - a in (0, 1) or b < 2 for a, b in itertools.pairwise([0, *ids]))
        return 2 * steps > len(self.lines) > 0

    def records(self) -> Iterator[Mapping[str, object]]:
        """Yield the objects of the file."""
        for record in containers.records(self.path):
            with json_text.flaws_at(record.path, record.line, record.where):
                fields = label_studio.with_classes(record.fields(), self.named.text)
            yield fields

    @functools.cached_property
    def sample(self) -> Sequence[Mapping[Any, object]]:
        """The first records or rows, by which columns are chosen."""
        rows = self.records() if self.container in RECORDS else self.rows()
        return tuple(itertools.islice(rows, mapping.SAMPLE))

    @functools.cached_property
    def columns(self) -> dict[str, Any]:
        """The columns of texts, of classes or labels, and how these are written."""
        return mapping.schema_of(self.path, self.sample, self.named)

    @property
    def are_columns(self) -> bool:
        """Whether lines have equally many words, two or more, as those with tags."""
        widths = {len(x.split()) for x in self.lines if "-DOCSTART-" not in x.split()}
        return len(widths) == 1 and widths.pop() > 1

    @functools.cached_property
    def table(self) -> SeparatedTable | None:
        """Separator of the columns; None without columns."""
        first = self.first_line
        tried = sorted(
            (separator for separator in separated.SEPARATORS if separator in first),
            key=lambda s: (s != "\t", -first.count(s), s == ","),
        )
        for separator, quoted in itertools.product(tried, (True, False)):
            table = SeparatedTable(separator, quoted)
            try:
                widths = [len(fields) for _, fields in table.rows(self.path)]
            except InputError:
                continue
            if len(set(widths)) != 1:
                continue
            if not quoted or separator != "\t":
                return table._replace(quoted=separator != "\t")
            # Quotes in tab-separated files are mostly characters like others, and
            # swallow no rows where all have equally many fields without them.
            plain = table._replace(quoted=False)
            lengths = [len(fields) for _, fields in plain.rows(self.path)]
            both = (x.rows(self.path) for x in (table, plain))
            are_one = all(map(operator.eq, *both))
            swallows = len(lengths) > len(widths) and {*lengths} == {*widths}
            return plain if swallows or (are_one and lengths == widths) else table
        if not tried:
            return None
        return SeparatedTable(tried[0], tried[0] != "\t", flawless=False)

    @property
    def first_line(self) -> str:
        """The first line that is neither blank nor for Excel."""
        lines = (line for _, line in files.lines(self.path) if line.strip())
        first = next(lines, "")
        return next(lines, "") if separated.EXCEL.fullmatch(first) else first

    def rows(self) -> Iterator[Mapping[Any, object]]:
        """Yield the rows of its table by the names in the header, or by numbers.

        The first has no values; rows of other widths are left to the reader.
        """
        assert self.table is not None
        rows = self.table.rows(self.path)
        line, header = separated.header(rows)
        names: Sequence[str | int] = header
        if self.named.are_numbers(header):
            names = range(len(header))
            rows = itertools.chain([(line, header)], rows)
        yield dict.fromkeys(names)
        for _, fields in rows:
            if len(fields) == len(names):
                yield dict(zip(names, fields, strict=True))
