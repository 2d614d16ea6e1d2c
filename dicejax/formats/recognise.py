"""Formats of data files, recognised by their content."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from etils import epath

from dicejax.data.examples import LabelledText, labels_of
from dicejax.errors import InputError, quote
from dicejax.formats import (
    ConllFiles,
    ConlluFiles,
    CsvFiles,
    CsvMultiLabelTexts,
    FastTextFiles,
    FileSource,
    JsonMultiLabelTexts,
    JsonSentences,
    JsonTexts,
    LabelFirstFiles,
    SquadFiles,
    TabSeparatedFiles,
    WordLabelFiles,
    brat,
    separated,
    splits,
    tables,
)
from dicejax.formats.labelled import LabelledSource
from dicejax.formats.labels import BETWEEN
from dicejax.formats.mapping import ALL_UNNAMED, LABELS, PAIRS, TEXTS, Columns
from dicejax.formats.rows import has_tags
from dicejax.formats.sample import FileSample, Table
from dicejax.formats.source import first_path

Kind = Literal["ner", "pos", "classification", "qa"]

SOURCES: Mapping[Kind, Sequence[type[FileSource]]] = {
    "qa": (SquadFiles,),
    "pos": (ConlluFiles, WordLabelFiles),
    "ner": (JsonSentences, ConllFiles),
    "classification": (
        JsonMultiLabelTexts,
        JsonTexts,
        FastTextFiles,
        CsvMultiLabelTexts,
        TabSeparatedFiles,
        CsvFiles,
        LabelFirstFiles,
    ),
}
"""Sources of each kind; the first that fits a file reads it."""

HELD_OUT = 0.15  # of a single file, for dev and again for test
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
# Names of fields that hold more of the gold than a class does.
_BESIDE = {"probs", "probabilities", "soft_label", "soft_labels", "weight", "weights"}
_BESIDE |= {"sample_weight", "label_text", "label_name"}

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
    has = {"classification": "text second label", "ner": "text spans start end label"}
    for flag, name in dataclasses.asdict(named).items():
        if name is not None and flag not in has.get(kind, "").split():
            raise InputError(f"--{flag} is not for {kind}")
    path = epath.Path(data)
    if not path.exists():
        raise InputError(f"{data}: no such file or folder")
    if path.is_dir() and not splits.is_split(path):
        folder, by_split = path, splits.of_folder(path)
    else:
        folder = path.parent
        by_split = {"train": path.name, "dev": None, "test": None}
    train = FileSample(first_path(folder, by_split["train"]), named)
    make, fields = _format(kind, train)
    for name in filter(None, (by_split["dev"], by_split["test"])):
        path = first_path(folder, name)
        if FileSample(path).is_text != train.is_text:
            what = f"is of another format than {train.path.name}"
            raise InputError.at(path, None, what, "convert one of them")
    test, label = by_split["test"], fields.get("label", fields.get("labels"))
    if isinstance(label, tuple):
        label = label[0]
    if isinstance(label, str) and test is not None:
        separator = fields.get("separator", "\t")
        if not _has_column(FileSample(first_path(folder, test)), label, separator):
            by_split["test"] = None  # a competition's test file, its labels kept back
    held_out = {"dev_share": HELD_OUT} if by_split["dev"] is None else {}
    if by_split["test"] is None:
        held_out["test_share"] = HELD_OUT
    return make(dir=str(folder), **by_split, **held_out, **fields)


def remarks(examples: Sequence[Any], source: FileSource | None = None) -> list[str]:
    """Return warnings on labels that suggest a misread file.

    Raises:
      InputError: nearly each text has a class of its own.
    """
    counts: Counter[str] = Counter()
    lines: dict[str, int] = {}
    for example in examples:
        labels = labels_of(example)
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
    warnings += _alike(counts)
    if "-1" in numbers and len(numbers) == len(counts) and numbers != {"-1", "1"}:
        times = f"{counts['-1']} times"
        warnings.append(f"label '-1' among numbers often means unknown: {times}")
    if of_texts:
        warnings += _misread(examples, counts)
    if isinstance(source, LabelledSource):
        warnings += _unread(source)
    return warnings


def _alike(counts: Counter[str]) -> list[str]:
    """Return notes on labels that most likely are one."""
    groups: dict[tuple[str, str], list[str]] = {}
    for label in sorted(counts):
        is_number = _NUMBER.fullmatch(label)
        key = ("number format", f"{float(label):g}") if is_number else None
        groups.setdefault(key or ("case", label.casefold()), []).append(label)
    return [
        "labels that differ by "
        f"{how} alone are different labels: "
        + ", ".join(f"{quote(label)} ({counts[label]} times)" for label in alike)
        + "; write them alike if they are one"
        for (how, _), alike in groups.items()
        if len(alike) > 1
    ]


def _misread(examples: Sequence[LabelledText], counts: Counter[str]) -> list[str]:
    """Return notes on classes that look like lists or like a header."""
    notes = []
    for between in BETWEEN:
        parts = {label: label.split(between) for label in counts}
        lists = [
            label
            for label, names in parts.items()
            if len(names) > 1 and counts.keys() & set(map(str.strip, names))
        ]
        if lists:
            times = f"{sum(map(counts.__getitem__, lists))} times"
            what = f"classes may be labels with {quote(between)} between"
            notes.append(f"{what}: {quote(lists[0])}, {times}")
    first = examples[0]
    names = {*LABELS, *TEXTS, *itertools.chain(*PAIRS)}
    if first.line == 1 and names & {(first.label or "").lower(), first.first.lower()}:
        notes.append(f"line 1 looks like names of columns: {quote(first.first)}")
    if len(examples) > 1 and len({(e.first, e.second) for e in examples}) == 1:
        notes.append(f"all {len(examples)} texts are {quote(first.first)}")
    return notes


def _unread(source: LabelledSource) -> list[str]:
    """Return a note on fields beside the class that may be what should be learnt."""
    path = first_path(source.dir, source.train)
    fields = next((r.value for r in source.records(path) if type(r.value) is dict), {})
    values = [getattr(source, field.name) for field in dataclasses.fields(source)]
    used = {x for v in values for x in (v if isinstance(v, tuple) else (v,))}
    unread = [name for name in fields if name in _BESIDE and name not in used]
    if not unread:
        return []
    listed = " and ".join(map(quote, unread))
    do = "--label names another field, and --data.weight of train that of weights"
    return [f"not read beside the class: {listed}; {do}"]


def _list(labels: Iterable[str], lines: Mapping[str, int]) -> str:
    descriptions = [f"{quote(label)} (line {lines[label]})" for label in sorted(labels)]
    more = f" and {len(descriptions) - 5} more" if len(descriptions) > 5 else ""
    return ", ".join(descriptions[:5]) + more


def describe(source: FileSource) -> str:
    """Describe the format and the columns of a source in one line."""
    head = (type(source).__doc__ or "").partition("\n")[0]
    first = first_path(source.dir, source.train)
    if tables.is_table(first):
        head = f"{source.several.capitalize()} in {tables.describe(first)}."
    elif brat.is_folder(first):
        head = "Documents with entities, brat's standoff: .txt and .ann files."
    changed = fields_of(source).removeprefix(type(source).__name__).lstrip(", ")
    return " ".join([head, changed]).strip()


def fields_of(source: FileSource) -> str:
    """Return the class of a source and its fields of reading that are no defaults."""
    changed = [
        f"{name}: {value}"
        for name, value in source.reading_fields.items()
        if value != getattr(type(source), name, dataclasses.MISSING)
    ]
    return ", ".join([type(source).__name__, *changed])


def _format(kind: Kind, file: FileSample) -> tuple[type[FileSource], dict]:
    """Return the source for a file, and those of its fields that are no defaults."""
    for source in SOURCES[kind]:
        if source.fits(file):
            return source, source.settings(file)
    what, hint = "is not JSON" if kind == "qa" else "is of another format", ""
    for other, sources in SOURCES.items():
        likely = [s for s in sources if s not in (WordLabelFiles, LabelFirstFiles)]
        if not has_tags(file):
            likely = [source for source in likely if source is not ConllFiles]
        fitting = next((s for s in likely if other != kind and s.fits(file)), None)
        if fitting is not None:
            what, hint = _looks(fitting, file), f"; `init {other}` may"
            break
    do = f"`init {kind}` reads {_READS[kind]}{hint}"
    raise InputError.at(file.path, None, what, do)


def _looks(source: type[FileSource], file: FileSample) -> str:
    """Return what a file that fits a source looks like."""
    if file.is_arrow:
        return f"is {tables.describe(file.path)}"
    if file.is_brat:
        return "holds brat's .ann files"
    if file.is_document:
        return "is one JSON document"
    if file.has_records:
        return "is JSON lines"
    if source.looks or file.table is None:
        return source.looks
    return f"is a table of columns between {file.table.separator!r}"


def _has_column(file: FileSample, name: str, separator: str) -> bool:
    """Return whether there is such a column or field, in a table one with a value."""
    if file.is_arrow:
        return any(record.get(name) is not None for record in file.records())
    if file.has_records:
        return name in next(file.records(), ())
    table = Table(separator, separator != "\t" or '"' in file.first_line, True)
    return name in separated.header(table.rows(file.path))[1]
