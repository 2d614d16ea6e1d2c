r"""Files of examples to predict, and of their predictions, line for line.

| format | one example is              | kept in a file of the same format             |
| ------ | --------------------------- | --------------------------------------------- |
| text   | a line                      | blank lines                                   |
| jsonl  | an object on a line         | all fields but those a result has; `id`       |
| conll  | rows up to a blank line     | all columns, breaks, `-DOCSTART-` rows        |

Lines end in `\n` or `\r\n` and in nothing else.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import IO, Any, Literal

from dicejax import files, json_text
from dicejax.data import tags
from dicejax.data.readers.conll import is_break
from dicejax.data.tags import Span
from dicejax.errors import Flaw, InputError

Format = Literal["text", "jsonl", "conll"]

_ENDINGS: Mapping[str, Format] = {
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    "conll": "conll",
    "bio": "conll",
    "iob": "conll",
    "bmes": "conll",
}


@dataclasses.dataclass(frozen=True)
class Text:
    """One example of a file.

    Attributes:
      line: its first line, from 1.
      text: as on a line by itself; words are joined by spaces.
      words: where the file has words; None for a text.
      fields: of its JSON object.
      rows: of its column file.
      before: lines of a column file before the first example.
      after: lines of a column file from this example to the next.
    """

    line: int
    text: str
    words: tuple[str, ...] | None = None
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rows: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to predict."""
        return not self.text.strip()


def format_of(path: str) -> Format:
    """Guess the format of a file from its name.

    >>> format_of("new.jsonl.gz"), format_of("dev.bio"), format_of("-")
    ('jsonl', 'conll', 'text')
    """
    ending = path.lower().removesuffix(".gz").rpartition(".")[2]
    return _ENDINGS.get(ending, "text")


def read(
    path: str | os.PathLike[str], form: Format, stream: IO[bytes] | None = None
) -> list[Text]:
    r"""Read the examples of a file.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "new.jsonl"
    >>> _ = path.write_text('{"id": 7, "text": "Anna sings"}\n')
    >>> (one,) = read(path, "jsonl")
    >>> one.text, one.fields["id"]
    ('Anna sings', 7)

    Args:
      path: see `files.read_bytes`.
      form: its format.
      stream: see `files.lines`.

    Raises:
      InputError: see `files.lines`; or a line is not of the format, or all are blank.
    """
    lines = list(files.lines(path, stream=stream))
    if form == "conll":
        found = _sentences(path, lines)
    elif form == "jsonl":
        found = [_of_json(path, number, line) for number, line in lines]
    else:
        found = [Text(number, line) for number, line in lines]
    if all(one.is_blank for one in found):
        raise InputError(f"{path}: holds no text")
    return found


def offsets(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the characters of each word in a text that holds them in this order.

    >>> offsets("Anna  sings", ["Anna", "sings"])
    [(0, 4), (6, 11)]
    """
    found, end = [], 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        found.append((start, end))
    return found


def has_tags(record: Mapping[str, Any]) -> bool:
    """Return whether a prediction gives each word a tag."""
    return isinstance(record.get("words"), list) and bool(
        {"labels", "entities"} & record.keys()
    )


def conll(text: Text, record: Mapping[str, Any]) -> str:
    """Format a prediction as rows, the predicted tag in a new last column.

    Spans are written in the BIO scheme; of overlapping spans the first is kept. A
    word without a prediction has the tag `_`.

    >>> record = {"words": ["Anna", "sings"], "labels": ["N", "V"]}
    >>> print(conll(Text(1, "Anna sings"), record))
    Anna N
    sings V
    <BLANKLINE>

    Args:
      text: the example.
      record: its prediction, for which `has_tags` holds.
    """
    words = record["words"]
    if "labels" in record:
        predicted = [label or "_" for label in record["labels"]]
    else:
        predicted = _bio(record["entities"], len(words))
    rows = text.rows or words
    joined = [
        f"{row}{_separator(row)}{tag}" for row, tag in zip(rows, predicted, strict=True)
    ]
    if not text.rows:
        return "\n".join([*joined, ""])
    return "\n".join([*text.before, *joined, *text.after])


def jsonl(text: Text, record: Mapping[str, Any]) -> str:
    """Format a prediction as a JSON object, after the fields of its example.

    >>> jsonl(Text(1, "hm", fields={"id": 7, "label": "?"}), {"label": "good"})
    '{"id": 7, "label": "good"}'
    """
    kept = {"id": text.fields["id"]} if "id" in text.fields else {}
    return json.dumps({**text.fields, **record, **kept}, ensure_ascii=False)


def _bio(entities: Sequence[Mapping[str, Any]], count: int) -> list[str]:
    spans: list[Span] = []
    for one in sorted(entities, key=lambda one: (one["start"], -one["end"])):
        if not spans or spans[-1].end <= one["start"]:
            spans.append(Span(one["type"], one["start"], one["end"]))
    return tags.encode(spans, count, "BIO")


def _separator(row: str) -> str:
    return "\t" if "\t" in row else " "


def _of_json(path, number: int, line: str) -> Text:
    if not line.strip():
        return Text(number, "")
    try:
        return _of_object(json_text.parse(line), number)
    except Flaw as flaw:
        raise flaw.at(path, number) from None


def _of_object(record: object, number: int) -> Text:
    fields = json_text.value_of(record, dict)
    if "tokens" in fields and "text" not in fields:
        words = json_text.field(fields, "tokens", list)
        for place, word in enumerate(words):
            try:
                json_text.value_of(word, str)
            except Flaw as flaw:
                raise Flaw(f"tokens[{place}] {flaw.what}", flaw.do) from None
            if not word.strip():
                raise Flaw(f"tokens[{place}] is blank", "remove it")
        return Text(number, " ".join(words), tuple(words), fields)
    if "question" in fields and "context" in fields:
        question, context = (
            json_text.field(fields, name, str) for name in ("question", "context")
        )
        if "\t" in question:
            raise Flaw("'question' holds a tab", "replace it")
        return Text(number, f"{question}\t{context}", None, fields)
    return Text(number, json_text.field(fields, "text", str), None, fields)


def _sentences(path, lines: Sequence[tuple[int, str]]) -> list[Text]:
    """Read a column file whose first column is the word."""
    before: list[str] = []
    rows: list[str] = []
    after: list[str] = []
    found: list[Text] = []
    first = 1

    def close() -> None:
        words = tuple(row.replace("\t", " ").split(" ")[0] for row in rows)
        head = tuple(before) if not found else ()
        text = " ".join(words)
        found.append(Text(first, text, words, {}, tuple(rows), head, tuple(after)))

    for number, line in lines:
        if is_break(line):
            (after if rows else before).append(line)
            continue
        if line[0] in " \t":
            what = "begins with a space, so the first column is empty"
            raise InputError.at(path, number, what, "put the word there")
        if after:
            close()
            rows, after = [], []
        if not rows:
            first = number
        rows.append(line)
    if rows:
        close()
    return found
