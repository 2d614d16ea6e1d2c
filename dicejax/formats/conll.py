"""Column files: a word and its tag per line, a blank line between sentences."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, ClassVar, NamedTuple

from etils import epath

from dicejax.data import tags
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.tags import Scheme
from dicejax.errors import Flaw, InputError, quote
from dicejax.formats.rows import (
    Layout,
    are_rows,
    is_break,
    labels_of,
    settings,
    texts,
    too_long,
    uneven,
    write,
)
from dicejax.formats.sample import FileSample
from dicejax.formats.skipping import OnError, check_tag, count, report
from dicejax.formats.source import FileSource
from dicejax.formats.text import Text

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
    sentence_column: int | None = None,
    on_error: OnError | None = None,
    notes: list[str] | None = None,
) -> list[Sentence]:
    r"""Read a file of words and tags of spans.

    Blank lines and `-DOCSTART-` rows end a sentence and belong to none. Without a
    separator, runs of ASCII spaces and tabs part columns; other white space can be a
    word: where each character has a tag, as in Chinese, so have U+3000 and U+00A0.
    Every tag must belong to the scheme, which is detected from the whole file if it is
    None, but sequences need not follow it: see `tags.spans`. Tags may all have their
    prefix behind (`PER-B`) or before `_`: see `tags.prefixed`. A header such as "token
    label" is passed over with a note; see `ConllFiles` for the columns of a table.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.txt"
    >>> _ = path.write_text("Ada B-PER\nLovelace I-PER\nslept O\n\nParis B-LOC\n")
    >>> for sentence in read(path):
    ...     print(sentence.line, sentence.words, [tuple(s) for s in sentence.spans])
    1 ('Ada', 'Lovelace', 'slept') [('PER', 0, 2)]
    5 ('Paris',) [('LOC', 0, 1)]

    Raises:
      InputError: a row has too few or too many columns; a tag is malformed or not of
        the scheme, which may be unknown, or is not written as the others; a sentence is
        too long; `context` is negative.
    """
    if scheme is not None and scheme not in tags.PREFIXES:
        do = f"name one of {', '.join(tags.PREFIXES)}"
        raise InputError.at(path, None, f"scheme {quote(scheme)} is unknown", do)

    do = "correct it, or name another scheme or column"
    if scheme is None:
        do = "correct it or name the column that holds the tags"

    def check(label: str) -> None:
        check_tag(tags.prefixed(label), scheme, do)

    layout = Layout(word_column, tag_column, separator, comment, sentence_column)
    columns = _Columns(path, layout, check)
    sentences = _read(columns, on_error, notes)
    if any(tags.prefixed(tag) != tag for tag in columns.good):
        sentences = _of_style(sentences, path, on_error)
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
    sentence_column: int | None = None,
    characters: bool = False,
    on_error: OnError | None = None,
    notes: list[str] | None = None,
) -> list[TaggedWords] | list[Sentence]:
    """Read a file of words and their labels, such as parts of speech; see `read`.

    With `characters` the words become characters with spans, see `by_character`.
    """
    layout = Layout(word_column, label_column, separator, comment, sentence_column)
    sentences = _read(_Columns(path, layout, None), on_error, notes)
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


def _read(columns: _Columns, on_error, notes: list[str] | None) -> list[_Rows]:
    path, layout = columns.path, columns.layout
    if layout.separator == "":
        raise InputError.at(path, None, "the separator is empty", "name a character")
    sentences: list[_Rows] = []
    header = ""
    for document, start, lines, flaws, before in layout.blocks(path, flawless=False):
        if not (sentences or header):
            rows = (line for line in before if not is_break(line))
            header = next(filter(layout.is_header, rows), "")
        if not (lines or flaws):
            continue
        try:
            if flaw := too_long(len(lines)):
                raise flaw.at(path, start)
            words, labels = columns.take(start, lines)
            if flaws:
                raise flaws[0]
        except InputError as error:  # the first flaw of a sentence speaks for it
            report(error, on_error)
        else:
            sentences.append(_Rows(start, words, labels, document))
    if header and layout.sentence is None and notes is not None:
        notes.append(f"passed over the header {quote(header)}")
    if not sentences:
        do = "put one word and its label on each line"
        raise InputError.at(path, None, "holds no sentences", do)
    return sentences


@dataclasses.dataclass
class _Columns:
    """Extractor of words and labels; the first row sets the number of columns."""

    path: str | os.PathLike[str]
    layout: Layout
    check_label: Callable[[str], None] | None
    good: set[str] = dataclasses.field(default_factory=set)  # labels that were checked
    width: int = 0
    first_line: int = 0

    def take(self, start: int, lines: list[str]) -> tuple[list[str], list[str]]:
        try:
            rows = self.layout.split(lines)
        except Flaw as flaw:
            raise flaw.at(self.path, start + (flaw.line or 0)) from None
        if set(map(len, rows)) != {self.width}:
            self._check_rows(start, rows)
        word, label = self.layout[:2]
        words = [fields[word] for fields in rows]
        labels = [fields[label] for fields in rows]
        if not (all(words) and self.good.issuperset(labels)):
            self._check_rows(start, rows)
        # A corpus repeats its words; interned, each is in memory once.
        return list(map(sys.intern, words)), list(map(sys.intern, labels))

    def _check_rows(self, start: int, rows: list[list[str]]) -> None:
        """Raise the first flaw; learn width and labels from the rows before it."""
        for line, fields in enumerate(rows, start):
            try:
                self._check_width(line, len(fields))
                if not fields[self.layout.word]:  # only where a separator is named
                    raise Flaw("the word is empty", "mend the row")
                label = fields[self.layout.label]
                if label not in self.good and self.check_label is not None:
                    self.check_label(label)
                self.good.add(label)
            except Flaw as flaw:
                raise flaw.at(self.path, line) from None

    def _check_width(self, line: int, width: int) -> None:
        if width == self.width:
            return
        if self.width:
            raise uneven(width, self.width, self.first_line)
        columns = count(width, "column")
        for name, column in (("word", self.layout.word), ("tag", self.layout.label)):
            if not -width <= column < width:
                what = f"{columns}, but the {name} is asked from column {column}"
                raise Flaw(what, "columns count from 0, or from the end: -1")
        if self.layout.word % width == self.layout.label % width:
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
    yield from _without(flaws, sentences, path, on_error)


def _of_style(sentences: list[_Rows], path, on_error) -> list[_Rows]:
    """Write tags as schemes have them; raise or skip those unlike most of the file."""
    counts = Counter(tag for rows in sentences for tag in rows.labels if tag != "O")
    if not counts:
        return sentences
    forms = {tag: _form(tag) for tag in counts}
    by_form = Counter(forms[tag] for tag in counts.elements())
    [(usual, _)] = by_form.most_common(1)
    do = "correct one or the other"
    flaws = {
        tag: Flaw(f"tag {quote(tag)} is not written as the others: {usual}", do)
        for tag in counts
        if forms[tag] != usual
    }
    good = _without(flaws, sentences, path, on_error)
    return [r._replace(labels=list(map(tags.prefixed, r.labels))) for r in good]


def _form(tag: str) -> str:
    """Return how a tag is written."""
    prefix, _, kind = tags.prefixed(tag).partition("-")
    forms = {f"{prefix}-{kind}": "B-TYPE", f"{prefix}_{kind}": "B_TYPE"}
    return forms.get(tag) or ("TYPE-B" if tag.endswith(f"-{prefix}") else "TYPE_B")


def _without(
    flaws: Mapping[str, Flaw], sentences: Iterable[_Rows], path, on_error
) -> Iterator[_Rows]:
    """Yield the sentences without a flawed tag."""
    for rows in sentences:
        bad = next((n for n, tag in enumerate(rows.labels) if tag in flaws), None)
        if bad is None:
            yield rows
        else:
            report(flaws[rows.labels[bad]].at(path, rows.line + bad), on_error)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnFiles(FileSource):
    """Base class of files with a word and its label on each line.

    Args:
      word_column: column that holds the word; negative counts from the end.
      separator: of columns; None is any run of spaces and tabs.
      comment: how lines to leave out begin, such as "# "; None where there are none.
      context: number of words that the encoder reads before and after each sentence,
        of the same document: neither labelled nor scored.
      sentence_column: column of a table, with a header and quotes as in CSV, that names
        the sentence in its first row, or in all; None where blank lines part sentences.
    """

    several: ClassVar[str] = "sentences"
    parted_by: ClassVar[str] = "a blank line"
    form: ClassVar[str] = "conll"
    label_field: ClassVar[str]

    word_column: int = 0
    separator: str | None = None
    comment: str | None = None
    context: int = 0
    sentence_column: int | None = None

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file may have a word and its label on each line."""
        return are_rows(file)

    @classmethod
    def settings(cls, file: FileSample) -> dict[str, Any]:
        """Return the columns and the mark of comments."""
        fields = settings(file, tagged=cls.label_field == "tag_column")
        if (label := fields.pop("label", None)) is not None:
            fields[cls.label_field] = label
        return fields

    def read(self, path: epath.Path, on_error: OnError | None) -> Sequence[Any]:
        """Read one file."""
        return self.read_with_notes(path, on_error)[0]

    def read_with_notes(
        self, path: epath.Path, on_error: OnError | None
    ) -> tuple[Sequence[Any], list[str]]:
        """Read one file; also return a note on a header that is passed over."""
        notes: list[str] = []
        more = {"on_error": on_error, "notes": notes}
        return self.reader(path, **self.reading_fields, **more), notes

    def texts(
        self, path: str | os.PathLike[str], stream: IO[bytes] | None = None
    ) -> list[Text]:
        """Read sentences to predict; columns behind the words may be missing.

        Raises:
          InputError: see `rows.texts`; or the column of words counts from the end of
            rows of a training file that is missing.
        """
        characters = getattr(self, "characters", False)
        return texts(self._layout, path, stream, characters=characters)

    def write(self, text: Text, record: Mapping[str, Any]) -> str:
        """Return the rows with predicted labels, in a new last column if need be.

        Spans are written in the source's scheme, by default BIO.

        Raises:
          InputError: the prediction has no label for each row.
        """
        scheme = getattr(self, "scheme", None) or "BIO"
        predicted = labels_of(record, len(text.rows), scheme)
        label = self._layout.label
        return write(self._layout, label if label >= 0 else None, text, predicted)

    @functools.cached_property
    def _layout(self) -> Layout:
        """The columns of rows as in training, from the first on if it can be told."""
        columns = (self.word_column, getattr(self, self.label_field))
        layout = Layout(*columns, self.separator, self.comment, self.sentence_column)
        if min(columns) >= 0:
            return layout
        path = epath.Path(self.dir) / self.train.split("+")[0]
        if not path.exists():
            path = path.with_name(path.name + ".gz")
        try:
            blocks = layout.blocks(path)
            line = next(block.lines[0] for block in blocks if block.lines)
            width = len(layout.split([line])[0])
        except (InputError, StopIteration):
            width = 0  # the label goes to a new column
        if self.word_column < 0 and not width:
            what = f"cannot be read, and word_column {self.word_column} counts from the"
            do = "restore the file, or name the column from 0"
            raise InputError.at(path, None, f"{what} end of its rows", do) from None
        word, label = (c + width if c < 0 and width else c for c in columns)
        return layout._replace(word=word, label=label)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConllFiles(ColumnFiles):
    """Files with a word and the tag of a span on each line.

    Args:
      tag_column: column that holds the tag; negative counts from the end.
      scheme: how the tags are written; None detects it from each file.
    """

    looks: ClassVar[str] = "holds a word and its tag on each line"

    reader = staticmethod(read)
    label_field: ClassVar[str] = "tag_column"

    tag_column: int = -1
    scheme: Scheme | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordLabelFiles(ColumnFiles):
    """Files with a word and its label on each line.

    Args:
      label_column: column that holds the label; negative counts from the end.
      characters: give characters with spans, for joint segmentation and tagging.
    """

    looks: ClassVar[str] = "holds a word and its label on each line"

    reader = staticmethod(read_words)
    label_field: ClassVar[str] = "label_column"

    label_column: int = -1
    characters: bool = False
