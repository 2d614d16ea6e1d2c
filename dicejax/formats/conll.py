"""Column files: a word and its tag per line, a blank line between sentences."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from dicejax.data import tags
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.tags import Scheme, TagForm
from dicejax.errors import Flaw, InputError, quote
from dicejax.formats import layouts, rows
from dicejax.formats.rows import Layout, WordColumns
from dicejax.formats.skipping import OnError, check_tag, report
from dicejax.formats.source import FileSource, Noted, first_path
from dicejax.formats.text import Text
from dicejax.io import files

Words = tuple[str, ...]


class _Rows(NamedTuple):
    """The rows of one sentence, from `line` on."""

    line: int
    words: list[str]
    labels: list[str]
    document: int


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnFiles(FileSource):
    """Base class of files with a word and its label on each line.

    Blank lines and `-DOCSTART-` rows end a sentence and belong to none. A header such
    as "token label" is passed over with a note.

    Args:
      word_column: column that holds the word; negative counts from the end.
      separator: of columns; None is any run of ASCII spaces and tabs. Other white space
        can be a word: where each character has a tag, so have U+3000 and U+00A0.
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

    @property
    def columns(self) -> Layout:
        """The columns by their numbers, which may count from the end."""
        label = getattr(self, self.label_field)
        others = (self.separator, self.comment, self.sentence_column)
        return Layout(self.word_column, label, *others)

    def _read(
        self, columns: WordColumns, on_error: OnError | None
    ) -> tuple[list[_Rows], list[str]]:
        """Return the sentences, and a note on a header that is passed over."""
        path = columns.path
        if self.separator == "":
            what = "the separator is empty"
            raise InputError.at(path, None, what, "name a character")
        sentences: list[_Rows] = []
        header = ""
        for block in columns.layout.blocks(path):
            header = header or block.header
            if not (block.lines or block.flaws):
                continue
            try:
                taken = columns.take(block)
            except InputError as error:  # the first flaw of a sentence speaks for it
                report(error, on_error)
            else:
                sentences.append(_Rows(block.start, *taken, block.document))
        if not sentences:
            do = "put one word and its label on each line"
            raise InputError.at(path, None, "holds no sentences", do)
        is_noted = header and self.sentence_column is None
        notes = [f"passed over the header {quote(header)}"] if is_noted else []
        return sentences, notes

    def _with_context(
        self, sentences: list[_Rows]
    ) -> Iterator[tuple[_Rows, tuple[Words, Words], str]]:
        words, documents = [r.words for r in sentences], [r.document for r in sentences]
        around = neighbours(words, documents, self.context)
        # Without `-DOCSTART-` rows the document of all sentences is unknown.
        names = [str(n) if any(documents) else "" for n in documents]
        return zip(sentences, around, names, strict=True)

    def texts(self, path: files.Path, stream: files.Stream = None) -> Iterator[Text]:
        """Read sentences to predict; columns behind the words may be missing."""
        columns = WordColumns(path, self._layout, is_gold=False)
        blocks = self._layout.blocks(path, stream)
        do = "put one word on each line, a blank line between sentences"
        characters = getattr(self, "characters", False)
        return rows.texts(
            path, blocks, lambda b: columns.take(b)[0], do, characters=characters
        )

    def write(self, text: Text, record: Mapping[str, Any]) -> str:
        """Return the rows with predicted labels, in a new last column if need be.

        Tags of spans are written as in the training files, by default in BIO; those of
        a sentence whose spans are predicted as they were stay.
        """
        layout, before = self._layout, list(text.before)
        form = self._written if self.label_field == "tag_column" else None
        labels = rows.labels_of(record, len(text.rows), form and form.scheme)
        if form is not None:
            labels = [form.style(tag) for tag in labels]
        if not layout.lacks_label(text.rows[0]):
            gold = [row[layout.label] for row in layout.split(text.rows)]
            if gold == labels or (form and form.are_alike(gold, labels)):
                return "\n".join([*before, *text.rows, *text.after])
        if layout.lacks_label(text.rows[0]):  # a header gets a name too
            before = [
                layout.with_label(line, "tag")
                if not rows.is_break(line) and layout.is_header(line)
                else line
                for line in before
            ]
        return "\n".join(
            [*before, *map(layout.with_label, text.rows, labels), *text.after]
        )

    @functools.cached_property
    def _written(self) -> TagForm:
        """How the tags of the training files are written."""
        path, scheme = first_path(self.dir, self.train), getattr(self, "scheme", None)
        try:
            blocks = itertools.islice(self._layout.blocks(path), layouts.SAMPLE)
            split = [self._layout.split(block.lines) for block in blocks if block.lines]
            gold = [[row[self._layout.label] for row in some] for some in split]
            return TagForm.detect(gold, scheme)
        except (Flaw, InputError, IndexError, ValueError):
            return TagForm(scheme or "BIO")

    @functools.cached_property
    def _layout(self) -> Layout:
        """The columns of rows as in training, from the first on if it can be told."""
        layout = self.columns
        columns = layout[:2]
        if min(columns) >= 0:
            return layout
        path = first_path(self.dir, self.train)
        try:
            line = next(block.lines[0] for block in layout.blocks(path) if block.lines)
            width = len(layout.split([line])[0])
        except (Flaw, InputError, StopIteration):
            width = 0  # the label goes to a new column
        if self.word_column < 0 and not width:
            what = f"cannot be read, and word_column {self.word_column} counts from the"
            do = "restore the file, or name the column from 0"
            raise InputError.at(path, None, f"{what} end of its rows", do)
        word, label = (c + width if c < 0 and width else c for c in columns)
        return layout._replace(word=word, label=label)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConllFiles(ColumnFiles):
    r"""Files with a word and the tag of a span on each line.

    Every tag must belong to the scheme, but sequences need not follow it: see
    `tags.spans`. Tags may all have their prefix behind (`PER-B`) or before `_`: see
    `tags.prefixed`.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.txt"
    >>> _ = path.write_text("Ada B-PER\nLovelace I-PER\nslept O\n\nParis B-LOC\n")
    >>> for sentence in ConllFiles.read_file(path):
    ...     print(sentence.line, sentence.words, [tuple(s) for s in sentence.spans])
    1 ('Ada', 'Lovelace', 'slept') [('PER', 0, 2)]
    5 ('Paris',) [('LOC', 0, 1)]

    Args:
      tag_column: column that holds the tag; negative counts from the end.
      scheme: how the tags are written; None detects it from each file.
    """

    label_field: ClassVar[str] = "tag_column"

    tag_column: int = -1
    scheme: Scheme | None = None

    def read_with_notes(self, path: files.Path, on_error: OnError | None) -> Noted:
        """Read one file; also return a note on a header that is passed over."""
        scheme: str | None = self.scheme
        if scheme is not None and scheme not in tags.PREFIXES:
            do = f"name one of {', '.join(tags.PREFIXES)}"
            raise InputError.at(path, None, f"scheme {quote(scheme)} is unknown", do)
        do = "correct it, or name another scheme or column"
        if scheme is None:
            do = "correct it or name the column that holds the tags"

        def check(tag: str) -> None:
            check_tag(tags.prefixed(tag), scheme, do)

        columns = WordColumns(path, self.columns, check=check)
        sentences, notes = self._read(columns, on_error)
        names = {tag: tags.prefixed(tag) for tag in columns.good}
        if any(tag != name for tag, name in names.items()):
            flaws = _of_other_style(names, sentences)
            sentences = [
                r._replace(labels=[names[tag] for tag in r.labels])
                for r in _without(flaws, sentences, path, on_error)
            ]
        if scheme is None:
            scheme = tags.detect_scheme(r.labels for r in sentences)
            do = (
                f"the file's other tags look like {scheme}, so correct one or the other"
            )
            flaws = {}
            for tag in names.values():
                try:
                    check_tag(tag, scheme, do)
                except Flaw as flaw:
                    flaws[tag] = flaw
            sentences = list(_without(flaws, sentences, path, on_error))
        return [
            Sentence(
                tuple(r.words),
                tuple(tags.spans(r.labels, scheme)),
                *(r.line, *around),
                document=document,
            )
            for r, around, document in self._with_context(sentences)
        ], notes


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordLabelFiles(ColumnFiles):
    """Files with a word and its label, such as its part of speech, on each line.

    Args:
      label_column: column that holds the label; negative counts from the end.
      characters: give characters with spans, for joint segmentation and tagging; see
        `by_character`.
    """

    label_field: ClassVar[str] = "label_column"

    label_column: int = -1
    characters: bool = False

    def read_with_notes(self, path: files.Path, on_error: OnError | None) -> Noted:
        """Read one file; also return a note on a header that is passed over."""
        sentences, notes = self._read(WordColumns(path, self.columns), on_error)
        examples = [
            TaggedWords(tuple(r.words), tuple(r.labels), r.line, *around, document=name)
            for r, around, name in self._with_context(sentences)
        ]
        return list(map(by_character, examples)) if self.characters else examples, notes


def _of_other_style(
    names: Mapping[str, str], sentences: Iterable[_Rows]
) -> dict[str, Flaw]:
    """Return the flaws of tags that are not written as most of the file's."""
    forms = {tag: tags.form_of(tag).format("B", "TYPE") for tag in names}
    counts = Counter(forms[tag] for r in sentences for tag in r.labels if tag != "O")
    usual = max(counts, key=counts.__getitem__, default="")
    return {
        tag: Flaw(
            f"tag {quote(tag)} is not written as the others: {usual}",
            "correct one or the other",
        )
        for tag, form in forms.items()
        if tag != "O" and form != usual
    }


def _without(
    flaws: Mapping[str, Flaw], sentences: Iterable[_Rows], path, on_error
) -> Iterator[_Rows]:
    """Yield the sentences without a flawed tag."""
    for sentence in sentences:
        labels = enumerate(sentence.labels, sentence.line)
        errors = (flaws[tag].at(path, line) for line, tag in labels if tag in flaws)
        if error := next(errors, None):
            report(error, on_error)
        else:
            yield sentence
