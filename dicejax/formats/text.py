"""Examples to predict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Text:
    """One example of a file.

    Attributes:
      line: its first line, from 1.
      text: text as on a line; words are joined by spaces.
      words: None for a text that the task divides.
      fields: fields of its JSON object, or columns of its row.
      rows: rows of its column file.
      before: lines of a column file before the first example.
      after: lines of a column file from this example to the next.
      prompt: what the words answer, for tasks that read prompts.
    """

    line: int
    text: str
    words: tuple[str, ...] | None = None
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rows: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    prompt: str = ""

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to predict."""
        return not self.text.strip()


Predictions = Iterable[tuple[Text, Mapping[str, Any]]]
"""Examples with the record of what is predicted for each."""


@dataclasses.dataclass(frozen=True)
class Texts:
    """The examples of a file; each loop reads it anew, so that few are in memory.

    Attributes:
      read: function that begins to read.
    """

    read: Callable[[], Iterable[Text]]

    def __iter__(self) -> Iterator[Text]:
        return iter(self.read())
