"""CoNLL column files: a word and its tag per line, a blank line between sentences."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Collection, Iterator

from dicejax.data import tags
from dicejax.data.readers import columns
from dicejax.data.readers.skipping import Flaw, OnError, check_label, report
from dicejax.data.tags import Span
from dicejax.errors import InputError


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
    types: Collection[str] | None = None,
    on_error: OnError | None = None,
) -> list[Sentence]:
    r"""Read a file of words and tags.

    The text is UTF-8, with or without a byte order mark, with any line ends; a name in
    `.gz` is decompressed. Blank lines and `-DOCSTART-` rows end a sentence and belong
    to none. There are no comments: a line that begins with `#` is a row.

    Every tag must belong to the scheme, but sequences need not follow it: they are
    decoded as `tags.spans` does. Where no scheme is named, `tags.detect_scheme` tells
    it from the whole file. IOB1 and BIO can be mistaken for each other there when the
    file is small or damaged, which changes no span, since both decode alike.

    Files with one character per line are read so too: for joint segmentation and
    tagging (CTB) each word is a span, its part of speech the type: `B-NN`, `E-NN`.

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
      types: every type that spans may have; None allows any.
      on_error: is told of each sentence that is left out, with its first flaw; None
        raises the first.

    Returns:
      The sentences in the order of the file; at least one.

    Raises:
      InputError: the file is missing, empty, a folder, or not UTF-8 text; a row has
        more or fewer columns than the first or none at the place asked for; a tag is
        malformed or not of the scheme; a type or the scheme is unknown. The message
        names the file, and the line where there is one.
    """
    if scheme is not None and scheme not in tags.PREFIXES:
        known = ", ".join(tags.PREFIXES)
        raise InputError.at(
            path, None, f"scheme {scheme!r} is unknown", f"name one of {known}"
        )
    found = columns.read(
        path,
        word_column=word_column,
        label_column=tag_column,
        separator=separator,
        check=functools.partial(_check_tag, scheme=scheme, types=types),
        on_error=on_error,
    )
    if scheme is None:
        scheme = tags.detect_scheme(rows.labels for rows in found)
        found = list(_of_scheme(found, scheme, path, on_error))
    return [
        Sentence(tuple(rows.words), tuple(tags.spans(rows.labels, scheme)), rows.line)
        for rows in found
    ]


def _check_tag(
    tag: str,
    scheme: str | None,
    types: Collection[str] | None = None,
    detected: bool = False,
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
        raise Flaw(str(error), do) from None
    if prefix == "O":
        return
    if not kind:
        raise Flaw(f"tag {tag!r} names no type ({tags.forms(scheme)})", do)
    check_label(kind, types)


def _of_scheme(found, scheme: str, path, on_error) -> Iterator[columns.Rows]:
    """Leave out, or refuse, the sentences whose tags are not of the detected scheme."""
    flaws: dict[str, Flaw] = {}
    for tag in {tag for rows in found for tag in rows.labels}:
        try:
            _check_tag(tag, scheme, detected=True)
        except Flaw as flaw:
            flaws[tag] = flaw
    for rows in found:
        bad = next((n for n, tag in enumerate(rows.labels) if tag in flaws), None)
        if bad is None:
            yield rows
        else:
            report(flaws[rows.labels[bad]].at(path, rows.line + bad), on_error)
