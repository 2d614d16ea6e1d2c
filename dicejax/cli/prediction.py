"""Predictions of a run from a file or from arguments, to a file or to the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from etils import epath
from rich.console import Console
from rich.progress import Progress

from dicejax.cli.printing import note_printer, warn_of_cuts
from dicejax.data import texts
from dicejax.data.readers import tables
from dicejax.data.texts import Text
from dicejax.errors import InputError
from dicejax.io import files
from dicejax.io.terminal import show
from dicejax.training.inference import predict, predict_texts, read_texts, text_columns

if TYPE_CHECKING:
    from dicejax.cli.runs import Predict

_NAMES = {
    "text": "plain text, one example per line",
    "jsonl": "JSON lines",
    "conll": "columns, the first one words",
    "csv": "a table with a header",
}


def write(command: Predict, console: Console) -> None:
    """Predict, and print or write a result for each example.

    The columns of a table, or fields of objects, are those of the run's data.

    Raises:
      InputError: an input cannot be used, or the file cannot be written.
    """
    run, which, file, out = command.run, command.checkpoint, command.file, command.out
    out_form = "jsonl" if command.json else command.out_format
    out_form = out_form or texts.format_of(out or "")
    in_form = command.format or texts.format_of(file or "")
    examples = [Text(number, text) for number, text in enumerate(command.text, start=1)]
    if file is not None:
        columns = text_columns(run) if in_form in ("csv", "jsonl") else ("text",)
        examples = read_texts(file, in_form, columns)
    cut: list[str] = []
    if file is None and out_form != "conll":
        results = predict(run, command.text, which, cut.append)
    else:
        count = sum(not example.is_blank for example in examples)
        with Progress(console=console, transient=True) as bar:
            line = bar.add_task("predict", total=count)
            results = predict_texts(
                run,
                examples,
                which,
                file,
                tagged=out_form == "conll",
                decoded=lambda: bar.advance(line),
                warn=cut.append,
            )
    if file is not None and not command.format and not tables.is_table(file):
        note_printer(console)(
            f"{file} read as {_NAMES[in_form]}; --format names another"
        )
    pairs = list(zip(examples, results, strict=True))
    match out_form:
        case "csv":
            lines = list(texts.table(examples, [record for record, _ in results]))
        case "conll":
            lines = [texts.conll(text, record) for text, (record, _) in pairs]
        case "jsonl":
            lines = [texts.jsonl(text, record) for text, (record, _) in pairs]
        case _:
            lines = ["\n".join(parts) for _, parts in results]
    if out is not None:
        write_lines(out, lines)
    else:
        for text in lines:
            show(text, keep="\n\t")  # columns are separated by tabs
    warn_of_cuts(console, cut)


def write_lines(out: str, lines: Iterable[str]) -> None:
    """Write lines to a file, atomically.

    Raises:
      InputError: the file cannot be written.
    """
    path = epath.Path(out)
    files.write_whole(path.parent, path.name, "".join(f"{line}\n" for line in lines))


def check_target(out: str) -> None:
    """Refuse a name that cannot be written, before anything is read or computed.

    Raises:
      InputError: it is a folder or in one that cannot be written to, or names a
        compressed file or a table.
    """
    path = epath.Path(out)
    if path.is_dir():
        raise InputError.at(out, None, "is a folder", "name a file in it")
    folder = path.parent
    if folder.is_dir() and not os.access(folder, os.W_OK):
        what = f"{folder} cannot be written to"
        raise InputError.at(out, None, what, "name a file elsewhere")
    if tables.is_table(path):
        raise InputError.at(out, None, "results are no tables", "name a .jsonl file")
    if path.name.endswith(".gz"):
        do = "name it without .gz"
        raise InputError.at(out, None, "results are written uncompressed", do)
