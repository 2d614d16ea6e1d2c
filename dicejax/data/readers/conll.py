"""CoNLL column files: a word and its tag per line, a blank line between sentences."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from etils import epath

from dicejax.data import tags
from dicejax.data.tags import Span
from dicejax.errors import InputError

_DOCUMENT_START = "-DOCSTART-"


@dataclasses.dataclass(frozen=True)
class Sentence:
    """One sentence with its gold spans.

    Attributes:
      words: as the file has them.
      spans: what they name, in the order of the words.
      line: where the sentence begins in its file, counted from 1.
    """

    words: tuple[str, ...]
    spans: tuple[Span, ...]
    line: int


def read(
    path: str | os.PathLike[str],
    *,
    word_column: int = 0,
    tag_column: int = -1,
    separator: str | None = None,
    scheme: str | None = None,
) -> list[Sentence]:
    r"""Read a file of words and tags.

    The text is UTF-8, with or without a byte order mark, with any line ends; a name in
    `.gz` is decompressed. Blank lines and `-DOCSTART-` rows end a sentence and belong
    to none. There are no comments: a line that begins with `#` is a row.

    Every tag must belong to the scheme, but sequences need not follow it: they are
    decoded as `tags.spans` does. Where no scheme is named, `tags.detect_scheme` tells
    it from the whole file. IOB1 and BIO can be mistaken for each other there when the
    file is small or damaged, which changes no span, since both decode alike.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.txt"
    >>> _ = path.write_text("Ada B-PER\nLovelace I-PER\nslept O\n\nParis B-LOC\n")
    >>> for sentence in read(path):
    ...     print(sentence.line, sentence.words, [tuple(s) for s in sentence.spans])
    1 ('Ada', 'Lovelace', 'slept') [('PER', 0, 2)]
    5 ('Paris',) [('LOC', 0, 1)]

    Args:
      path: local, or anything etils.epath opens (gs://, s3://).
      word_column: counted from 0; negative counts from the end.
      tag_column: the same.
      separator: what stands between columns, exactly once. None: any run of ASCII
        spaces and tabs. Other white space never separates, because it can be a word:
        where each character has a tag, as in Chinese, so have the ideographic space
        U+3000 and the no-break space U+00A0.
      scheme: how the tags are written, one of `tags.PREFIXES`; None detects it.

    Returns:
      The sentences in the order of the file; at least one.

    Raises:
      InputError: the file is missing, empty, a folder, or not UTF-8 text; a row has
        more or fewer columns than the first or none at the place asked for; a tag is
        malformed or not of the scheme; the scheme is unknown. The message names the
        file, and the line where there is one.
    """
    if scheme is not None and scheme not in tags.PREFIXES:
        known = ", ".join(tags.PREFIXES)
        raise InputError.at(
            path, None, f"scheme {scheme!r} is unknown", f"name one of {known}"
        )
    columns = _Columns(path, word_column, tag_column)
    drafts: list[tuple[int, list[str], list[str]]] = []
    first_line: dict[str, int] = {}  # of each distinct tag: each is checked once
    in_sentence = False
    for number, fields in _rows(path, separator):
        if not fields:
            in_sentence = False
            continue
        if not in_sentence:
            drafts.append((number, [], []))
            in_sentence = True
        word, tag = columns.pick(number, fields)
        if tag not in first_line:
            _check_tag(path, number, tag, scheme)
            first_line[tag] = number
        # A corpus repeats its words; interned, each is kept in memory once.
        drafts[-1][1].append(sys.intern(word))
        drafts[-1][2].append(sys.intern(tag))
    if not drafts:
        raise InputError.at(
            path, None, "holds no sentences", "put one word and its tag on each line"
        )
    if scheme is None:
        scheme = tags.detect_scheme(labels for _, _, labels in drafts)
        for tag, number in first_line.items():
            _check_tag(path, number, tag, scheme, detected=True)
    return [
        Sentence(tuple(words), tuple(tags.spans(labels, scheme)), number)
        for number, words, labels in drafts
    ]


@dataclasses.dataclass
class _Columns:
    """Takes word and tag from a row; the first row says how many columns all have."""

    path: str | os.PathLike[str]
    word: int
    tag: int
    width: int = 0
    first: int = 0

    def pick(self, line: int, fields: list[str]) -> tuple[str, str]:
        if len(fields) != self.width:
            self._check_width(line, len(fields))
        word = fields[self.word]
        if not word:  # only where a separator is named
            raise InputError.at(self.path, line, "the word is empty", "mend the row")
        return word, fields[self.tag]

    def _check_width(self, line: int, width: int) -> None:
        hint = "mend the row, or name the separator if words hold spaces"
        columns = "1 column" if width == 1 else f"{width} columns"
        if self.width:
            what = f"{columns} where {self.width} are expected, as in line {self.first}"
            raise InputError.at(self.path, line, what, hint)
        for name, column in (("word", self.word), ("tag", self.tag)):
            if not -width <= column < width:
                what = f"{columns}, but the {name} is asked from column {column}"
                raise InputError.at(
                    self.path, line, what, "columns count from 0, or from the end: -1"
                )
        if self.word % width == self.tag % width:
            what = f"{columns}, so word and tag would be the same one"
            raise InputError.at(
                self.path, line, what, "name other columns or the separator"
            )
        self.width, self.first = width, line


def _check_tag(
    path, line: int, tag: str, scheme: str | None, detected: bool = False
) -> None:
    do = "correct it or name the column that holds the tags"
    try:
        prefix, kind = tags.parse(tag, scheme)
    except ValueError as error:
        if detected:
            do = (
                f"the file's other tags look like {scheme}, so correct one or the other"
            )
        elif scheme is not None:
            do = "correct it, or name another scheme or column"
        raise InputError.at(path, line, str(error), do) from None
    if prefix != "O" and not kind:
        raise InputError.at(
            path, line, f"tag {tag!r} names no type ({tags.forms(scheme)})", do
        )


def _rows(path, separator: str | None) -> Iterator[tuple[int, list[str]]]:
    """Give each line's number and columns; no columns where a sentence ends."""
    split = _splitter(path, separator)
    number = 0
    for number, line in enumerate(_lines(path), start=1):
        if "\0" in line:
            raise InputError.at(
                path, number, "a NUL byte: not text, or UTF-16", "save it as UTF-8"
            )
        # The marker's row often has other columns than the rest, so it is not split.
        if _DOCUMENT_START in line and _DOCUMENT_START in line.split():
            yield number, []
        else:
            yield number, split(line.rstrip("\n")) if line.strip(" \t\n") else []
    if number == 0:
        raise InputError.at(path, None, "is empty", "name a file that holds sentences")


def _splitter(path, separator: str | None) -> Callable[[str], list[str]]:
    if separator is None:
        return re.compile(r"[^ \t]+").findall  # not str.split(): see `read`
    if not separator:
        raise InputError.at(path, None, "the separator is empty", "name a character")
    return lambda line: line.split(separator)


def _lines(path) -> Iterator[str]:
    file = epath.Path(path)
    try:
        if file.is_dir():
            raise InputError.at(path, None, "is a folder", "name a file in it")
        if not file.exists():
            raise InputError.at(path, None, "no such file", _what_is_there(file))
        with _open(path) as raw, io.TextIOWrapper(raw, "utf-8-sig") as text:
            yield from text
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError.at(
            path,
            None,
            f"cannot be read: {reason}",
            "check the file and its permissions",
        ) from error


@contextlib.contextmanager
def _open(path) -> Iterator[BinaryIO]:
    with epath.Path(path).open("rb") as file:
        if not os.fspath(path).endswith(".gz"):
            yield file
            return
        with gzip.open(file) as unpacked:
            yield unpacked


def _what_is_there(path: epath.Path) -> str:
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} either"
    names = sorted(entry.name for entry in path.parent.iterdir())
    close = difflib.get_close_matches(path.name, names)
    return f"did you mean {' or '.join(close)}?" if close else "check the name"


def _not_utf8(path) -> InputError:
    """Find the place: text is decoded in pieces, so the error itself does not know."""
    with _open(path) as file:
        content = file.read()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        offset = error.start
    line = 1 + len(re.findall(rb"\r\n|\r|\n", content[:offset]))
    what = f"byte {offset} (0x{content[offset]:02x}) is not UTF-8"
    return InputError.at(path, line, what, "convert the file to UTF-8")
