"""Formats of data files, recognised by their content."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from etils import epath

from dicejax.data.examples import LabelledText, MultiLabelText, TaggedWords
from dicejax.errors import Flaw, InputError, quote
from dicejax.formats import (
    ConllFiles,
    ConlluFiles,
    CsvFiles,
    FileSource,
    JsonMultiLabelTexts,
    JsonSentences,
    JsonTexts,
    LabelFirstFiles,
    SquadFiles,
    TabSeparatedFiles,
    WordLabelFiles,
    brat,
    containers,
    separated,
    splits,
    squad,
    tables,
)
from dicejax.formats.conll import is_break
from dicejax.formats.mapping import ALL_UNNAMED, LABELS, Columns, columns_of
from dicejax.formats.records import first_line
from dicejax.io import files

Kind = Literal["ner", "pos", "classification", "qa"]

HELD_OUT = 0.15  # of a single file, for dev and again for test
SAMPLE = 200  # lines that are looked at
_CONLLU_ROW = re.compile(r"\d+([-.]\d+)?(\t[^\t]*){9}")
_CONLLU_WITH_SPACES = re.compile(r"\d+([-.]\d+)?( +[^ ]+){9}")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_TAG = re.compile(r"O|[BIOESMLUW][-_].+")

_READS: Mapping[Kind, str] = {
    "ner": "a word and its tag on each line, JSON lines, or brat's folders",
    "pos": "a word and its label on each line, or CoNLL-U",
    "classification": "CSV, TSV, JSON lines, or a label and a text on each line",
    "qa": "SQuAD's JSON, or JSON lines",
}


def source_of(kind: Kind, data: str, named: Columns = ALL_UNNAMED) -> FileSource:
    """Return the source for a file, or for a folder with a file for each split.

    Dev and test are held out of a single file, and where a folder lacks them.

    Raises:
      InputError: there is no such data, or it is in no format that the kind reads.
    """
    if named.fields() and kind != "classification":
        raise InputError(f"--text, --second and --label are for texts, not for {kind}")
    path = epath.Path(data)
    if not path.exists():
        raise InputError(f"{data}: no such file or folder")
    if path.is_dir() and not splits.is_split(path):
        folder, by_split = path, splits.of_folder(path)
    else:
        folder = path.parent
        by_split = {"train": path.name, "dev": None, "test": None}
    make, fields = _format(kind, _first(folder, by_split["train"]), named)
    test, label = by_split["test"], fields.get("label", fields.get("labels"))
    if isinstance(label, str) and test is not None:
        separator = fields.get("separator", "\t")
        if not _has_column(_first(folder, test), label, separator):
            by_split["test"] = None  # a competition's test file, its labels kept back
    held_out = {"dev_share": HELD_OUT} if by_split["dev"] is None else {}
    if by_split["test"] is None:
        held_out["test_share"] = HELD_OUT
    return make(dir=str(folder), **by_split, **held_out, **fields)


def remarks(examples: Sequence[object]) -> list[str]:
    """Return warnings on labels that suggest a misread file.

    Raises:
      InputError: nearly each text has a class of its own.
    """
    counts: Counter[str] = Counter()
    lines: dict[str, int] = {}
    for example in examples:
        labels: Sequence[str] = ()
        if isinstance(example, TaggedWords | MultiLabelText):
            labels = example.labels or ()
        elif isinstance(example, LabelledText) and example.label is not None:
            labels = (example.label,)
        counts.update(labels)
        for label in labels:
            lines.setdefault(label, example.line)
    of_texts = bool(examples) and isinstance(examples[0], LabelledText)
    if of_texts and len(examples) >= 8 and len(counts) > len(examples) / 2:
        few = ", ".join(map(quote, sorted(counts)[:3]))
        raise InputError(
            f"{len(counts)} classes in {len(examples)} texts ({few}, ...): no class "
            "can be learnt; name the columns of a table with --text and --label"
        )
    warnings = []
    numbers = {label for label in counts if _NUMBER.fullmatch(label)}
    if 0 < len(numbers) < len(counts):
        groups = (numbers, counts.keys() - numbers)
        fewer = min(groups, key=lambda group: sum(map(counts.__getitem__, group)))
        warnings.append(f"labels are numbers and names: {_list(fewer, lines)}")
    once = [label for label, count in counts.items() if count == 1]
    if of_texts and once:
        warnings.append(f"classes with a single text: {_list(once, lines)}")
    return warnings


def _list(labels: Iterable[str], lines: Mapping[str, int]) -> str:
    descriptions = [f"{quote(label)} (line {lines[label]})" for label in sorted(labels)]
    more = f" and {len(descriptions) - 5} more" if len(descriptions) > 5 else ""
    return ", ".join(descriptions[:5]) + more


def describe(source: FileSource) -> str:
    """Describe the format and the columns of a source in one line."""
    head = (type(source).__doc__ or "").partition("\n")[0]
    first = _first(epath.Path(source.dir), source.train)
    if tables.is_table(first):
        head = f"{source.several.capitalize()} in {tables.describe(first)}."
    elif brat.is_folder(first):
        head = "Documents with entities, brat's standoff: .txt and .ann files."
    common = {field.name for field in dataclasses.fields(FileSource)}
    values = {
        field.name: getattr(source, field.name)
        for field in dataclasses.fields(source)
        if field.name not in common and getattr(source, field.name) != field.default
    }
    changed = [f"{name}: {value}" for name, value in values.items()]
    return " ".join([head, ", ".join(changed)]).strip()


def _first(folder: epath.Path, names: str) -> epath.Path:
    path = folder / names.split("+")[0]
    return path if path.exists() else path.with_name(path.name + ".gz")


def _format(
    kind: Kind, path: epath.Path, named: Columns
) -> tuple[type[FileSource], dict]:
    """Return the source for a file, and those of its fields that are no defaults."""
    if tables.is_table(path):
        next(iter(_objects(path)), None)  # the file can be read
        what = f"is {tables.describe(path)}" if kind == "pos" else ""
        return _of_records(kind, path, named, what)
    if brat.is_folder(path):
        if kind == "ner":
            return JsonSentences, {}
        raise _refusal(kind, path, "holds brat's .ann files", "ner")
    lines = [
        line
        for _, line in itertools.islice(files.lines(path), SAMPLE)
        if line.strip() and not line.startswith("#")
    ]
    first = lines[0] if lines else ""
    if first and squad.is_document(first):
        if kind == "qa":
            return SquadFiles, {}
        raise _refusal(kind, path, "is one JSON document", "qa")
    if first.lstrip().startswith(("{", "[")):
        return _of_records(kind, path, named, "is JSON lines")
    if _CONLLU_ROW.fullmatch(first):
        if kind == "pos":
            return ConlluFiles, {}
        raise _refusal(kind, path, "is CoNLL-U", "pos")
    if _CONLLU_WITH_SPACES.fullmatch(first):
        what = "is CoNLL-U, but with spaces between its columns"
        raise InputError.at(path, None, what, "put tabs there")
    if kind == "qa":
        raise _refusal(kind, path, "is no JSON", None)
    table = _table(path)
    if kind == "classification":
        return _of_texts(path, lines, table, named)
    is_table = table is not None and table.flawless and table.separator != "\t"
    if is_table and not _are_columns(lines):
        what = f"is a table of columns between {table.separator!r}"
        has_texts = sum(len(line.split()) for line in lines) > 2 * len(lines)
        raise _refusal(kind, path, what, "classification" * has_texts)
    return (ConllFiles if kind == "ner" else WordLabelFiles), _comments(path)


def _refusal(kind: Kind, path: epath.Path, what: str, other: str | None) -> InputError:
    hint = f"; `init {other}` may" if other and other != kind else ""
    return InputError.at(path, None, what, f"`init {kind}` reads {_READS[kind]}{hint}")


def _of_records(
    kind: Kind, path: epath.Path, named: Columns, what: str
) -> tuple[type[FileSource], dict]:
    """Return the source of records; texts may list their labels."""
    if kind == "pos":
        raise _refusal(kind, path, what, "ner")
    if kind != "classification":
        return (JsonSentences if kind == "ner" else SquadFiles), {}
    lists: dict[str, bool] = {}
    for record in itertools.islice(_objects(path), SAMPLE):
        for name, value in record.items():
            if value is not None:
                lists.setdefault(name, isinstance(value, list))
    names = [named.label] if named.label else ["labels", *LABELS]
    labels = next((n for n, is_list in lists.items() if is_list and n in names), None)
    if labels is None:
        return JsonTexts, columns_of(path, _objects(path), named)
    named = dataclasses.replace(named, label=labels)
    fields = columns_of(path, _objects(path), named)
    return JsonMultiLabelTexts, fields | {"labels": fields.pop("label")}


def _objects(path: epath.Path) -> Iterator[Mapping[str, object]]:
    for record in containers.records(path):
        try:
            yield record.fields()
        except Flaw as flaw:
            raise record.error(flaw) from None


class _Table(NamedTuple):
    separator: str
    quoted: bool
    flawless: bool

    def rows(self, path: epath.Path) -> Iterator[tuple[int, list[str]]]:
        return separated.rows(path, self.separator, quoted=self.quoted)


def _table(path: epath.Path) -> _Table | None:
    """Return what separates the columns of a file; None where nothing does."""
    first = first_line(path)
    tried = sorted(
        (separator for separator in separated.SEPARATORS if separator in first),
        key=lambda s: (s != "\t", -first.count(s), s == ","),
    )
    for separator, quoted in itertools.product(tried, (True, False)):
        table = _Table(separator, quoted, True)
        try:
            widths = {len(fields) for _, fields in table.rows(path)}
        except InputError:
            continue
        if len(widths) == 1:
            # Tab-separated files mostly have quotes that are characters like others.
            if quoted and separator == "\t":
                plain = table._replace(quoted=False)
                pairs = itertools.zip_longest(table.rows(path), plain.rows(path))
                return plain if all(row == other for row, other in pairs) else table
            return table._replace(quoted=quoted or separator != "\t")
    return _Table(tried[0], tried[0] != "\t", False) if tried else None


def _of_texts(
    path: epath.Path, lines: Sequence[str], table: _Table | None, named: Columns
) -> tuple[type[FileSource], dict]:
    """Return the source of texts that have a class: a table, or the label first."""
    ending = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    has_tag = (_TAG.fullmatch(line.split()[-1]) is not None for line in lines)
    if _are_columns(lines) and sum(has_tag) > len(lines) / 2:
        what = "holds a word and its tag on each line"
        raise _refusal("classification", path, what, "ner")
    is_table = ending in ("csv", "tsv", "tab")
    if table is None:
        if not is_table:
            return LabelFirstFiles, {}
        what = "has one column alone"
        raise InputError.at(path, 1, what, "give it a text and a label in each row")
    if not (is_table or named.fields()):
        try:  # whether the first line is a header
            rows = _records(path, table) if table.flawless else ()
            columns_of(path, rows, ALL_UNNAMED, by_name_alone=True)
        except InputError:
            return LabelFirstFiles, {}
    fields = columns_of(path, _records(path, table), named)
    if table.separator == "\t" and not table.quoted:
        return TabSeparatedFiles, fields
    return CsvFiles, fields | {"separator": table.separator}


def _records(path: epath.Path, table: _Table) -> Iterable[Mapping[str, object]]:
    """Yield rows by the names in the header; other widths are left to the reader."""
    rows = table.rows(path)
    _, header = separated.header(rows)
    yield dict.fromkeys(header)
    for _, fields in rows:
        if len(fields) == len(header):
            yield dict(zip(header, fields, strict=True))


def _has_column(path: epath.Path, name: str, separator: str) -> bool:
    """Return whether there is such a column or field, in a table one with a value."""
    if tables.is_table(path):
        return any(record.get(name) is not None for record in _objects(path))
    first = first_line(path)
    if first.lstrip().startswith(("{", "[")):
        return name in next(_objects(path), ())
    table = _Table(separator, separator != "\t" or '"' in first, True)
    return name in separated.header(table.rows(path))[1]


def _are_columns(lines: Sequence[str]) -> bool:
    """Whether lines have equally many words, two or more, as those with tags have."""
    widths = {len(line.split()) for line in lines if not is_break(line)}
    return len(widths) == 1 and widths.pop() > 1


def _comments(path: epath.Path) -> dict[str, str]:
    """Return the field that leaves out comments, if lines at breaks begin with "#"."""
    at_break, marked = True, False
    widths = {True: set(), False: set()}
    for _, line in itertools.islice(files.lines(path), 10 * SAMPLE):
        if is_break(line):
            at_break = True
            continue
        is_comment = at_break and line.startswith("# ")
        marked |= is_comment
        at_break &= is_comment
        widths[is_comment].add(len(line.split()))
    return {"comment": "# "} if marked and widths[True] != widths[False] else {}
