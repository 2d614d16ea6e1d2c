"""Column files: a word and its tag per line, a blank line between sentences."""

from __future__ import annotations

import functools
import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dicejax.data import tags
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.readers.skipping import OnError, count, report
from dicejax.errors import Flaw, InputError, quote
from dicejax.io import files

_DOCUMENT_START = "-DOCSTART-"
Words = tuple[str, ...]


class _Rows(NamedTuple):
    """The rows of one sentence; `line` is that of the first, counted from 1."""

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

    Blank lines and `-DOCSTART-` rows end a sentence and belong to none. A line that
    begins with `#` is a row, unless `comment` says otherwise. Without a separator, runs
    of ASCII spaces and tabs part columns; other white space can be a word: where each
    character has a tag, as in Chinese, so have U+3000 and U+00A0.

    Every tag must belong to the scheme, but sequences need not follow it: they are
    decoded by `tags.spans`. Without a scheme, `tags.detect_scheme` detects it from the
    whole file. IOB1 and BIO can be mistaken for each other there when the file is small
    or damaged, which changes no span, since both decode alike.

    Files with one character per line are read so too: for joint segmentation and
    tagging (CTB) each word is a span, its part of speech the type: `B-NN`, `E-NN`.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.txt"
    >>> _ = path.write_text("Ada B-PER\nLovelace I-PER\nslept O\n\nParis B-LOC\n")
    >>> for sentence in read(path):
    ...     print(sentence.line, sentence.words, [tuple(s) for s in sentence.spans])
    1 ('Ada', 'Lovelace', 'slept') [('PER', 0, 2)]
    5 ('Paris',) [('LOC', 0, 1)]

    Raises:
      InputError: a row has more or fewer columns than the first or lacks a column; a
        tag is malformed or not of the scheme; the scheme is unknown; `context` is
        negative.
    """
    if scheme is not None and scheme not in tags.PREFIXES:
        do = f"name one of {', '.join(tags.PREFIXES)}"
        raise InputError.at(path, None, f"scheme {quote(scheme)} is unknown", do)

    check = functools.partial(_check_tag, scheme=scheme)
    columns = _Columns(path, word_column, tag_column, separator, check)
    sentences = _read(path, columns, comment, on_error)
    if scheme is None:
        scheme = tags.detect_scheme(rows.labels for rows in sentences)
        sentences = list(_of_scheme(sentences, scheme, path, on_error))
    return [
        Sentence(tuple(r.words), tuple(tags.spans(r.labels, scheme)), r.line, *more)
        for r, more in zip(sentences, _neighbours(sentences, context), strict=True)
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
    r"""Read a file of words and their labels, such as parts of speech; see `read`.

    With `characters` the words become characters with spans, see `by_character`.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "wsj.txt"
    >>> _ = path.write_text("Vinken NNP B-NP\njoins VBZ B-VP\n\nYes UH O\n")
    >>> for example in read_words(path, label_column=1):
    ...     print(example.line, example.words, example.labels)
    1 ('Vinken', 'joins') ('NNP', 'VBZ')
    4 ('Yes',) ('UH',)
    """
    columns = _Columns(path, word_column, label_column, separator, None)
    sentences = _read(path, columns, comment, on_error)
    examples = [
        TaggedWords(tuple(r.words), tuple(r.labels), r.line, *more)
        for r, more in zip(sentences, _neighbours(sentences, context), strict=True)
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


def _neighbours(sentences: list[_Rows], context: int):
    if not context:
        return [()] * len(sentences)
    words = [rows.words for rows in sentences]
    return neighbours(words, [rows.document for rows in sentences], context)


def _read(path, columns: _Columns, comment: str | None, on_error) -> list[_Rows]:
    """Read all sentences."""
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
    """Return whether a line is blank or begins a document: part of no sentence.

    The marker's row often has other columns than the rest, so it is not split.

    >>> is_break(" "), is_break("-DOCSTART- -X- O"), is_break("Vinken NNP")
    (True, True, False)
    """
    return not line.strip(" \t") or begins_document(line)


def begins_document(line: str) -> bool:
    """Return whether a line is a `-DOCSTART-` row."""
    return _DOCUMENT_START in line and _DOCUMENT_START in line.split()


class _Columns:
    """Extractor of words and labels; the first row sets the number of columns.

    Only flawed sentences are checked by row. `check` raises `Flaw` for a label that is
    not allowed.
    """

    def __init__(self, path, word: int, label: int, separator: str | None, check):
        if separator == "":
            do = "name a character"
            raise InputError.at(path, None, "the separator is empty", do)
        self._path, self._separator = path, separator
        self._word, self._label = word, label
        self._check_label = check
        self._good: set[str] = set()  # the labels that were checked
        self._width = self._first = 0

    def take(self, start: int, lines: list[str]) -> tuple[list[str], list[str]]:
        if self._separator is not None:
            rows = [line.split(self._separator) for line in lines]
        else:  # at runs of ASCII spaces and tabs only, twice as fast as a pattern
            rows = [line.replace("\t", " ").split(" ") for line in lines]
            rows = [[f for f in row if f] if "" in row else row for row in rows]
        if set(map(len, rows)) != {self._width}:
            self._check_rows(start, rows)
        words = [fields[self._word] for fields in rows]
        labels = [fields[self._label] for fields in rows]
        if not (all(words) and self._good.issuperset(labels)):
            self._check_rows(start, rows)
        # A corpus repeats its words; interned, each is kept in memory once.
        return list(map(sys.intern, words)), list(map(sys.intern, labels))

    def _check_rows(self, start: int, rows: list[list[str]]) -> None:
        """Raise the first flaw; learn width and labels from the rows before it."""
        for line, fields in enumerate(rows, start):
            try:
                self._check_width(line, len(fields))
                if not fields[self._word]:  # only where a separator is named
                    raise Flaw("the word is empty", "mend the row")
                label = fields[self._label]
                if label not in self._good and self._check_label is not None:
                    self._check_label(label)
                self._good.add(label)
            except Flaw as flaw:
                raise flaw.at(self._path, line) from None

    def _check_width(self, line: int, width: int) -> None:
        if width == self._width:
            return
        columns = count(width, "column")
        if self._width:
            what = f"{columns} where {self._width} are expected, as in line"
            do = "mend the row, or name the separator if words hold spaces"
            raise Flaw(f"{what} {self._first}", do)
        for name, column in (("word", self._word), ("tag", self._label)):
            if not -width <= column < width:
                what = f"{columns}, but the {name} is asked from column {column}"
                raise Flaw(what, "columns count from 0, or from the end: -1")
        if self._word % width == self._label % width:
            what = f"{columns}, so word and tag would be the same one"
            raise Flaw(what, "name other columns or the separator")
        self._width, self._first = width, line


def _check_tag(tag: str, scheme: str | None, detected: bool = False) -> None:
    do = "correct it or name the column that holds the tags"
    try:
        prefix, kind = tags.parse(tag, scheme)
    except ValueError as error:
        if detected:
            looks = f"the file's other tags look like {scheme}"
            do = f"{looks}, so correct one or the other"
        elif scheme is not None:
            do = "correct it, or name another scheme or column"
        raise Flaw(str(error), do) from None
    if prefix != "O" and not kind:
        raise Flaw(f"tag {quote(tag)} names no type ({tags.forms(scheme)})", do)


def _of_scheme(sentences, scheme: str, path, on_error) -> Iterator[_Rows]:
    """Raise or skip the sentences whose tags are not of the detected scheme."""
    flaws: dict[str, Flaw] = {}
    for tag in {tag for rows in sentences for tag in rows.labels}:
        try:
            _check_tag(tag, scheme, detected=True)
        except Flaw as flaw:
            flaws[tag] = flaw
    for rows in sentences:
        bad = next((n for n, tag in enumerate(rows.labels) if tag in flaws), None)
        if bad is None:
            yield rows
        else:
            report(flaws[rows.labels[bad]].at(path, rows.line + bad), on_error)
