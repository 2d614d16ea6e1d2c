"""Predictions written as the file that they are for: its container and line ends."""

from __future__ import annotations

import codecs
import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dicejax.formats import containers, squad
from dicejax.formats.labelled import TextFiles
from dicejax.formats.records import Fields
from dicejax.formats.source import FileSource
from dicejax.formats.text import Predictions, Text
from dicejax.io import files, json_text, limits

_LOOKED_AT = 1 << 16  # characters
_INDENTS = (None, 1, 2, 3, 4, "\t")
_SEPARATORS = (None, (",", ":"), (",", ": "))


@dataclasses.dataclass(frozen=True)
class SameFile:
    """Predictions in the format of a file, with its scheme, container and line ends.

    Attributes:
      path: the file; a stream in its place has lines alone.
      source: the source whose files it is like.
    """

    path: files.Path
    source: FileSource
    stream: files.Stream = None

    def lines(self, pairs: Predictions) -> Iterator[str]:
        """Yield the lines of the file, with predictions in place of gold."""
        if self.stream is not None:
            self.stream.seek(0)
        if self.stream is None and (containers.is_split(self.path)):
            return self.source.lines(pairs)
        with files.open_file(self.path, self.stream) as file:
            line = file.readline(limits.LINE.most)
        if self.stream is not None:
            self.stream.seek(0)
        content = files.lines(self.path, stream=self.stream)
        first = next(text for _, text in content if text.strip())
        lines = self.source.lines(pairs, first)
        if isinstance(self.source, TextFiles) and self.source.layout != "json":
            lines = self._rows(self.source, pairs, first)
        if self.source.form == "jsonl" and self.stream is None:
            is_squad = isinstance(self.source, squad.SquadFiles)
            is_document = is_squad and not squad.is_flat(self.path)
            is_whole = is_document or containers.begins_a_list(first)
            lines = self._whole(pairs) if is_whole else self._json_lines(pairs)
        has_mark = line.startswith(codecs.BOM_UTF8)
        return _with_ends(lines, has_mark, line.endswith(b"\r\n"))

    def _rows(self, source: TextFiles, pairs: Predictions, first: str) -> Iterator[str]:
        """Yield the lines of a file; those of a row stay where nothing changed."""
        ahead = iter(pairs)
        begin = list(itertools.islice(ahead, 1))
        pairs = itertools.chain(begin, ahead)
        if not begin or source.adds_fields(*begin[0]):
            yield from source.lines(pairs, first)
            return
        content = files.lines(self.path, stream=self.stream)
        rest, last = list[str](), None
        line: tuple[int, str] | None = next(content)
        for pair in itertools.chain(pairs, [None]):
            while line is not None and (pair is None or line[0] < pair[0].line):
                rest.append(line[1])
                line = next(content, None)
            if last is not None:
                end = 1 + max(n for n, x in enumerate(rest) if n == 0 or x.strip())
                rest[:end] = [source.over(*last, "\n".join(rest[:end]))]
            yield from rest
            rest, last = [], pair

    def _whole(self, pairs: Predictions) -> Iterator[str]:
        """Yield the lines of a list, or of SQuAD's document."""
        content = files.read_text(self.path)
        before = json_text.parse(content)
        records = itertools.starmap(self._fields, pairs)
        if isinstance(before, list):
            made: Any = list(map(_like, records, before))
        else:
            made = squad.with_answers(before, records)
        yield from _written(made, before, content.rstrip()).split("\n")

    def _json_lines(self, pairs: Predictions) -> Iterator[str]:
        """Yield a line for each of a file; one stays where nothing changed."""
        lines, number, line = files.lines(self.path), 0, ""
        for text, record in pairs:
            while number < text.line:
                number, line = next(lines)
            if line.strip():
                before = json_text.parse(line)
                made = _like(self._fields(text, record), before)
                line = _written(made, before, line)
            yield line

    def _fields(self, text: Text, record: Mapping[str, Any]) -> dict[str, Any]:
        if text.is_blank:
            return dict(text.fields)
        return self.source.fields_with(text, record)


def _is_pair(value: Sequence[Any]) -> bool:
    """Return whether a value is a pair of a text and an object, as of spaCy 2."""
    return [type(part) for part in value] == [str, dict]


def _like(fields: Mapping[str, Any], before: object) -> object:
    """Return fields in the form of the record before."""
    if isinstance(before, list) and _is_pair(before):
        return [fields["text"], {n: x for n, x in fields.items() if n != "text"}]
    return fields


def _written(made: Any, before: Any, content: str) -> str:
    """Return a value as the one before was written; else each record on a line."""
    if made == before:
        return content
    style: Fields = {"ensure_ascii": content.isascii() and "\\u" in content}
    for indent, separators in itertools.product(_INDENTS, _SEPARATORS):
        tried = {**style, "indent": indent, "separators": separators}
        if _is_written(before, content, tried):
            return json.dumps(made, **tried)
    if not isinstance(made, list):
        return json.dumps(made, **style)
    start, end = content.find("{"), content.rfind("}") + 1
    head, tail = content[:start], content[end:]
    between = ",\n" + head.rpartition("\n")[2].strip("[")
    return head + between.join(json.dumps(x, **style) for x in made) + tail


def _is_written(value: object, content: str, style: Mapping[str, Any]) -> bool:
    """Return whether a value is written in a style, by the beginning of its content."""
    place = 0
    for part in json.JSONEncoder(**style).iterencode(value):
        if not content.startswith(part, place):
            return False
        place += len(part)
        if place > _LOOKED_AT:
            break
    return True


def _with_ends(
    lines: Iterable[str], has_mark: bool, has_returns: bool
) -> Iterator[str]:
    """Yield lines with the byte order mark and the ends of those of a file."""
    for number, line in enumerate(lines):
        mark = "\ufeff" if has_mark and number == 0 else ""
        end = "\r" if has_returns else ""
        yield mark + (line.replace("\n", "\r\n") if has_returns else line) + end
