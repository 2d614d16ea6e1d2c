"""CoNLL-U files: the treebanks of Universal Dependencies."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.errors import Flaw, InputError, quote, truncate
from dicejax.formats.rows import Block, Layout, labels_of, texts
from dicejax.formats.skipping import OnError, count, did_you_mean, report
from dicejax.formats.source import FileSource
from dicejax.formats.text import Text
from dicejax.io import files

_NAMES = "ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC"
COLUMNS = tuple(_NAMES.split())

# In these, "_" means that nothing was annotated; in the others it is a value.
_NEVER_BLANK = ("UPOS", "XPOS", "HEAD", "DEPREL")
_WORD = re.compile(r"[1-9][0-9]*")
_NO_WORD = re.compile(r"[1-9][0-9]*-[1-9][0-9]*|[0-9]+\.[1-9][0-9]*")
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b")
_LAYOUT = Layout(word=1, label=0, separator="\t", comment="#")
_EMPTY = ("holds no sentences", "name a CoNLL-U file with words")


def _words(
    path: files.Path, block: Block, column: str | None = None
) -> list[list[str]]:
    """Return the fields of each word, which has a label in the column, if any."""
    words: list[list[str]] = []
    for number, line in enumerate(block.lines, block.start):
        try:
            word = _word(line, len(words) + 1, column)
        except Flaw as flaw:
            raise flaw.at(path, number) from None
        words += [word] if word else []
    if block.flaws:
        raise block.flaws[0]
    return words


def _word(line: str, next_id: int, column: str | None) -> list[str] | None:
    """Return the fields of a word; None for a comment, a range or an empty node."""
    if line.startswith("#"):
        return None
    fields = line.split("\t")
    if len(fields) != len(COLUMNS):
        what = f"{count(len(fields), 'column')} where CoNLL-U has {len(COLUMNS)}"
        raise Flaw(what, "separate them with one tab each and mark empty ones by _")
    id_, word = fields[:2]
    if not _WORD.fullmatch(id_):
        if _NO_WORD.fullmatch(id_):
            return None
        what = f"id {quote(id_)} is not a number, range or empty node"
        raise Flaw(what, "correct it")
    if id_ != str(next_id):
        what = f"id {truncate(id_, 40)} where {next_id} is next"
        do = "fix the numbering, or put a blank line between sentences"
        raise Flaw(what, do)
    if not word:
        raise Flaw("the word is empty", "fix the row")
    label = fields[COLUMNS.index(column)] if column else word
    if not label or (label == "_" and column in _NEVER_BLANK):
        raise Flaw(f"the word has no {column}", "add it, or name another column")
    return fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConlluFiles(FileSource):
    """CoNLL-U files: words with their part of speech.

    Ranges of multiword tokens (`3-4`), empty nodes (`8.1`) and comments are passed
    over. In FEATS, DEPS, MISC and LEMMA `_` is a label like others; elsewhere it means
    a missing one.

    Args:
      column: column of the label, such as UPOS or XPOS.
      characters: give characters with spans, for joint segmentation and tagging; see
        `by_character`.
    """

    several: ClassVar[str] = "sentences"
    parted_by: ClassVar[str] = "a blank line"
    form: ClassVar[str] = "conll"

    train: str = "train.conllu"
    dev: str | None = "dev.conllu"
    test: str | None = "test.conllu"
    column: str = "UPOS"
    characters: bool = False

    def read(
        self, path: files.Path, on_error: OnError | None
    ) -> list[TaggedWords] | list[Sentence]:
        """Read one file; see `FileSource.read`."""
        column = self.column
        if column not in COLUMNS[2:]:
            do = did_you_mean(column, COLUMNS[2:])
            raise InputError.at(path, None, f"no column {quote(column)} has labels", do)
        sentences: list[TaggedWords] = []
        documents = 0
        for block in _LAYOUT.blocks(path):
            documents += any(map(_NEW_DOCUMENT.match, block.before))
            try:
                rows = _words(path, block, column)
            except InputError as error:  # the first flaw of a sentence speaks for it
                report(error, on_error)
                continue
            # A corpus repeats its words; interned, each is in memory once.
            words = tuple(sys.intern(fields[1]) for fields in rows)
            labels = tuple(sys.intern(fields[COLUMNS.index(column)]) for fields in rows)
            if words:
                name = str(documents or "")
                sentences.append(TaggedWords(words, labels, block.start, document=name))
        if not sentences:
            raise InputError.at(path, None, *_EMPTY)
        return list(map(by_character, sentences)) if self.characters else sentences

    def texts(self, path: files.Path, stream: files.Stream = None) -> Iterator[Text]:
        """Read sentences to predict, whose labels may be missing."""

        def words_of(block: Block) -> list[str]:
            return [fields[1] for fields in _words(path, block)]

        blocks = _LAYOUT.blocks(path, stream)
        return texts(path, blocks, words_of, _EMPTY[1], characters=self.characters)

    def write(self, text: Text, record: Mapping[str, Any]) -> str:
        """Return the rows with predicted labels; those of no word as they are."""
        rows = [row.split("\t") for row in text.rows]
        words = [fields for fields in rows if _WORD.fullmatch(fields[0])]
        for fields, label in zip(words, labels_of(record, len(words)), strict=True):
            fields[COLUMNS.index(self.column)] = label
        return "\n".join([*text.before, *map("\t".join, rows), *text.after])
