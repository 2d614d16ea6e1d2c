"""Column files with one label per word, such as parts of speech, kept as it stands."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection

from dicejax.data.examples import TaggedWords
from dicejax.data.readers import columns
from dicejax.data.readers.skipping import OnError, check_label


def read(
    path: str | os.PathLike[str],
    *,
    word_column: int = 0,
    label_column: int = -1,
    separator: str | None = None,
    labels: Collection[str] | None = None,
    on_error: OnError | None = None,
) -> list[TaggedWords]:
    r"""Read a file with a word and its label on each line.

    What `columns.read` says of columns, `-DOCSTART-` rows and white space holds here.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "wsj.txt"
    >>> _ = path.write_text("Vinken NNP B-NP\njoins VBZ B-VP\n\nYes UH O\n")
    >>> for example in read(path, label_column=1):
    ...     print(example.line, example.words, example.labels)
    1 ('Vinken', 'joins') ('NNP', 'VBZ')
    4 ('Yes',) ('UH',)

    Args:
      path: local, or anything etils.epath opens (gs://, s3://).
      word_column: counted from 0; negative counts from the end.
      label_column: the same.
      separator: what stands between columns, exactly once; None: any run of ASCII
        spaces and tabs.
      labels: every label there is; None allows any.
      on_error: is told of each sentence that is left out, with its first flaw; None
        raises the first.

    Returns:
      The sentences in the order of the file; at least one.

    Raises:
      InputError: the file is missing, empty, a folder, or not UTF-8 text; a row has
        more or fewer columns than the first or none at the place asked for; a label is
        not in the list.
    """
    found = columns.read(
        path,
        word_column=word_column,
        label_column=label_column,
        separator=separator,
        check=functools.partial(check_label, known=labels),
        on_error=on_error,
    )
    return [TaggedWords(tuple(r.words), tuple(r.labels), r.line) for r in found]
