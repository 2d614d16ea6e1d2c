"""Formats of data files, recognised by their content, and splits by their names."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence

from etils import epath

from dicejax.errors import InputError, quote
from dicejax.formats import containers, separated, tables
from dicejax.formats.kinds import FORMATS, Format, Kind, format_of
from dicejax.formats.mapping import SAMPLE
from dicejax.formats.records import ALL_UNNAMED, Columns
from dicejax.formats.sample import FileSample
from dicejax.formats.source import MOST, FileSource, first_path
from dicejax.io import files

HELD_OUT = 0.15  # of a single file, for dev and again for test
_BY_SCRIPT = "write JSON lines of texts with their entities or classes"
# How formats begin that are not read, what they are, and what to do.
_FOREIGN = {
    r"#FORMAT=WebAnno": ("is WebAnno TSV", "export it as CoNLL 2002"),
    r"\d+\|[ta]\|": ("is PubTator", "convert it to brat's, as bconv does"),
    r"#begin document": ("is CoNLL-2012", "write a word and its tag on each line"),
    r"<\?xml|<!DOCTYPE|<[A-Za-z][\w:.-]*( [^<>\n]*)?>\s*\n\s*<": ("is XML", _BY_SCRIPT),
    r"(?i)@relation\b": ("is ARFF", "save it as CSV"),
    r"//|/\*": ("is JSON with comments", "remove them"),
    r"---$|%YAML": ("is YAML", _BY_SCRIPT),
    r'\{\s*"projectFileVersion"': ("is a project of Azure", _BY_SCRIPT),
    r'\{\s*"(train|dev|valid|validation|test)"\s*:\s*\[': (
        "is one JSON object that holds all splits",
        "write the list of each to a file of its own, such as train.json",
    ),
    r'\{(?s:.*)"passages"\s*:': ("is BioC", "convert it to brat's, as bconv does"),
}
_NUMBERS = ("id", "idx", "index", "number", "no")  # names of columns of numbers

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
    has["pos"] = "text label"
    for flag, name in dataclasses.asdict(named).items():
        if name is not None and flag not in has.get(kind, "").split():
            raise InputError(f"--{flag} is not for {kind}")
    path = epath.Path(data)
    if not path.exists():
        raise InputError(f"{data}: no such file or folder")
    if path.is_dir() and not containers.is_split(path):
        folder, by_split = path, of_folder(path)
    else:
        folder = path.parent
        by_split = {"train": path.name, "dev": None, "test": None}
    train = FileSample(first_path(folder, by_split["train"]), named)
    form = _format(kind, train)
    fields = form.fields(train)
    label = fields.get("label")
    label = label[0] if isinstance(label, tuple) else label
    for split in ("dev", "test"):
        if (name := by_split[split]) is None:
            continue
        file = FileSample(first_path(folder, name), named)
        if file.is_text != train.is_text or file.is_conllu != train.is_conllu:
            what = f"is {_form(file)}, but {train.path.name} is {_form(train)}"
            raise InputError.at(file.path, None, what, "convert one of them")
        is_named = kind == "classification" and isinstance(label, str)
        if is_named and not _has_labels(file, train, label) and split == "test":
            by_split[split] = None
    held_out = {"dev_share": HELD_OUT} if by_split["dev"] is None else {}
    if by_split["test"] is None:
        held_out["test_share"] = HELD_OUT
    return form.make(dir=str(folder), **by_split, **held_out, **fields)


def kind_of(data: str) -> Kind:
    """Return the kind of task that data is for, where its form tells.

    Raises:
      InputError: there is no such data, or it may be for several kinds or none.
    """
    path = epath.Path(data)
    if not path.exists():
        raise InputError(f"{data}: no such file or folder")
    folder, train = path.parent, path.name
    if path.is_dir() and not containers.is_split(path):
        folder, train = path, of_folder(path)["train"]
    file = FileSample(first_path(folder, train), ALL_UNNAMED)
    fitting = {k: [f for f in FORMATS[k] if f.fits(file)] for k in FORMATS}
    sure = [k for k in FORMATS if any(f.is_sure(file) for f in fitting[k])]
    kinds = [k for k in sure if len(sure) == 1 or _is_read(k, data)]
    if len(kinds) == 1:
        return kinds[0]
    listed = ", ".join(kinds or [k for k in FORMATS if fitting[k]] or FORMATS)
    raise InputError.at(file.path, None, f"may be for {listed}", "name it with --kind")


def _is_read(kind: Kind, data: str) -> bool:
    """Return whether a kind of task reads data."""
    try:
        return bool(source_of(kind, data).load().train)
    except InputError:
        return False


def describe(source: FileSource) -> str:
    """Describe the format and the columns of a source in one line."""
    form = format_of(source)
    head = (form and form.title) or (type(source).__doc__ or "").partition("\n")[0]
    first = first_path(source.dir, source.train)
    if tables.is_table(first):
        head = f"{source.several.capitalize()} in {tables.describe(first)}."
    elif containers.is_brat(first):
        head = "Documents with entities, brat's standoff: .txt and .ann files."
    _, *changed = fields_of(source).split(", ", 1)
    return " ".join([head, *changed])


def fields_of(source: FileSource) -> str:
    """Return the class of a source and its fields of reading that are no defaults."""
    changed = [
        f"{name}: {value}"
        for name, value in source.reading_fields.items()
        if value != getattr(type(source), name, dataclasses.MISSING)
    ]
    return ", ".join([type(source).__name__, *changed])


def _format(kind: Kind, file: FileSample) -> Format:
    """Return the format of a file."""
    begin = "" if file.is_arrow or file.is_brat else file.beginning
    for pattern, problem in _FOREIGN.items():
        if re.match(pattern, begin, re.MULTILINE):
            raise InputError.at(file.path, None, *problem)
    for form in FORMATS[kind]:
        if form.fits(file):
            return form
    what, hint = "is not JSON" if kind == "qa" else "is of another format", ""
    for other, forms in FORMATS.items():
        sure = (f for f in forms if other != kind and f.is_sure(file))
        fitting = next((f for f in sure if f.fits(file)), None)
        if fitting is not None:
            what, hint = _looks(fitting, file), f"; `init {other}` may"
            break
    do = f"`init {kind}` reads {_READS[kind]}{hint}"
    raise InputError.at(file.path, None, what, do)


def _looks(form: Format, file: FileSample) -> str:
    """Return what a file that is of a format looks like."""
    if file.is_arrow:
        return f"is {tables.describe(file.path)}"
    if file.is_brat:
        return "holds brat's .ann files"
    if file.is_document:
        return "is one JSON document"
    if file.has_records:
        return "is JSON lines"
    if form.looks or file.table is None:
        return form.looks
    return f"is a table of columns between {file.table.separator!r}"


def _form(file: FileSample) -> str:
    """Return the form of a file in a word or two."""
    if file.is_arrow or file.is_brat or file.is_conllu:
        return "a table" if file.is_arrow else "brat's" if file.is_brat else "CoNLL-U"
    return "text" if file.is_text else "JSON"


def _has_labels(file: FileSample, train: FileSample, label: str) -> bool:
    """Return whether a split has the field of train's labels; a test file may lack it.

    Raises:
      InputError: it has them by another name, or its columns between other signs.
    """
    if file.is_arrow:
        return any(record.get(label) is not None for record in file.sample)
    between = train.table.separator if train.table and train.is_text else ""
    if file.has_records:
        sample = file.sample
        names = list(dict.fromkeys(name for row in sample for name in row))
    else:
        rows = train.table.rows(file.path)
        _, names = separated.header(rows)
        some = itertools.islice(rows, SAMPLE)
        sample = [dict(zip(names, fields, strict=False)) for _, fields in some]
    if label in names:
        return True
    what = f"has no {quote(label)}, by which {train.path.name} is read"
    if between and file.table and file.table.separator != between and len(names) < 2:
        what += f": its columns are between {file.table.separator!r}, not {between!r}"
        raise InputError.at(file.path, 1, what, "write both alike")
    classes = {str(row[label]) for row in train.sample if row.get(label) is not None}
    for name in names:
        is_new = not any(name in row for row in train.sample)
        is_new &= name.lower() not in _NUMBERS
        values = {str(row[name]) for row in sample if row.get(name) is not None}
        if is_new and values and values <= classes:
            do = f"call {quote(name)} so, too"
            raise InputError.at(file.path, 1, f"{what}, but {quote(name)}", do)
    return False


def left_out(data: str, source: FileSource) -> list[str]:
    """Return a note on the files of a folder that are not read, if there are any."""
    path = epath.Path(data)
    if not path.is_dir() or containers.is_split(path):
        return []
    read = {
        x
        for names in (source.train, source.dev, source.test)
        if names
        for x in names.replace("+", "\0").split("\0")
    }
    names = [x.name for x in files.entries(path) if x.name[0] != "."]
    rest = [n for n in names if n.removesuffix(".gz") not in read and n not in read]
    rest = [n for n in rest if not any(x.startswith(f"{n}/") for x in read)]
    unlabelled = of_folder(path)["test"] if source.test is None else None
    notes = []
    if unlabelled is not None:
        what = f"{unlabelled} has no labels and is not read"
        notes.append(f"{what}: test is held out of {source.train}")
        rest = [n for n in rest if n not in unlabelled]
    if rest:
        more = f" and {len(rest) - MOST} more" * (len(rest) > MOST)
        listed = f"{', '.join(map(quote, rest[:MOST]))}{more}"
        notes.append(f"not read of {data}: {listed}")
    return notes


SPLITS = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "development", "eval"),
    "test": ("test", "testing"),
}
_PART = re.compile(r"-\d+-of-\d+")  # as the hub numbers the parts of a file


def of_folder(path: epath.Path) -> dict[str, str | None]:
    """Return the file or folder of each split; the parts of one are joined by "+".

    Tables may also be in the only folder below that has some, such as `data`.

    Raises:
      InputError: the folder cannot be read, or has no train file.
    """
    there = files.entries(path)
    names = [
        entry.name for entry in there if entry.is_file() or containers.is_split(entry)
    ]
    splits = _splits(names)
    if splits["train"] is not None:
        return splits
    below = {}
    for folder in (entry for entry in there if entry.is_dir()):
        inside = filter(tables.is_table, files.entries(folder))
        splits = _splits([f"{folder.name}/{table.name}" for table in inside])
        if splits["train"] is not None:
            below[folder.name] = splits
    if len(below) > 1:
        do = "name one of these folders with --data"
        raise InputError.at(path, None, f"holds {' and '.join(below)}", do)
    if not below:
        raise InputError(
            f"{path}: holds no train file (of {len(names)} files none has a name "
            "that begins with train); name the file itself with --data"
        )
    return next(iter(below.values()))


def _splits(names: Sequence[str]) -> dict[str, str | None]:
    return {split: _find(names, words) for split, words in SPLITS.items()}


def _find(names: Sequence[str], words: Sequence[str]) -> str | None:
    """Return the file whose name begins with one of the words, or holds it."""
    stems = {name: name.rpartition("/")[2].lower().split(".")[0] for name in names}
    pairs = list(itertools.product(words, names))
    for word, name in pairs:
        if stems[name] == word or stems[name].startswith((f"{word}-", f"{word}_")):
            return _whole(name, names)
    for word, name in pairs:
        if word in stems[name].replace("-", "_").split("_"):
            return _whole(name, names)
    return None


def _whole(name: str, names: Sequence[str]) -> str:
    """Return all parts of a file, if it is one of several."""
    parts = [name]
    if _PART.search(name):
        parts = [part for part in names if _PART.sub("", part) == _PART.sub("", name)]
    return "+".join(part.removesuffix(".gz") for part in parts)
