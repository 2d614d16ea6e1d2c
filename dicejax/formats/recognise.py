"""Formats of data files, recognised by their content, and splits by their names."""

import dataclasses
import itertools
import re
from collections.abc import Mapping

from etils import epath

from dicejax.errors import Flaw, InputError, quote, truncate
from dicejax.formats import annotations, containers, label_studio, separated, tables
from dicejax.formats.json_sentences import tokens_of
from dicejax.formats.kinds import FORMATS, Format, Kind, format_of
from dicejax.formats.mapping import SAMPLE
from dicejax.formats.records import ALL_UNNAMED, Columns
from dicejax.formats.sample import RECORDS, FileSample
from dicejax.formats.source import FileSource, first_path
from dicejax.io import files, json_text

HELD_OUT = 0.15  # of a single file, for dev and again for test
_BY_SCRIPT = "write JSON lines of texts with their entities or classes"
# How formats begin that are not read, what they are, and what to do.
_FOREIGN = {
    r"#FORMAT=WebAnno": ("is WebAnno TSV", "export it as CoNLL 2002"),
    r"\d+\|[ta]\|": ("is PubTator", "convert it to brat's, as bconv does"),
    r"#begin document": ("is CoNLL-2012", "write a word and its tag on each line"),
    r"(?i)<!DOCTYPE html|<html": ("is a web page", "get the file that it is about"),
    r"<\?xml|<!DOCTYPE|<[A-Za-z][\w:.-]*( [^<>\n]*)?>\s*\n\s*<": ("is XML", _BY_SCRIPT),
    r"<[A-Za-z][\w:.-]* xmlns[:=]": ("is XML", _BY_SCRIPT),
    r"(?i)@relation\b": ("is ARFF", "save it as CSV"),
    r"//|/\*": ("is JSON with comments", "remove them"),
    r"---$|%YAML": ("is YAML", _BY_SCRIPT),
    r'\{\s*"projectFileVersion"': ("is a project of Azure", _BY_SCRIPT),
    r'\{(?s:.*)"passages"\s*:': ("is BioC", "convert it to brat's, as bconv does"),
}
_ENDINGS = {"yml": "is YAML", "yaml": "is YAML", "toml": "is TOML", "xml": "is XML"}
_OF_ENTITIES = re.compile(r"(?i)(?=.*\b(start|begin))(?=.*\bend)")  # a header
_NUMBERS = ("id", "idx", "index", "number", "no")  # names of columns of numbers

# The name of each container, and how a file in it is described.
_CONTAINERS = {
    "table": ("a table", ""),
    "brat": ("brat's", "holds brat's .ann files"),
    "document": ("JSON", "is one JSON document"),
    "records": ("JSON", "is JSON lines"),
    "CoNLL-U": ("CoNLL-U", "is CoNLL-U"),
    "text": ("text", ""),
    "nothing": ("blank", ""),
}
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
    folder, by_split = _splits_of(data)
    train = FileSample(first_path(folder, by_split["train"] or ""), named)
    form = _format(kind, train)
    fields = form.fields(train)
    label = fields.get("label") if kind == "classification" else None
    label = label[0] if isinstance(label, tuple) else label
    for split in ("dev", "test"):
        if (name := by_split[split]) is None:
            continue
        file = FileSample(first_path(folder, name), named)
        both = {file.container, train.container}
        if len(both) > 1 and both & {"text", "CoNLL-U"}:
            read, expected = (_CONTAINERS[x.container][0] for x in (file, train))
            fault = f"is {read}, but {train.path.name} is {expected}"
            raise InputError.at(file.path, None, fault, "convert one of them")
        if "word_column" in fields:
            there, parts = form.fields(file), ("sentence_column", "word_column")
            if any(there.get(part) != fields.get(part) for part in parts):
                fault = f"has its words in column {there['word_column']}, but "
                fault += f"{train.path.name} in column {fields['word_column']}"
                raise InputError.at(file.path, None, fault, "write both alike")
        has_labels = not isinstance(label, str) or _has_labels(file, train, label)
        if split == "test" and not has_labels:
            by_split[split] = None
    lacking = [split for split in ("dev", "test") if by_split[split] is None]
    fields |= by_split | {f"{split}_share": HELD_OUT for split in lacking}
    return form.make(dir=str(folder), **fields)


def kind_of(data: str) -> Kind:
    """Return the kind of task that data is for, where its form tells.

    Raises:
      InputError: there is no such data, or it may be for several kinds or none.
    """
    folder, by_split = _splits_of(data)
    file = FileSample(first_path(folder, by_split["train"] or ""), ALL_UNNAMED)
    fitting = {k: [f for f in FORMATS[k] if f.fits(file)] for k in FORMATS}
    sure: list[Kind] = [k for k in FORMATS if any(f.is_sure(file) for f in fitting[k])]
    kinds: list[Kind] = [k for k in sure if len(sure) == 1 or _is_read(k, data)]
    if len(kinds) == 1:
        return kinds[0]
    listed = ", ".join(kinds or [k for k in FORMATS if fitting[k]] or FORMATS)
    raise InputError.at(file.path, None, f"may be for {listed}", "name it with --kind")


def _splits_of(data: str) -> tuple[epath.Path, dict[str, str | None]]:
    """Return a folder and the file of each split there, of a file that of train."""
    path = epath.Path(data)
    if not path.exists():
        raise InputError(f"{data}: no such file or folder")
    if path.is_dir() and not containers.is_split(path):
        return path, containers.of_folder(path)
    return path.parent, {"train": path.name, "dev": None, "test": None}


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
        head = f"{source.noun.capitalize()} in {tables.describe(first)}."
    elif containers.is_brat(first):
        head = "Documents with entities, brat's standoff: .txt and .ann files."
    _, *changed = fields_of(source).split(", ", 1)
    return " ".join([head, *changed])


def fields_of(source: FileSource) -> str:
    """Return the class of a source and its fields of reading that are no defaults."""
    common = {field.name for field in dataclasses.fields(FileSource)}
    fields = [x for x in dataclasses.fields(source) if x.name not in common]
    values = [(x.name, getattr(source, x.name), x.default) for x in fields]
    changed = [f"{name}: {x}" for name, x, default in values if x != default]
    return ", ".join([type(source).__name__, *changed])


def _format(kind: Kind, file: FileSample) -> Format:
    """Return the format of a file."""
    begin = file.beginning
    for pattern, problem in _FOREIGN.items():
        if re.match(pattern, begin, re.MULTILINE):
            raise InputError.at(file.path, None, *problem)
    if file.ending in _ENDINGS and begin:
        raise InputError.at(file.path, None, _ENDINGS[file.ending], _BY_SCRIPT)
    if (flaw := _of_one_object(kind, file)) is not None:
        raise InputError.at(file.path, None, *flaw)
    for form in FORMATS[kind]:
        if form.fits(file):
            return form
    if kind == "ner" and file.container == "text" and _OF_ENTITIES.match(file.first):
        fault = "is a table of entities by their places"
        raise InputError.at(file.path, 1, fault, _BY_SCRIPT)
    fault, hint = "is not JSON" if kind == "qa" else "is of another format", ""
    if file.container == "nothing" and not begin:
        fault = "holds blank lines alone"
    for other, forms in FORMATS.items():
        sure = (f for f in forms if other != kind and f.is_sure(file))
        fitting = next((f for f in sure if f.fits(file)), None)
        if fitting is not None:
            fault, hint = _looks(fitting, file), f"; `init {other}` may"
            break
    remedy = f"`init {kind}` reads {_READS[kind]}{hint}"
    raise InputError.at(file.path, None, fault, remedy)


def _of_one_object(kind: Kind, file: FileSample) -> tuple[str, str] | None:
    """Return what is wrong with a file of one object that holds records or columns."""
    if file.container != "document" and len(file.lines) != 1:
        return None
    try:
        value = json_text.value_of(json_text.parse(files.read_text(file.path)), dict)
    except Flaw:
        return None
    is_record = label_studio.is_task(value) or (kind == "qa" and "data" in value)
    texts = (value.get(name) for name in (*annotations.TEXT, "context"))
    if is_record or any(isinstance(text, str) for text in texts):
        return None
    inner = [(n, v) for n, v in value.items() if isinstance(v, dict)]
    below = {f"{n}.{m}": x for n, fields in inner for m, x in fields.items()}
    lists = [n for n, v in {**value, **below}.items() if _is_list_of(v, dict)]
    if lists:
        fault = f"is one JSON object with records in {' and '.join(map(quote, lists))}"
        remedy = "write each list to a file of its own, such as train.json"
        return truncate(fault, 240), remedy
    columns = [v for v in value.values() if isinstance(v, dict) or _is_list_of(v, str)]
    if len(columns) > 1 and not tokens_of(value, file.named):
        remedy = "write one for each text, as pandas does by orient='records'"
        return "is one JSON object of columns", f"{remedy}, lines=True"
    return None


def _is_list_of(value: object, kind: type) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], kind)


def _looks(form: Format, file: FileSample) -> str:
    """Return what a file that is of a format looks like."""
    if file.container == "table":
        return f"is {tables.describe(file.path)}"
    looks = form.looks or _CONTAINERS[file.container][1]
    if looks or file.table is None:
        return looks
    return f"is a table of columns between {file.table.separator!r}"


def _has_labels(file: FileSample, train: FileSample, label: str) -> bool:
    """Return whether a split has the field of train's labels; a test file may lack it.

    Raises:
      InputError: it has them by another name, or its columns between other signs.
    """
    if file.container == "table":
        return any(record.get(label) is not None for record in file.sample)
    between = train.table.separator if train.container == "text" and train.table else ""
    if file.container in RECORDS:
        sample = file.sample
        names = list(dict.fromkeys(name for row in sample for name in row))
    else:
        rows = train.table.rows(file.path) if train.table else iter(())
        _, names = separated.header(rows)
        some = itertools.islice(rows, SAMPLE)
        sample = [dict(zip(names, fields, strict=False)) for _, fields in some]
    if label in names:
        return True
    fault = f"has no {quote(label)}, by which {train.path.name} is read"
    if between and file.table and file.table.separator != between and len(names) < 2:
        fault += f": its columns are between {file.table.separator!r}, not {between!r}"
        raise InputError.at(file.path, 1, fault, "write both alike")
    if {*names} & {str(row.get(label)) for row in train.sample}:
        fault = "begins with an example where the names of columns are expected"
        remedy = f"add a first line with names, as {train.path.name} has"
        raise InputError.at(file.path, 1, fault, remedy)
    classes = {str(row[label]) for row in train.sample if row.get(label) is not None}
    for name in names:
        is_new = not any(name in row for row in train.sample)
        is_new &= name.lower() not in _NUMBERS
        values = {str(row[name]) for row in sample if row.get(name) is not None}
        if is_new and values and values <= classes:
            remedy = f"call {quote(name)} so, too"
            raise InputError.at(file.path, 1, f"{fault}, but {quote(name)}", remedy)
    return False


def unlabelled(data: str, source: FileSource) -> str | None:
    """Return a note on a test file that is not read, as it has no labels."""
    path = epath.Path(data)
    if source.test is not None or not path.is_dir() or containers.is_split(path):
        return None
    name = containers.of_folder(path)["test"]
    note = f"{name} has no labels: test is held out of {source.train}"
    return note if name else None
