r"""brat's standoff: a folder with a .txt and an .ann file for each document."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from etils import epath

from dicejax.errors import Flaw, InputError, quote
from dicejax.formats.records import FileRecord
from dicejax.formats.skipping import OnError, report
from dicejax.formats.text import Predictions
from dicejax.io import files

_PLACE = r"\d{1,18} \d{1,18}"
_ENTITY = re.compile(rf"(T\S*)\t(\S+) ({_PLACE}(?:;{_PLACE})*)(?:\t(.*))?")


def is_folder(path: files.Path) -> bool:
    """Return whether a path is a folder with .ann files."""
    folder = epath.Path(path)
    return folder.is_dir() and bool(_documents(folder))


def records(path: files.Path, on_error: OnError | None = None) -> Iterator[FileRecord]:
    """Yield each document, by name, as a record with text and entities.

    An entity is a line `T1<tab>PER 0 4<tab>Anna`, in whose text a space is written for
    a line break; a line break of two characters counts as two. Relations, events,
    attributes and notes are not read.

    Raises:
      InputError: a file is missing or cannot be read.
    """
    for number, file in enumerate(_documents(epath.Path(path)), start=1):
        yield FileRecord(file, number, file).map(lambda x: _document(x, on_error))


def write(path: files.Path | None, pairs: Predictions) -> None:
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


def _document(file: epath.Path, on_error: OnError | None) -> dict:
    text = _text(file.with_suffix(".txt")).replace("\ufeff", " ")
    entities = []
    for line, row in enumerate(_text(file).split("\n"), start=1):
        row = row.removeprefix("\ufeff").removesuffix("\r")
        if not row.startswith("T"):
            continue
        match = _ENTITY.fullmatch(row)
        if match is None:
            what = f"{quote(row)} is not an entity"
            raise Flaw(what, "write ID<tab>TYPE START END<tab>TEXT", line)
        name, label, places, quoted = match.groups()
        bounds = [[*map(int, part.split(" "))] for part in places.split(";")]
        start, end = bounds[0][0], bounds[-1][1]
        gaps = (text[i:j] for (_, i), (j, _) in itertools.pairwise(bounds))
        if any(gap.strip() for gap in gaps):  # a line break parts an entity as well
            flaw = Flaw(f"entity {name} has a gap ({places})", "make it one span")
            report(flaw.at(file, line), on_error)
            continue
        if quoted is not None and quoted.split() != text[start:end].split():
            what = f"entity {name} is {quote(quoted)}, but {start} to {end} of the text"
            do = "correct its offsets, which count characters from 0, end excluded"
            raise Flaw(f"{what} is {quote(text[start:end])}", do, line)
        entities.append({"id": name, "start": start, "end": end, "label": label})
    return {"id": file.stem, "text": text, "entities": entities}


def _text(file: epath.Path) -> str:
    """Return the text with its line breaks, which offsets count."""
    try:
        return files.read_bytes(file).decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"byte {error.start} is not UTF-8"
        raise InputError.at(file, None, what, "convert the file to UTF-8") from None
