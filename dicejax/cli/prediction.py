"""Predictions of a run from a file or from arguments, to a file or to the terminal."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from etils import epath
from rich.console import Console
from rich.progress import Progress

from dicejax.cli.printing import noting, warn_of_cuts
from dicejax.data import texts
from dicejax.data.readers import tables
from dicejax.data.texts import Format, Text
from dicejax.errors import InputError
from dicejax.io import files
from dicejax.io.terminal import show
from dicejax.training.checkpoint import Which
from dicejax.training.inference import predict, predict_texts, read_texts, text_columns

_NAMES = {
    "text": "plain text, one example per line",
    "jsonl": "JSON lines",
    "conll": "columns, the first one words",
    "csv": "a table with a header",
}


@dataclasses.dataclass(frozen=True)
class PredictionInput:
    """Examples to predict.

    Attributes:
      examples: in their order.
      path: their file; None for arguments.
      guessed: the format, if it was guessed.
    """

    examples: Sequence[Text]
    path: str | None = None
    guessed: Format | None = None

    @classmethod
    def of_arguments(cls, given: Sequence[str]) -> PredictionInput:
        """Take each argument as an example."""
        return cls([Text(number, text) for number, text in enumerate(given, start=1)])

    @classmethod
    def of_file(cls, path: str, form: Format | None, run: str) -> PredictionInput:
        """Read a file, by default of the format that its name tells.

        The columns of a table, or fields of objects, are those of the run's data.

        Raises:
          InputError: see `data.texts.read`.
        """
        taken = form or texts.format_of(path)
        columns = text_columns(run) if taken in ("csv", "jsonl") else ("text",)
        guessed = None if form or tables.is_table(path) else taken
        return cls(read_texts(path, taken, columns), path, guessed)


def write(
    run: str,
    source: PredictionInput,
    which: Which,
    out: str | None,
    form: Format | None,
    console: Console,
) -> None:
    """Predict, and print or write a result for each example.

    Args:
      run: folder of the run.
      source: the examples.
      which: checkpoint to use.
      out: file to write; None prints.
      form: format of the results; None takes that of the file's name, or text.
      console: gets the bar and remarks.

    Raises:
      InputError: an input cannot be used, or the file cannot be written.
    """
    form = form or texts.format_of(out or "")
    found, cut = _predicted(run, source, which, form, console)
    if source.path is not None and source.guessed is not None:
        noting(console)(
            f"{source.path} read as {_NAMES[source.guessed]}; --format names another"
        )
    lines = _formatted(source.examples, found, form)
    if out is None:
        for line in lines:
            show(line, keep="\n\t")  # columns are separated by tabs
    else:
        _write_lines(out, lines)
    warn_of_cuts(console, cut)


def write_examples(out: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write gold and predictions of examples as JSON lines.

    Raises:
      InputError: the file cannot be written.
    """
    _write_lines(out, (json.dumps(row, ensure_ascii=False) for row in rows))


def _write_lines(out: str, lines: Iterable[str]) -> None:
    path = epath.Path(out)
    content = "".join(f"{line}\n" for line in lines)
    files.write_whole(path.parent, path.name, content)


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


def _predicted(
    run: str, source: PredictionInput, which: Which, form: Format, console: Console
) -> tuple[list[tuple[dict[str, Any], list[str]]], list[str]]:
    """Return the predictions, and warnings of what is cut off."""
    tagged = form == "conll"
    said: list[str] = []
    if source.path is None and not tagged:
        lines = [one.text for one in source.examples]
        return predict(run, lines, which, said.append), said
    count = sum(not one.is_blank for one in source.examples)
    with Progress(console=console, transient=True) as bar:
        line = bar.add_task("predict", total=count)
        found = predict_texts(
            run,
            source.examples,
            which,
            source.path,
            tagged=tagged,
            decoded=lambda: bar.advance(line),
            warn=said.append,
        )
    return found, said


def _formatted(
    examples: Sequence[Text],
    found: Sequence[tuple[dict[str, Any], list[str]]],
    form: Format,
) -> Iterator[str]:
    if form == "csv":
        yield from texts.table(examples, [record for record, _ in found])
        return
    for text, (record, lines) in zip(examples, found, strict=True):
        if form == "conll":
            yield texts.conll(text, record)
        else:
            yield texts.jsonl(text, record) if form == "jsonl" else "\n".join(lines)
