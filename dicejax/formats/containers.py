"""Files of records: JSON lines, lists in JSON, tables of `datasets`, brat's folders."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from etils import epath

from dicejax.errors import Flaw, InputError, quote
from dicejax.formats import tables
from dicejax.formats.records import FileRecord, OnError, fields_of, report
from dicejax.formats.text import Predictions
from dicejax.io import files, json_text

_PLACE = r"\d{1,18} \d{1,18}"
# What brat's annotations are beside entities, by their first sign.
_BESIDE = {"R": "relations", "E": "events", "A": "attributes", "M": "attributes"}
_BESIDE |= {"N": "normalizations", "#": "notes", "*": "equivalences"}
_ENTITY = re.compile(rf"(T\S*)\t(\S+) ({_PLACE}(?:;{_PLACE})*)(?:\t(.*))?")


def is_brat(path: files.Path) -> bool:
    """Return whether a path is a folder with .ann files."""
    folder = epath.Path(path)
    return folder.is_dir() and bool(_documents(folder))


def is_split(path: files.Path) -> bool:
    """Return whether a path is read as one file: saved by datasets, or brat's."""
    return tables.is_table(path) or is_brat(path)


def _brat_records(path: files.Path, on_error: OnError | None) -> Iterator[FileRecord]:
    """Yield each document, by name, as a record with text and entities.

    An entity is a line `T1<tab>PER 0 4<tab>Anna`, in whose text a space is written for
    a line break; a line break of two characters counts as two. Relations, events,
    attributes and notes are not read.

    Raises:
      InputError: a file is missing or cannot be read.
    """
    for number, file in enumerate(_documents(epath.Path(path)), start=1):
        yield FileRecord(file, number, file).map(lambda x: _document(x, on_error))


def write_brat(path: files.Path | None, pairs: Predictions) -> None:
    """Write documents with predicted entities; the folder appears whole or not at all.

    Raises:
      InputError: no folder is named, it exists, or it cannot be written.
    """
    if path is None:
        raise InputError("brat's files are written to a folder: name it with --out")
    folder = files.follow_link(epath.Path(path))
    with files.input_errors(folder), files.whole_folder(folder) as made:
        for text, record in pairs:
            name, rows = text.fields["id"], []
            for number, e in enumerate(record.get("entities", ()), start=1):
                start, end = e["start_char"], e["end_char"]
                part = " ".join(text.text[start:end].split())
                rows.append(f"T{number}\t{e['type']} {start} {end}\t{part}\n")
            (made / f"{name}.txt").write_bytes(text.text.encode())
            (made / f"{name}.ann").write_bytes("".join(rows).encode())


def _documents(folder: epath.Path) -> list[epath.Path]:
    return [entry for entry in files.entries(folder) if entry.suffix == ".ann"]


def _document(file: epath.Path, on_error: OnError | None) -> dict[str, Any]:
    text = _text(file.with_suffix(".txt")).replace("\ufeff", " ")
    entities: list[dict[str, Any]] = []
    others: dict[str, None] = {}
    for line, row in enumerate(_text(file).split("\n"), start=1):
        row = row.removeprefix("\ufeff").removesuffix("\r")
        if not row.startswith("T"):
            others |= dict.fromkeys(filter(None, [_BESIDE.get(row[:1])]))
            continue
        match = _ENTITY.fullmatch(row)
        if match is None:
            fault = f"{quote(row)} is not an entity"
            raise Flaw(fault, "write ID<tab>TYPE START END<tab>TEXT", line)
        name, label, places, quoted = match.groups()
        bounds = [[*map(int, part.split(" "))] for part in places.split(";")]
        start, end = bounds[0][0], bounds[-1][1]
        gaps = (text[i:j] for (_, i), (j, _) in itertools.pairwise(bounds))
        if any(gap.strip() for gap in gaps):  # a line break parts an entity as well
            flaw = Flaw(f"entity {name} has a gap ({places})", "make it one span")
            report(flaw.at(file, line), on_error)
            continue
        if quoted is not None and quoted.split() != text[start:end].split():
            fault = f"entity {name} is {quote(quoted)}, but {start} to {end} of the"
            remedy = "correct its offsets, which count characters from 0, end excluded"
            raise Flaw(f"{fault} text is {quote(text[start:end])}", remedy, line)
        entities.append({"id": name, "start": start, "end": end, "label": label})
    return {"id": file.stem, "text": text, "entities": entities, **others}


def _text(file: epath.Path) -> str:
    """Return the text with its line breaks, which offsets count."""
    try:
        return files.read_bytes(file).decode("utf-8")
    except UnicodeDecodeError as error:
        fault = f"byte {error.start} is not UTF-8"
        raise InputError.at(file, None, fault, "convert the file to UTF-8") from None


def records(
    path: files.Path,
    on_error: OnError | None = None,
    stream: files.Stream = None,
    blanks: bool = False,
) -> Iterator[FileRecord]:
    """Yield the records of a file: an object on each line, or one list of them.

    Rows of a table of `datasets` and documents of brat are such records too. A stream
    is read in the place of the path. With `blanks`, blank lines are records.
    """
    if stream is None and tables.is_table(path):
        yield from tables.records(path)
        return
    if stream is None and is_brat(path):
        yield from _brat_records(path, on_error)
        return
    lines = files.lines(path, on_error, stream)
    begin: list[tuple[int, str]] = []  # to the first line that is not blank
    while not (begin and begin[-1][1].strip()) and (pair := next(lines, None)):
        begin.append(pair)
    if begin and begins_a_list(begin[-1][1]):
        rest = (line for _, line in itertools.chain(begin, lines))
        content = files.read_text(path) if stream is None else "\n".join(rest)
        with json_text.flaws_at(path):
            values = json_text.value_of(json_text.parse(content), list)
        for place, value in enumerate(values):
            yield FileRecord(value, place + 1, path, where=f"[{place}]")
        return
    for number, line in itertools.chain(begin, lines):
        if line.strip():
            yield FileRecord(line, number, path, number).map(json_text.parse)
        elif blanks:
            yield FileRecord(None, number, path, number, is_blank=True)


def begins_a_list(line: str) -> bool:
    """Return whether a line begins a list of records, and is no record itself."""
    if line.lstrip().startswith("["):
        try:
            fields_of(json_text.parse(line))
        except Flaw:
            return True
    return False


def first_line(path: files.Path) -> str:
    """Return the first line of a file that is not blank; empty if all are."""
    return next((line for _, line in files.lines(path) if line.strip()), "")


def is_document(first: str) -> bool:
    """Return whether a file is one JSON object, such as SQuAD's, by its first line."""
    if first.strip() == "{":
        return True
    try:
        value = json_text.parse(first)
    except Flaw:
        return False
    return isinstance(value, dict) and isinstance(value.get("data"), list)


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
    names = [entry.name for entry in there if entry.is_file() or is_split(entry)]
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
        remedy = "name one of these folders with --data"
        raise InputError.at(path, None, f"holds {' and '.join(below)}", remedy)
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
    parts = {name: stem.replace("-", "_").split("_") for name, stem in stems.items()}
    pairs = list(itertools.product(words, names))
    begin = (name for word, name in pairs if parts[name][0] == word)
    hold = (name for word, name in pairs if word in parts[name])
    name = next(itertools.chain(begin, hold), None)
    return None if name is None else _whole(name, names)


def _whole(name: str, names: Sequence[str]) -> str:
    """Return all parts of a file, if it is one of several."""
    parts = [name]
    if _PART.search(name):
        parts = [part for part in names if _PART.sub("", part) == _PART.sub("", name)]
    return "+".join(part.removesuffix(".gz") for part in parts)
