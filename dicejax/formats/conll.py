"""Column files: a word and its tag per line, a blank line between sentences."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from dicejax.data import tags
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.tags import Scheme, TagForm
from dicejax.errors import Flaw, InputError, quote
from dicejax.formats import audit, rows
from dicejax.formats.records import OnError, check_tag, report
from dicejax.formats.rows import Block, Check, Layout, WordColumns
from dicejax.formats.source import FileSource, Form, Noted, first_path
from dicejax.formats.text import Text
from dicejax.io import files, json_text

Key = TypeVar("Key")


class _Rows(NamedTuple):
    """The rows of one sentence, from `line` on."""

    line: int
    words: list[str]
    labels: list[str]
    document: str

    @property
    def place(self) -> dict[str, Any]:
        """The place of the sentence, as fields of an example."""
        return {"line": self.line, "document": self.document}


def with_context(
    pairs: Iterable[tuple[Key, Any]], count: int, is_last: Callable[[Key], bool]
) -> Iterator[tuple[Key, Any]]:
    """Add `count` words before and after each example, in its document.

    No more is read ahead than the words behind an example. The example of a pair may be
    None, as of a blank line; its first part says whether it is the last of a document.

    >>> from dicejax.data.examples import Sentence
    >>> words = [(False, "a b"), (False, "c"), (True, "d"), (True, "e")]
    >>> pairs = [(last, Sentence(tuple(x.split()), (), 1)) for last, x in words]
    >>> [(x.before, x.after) for _, x in with_context(pairs, 2, bool)][1:3]
    [(('a', 'b'), ('d',)), (('b', 'c'), ())]
    """
    before: deque[str] = deque(maxlen=count)
    waiting: deque[tuple[Key, Any, list[str]]] = deque()  # with the words behind

    def take() -> tuple[Key, Any]:
        key, example, behind = waiting.popleft()
        if example is None:
            return key, None
        around = {"before": tuple(before), "after": tuple(behind)}
        before.extend(example.words)
        return key, dataclasses.replace(example, **around)

    for key, example in pairs:
        words = () if example is None else example.words
        for _, _, behind in waiting:
            behind += words[: count - len(behind)]
        waiting.append((key, example, []))
        ends_document = is_last(key)
        while waiting and (ends_document or len(waiting[0][2]) == count):
            yield take()
        if ends_document:
            before.clear()
    while waiting:
        yield take()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConllFiles(FileSource):
    r"""Files with a word and its label on each line.

    Blank lines and `-DOCSTART-` rows end a sentence and belong to none. A header such
    as "token label" is passed over with a note.

    Every tag must belong to the scheme, but sequences need not follow it: see
    `tags.spans`. Tags may all have their prefix behind (`PER-B`) or before `_`: see
    `tags.prefixed`. In CoNLL-U, ranges of multiword tokens (`3-4`), empty nodes (`8.1`)
    and comments are passed over; in FEATS, DEPS, MISC and LEMMA `_` is a label like
    others, elsewhere it means a missing one.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.txt"
    >>> _ = path.write_text("Ada B-PER\nLovelace I-PER\nslept O\n\nParis B-LOC\n")
    >>> for sentence in ConllFiles.read_file(path):
    ...     print(sentence.line, sentence.words, [tuple(s) for s in sentence.spans])
    1 ('Ada', 'Lovelace', 'slept') [('PER', 0, 2)]
    5 ('Paris',) [('LOC', 0, 1)]

    Args:
      layout: "tags" has the tag of a span behind each word, "labels" a label of the
        word, such as its part of speech, "conllu" the ten columns of CoNLL-U.
      word_column: column that holds the word; negative counts from the end.
      label_column: column that holds the tag or label, by default the last; in CoNLL-U
        its name, by default UPOS.
      scheme: how tags are written; None detects it from each file.
      separator: of columns; None is any run of ASCII spaces and tabs. Other white space
        can be a word: where each character has a tag, so have U+3000 and U+00A0.
      comment: how lines to leave out begin, such as "# "; None where there are none.
      context: number of words that the encoder reads before and after each sentence,
        of the same document: neither labelled nor scored.
      sentence_column: column of a table, with a header and quotes as in CSV, that names
        the sentence in its first row, or in all; None where blank lines part sentences.
      characters: give characters with spans in place of words with labels, for joint
        segmentation and tagging; see `by_character`.
    """

    noun: ClassVar[str] = "sentences"
    parted_by: ClassVar[str] = "a blank line"
    _form: ClassVar[Form] = "conll"

    layout: Literal["tags", "labels", "conllu"] = "tags"
    word_column: int = 0
    label_column: int | str | None = None
    scheme: Scheme | None = None
    separator: str | None = None
    comment: str | None = None
    context: int = 0
    sentence_column: int | None = None
    characters: bool = False

    @classmethod
    def recorded(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a run's record, the column by its name today."""
        old = fields.keys() & {"tag_column", "column"}
        renamed = {"label_column" if n in old else n: x for n, x in fields.items()}
        return super().recorded(renamed)

    @property
    def columns(self) -> Layout:
        """The columns by their numbers, which may count from the end."""
        if self.layout == "conllu":
            return rows.conllu_layout(self.label_column)
        label = -1 if self.label_column is None else int(self.label_column)
        others = (self.separator, self.comment, self.sentence_column)
        return Layout(self.word_column, label, *others)

    def _taker(
        self, path: files.Path, check: Check | None = None, is_gold: bool = True
    ) -> Callable[[Block], tuple[list[str], list[str]]]:
        """Return a function from blocks to their words and labels."""
        if self.layout == "conllu":
            return functools.partial(rows.take_conllu, path, self._layout, is_gold)
        columns = self.columns if is_gold else self._layout
        return WordColumns(path, columns, is_gold, check).take

    def _read(
        self, path: files.Path, on_error: OnError | None, check: Check | None = None
    ) -> tuple[list[_Rows], list[str]]:
        """Return the sentences, and a note on a header that is passed over."""
        if self.separator == "":
            fault = "the separator is empty"
            raise InputError.at(path, None, fault, "name a character")
        with json_text.flaws_at(path):
            take = self._taker(path, check)
        sentences: list[_Rows] = []
        header, columns, first = "", self.columns, list[str]()
        for block in columns.blocks(path):
            header, first = header or block.header, first or block.lines[:1]
            if not (block.lines or block.flaws):
                continue
            try:
                words, labels = take(block)
            except InputError as error:  # the first flaw of a sentence speaks for it
                report(error, on_error)
                continue
            if words:
                sentences.append(_Rows(block.start, words, labels, str(block.document)))
        # Without rows that begin documents that of all sentences is unknown.
        if all(r.document == "0" for r in sentences):
            sentences = [r._replace(document="") for r in sentences]
        if not sentences:
            remedy = "put one word and its label on each line"
            raise InputError.at(path, None, "holds no sentences", remedy)
        is_noted = header and self.sentence_column is None
        notes = [f"passed over the header {quote(header)}"] if is_noted else []
        if self.layout != "conllu":
            width = len(columns.split(first)[0])
            word, label = (n % width for n in columns[:2])
            # Those between word and label are as often there as not.
            usual = {*range(min(word, label), max(word, label) + 1), columns.sentence}
            notes += audit.unread(range(width), usual, "row")
        return sentences, notes

    def _in_context(self, examples: list[Any]) -> list[Any]:
        """Return sentences with the words around them.

        Raises:
          InputError: a number of words is negative.
        """
        if self.context < 0:
            fault = f"context is {self.context}"
            raise InputError(f"{fault}; want 0 words or more (--data.context)")
        if not self.context:
            return examples
        names = [x.document for x in examples]
        are_last = map(str.__ne__, names, [*names[1:], ""])
        pairs = with_context(zip(are_last, examples, strict=True), self.context, bool)
        return [example for _, example in pairs]

    def read_with_notes(self, path: files.Path, on_error: OnError | None) -> Noted:
        """Read one file; also return a note on a header that is passed over."""
        if self.layout == "tags":
            return self._read_spans(path, on_error)
        sentences, notes = self._read(path, on_error)
        examples = [
            TaggedWords(tuple(r.words), tuple(r.labels), **r.place) for r in sentences
        ]
        examples = self._in_context(examples)
        return list(map(by_character, examples)) if self.characters else examples, notes

    def _read_spans(self, path: files.Path, on_error: OnError | None) -> Noted:
        scheme: str | None = self.scheme
        if scheme is not None and scheme not in tags.PREFIXES:
            remedy = f"name one of {', '.join(tags.PREFIXES)}"
            fault = f"scheme {quote(scheme)} is unknown"
            raise InputError.at(path, None, fault, remedy)
        remedy = "correct it, or name another scheme or column"
        if scheme is None:
            remedy = "correct it or name the column that holds the tags"

        def check(tag: str) -> None:
            check_tag(tags.prefixed(tag), scheme, remedy)

        def without(flaws: Mapping[str, Flaw]) -> Iterator[_Rows]:
            """Yield the sentences without a flawed tag."""
            for sentence in sentences:
                labels = enumerate(sentence.labels, sentence.line)
                errors = (flaws[t].at(path, line) for line, t in labels if t in flaws)
                if error := next(errors, None):
                    report(error, on_error)
                else:
                    yield sentence

        sentences, notes = self._read(path, on_error, check)
        names = {tag: tags.prefixed(tag) for r in sentences for tag in set(r.labels)}
        flaws = _of_other_style(names, sentences)
        rest = list(without(flaws))
        sentences = [r._replace(labels=[names[tag] for tag in r.labels]) for r in rest]
        if scheme is None:
            scheme = tags.detect_scheme(r.labels for r in sentences)
            remedy = f"the file's other tags look like {scheme}, so"
            flaws = {}
            for tag in names.values():
                try:
                    check_tag(tag, scheme, f"{remedy} correct one or the other")
                except Flaw as flaw:
                    flaws[tag] = flaw
            sentences = list(without(flaws))
        examples = [
            Sentence(tuple(r.words), tuple(tags.spans(r.labels, scheme)), **r.place)
            for r in sentences
        ]
        return self._in_context(examples), notes

    def texts(self, path: files.Path, stream: files.Stream = None) -> Iterator[Text]:
        """Read sentences to predict; columns behind the words may be missing."""
        take = self._taker(path, is_gold=False)
        blocks = self._layout.blocks(path, stream)
        return rows.texts(
            path, blocks, lambda b: take(b)[0], characters=self.characters
        )

    def write(self, text: Text, record: Mapping[str, Any]) -> str:
        """Return the rows with predicted labels, in a new last column if need be.

        Tags of spans are written as in the training files, by default in BIO; those of
        a sentence whose spans are predicted as they were stay. So do rows of no word.
        """
        layout, before, lines = self._layout, list(text.before), [*text.rows]
        places = [*range(len(lines))]
        if self.layout == "conllu":
            places = [n for n in places if rows.is_conllu_word(lines[n])]
        form = self._written if self.layout == "tags" else None
        labels = rows.labels_of(record, len(places), form and form.scheme)
        if form is not None:
            labels = [form.style(tag) for tag in labels]
        if layout.lacks_label(lines[0]):  # a header gets a name too
            before = [
                layout.with_label(line, "tag")
                if not rows.is_break(line) and layout.is_header(line)
                else line
                for line in before
            ]
        elif form is not None:
            gold = [row[layout.label] for row in layout.split(lines)]
            if form.are_alike(gold, labels):
                labels = gold
        for place, label in zip(places, labels, strict=True):
            lines[place] = layout.with_label(lines[place], label)
        return "\n".join([*before, *lines, *text.after])

    @functools.cached_property
    def _written(self) -> TagForm:
        """How the tags of the training files are written."""
        path = first_path(self.dir, self.train)
        try:
            blocks = itertools.islice(self._layout.blocks(path), rows.SAMPLE)
            split = [self._layout.split(block.lines) for block in blocks if block.lines]
            gold = [[row[self._layout.label] for row in some] for some in split]
            return TagForm.detect(gold, self.scheme)
        except (Flaw, InputError, IndexError, ValueError):
            return TagForm(self.scheme or "BIO")

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
            fault = f"cannot be read, and word_column {self.word_column} counts from"
            remedy = "restore the file, or name the column from 0"
            raise InputError.at(path, None, f"{fault} the end of its rows", remedy)
        word, label = (c + width if c < 0 and width else c for c in columns)
        return layout._replace(word=word, label=label)


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
