"""Rows of column files, parted into sentences, and their fields."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

from dicejax.data import tags
from dicejax.data.tags import Span
from dicejax.errors import Flaw, InputError, quote
from dicejax.formats.sample import FileSample
from dicejax.formats.skipping import count
from dicejax.formats.text import Text
from dicejax.io import files

_FIELD = re.compile(r"[^ \t]+")
_DOCUMENT_START = "-DOCSTART-"
MOST_WORDS = 5000  # of a sentence; memory of windows is quadratic in it
WORD_NAMES = frozenset(["word", "words", "token", "tokens", "form", "text"])
POS_NAMES = frozenset(["pos", "pos_tag", "pos_tags", "upos", "xpos"])
LABEL_NAMES = POS_NAMES | frozenset(
    ["tag", "tags", "label", "labels", "ner", "ner_tag", "ner_tags", "entity"]
)
SENTENCE_NAMES = frozenset(["sentence #", "sentence", "sentence_id", "sentence_idx"])


class Block(NamedTuple):
    """The lines of one sentence, and those in front of it that are no example.

    Attributes:
      document: number of its document.
      start: its first line.
      lines: its rows as they are in the file; at the end of the file perhaps none.
      flaws: why some of its lines are no text.
      before: breaks, comments and headers.
    """

    document: int
    start: int
    lines: list[str]
    flaws: list[InputError]
    before: list[str]


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
            reader = csv.reader([line], delimiter=self.separator or ",", strict=True)
            return next(reader)
        except csv.Error:
            what = "a quote begins a field and is not closed"
            raise Flaw(what, 'close it; a quote as text is written """"', number) from (
                None
            )

    def is_header(self, line: str) -> bool:
        """Return whether a first row holds names of columns, as "token label"."""
        (fields,) = self.split([line])
        names = [field.strip().lower() for field in fields]
        if not -len(names) <= self.word < len(names):
            return False
        label = names[self.label] if -len(names) <= self.label < len(names) else ""
        is_label = self.sentence is not None or label in LABEL_NAMES
        return names[self.word] in WORD_NAMES and is_label

    def blocks(
        self,
        path: str | os.PathLike[str],
        stream: IO[bytes] | None = None,
        *,
        flawless: bool = True,
    ) -> Iterator[Block]:
        """Part a file into sentences; the last may be lines without a sentence.

        Raises:
          InputError: see `files.lines`; lines that are no text alone where `flawless`;
            or the header of a table does not name the words.
        """
        lines: list[str] = []
        before: list[str] = []
        flaws: list[InputError] = []
        document, start, previous = 0, 1, ""
        is_table, is_first = self.sentence is not None, True
        for number, line in files.lines(
            path, None if flawless else flaws.append, stream
        ):
            # As `is_break` asks, without a call for each line.
            if not line.strip(" \t") or (_DOCUMENT_START in line and is_break(line)):
                if lines or flaws:
                    yield Block(document, start, lines, flaws, before)
                    lines, before = [], []
                    flaws.clear()
                document += begins_document(line)
                start = number + 1
                before.append(line)
                continue
            if lines and not (is_table or flaws):  # most lines
                lines.append(line)
                continue
            if is_table and not is_first:
                name = self._sentence(line)
                if name and name != previous and (lines or flaws):
                    yield Block(document, start, lines, flaws, before)
                    lines, before, start = [], [], number
                    flaws.clear()
                previous = name
            if flaws:
                continue
            if lines:
                lines.append(line)
            elif self.comment and line.startswith(self.comment):
                before.append(line)
                start = number + 1
            elif is_first and self._is_header(line, path, number):
                before.append(line)
                start, is_first = number + 1, False
            else:
                is_first = False
                lines.append(line)
        if lines or flaws or before:
            yield Block(document, start, lines, flaws, before)

    def _sentence(self, line: str) -> str:
        """Return what a row of a table has where its sentence is named."""
        try:
            (fields,) = self.split([line])
            return fields[self.sentence or 0]
        except (Flaw, IndexError):  # the reader says it
            return ""

    def _is_header(self, line: str, path, number: int) -> bool:
        try:
            is_header = self.is_header(line)
        except Flaw as flaw:
            raise flaw.at(path, number) from None
        if self.sentence is None or is_header:
            return is_header
        what = f"the header does not name column {self.word} as the words"
        raise InputError.at(path, number, what, "call the column 'word'")

    def place(self, line: str, label: int | None) -> tuple[list[str], int | None]:
        """Return the fields of a row, and the place of its label if it has any."""
        (fields,) = self.split([line])
        return fields, label if label is not None and label < len(fields) else None

    def with_label(self, line: str, label: int | None, value: str) -> str:
        """Return a row with another label, in a new last column where it has none."""
        fields, place = self.place(line, label)
        if place is not None:
            fields[place] = value
        else:
            fields.append(value)
        if self.sentence is not None:
            written = io.StringIO()
            csv.writer(
                written, delimiter=self.separator or ",", lineterminator=""
            ).writerow(fields)
            return written.getvalue()
        if self.separator is not None:
            return self.separator.join(fields)
        if place is None:
            line = line.rstrip(" \t")
            return f"{line}\t{value}" if "\t" in line else f"{line} {value}"
        match = list(_FIELD.finditer(line))[place]
        return line[: match.start()] + value + line[match.end() :]


def is_break(line: str) -> bool:
    """Return whether a line is blank or begins a document: part of no sentence."""
    return not line.strip(" \t") or begins_document(line)


def begins_document(line: str) -> bool:
    """Return whether a line is a `-DOCSTART-` row."""
    return _DOCUMENT_START in line and _DOCUMENT_START in line.split()


def too_long(words: int) -> Flaw | None:
    """Return what is said of a sentence of too many words."""
    if words <= MOST_WORDS:
        return None
    what = f"a sentence of {words:,} words begins"
    return Flaw(what, "is a blank line missing between sentences?")


def uneven(width: int, expected: int, line: int) -> Flaw:
    """Return what is said of a row of other width than those before it."""
    what = f"{count(width, 'column')} where {expected} are expected, as in line {line}"
    return Flaw(what, "mend the row, or name the separator if words hold spaces")


def texts(
    layout: Layout,
    path: str | os.PathLike[str],
    stream: IO[bytes] | None = None,
    *,
    characters: bool = False,
) -> list[Text]:
    """Read sentences to predict; words become characters if asked.

    Raises:
      InputError: see `Layout.blocks`; rows are uneven or lack the word; or a sentence
        is too long.
    """
    result: list[Text] = []
    width = first = 0
    for block in layout.blocks(path, stream):
        if result:
            result[-1] = dataclasses.replace(result[-1], after=tuple(block.before))
        if not block.lines:
            continue
        place = 0  # of the row that is checked
        try:
            if flaw := too_long(len(block.lines)):
                raise flaw
            rows = layout.split(block.lines)
            width, first = width or len(rows[0]), first or block.start
            if layout.word >= width:
                what = f"{count(width, 'column')}, but the word is column {layout.word}"
                raise Flaw(what + " in training", "write the columns before it too")
            for place, fields in enumerate(rows):  # noqa: B007
                if len(fields) != width:
                    raise uneven(len(fields), width, first)
                if not fields[layout.word]:
                    raise Flaw("the word is empty", "mend the row")
        except Flaw as flaw:
            raise flaw.at(path, block.start + (flaw.line or place)) from None
        words = tuple(fields[layout.word] for fields in rows)
        text = " ".join(words)
        result.append(
            Text(
                block.start,
                text,
                tuple("".join(words)) if characters else words,
                rows=tuple(block.lines),
                before=() if result else tuple(block.before),
            )
        )
    if not result:
        do = "put one word on each line, a blank line between sentences"
        raise InputError.at(path, None, "holds no sentences", do)
    return result


def labels_of(record: Mapping[str, Any], rows: int, scheme: str = "BIO") -> list[str]:
    """Return the predicted label of each word, `_` for a word without any.

    Of overlapping spans the first is written.

    Raises:
      InputError: the prediction is of characters, or of no words at all.
    """
    if "labels" in record:
        predicted = [label or "_" for label in record["labels"]]
    elif "entities" in record:
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


def write(
    layout: Layout, label: int | None, text: Text, predicted: Sequence[str]
) -> str:
    """Return the rows with the predicted labels, and the lines around them."""
    before = list(text.before)
    if layout.place(text.rows[0], label)[1] is None:  # its header gets a name too
        before = [
            layout.with_label(line, label, "tag")
            if not is_break(line) and layout.is_header(line)
            else line
            for line in before
        ]
    pairs = zip(text.rows, predicted, strict=True)
    rows = [layout.with_label(row, label, value) for row, value in pairs]
    return "\n".join([*before, *rows, *text.after])


# How a file looks.

_TAG = re.compile(r"O|[BIOESMLUW][-_].+|.+[-_][BIESMLU]")
_PAIR = re.compile(r"[^/]+/[^/]+")
_CHUNKS = set(
    ["NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP"]
)
_SAMPLE = 2000  # lines


def has_tags(file: FileSample) -> bool:
    """Return whether most lines have equally many words and end in a tag."""
    if table_fields(file, LABEL_NAMES):
        return True
    tags_of_lines = [_TAG.fullmatch(line.split()[-1]) for line in file.lines]
    tagged = sum(tag is not None for tag in tags_of_lines)
    return file.are_columns and tagged > len(file.lines) / 2


def are_rows(file: FileSample) -> bool:
    """Return whether a file may have a word and its label on each line."""
    if not file.is_text:
        return False
    is_table = file.table is not None and file.table.flawless
    is_other = is_table and file.table is not None and file.table.separator != "\t"
    return file.are_columns or not is_other or bool(table_fields(file, LABEL_NAMES))


def table_fields(file: FileSample, names: Collection[str]) -> dict[str, Any]:
    """Return the fields for a table with columns of sentences, words and labels.

    Of several labels it is the last, as in Kaggle's `Sentence #,Word,POS,Tag`.
    """
    if not file.is_text or file.table is None:
        return {}
    fields = [
        name.strip('"').strip().lower()
        for name in file.first_line.split(file.table.separator)
    ]
    places = [
        [n for n, field in enumerate(fields) if field in some]
        for some in (SENTENCE_NAMES, WORD_NAMES, names)
    ]
    if not all(places):
        return {}
    sentences, words, labels = places
    return {
        "word_column": words[0],
        "label": labels[-1],
        "separator": file.table.separator,
        "sentence_column": sentences[0],
    }


def settings(file: FileSample, *, tagged: bool) -> dict[str, Any]:
    """Return the fields that read a file; `label` is the column of tags or labels.

    Raises:
      InputError: its lines are of word/TAG pairs.
    """
    kinds = [LABEL_NAMES - POS_NAMES] if tagged else [POS_NAMES, LABEL_NAMES]
    for names in kinds:
        if fields := table_fields(file, names):
            return fields
    words = [word for line in file.lines for word in line.split()]
    pairs = sum(_PAIR.fullmatch(word) is not None for word in words)
    if pairs > len(words) * 0.9:
        what = f"{quote(words[0])} looks like word/TAG"
        do = "put each word and its tag on a line, a blank line between sentences"
        raise InputError.at(file.path, 1, what, do)
    fields = _comments(file)
    layout = Layout(0, -1, None, fields.get("comment"))
    blocks = itertools.islice(layout.blocks(file.path, flawless=False), _SAMPLE // 4)
    sentences = [layout.split(block.lines) for block in blocks if block.lines]
    rows = [row for sentence in sentences for row in sentence]
    width = min(map(len, rows), default=0)
    first = 0
    if width > 2 and any(len(sentence) > 1 for sentence in sentences):
        counted = all(
            [row[0] for row in sentence]
            == [str(n) for n in range(1, len(sentence) + 1)]
            for sentence in sentences
        )
        first = int(counted)
    if first:
        fields["word_column"] = first
    if tagged and (label := _tag_column(rows, first, width)) not in (None, width - 1):
        fields["label"] = label
    return fields


def _tag_column(rows: Sequence[Sequence[str]], word: int, width: int) -> int | None:
    """Return the first column of tags behind the words, of chunks at need."""
    candidates = []
    for column in range(word + 1, width):
        values = [row[column] for row in rows]
        types = {tags.prefixed(v).partition("-")[2] for v in values if v != "O"}
        good = sum(_TAG.fullmatch(value) is not None for value in values)
        if types and good > 0.9 * len(values):
            candidates.append((types <= _CHUNKS, column))
    return min(candidates)[1] if candidates else None


def _comments(file: FileSample) -> dict[str, Any]:
    """Return the field that leaves out comments, if lines at breaks begin with "#"."""
    at_break, marks = True, set()
    widths: dict[bool, set[int]] = {True: set(), False: set()}
    for _, line in itertools.islice(files.lines(file.path), _SAMPLE):
        if is_break(line):
            at_break = True
            continue
        is_comment = at_break and line.startswith(("# ", "#\t"))
        if is_comment:
            marks.add(line[:2])
        at_break &= is_comment
        widths[is_comment].add(len(line.split()))
    if not marks or widths[True] == widths[False]:
        return {}
    return {"comment": marks.pop() if len(marks) == 1 else "#"}
