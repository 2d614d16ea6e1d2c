"""The formats of files: a row for each, how it looks and the source that reads it."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from dicejax.errors import InputError, quote
from dicejax.formats import annotations, layouts, rows
from dicejax.formats.conll import ColumnFiles, ConllFiles, WordLabelFiles
from dicejax.formats.conllu import ConlluFiles
from dicejax.formats.json_sentences import JsonSentences, tokens_of
from dicejax.formats.labelled import LABEL, PREFIX, TextFiles
from dicejax.formats.layouts import has_tags
from dicejax.formats.mapping import ALL_UNNAMED, columns_of
from dicejax.formats.sample import MOST, FileSample
from dicejax.formats.source import FileSource
from dicejax.formats.squad import SquadFiles
from dicejax.io import files

Kind = Literal["ner", "pos", "classification", "qa"]
Settings = dict[str, Any]

_TEXTS = "Texts or pairs with a class or labels"
_PAIR = re.compile(r"[^/]+/[^/]+")


class Format(NamedTuple):
    """A format of files.

    Attributes:
      make: class of the source.
      fits: whether a file looks so.
      settings: the fields that read a file, defaults or not.
      looks: what a file looks like, as in "is CoNLL-U"; empty where its container says
        it all.
      title: what is in the files; empty for what the class says of itself.
      is_sure: whether a file that fits can hardly be of another format.
      layout: the field of the class that tells its formats apart, if it has several.
    """

    make: type[FileSource]
    fits: Callable[[FileSample], bool]
    settings: Callable[[FileSample], Settings] = lambda file: {}
    looks: str = ""
    title: str = ""
    is_sure: Callable[[FileSample], bool] = lambda file: True
    layout: str = ""

    def fields(self, file: FileSample) -> Settings:
        """Return the fields that read a file.

        Raises:
          InputError: a column cannot be told.
        """
        layout = {"layout": self.layout} if self.layout else {}
        return layout | self.settings(file)


def format_of(source: FileSource) -> Format | None:
    """Return the format of a source; None for a class of the user's own."""
    key = (type(source), getattr(source, "layout", ""))
    every = itertools.chain.from_iterable(FORMATS.values())
    return next((form for form in every if (form.make, form.layout) == key), None)


def fits(source: FileSource, file: FileSample) -> bool:
    """Return whether a file looks like those of a source."""
    form = format_of(source)
    return source.fits(file) if form is None else form.fits(file)


def _are_columns(file: FileSample) -> bool:
    """Return whether a file may have a word and its label on each line."""
    if not file.is_text:
        return False
    table = file.table
    is_csv = table is not None and table.flawless and table.separator != "\t"
    is_words = bool(layouts.table_fields(file, rows.LABEL_NAMES))
    return file.are_columns or not is_csv or is_words


def _columns(file: FileSample, make: type[ColumnFiles]) -> Settings:
    """Return the columns and the mark of comments; word/TAG pairs are refused."""
    has_tags = make is ConllFiles
    kinds = [rows.POS_NAMES, rows.LABEL_NAMES]
    for names in [rows.LABEL_NAMES - rows.POS_NAMES] if has_tags else kinds:
        if fields := layouts.table_fields(file, names):
            return {make.label_field: fields.pop("label"), **fields}
    words = [word for line in file.lines for word in line.split()]
    pairs = sum(_PAIR.fullmatch(word) is not None for word in words)
    if pairs > len(words) * 0.9:
        what = f"{quote(words[0])} looks like word/TAG"
        do = "put each word and its tag on a line, a blank line between sentences"
        raise InputError.at(file.path, 1, what, do)
    comment = layouts.comment_of(file)
    fields = {} if comment is None else {"comment": comment}
    word, label = file.named.text, file.named.label
    places = [name for name in (word, label) if name is not None]
    if not all(place.lstrip("-").isdecimal() for place in places):
        do = "number columns from 0, or from the end: -1"
        raise InputError.at(file.path, None, f"{places} name no columns", do)
    columns = layouts.columns_of(file, comment, has_tags or label is not None)
    word, label = columns[0] if word is None else word, label or columns[1]
    return fields | {"word_column": int(word or 0), make.label_field: int(label or -1)}


def _conllu(file: FileSample) -> Settings:
    """Return no fields: all are as they are by default."""
    if "\t" not in file.first:
        what = "is CoNLL-U, but with spaces between its columns"
        raise InputError.at(file.path, None, what, "put tabs there")
    return {}


def _entities(file: FileSample) -> Settings:
    """Return the fields of texts and entities that all records have alike."""
    alike: list[set[tuple[str, str]]] = []
    with contextlib.suppress(InputError):  # the reader says it, or leaves it out
        for record in itertools.islice(file.records(), MOST):
            has_text = not tokens_of(record, file.named)
            if has_text and annotations.left_out(record) is None:
                alike.append({*annotations.settings(record, file.named).items()})
    return dict(set.intersection(*alike)) if alike else {}


def _objects(file: FileSample) -> Settings:
    """Return the fields of texts and of classes or labels, and their form.

    Where all have one label, accepted or rejected as in Prodigy's binary annotation,
    the class is the answer.
    """
    columns = file.columns
    labels = {str(row.get(columns.get("label"))) for row in file.sample}
    answers = {row.get("answer") for row in file.sample}
    if len(labels) == 1 and {"accept", "reject"} <= answers:
        texts = {n: x for n, x in columns.items() if n in ("first", "second")}
        return texts | {"label": "answer"}
    return columns


def _is_table(file: FileSample) -> bool:
    """Return whether a file is a table: by its ending, the user, or its header."""
    if not file.is_text or has_tags(file):
        return False
    is_table = file.ending in ("csv", "tsv", "tab")
    if file.table is None:
        if not is_table:
            return False
        what = "has one column alone"
        do = "give it a text and a label in each row"
        raise InputError.at(file.path, 1, what, do)
    if is_table or file.named.fields():
        return True
    try:  # whether the first line is a header
        rows = file.sample if file.table.flawless else ()
        columns_of(file.path, rows, ALL_UNNAMED, by_name_alone=True)
    except InputError:
        return False
    return True


def _has_several(file: FileSample) -> Settings:
    """Return whether a line has several of fastText's labels.

    Where none has, a line without a label is a flaw: the rest of a broken one.
    """
    lines = (line for _, line in files.lines(file.path))
    return {"multi_label": any(len(LABEL.findall(x)) > 1 for x in lines)}


FORMATS: Mapping[Kind, Sequence[Format]] = {
    "qa": (Format(SquadFiles, lambda file: file.is_document or file.has_records),),
    "pos": (
        Format(ConlluFiles, lambda file: file.is_conllu, _conllu, looks="is CoNLL-U"),
        Format(
            WordLabelFiles,
            _are_columns,
            lambda file: _columns(file, WordLabelFiles),
            looks="holds a word and its label on each line",
            is_sure=lambda file: False,
        ),
    ),
    "ner": (
        Format(JsonSentences, lambda file: file.has_records or file.is_brat, _entities),
        Format(
            ConllFiles,
            _are_columns,
            lambda file: _columns(file, ConllFiles),
            looks="holds a word and its tag on each line",
            is_sure=has_tags,
        ),
    ),
    "classification": (
        Format(
            TextFiles,
            lambda file: file.has_records,
            _objects,
            title=f"{_TEXTS}: JSON lines, a list, or a saved table.",
            layout="json",
        ),
        Format(
            TextFiles,
            lambda file: file.is_text and LABEL.search(file.first) is not None,
            _has_several,
            looks=f"has {PREFIX} before labels",
            title=f"{_TEXTS}, `{PREFIX}NAME` before or behind them.",
            layout="fasttext",
        ),
        Format(
            TextFiles,
            _is_table,
            lambda file: {**file.table.form, **file.columns},
            title=f"{_TEXTS}, a table as spreadsheets and pandas write it.",
            layout="table",
        ),
        Format(
            TextFiles,
            lambda file: file.is_text and not has_tags(file),
            looks="holds a label and a text on each line",
            title="A label, a space or tab and a text on each line.",
            is_sure=lambda file: False,
            layout="label-first",
        ),
    ),
}
"""Formats of each kind of task; the first that fits a file reads it."""
