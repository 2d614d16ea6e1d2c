"""Column files: a word and its tag per line, a blank line between sentences."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from dicejax.data import tags
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.tags import Scheme
from dicejax.errors import Flaw, InputError, quote
from dicejax.formats.sample import FileSample
from dicejax.formats.skipping import OnError, check_tag, count, report
from dicejax.formats.source import FileSource
from dicejax.io import files

_DOCUMENT_START = "-DOCSTART-"
Words = tuple[str, ...]


class _Rows(NamedTuple):
    """The rows of one sentence, from `line` on."""

    line: int
    words: list[str]
    labels: list[str]
    document: int


def read(
    path: str | os.PathLike[str],
    *,
    word_column: int = 0,
    tag_column: int = -1,
    separator: str | None = None,
    scheme: str | None = None,
    comment: str | None = None,
    context: int = 0,
    on_error: OnError | None = None,
) -> list[Sentence]:
    r"""Read a file of words and tags of spans.

    Blank lines and `-DOCSTART-` rows end a sentence and belong to none. Without a
    separator, runs of ASCII spaces and tabs part columns; other white space can be a
    word: where each character has a tag, as in Chinese, so have U+3000 and U+00A0.
    Every tag must belong to the scheme, which is detected from the whole file if it is
    None, but sequences need not follow it: see `tags.spans`.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.txt"
    >>> _ = path.write_text("Ada B-PER\nLovelace I-PER\nslept O\n\nParis B-LOC\n")
    >>> for sentence in read(path):
    ...     print(sentence.line, sentence.words, [tuple(s) for s in sentence.spans])
    1 ('Ada', 'Lovelace', 'slept') [('PER', 0, 2)]
    5 ('Paris',) [('LOC', 0, 1)]

    Raises:
      InputError: a row has too few or too many columns; a tag is malformed or not of
        the scheme, which may be unknown; `context` is negative.
    """
    if scheme is not None and scheme not in tags.PREFIXES:
        do = f"name one of {', '.join(tags.PREFIXES)}"
        raise InputError.at(path, None, f"scheme {quote(scheme)} is unknown", do)

    do = "correct it, or name another scheme or column"
    if scheme is None:
        do = "correct it or name the column that holds the tags"
    check = functools.partial(check_tag, scheme=scheme, do=do)
    columns = _Columns(path, word_column, tag_column, separator, check)
    sentences = _read(path, columns, comment, on_error)
    if scheme is None:
        scheme = tags.detect_scheme(rows.labels for rows in sentences)
        sentences = list(_of_scheme(sentences, scheme, path, on_error))
    return [
        Sentence(tuple(r.words), tuple(tags.spans(r.labels, scheme)), r.line, *around)
        for r, around in _with_context(sentences, context)
    ]


def read_words(
    path: str | os.PathLike[str],
    *,
    word_column: int = 0,
    label_column: int = -1,
    separator: str | None = None,
    comment: str | None = None,
    context: int = 0,
    characters: bool = False,
    on_error: OnError | None = None,
) -> list[TaggedWords] | list[Sentence]:
    """Read a file of words and their labels, such as parts of speech; see `read`.

    With `characters` the words become characters with spans, see `by_character`.
    """
    columns = _Columns(path, word_column, label_column, separator, None)
    sentences = _read(path, columns, comment, on_error)
    examples = [
        TaggedWords(tuple(r.words), tuple(r.labels), r.line, *around)
        for r, around in _with_context(sentences, context)
    ]
    return list(map(by_character, examples)) if characters else examples


def neighbours(
    sentences: Sequence[Sequence[str]], documents: Sequence[int], count: int
) -> list[tuple[Words, Words]]:
    """Return `count` words before and after each sentence, in its document.

    The numbers of the documents rise.

    >>> neighbours([["a", "b"], ["c"], ["d"], ["e"]], [1, 1, 1, 2], 2)[1]
    (('a', 'b'), ('d',))

    Raises:
      InputError: `count` is negative.
    """
    if not count:
        return [((), ())] * len(sentences)
    if count < 0:
        raise InputError(f"context is {count}; want 0 words or more (--data.context)")
    words = tuple(itertools.chain.from_iterable(sentences))
    bounds: dict[int, tuple[int, int]] = {}
    places, end = [], 0
    for sentence, document in zip(sentences, documents, strict=True):
        start, end = end, end + len(sentence)
        places.append((start, end))
        bounds[document] = (bounds.get(document, (start, end))[0], end)
    return [
        (
            words[max(start - count, bounds[document][0]) : start],
            words[end : min(end + count, bounds[document][1])],
        )
        for (start, end), document in zip(places, documents, strict=True)
    ]


def _with_context(
    sentences: list[_Rows], count: int
) -> Iterator[tuple[_Rows, tuple[Words, Words]]]:
    words, documents = [r.words for r in sentences], [r.document for r in sentences]
    return zip(sentences, neighbours(words, documents, count), strict=True)


def _read(path, columns: _Columns, comment: str | None, on_error) -> list[_Rows]:
    if columns.separator == "":
        raise InputError.at(path, None, "the separator is empty", "name a character")
    sentences: list[_Rows] = []
    for document, start, lines, flaws in _sentences(path, comment):
        try:
            words, labels = columns.take(start, lines)
            if flaws:
                raise flaws[0]
        except InputError as error:  # the first flaw of a sentence speaks for it
            report(error, on_error)
        else:
            sentences.append(_Rows(start, words, labels, document))
    if not sentences:
        do = "put one word and its label on each line"
        raise InputError.at(path, None, "holds no sentences", do)
    return sentences


def _sentences(
    path, comment: str | None
) -> Iterator[tuple[int, int, list[str], list[InputError]]]:
    """Yield each sentence's document, first line, lines, and which are not text."""
    lines: list[str] = []
    flaws: list[InputError] = []
    document, start = 0, 1
    for number, line in files.lines(path, flaws.append):
        if is_break(line):
            if lines or flaws:
                yield document, start, lines, flaws
                lines = []
                flaws.clear()
            document += begins_document(line)
            start = number + 1
        elif comment and not (lines or flaws) and line.startswith(comment):
            start = number + 1
        elif not flaws:
            lines.append(line)
    if lines or flaws:
        yield document, start, lines, flaws


def is_break(line: str) -> bool:
    """Return whether a line is blank or begins a document: part of no sentence."""
    return not line.strip(" \t") or begins_document(line)


def begins_document(line: str) -> bool:
    """Return whether a line is a `-DOCSTART-` row."""
    return _DOCUMENT_START in line and _DOCUMENT_START in line.split()


@dataclasses.dataclass
class _Columns:
    """Extractor of words and labels; the first row sets the number of columns."""

    path: str | os.PathLike[str]
    word: int
    label: int
    separator: str | None
    check_label: Callable[[str], None] | None
    good: set[str] = dataclasses.field(default_factory=set)  # labels that were checked
    width: int = 0
    first_line: int = 0

    def take(self, start: int, lines: list[str]) -> tuple[list[str], list[str]]:
        if self.separator is not None:
            rows = [line.split(self.separator) for line in lines]
        else:  # at runs of ASCII spaces and tabs only, twice as fast as a pattern
            rows = [line.replace("\t", " ").split(" ") for line in lines]
            rows = [[f for f in row if f] if "" in row else row for row in rows]
        if set(map(len, rows)) != {self.width}:
            self._check_rows(start, rows)
        words = [fields[self.word] for fields in rows]
        labels = [fields[self.label] for fields in rows]
        if not (all(words) and self.good.issuperset(labels)):
            self._check_rows(start, rows)
        # A corpus repeats its words; interned, each is in memory once.
        return list(map(sys.intern, words)), list(map(sys.intern, labels))

    def _check_rows(self, start: int, rows: list[list[str]]) -> None:
        """Raise the first flaw; learn width and labels from the rows before it."""
        for line, fields in enumerate(rows, start):
            try:
                self._check_width(line, len(fields))
                if not fields[self.word]:  # only where a separator is named
                    raise Flaw("the word is empty", "mend the row")
                label = fields[self.label]
                if label not in self.good and self.check_label is not None:
                    self.check_label(label)
                self.good.add(label)
            except Flaw as flaw:
                raise flaw.at(self.path, line) from None

    def _check_width(self, line: int, width: int) -> None:
        if width == self.width:
            return
        columns = count(width, "column")
        if self.width:
            what = f"{columns} where {self.width} are expected, as in line"
            do = "mend the row, or name the separator if words hold spaces"
            raise Flaw(f"{what} {self.first_line}", do)
        for name, column in (("word", self.word), ("tag", self.label)):
            if not -width <= column < width:
                what = f"{columns}, but the {name} is asked from column {column}"
                raise Flaw(what, "columns count from 0, or from the end: -1")
        if self.word % width == self.label % width:
            what = f"{columns}, so word and tag would be the same one"
            raise Flaw(what, "name other columns or the separator")
        self.width, self.first_line = width, line


def _of_scheme(sentences, scheme: str, path, on_error) -> Iterator[_Rows]:
    """Raise or skip the sentences whose tags are not of the detected scheme."""
    do = f"the file's other tags look like {scheme}, so correct one or the other"
    flaws: dict[str, Flaw] = {}
    for tag in {tag for rows in sentences for tag in rows.labels}:
        try:
            check_tag(tag, scheme, do)
        except Flaw as flaw:
            flaws[tag] = flaw
    for rows in sentences:
        bad = next((n for n, tag in enumerate(rows.labels) if tag in flaws), None)
        if bad is None:
            yield rows
        else:
            report(flaws[rows.labels[bad]].at(path, rows.line + bad), on_error)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConllFiles(FileSource):
    """Files with a word and the tag of a span on each line.

    Args:
      word_column: column that holds the word; negative counts from the end.
      tag_column: column that holds the tag; negative counts from the end.
      separator: of columns; None is any run of spaces and tabs.
      scheme: how the tags are written; None detects it from each file.
      comment: how lines to leave out begin, such as "# "; None where there are none.
      context: number of words that the encoder reads before and after each sentence,
        of the same document: neither labelled nor scored.
    """

    several: ClassVar[str] = "sentences"
    reader = staticmethod(read)

    word_column: int = 0
    tag_column: int = -1
    separator: str | None = None
    scheme: Scheme | None = None
    comment: str | None = None
    context: int = 0

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file may have a word and its tag on each line."""
        return _are_rows(file)

    @classmethod
    def looks(cls, file: FileSample) -> str:
        """Return what such a file looks like."""
        return "holds a word and its tag on each line"

    @classmethod
    def settings(cls, file: FileSample) -> dict[str, Any]:
        """Return the mark of comments."""
        return _comments(file)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordLabelFiles(FileSource):
    """Files with a word and its label on each line.

    Args:
      word_column: column that holds the word; negative counts from the end.
      label_column: column that holds the label; negative counts from the end.
      separator: of columns; None is any run of spaces and tabs.
      comment: how lines to leave out begin, such as "# "; None where there are none.
      context: number of words that the encoder reads before and after each sentence,
        of the same document: neither labelled nor scored.
      characters: give characters with spans, for joint segmentation and tagging.
    """

    several: ClassVar[str] = "sentences"
    reader = staticmethod(read_words)

    word_column: int = 0
    label_column: int = -1
    separator: str | None = None
    comment: str | None = None
    context: int = 0
    characters: bool = False

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file may have a word and its label on each line."""
        return _are_rows(file)

    @classmethod
    def looks(cls, file: FileSample) -> str:
        """Return what such a file looks like."""
        return "holds a word and its label on each line"

    @classmethod
    def settings(cls, file: FileSample) -> dict[str, Any]:
        """Return the mark of comments."""
        return _comments(file)


_TAG = re.compile(r"O|[BIOESMLUW][-_].+")


def has_tags(file: FileSample) -> bool:
    """Return whether most lines have equally many words and end in a tag."""
    tags_of_lines = [_TAG.fullmatch(line.split()[-1]) for line in file.lines]
    tagged = sum(tag is not None for tag in tags_of_lines)
    return file.are_columns and tagged > len(file.lines) / 2


def _are_rows(file: FileSample) -> bool:
    if not file.is_text:
        return False
    is_table = file.table is not None and file.table.flawless
    return file.are_columns or not (is_table and file.table.separator != "\t")


def _comments(file: FileSample) -> dict[str, str]:
    """Return the field that leaves out comments, if lines at breaks begin with "#"."""
    at_break, marked = True, False
    widths: dict[bool, set[int]] = {True: set(), False: set()}
    for _, line in itertools.islice(files.lines(file.path), 2000):
        if is_break(line):
            at_break = True
            continue
        is_comment = at_break and line.startswith("# ")
        marked |= is_comment
        at_break &= is_comment
        widths[is_comment].add(len(line.split()))
    return {"comment": "# "} if marked and widths[True] != widths[False] else {}
