"""Sentences behind their label, one per line: `4 a gorgeous film`."""

from __future__ import annotations

import os
from collections.abc import Collection

from dicejax.data.examples import LabelledText
from dicejax.data.readers import text
from dicejax.data.readers.skipping import Flaw, OnError, check_label, report
from dicejax.errors import InputError

SST2 = ("0", "1")
"""Negative, positive."""

SST5 = ("0", "1", "2", "3", "4")
"""Very negative to very positive."""


def read(
    path: str | os.PathLike[str],
    *,
    labels: Collection[str] | None = None,
    on_error: OnError | None = None,
) -> list[LabelledText]:
    r"""Read a file with a label, a space or tab, and a sentence on each line.

    White space around the sentence is taken off, blank lines are passed over.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.txt"
    >>> _ = path.write_text("4 gorgeous , witty\n0 dull .\n")
    >>> [(example.label, example.first) for example in read(path, labels=SST5)]
    [('4', 'gorgeous , witty'), ('0', 'dull .')]

    Args:
      path: local, or anything etils.epath opens (gs://, s3://).
      labels: every label there is, such as `SST5`; None allows any.
      on_error: is told of each line that is left out; None raises the first.

    Returns:
      The examples in the order of the file; at least one.

    Raises:
      InputError: the file is missing, empty, a folder, or not UTF-8 text; a line has no
        sentence behind its label; a label is not in the list.
    """
    found = []
    row = -1

    def leave_out(error: InputError) -> None:
        nonlocal row
        row += 1
        report(error, on_error)

    for number, line in text.lines(path, leave_out):
        if not line.strip():
            continue
        row += 1
        try:
            label, *rest = line.split(None, 1)
            check_label(label, labels)
            if not rest or not rest[0].strip():
                raise Flaw("no text behind the label", "add it or remove the line")
        except Flaw as flaw:
            report(flaw.at(path, number), on_error)
            continue
        found.append(LabelledText(rest[0].strip(), None, label, str(row), number))
    if not found:
        raise InputError.at(
            path, None, "holds no examples", "put a label and its text on each line"
        )
    return found
