"""Rows of column files, parted into sentences, and their fields; those of CoNLL-U."""

from __future__ import annotations

import csv
import dataclasses
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dicejax.data import tags
from dicejax.data.tags import Span
from dicejax.errors import Flaw, InputError, quote, truncate
from dicejax.formats import separated
from dicejax.formats.records import count, did_you_mean
from dicejax.formats.text import Text
from dicejax.io import files, json_text, limits

Check = Callable[[str], None]
"""Raises `Flaw` where a label is none."""

SAMPLE = 2000
"""Lines of a file from which columns are recognised."""
_FIELD = re.compile(r"[^ \t]+")
_DOCUMENT_START = "-DOCSTART-"
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b")  # of CoNLL-U
WORD_NAMES = frozenset(["word", "words", "token", "tokens", "form", "text"])
POS_NAMES = frozenset(["pos", "pos_tag", "pos_tags", "upos", "xpos"])
_TAGS = "tag tags label labels ner ner_tag ner_tags entity ne-coarse-lit"
LABEL_NAMES = POS_NAMES | {*_TAGS.split()}
SENTENCE_NAMES = frozenset(["sentence #", "sentence", "sentence_id", "sentence_idx"])


@dataclasses.dataclass(slots=True)
class Block:
    """The lines of one sentence, and those in front of it that are no example.

    Attributes:
      document: number of its document.
      start: its first line.
      lines: its rows as they are in the file; at the end of the file perhaps none.
      flaws: why some of its lines are no text.
      before: breaks, comments and headers.
      header: the one of these that names the columns.
    """

    document: int
    start: int
    lines: list[str] = dataclasses.field(default_factory=list)
    flaws: list[InputError] = dataclasses.field(default_factory=list)
    before: list[str] = dataclasses.field(default_factory=list)
    header: str = ""


class Layout(NamedTuple):
    """Where the fields of a row are; the fields are those of the sources."""

    word: int
    label: int
    separator: str | None
    comment: str | None = None
    sentence: int | None = None

    def split(self, lines: Sequence[str]) -> list[list[str]]:
        """Return the fields of rows.

        Raises:
          Flaw: a quote is not closed; its line counts from the first row.
        """
        if self.sentence is not None:
            return [self._unquoted(n, line) for n, line in enumerate(lines)]
        if self.separator is not None:
            return [line.split(self.separator) for line in lines]
        # At runs of ASCII spaces and tabs only, twice as fast as a pattern.
        rows = [line.replace("\t", " ").split(" ") for line in lines]
        return [[f for f in row if f] if "" in row else row for row in rows]

    def _unquoted(self, number: int, line: str) -> list[str]:
        try:
            separator = self.separator or ","
            return next(csv.reader([line], delimiter=separator, strict=True))
        except csv.Error as error:
            raise separated.flaw(error, number) from None

    def is_header(self, line: str) -> bool:
        """Return whether a first row holds names of columns, as "token label"."""
        (fields,) = self.split([line])
        names = [field.strip().lower() for field in fields]
        if not -len(names) <= self.word < len(names):
            return False
        label = names[self.label] if -len(names) <= self.label < len(names) else ""
        is_label = self.sentence is not None or label in LABEL_NAMES
        return names[self.word] in WORD_NAMES and is_label

    def blocks(self, path: files.Path, stream: files.Stream = None) -> Iterator[Block]:
        """Part a file into sentences; the last may be lines without a sentence.

        Raises:
          InputError: see `files.lines`; or the header of a table does not name the
            words.
        """
        block, previous = Block(0, 1), ""
        is_table, is_first = self.sentence is not None, True

        def note(error: InputError) -> None:
            block.flaws.append(error)

        for number, line in files.lines(path, note, stream):
            # As `is_break` asks, without a call for each line.
            is_end = not line.strip(" \t") or (
                _DOCUMENT_START in line and begins_document(line)
            )
            if block.lines and not (is_end or is_table or block.flaws):  # most lines
                block.lines.append(line)
                continue
            name = ""
            if is_table and not (is_first or is_end):
                name = self._sentence(line)
            begins = is_end or (name and name != previous)
            if begins and (block.lines or block.flaws):
                yield block
                block = Block(block.document, number)
            previous = name
            if is_end:
                block.document += begins_document(line)
            elif block.flaws:
                continue
            elif not block.lines and self.comment and line.startswith(self.comment):
                block.document += _NEW_DOCUMENT.match(line) is not None
            elif is_first and self._is_header(line, path, number):
                block.header, is_first = line, False
            else:
                is_first = False
                block.lines.append(line)
                continue
            block.before.append(line)
            block.start = number + 1
        if block.lines or block.flaws or block.before:
            yield block

    def _sentence(self, line: str) -> str:
        """Return what a row of a table has where its sentence is named."""
        try:
            (fields,) = self.split([line])
            return fields[self.sentence or 0]
        except (Flaw, IndexError):  # the reader says it
            return ""

    def _is_header(self, line: str, path: files.Path, number: int) -> bool:
        with json_text.flaws_at(path, number):
            is_header = self.is_header(line)
        if self.sentence is None or is_header:
            return is_header
        fault = f"the header does not name column {self.word} as the words"
        raise InputError.at(path, number, fault, "call the column 'word'")

    def lacks_label(self, line: str) -> bool:
        """Return whether a row has no label; it has none at a negative column."""
        return not 0 <= self.label < len(self.split([line])[0])

    def with_label(self, line: str, value: str) -> str:
        """Return a row with another label, in a new last column where it has none."""
        (fields,) = self.split([line])
        is_new = self.lacks_label(line)
        if is_new:
            fields.append(value)
        else:
            fields[self.label] = value
        if self.sentence is not None:
            return separated.row(fields, self.separator or ",")
        if self.separator is not None:
            return self.separator.join(fields)
        if is_new:
            line = line.rstrip(" \t")
            return f"{line}\t{value}" if "\t" in line else f"{line} {value}"
        match = list(_FIELD.finditer(line))[self.label]
        return line[: match.start()] + value + line[match.end() :]


@dataclasses.dataclass
class WordColumns:
    """Extractor of words and labels; the first row sets the number of columns."""

    path: files.Path
    layout: Layout
    is_gold: bool = True  # else labels may be missing and are not looked at
    check: Check | None = None  # of a label
    good: set[str] = dataclasses.field(default_factory=set)  # labels that were checked
    width: int = 0
    first_line: int = 0

    def take(self, block: Block) -> tuple[list[str], list[str]]:
        """Return the words and labels of a sentence; its first flaw is raised."""
        try:
            limits.ROWS.check(len(block.lines))
            fields = self.layout.split(block.lines)
        except Flaw as flaw:
            raise flaw.at(self.path, block.start + (flaw.line or 0)) from None
        if set(map(len, fields)) != {self.width}:
            self._check_rows(block.start, fields)
        word, label = self.layout[:2]
        words = [row[word] for row in fields]
        labels = [row[label] for row in fields] if self.is_gold else []
        if not (all(words) and self.good.issuperset(labels)):
            self._check_rows(block.start, fields)
        if block.flaws:
            raise block.flaws[0]
        if not self.is_gold:
            return words, labels
        # A corpus repeats its words; interned, each is in memory once.
        return list(map(sys.intern, words)), list(map(sys.intern, labels))

    def _check_rows(self, start: int, fields: list[list[str]]) -> None:
        """Raise the first flaw; learn width and labels from the rows before it."""
        for line, row in enumerate(fields, start):
            with json_text.flaws_at(self.path, line):
                if len(row) != self.width:
                    self._check_width(line, len(row))
                if not row[self.layout.word]:  # only where a separator is named
                    raise Flaw("the word is empty", "fix the row")
                if self.is_gold and (label := row[self.layout.label]) not in self.good:
                    if self.check is not None:
                        self.check(label)
                    self.good.add(label)

    def _check_width(self, line: int, width: int) -> None:
        columns, word, label = count(width, "column"), *self.layout[:2]
        if self.width:
            fault = f"{columns} where {self.width} are expected, as in line "
            remedy = "fix the row, or name the separator if words hold spaces"
            raise Flaw(f"{fault}{self.first_line}", remedy)
        if not self.is_gold:
            if word >= width:
                fault = f"{columns}, but the word is column {word} in training"
                raise Flaw(fault, "write the columns before it too")
        else:
            for name, column in (("word", word), ("tag", label)):
                if not -width <= column < width:
                    fault = f"{columns}, but the {name} is expected in column {column}"
                    raise Flaw(fault, "columns count from 0, or from the end: -1")
            if word % width == label % width:
                fault = f"{columns}, so word and tag would be the same one"
                raise Flaw(fault, "name other columns or the separator")
        self.width, self.first_line = width, line


def is_break(line: str) -> bool:
    """Return whether a line is blank or begins a document: part of no sentence."""
    return not line.strip(" \t") or begins_document(line)


def begins_document(line: str) -> bool:
    """Return whether a line is a `-DOCSTART-` row."""
    return _DOCUMENT_START in line and _DOCUMENT_START in line.split()


def texts(
    path: files.Path,
    blocks: Iterable[Block],
    words_of: Callable[[Block], list[str]],
    *,
    characters: bool = False,
) -> Iterator[Text]:
    """Yield sentences to predict with the lines around them.

    Raises:
      InputError: there is no sentence.
    """
    last: Text | None = None  # it waits for the lines behind it
    before: list[str] = []
    for block in blocks:
        words = words_of(block) if block.lines or block.flaws else []
        before += [*block.before, *([] if words else block.lines)]
        around = tuple(before)
        if last is not None:
            last = dataclasses.replace(last, after=around)
        if words:
            parts, text = "".join(words) if characters else words, " ".join(words)
            example = Text(block.start, text, tuple(parts), rows=tuple(block.lines))
            if last is None:
                example = dataclasses.replace(example, before=around)
            else:
                yield last
            last, before = example, []
    if last is None:
        remedy = "put one word on each line, a blank line between sentences"
        raise InputError.at(path, None, "holds no sentences", remedy)
    yield last


def labels_of(
    record: Mapping[str, Any], rows: int, scheme: str | None = None
) -> list[str]:
    """Return the predicted label of each word, `_` for a word without any.

    Of overlapping spans the first is written, in the scheme; None refuses spans.

    Raises:
      InputError: the prediction is of characters, or of no words at all.
    """
    if "labels" in record:
        predicted = [label or "_" for label in record["labels"]]
    elif "entities" in record and scheme is not None:
        spans: list[Span] = []
        entities = record["entities"]
        for entity in sorted(entities, key=lambda e: (e["start"], -e["end"])):
            if not spans or spans[-1].end <= entity["start"]:
                spans.append(Span(entity["type"], entity["start"], entity["end"]))
        predicted = tags.encode(spans, len(record["words"]), scheme)
    else:
        predicted = []
    if len(predicted) != rows:
        raise InputError(
            "the prediction has no label for each row; write jsonl or text instead"
        )
    return predicted


_NAMES = "ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC"
CONLLU = tuple(_NAMES.split())

# In these, "_" means that nothing was annotated; in the others it is a value.
_NEVER_BLANK = ("UPOS", "XPOS", "HEAD", "DEPREL")
_WORD = re.compile(r"[1-9][0-9]*")
_NO_WORD = re.compile(r"[1-9][0-9]*-[1-9][0-9]*|[0-9]+\.[1-9][0-9]*")


def conllu_layout(name: int | str | None) -> Layout:
    """Return the columns of words and of labels, by the name of the latter.

    Raises:
      Flaw: there is no such column.
    """
    name = "UPOS" if name is None else name
    if name not in CONLLU[2:]:
        remedy = did_you_mean(str(name), CONLLU[2:])
        raise Flaw(f"no column {quote(name)} has labels", remedy)
    return Layout(1, CONLLU.index(str(name)), "\t", "#")


def is_conllu_word(line: str) -> bool:
    """Return whether a row is a word: no comment, range or empty node."""
    return _WORD.fullmatch(line.partition("\t")[0]) is not None


def take_conllu(
    path: files.Path, layout: Layout, is_gold: bool, block: Block
) -> tuple[list[str], list[str]]:
    """Return the words and labels of a sentence of CoNLL-U, see `WordColumns.take`."""
    words: list[list[str]] = []
    column = CONLLU[layout.label] if is_gold else None
    for number, line in enumerate(block.lines, block.start):
        try:
            word = _word(line, len(words) + 1, column)
        except Flaw as flaw:
            raise flaw.at(path, number) from None
        words += [word] if word else []
    if block.flaws:
        raise block.flaws[0]
    texts, labels = ([sys.intern(x[n]) for x in words] for n in layout[:2])
    return texts, labels


def _word(line: str, next_id: int, column: str | None) -> list[str] | None:
    """Return the fields of a word; None for a comment, a range or an empty node."""
    if line.startswith("#"):
        return None
    fields = line.split("\t")
    if len(fields) != len(CONLLU):
        fault = f"{count(len(fields), 'column')} where CoNLL-U has {len(CONLLU)}"
        raise Flaw(fault, "separate them with one tab each and mark empty ones by _")
    id_, word = fields[:2]
    if not _WORD.fullmatch(id_):
        if _NO_WORD.fullmatch(id_):
            return None
        fault = f"id {quote(id_)} is not a number, range or empty node"
        raise Flaw(fault, "correct it")
    if id_ != str(next_id):
        fault = f"id {truncate(id_, 40)} where {next_id} is next"
        remedy = "fix the numbering, or put a blank line between sentences"
        raise Flaw(fault, remedy)
    if not word:
        raise Flaw("the word is empty", "fix the row")
    label = fields[CONLLU.index(column)] if column else word
    if not label or (label == "_" and column in _NEVER_BLANK):
        raise Flaw(f"the word has no {column}", "add it, or name another column")
    return fields
