"""Small files of every format that `init` knows, each with one flaw."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from dicejax.formats.kinds import Kind

from ..formats.writers import csv_text

FLAWS = (
    "none",
    "header missing",
    "another delimiter",
    "quoted line breaks",
    "byte order mark",
    "carriage returns",
    "duplicate ids",
    "empty text",
    "overlapping spans",
    "offsets in bytes",
    "mixed types",
)
WHOLE = FLAWS[:3] + FLAWS[4:6]
"""Flaws of a file; the others are of one example, the first or a later one."""


@dataclasses.dataclass
class Example:
    """One example; spans are a label, the first word and the end."""

    id: str
    words: list[str]
    spans: list[tuple[str, int, int]]
    label: object

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def offsets(self, start: int, end: int) -> tuple[int, int]:
        """Characters of some words."""
        before = len(" ".join([*self.words[:start], ""])) if start else 0
        return before, before + len(" ".join(self.words[start:end]))

    def tags(self) -> list[str]:
        tags = ["O"] * len(self.words)
        for label, start, end in self.spans:
            tags[start:end] = [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
        return tags


def examples() -> list[Example]:
    """Twelve examples; each has letters of two bytes before its last span."""
    places = ["Rome", "Oslo", "New York"]
    names = ["Zoë", "Mia", "Léa", "Ada", "Bo", "Eva"]
    names += ["Ida", "Jo", "Kim", "Liv", "Mo", "Una"]
    written = []
    for number, name in enumerate(names):
        place = places[number % 3]
        words = f"{name} Berg met José , said no , in {place}".split()
        spans = [("PER", 0, 2), ("PER", 3, 4), ("LOC", 9, len(words))]
        written.append(Example(str(number), words, spans, ["good", "bad"][number % 2]))
    return written


@dataclasses.dataclass
class Form:
    """How a flaw, of the example at `place`, changes what is written."""

    flaw: str
    place: int

    def has(self, flaw: str, number: int) -> bool:
        """Whether an example has a flaw of examples."""
        return (self.flaw, self.place) == (flaw, number)

    def separator(self, usual: str, other: str) -> str:
        return other if self.flaw == "another delimiter" else usual

    def text(self, example: Example, number: int) -> str:
        """The text of an example, with a line break or none at all."""
        if self.has("quoted line breaks", number):
            return example.text.replace(" , ", " ,\n", 1)
        if self.has("empty text", number):
            return ""
        return example.text

    def id(self, example: Example, number: int) -> str:
        return "5" if self.has("duplicate ids", number) else example.id

    def labelled(self) -> Iterator[tuple[str, str, object]]:
        """Yield the id, text and label of each example."""
        for number, e in enumerate(examples()):
            is_mixed = self.has("mixed types", number)
            label = 1 if is_mixed else e.label
            yield self.id(e, number), self.text(e, number), label

    def sentences(self) -> Iterator[tuple[int, Example, list[str], list[str]]]:
        """Yield examples with words and tags, an empty word or a number among them."""
        for number, e in enumerate(examples()):
            words, tags = list(e.words), e.tags()
            if self.has("empty text", number):
                words[2] = ""
            if self.has("mixed types", number):
                tags[-1] = "7"
            yield number, e, words, tags

    def spans(self, example: Example, number: int) -> list[tuple[int, int, str]]:
        """Entities by characters, or by bytes, or one twice."""
        spans = []
        for label, first, last in example.spans:
            places = example.offsets(first, last)
            if self.has("offsets in bytes", number):
                places = (len(example.text[:place].encode()) for place in places)
            spans.append((*places, label))
        if self.has("overlapping spans", number):
            start, end, _ = spans[0]
            spans.append((start, end - 5, "ORG"))
        return spans


def table(form: Form, separator: str, other: str) -> str:
    """CSV as pandas writes it, with an index of the user's own."""
    header = [] if form.flaw == "header missing" else [("id", "text", "label")]
    return csv_text([*header, *form.labelled()], form.separator(separator, other))


def plain_table(form: Form) -> str:
    """Tab-separated without quotes: no field can hold a line break."""
    separator = form.separator("\t", "|")
    rows = [] if form.flaw == "header missing" else [("id", "text", "label")]
    rows += form.labelled()
    return "".join(f"{separator.join(map(str, row))}\n" for row in rows)


def label_first(form: Form, prefix: str = "") -> str:
    separator = form.separator(" ", ";")
    rows = (f"{prefix}{label}{separator}{text}\n" for _, text, label in form.labelled())
    return "".join(rows)


def json_texts(form: Form) -> Iterator[dict]:
    named = ("body", "cls") if form.flaw == "header missing" else ("text", "label")
    for values in form.labelled():
        yield dict(zip(("id", *named), values, strict=True))


def json_tokens(form: Form) -> Iterator[dict]:
    named = ("words", "labels") if form.flaw == "header missing" else ("tokens", "tags")
    for number, e in enumerate(examples()):
        words, tags = list(e.words), e.tags()
        if form.has("empty text", number):
            words, tags = [], []
        if form.has("mixed types", number):
            tags[-1] = 7
        if form.has("quoted line breaks", number):
            words[4] = "\n"
        values = form.id(e, number), words, tags
        yield dict(zip(("id", *named), values, strict=True))


def json_entities(form: Form, layout: str) -> Iterator[object]:
    for number, item in enumerate(examples()):
        text, spans = form.text(item, number), form.spans(item, number)
        if form.has("mixed types", number):
            spans[-1] = (str(spans[-1][0]), *spans[-1][1:])
        field = "text" if form.flaw != "header missing" else "body"
        objects = [{"start": s, "end": e, "label": label} for s, e, label in spans]
        regions = [{"start": s, "end": e, "labels": [x]} for s, e, x in spans]
        name, value = {
            "spans": ("spans", objects),
            "entities": ("entities", objects),
            "triples": ("label", spans),
            "label studio": ("label", regions),
        }[layout]
        yield {"id": form.id(item, number), field: text, name: value}


def columns(form: Form, separator: str, labels: str) -> str:
    separator = form.separator(separator, ",")
    lines = []
    for number, e, words, tags in form.sentences():
        if labels == "pos":
            tags = map(_part_of_speech, tags)
        if labels == "comments":
            lines.append(f"# text = {e.text}")
        rows = zip(words, tags, strict=True)
        if labels == "numbered":  # as GermEval's, with tags of nested entities
            lines.append(f"#{separator}source {number}")
            rows = ((str(n), w, t, "O") for n, (w, t) in enumerate(rows, 1))
        lines += [*map(separator.join, rows), ""]
    return "\n".join(lines) + "\n"


def _part_of_speech(tag: str) -> str:
    return {"O": "X", "7": "7"}.get(tag, "PROPN")


def table_of_words(form: Form) -> str:
    """Kaggle's table, which names a sentence in its first row."""
    rows = []
    if form.flaw != "header missing":
        rows.append(("Sentence #", "Word", "POS", "Tag"))
    for number, _, words, tags in form.sentences():
        names = [f"Sentence: {number}"] + [""] * len(words)
        rows += zip(names, words, ["X"] * len(words), tags, strict=False)
    return csv_text(rows, form.separator(",", ";"))


def brat(form: Form) -> Iterator[tuple[str, str]]:
    """Names and contents of the files of a folder."""
    separator = form.separator("\t", " ")
    for number, e in enumerate(examples()):
        lines = []
        for place, (start, end, label) in enumerate(form.spans(e, number), 1):
            quoted = e.text[start:end]
            if form.flaw == "offsets in bytes" and place <= len(e.spans):
                quoted = e.text[slice(*e.offsets(*e.spans[place - 1][1:]))]
            is_mixed = form.has("mixed types", number)
            row = f"{label} {start}{'.0' * is_mixed} {end}"
            lines.append(f"T{place}{separator}{row}{separator}{quoted}")
        yield f"{number:02}.txt", form.text(e, number)
        yield f"{number:02}.ann", "".join(f"{line}\n" for line in lines)


def conllu(form: Form) -> str:
    lines = []
    separator = form.separator("\t", " ")
    for number, e, words, tags in form.sentences():
        lines.append(f"# sent_id = {form.id(e, number)}")
        for place, (word, tag) in enumerate(zip(words, tags, strict=True), 1):
            row = [str(place), word, "_", _part_of_speech(tag), *"______"]
            lines.append(separator.join(row))
        lines.append("")
    return "\n".join(lines) + "\n"


def squad(form: Form) -> str:
    paragraphs = []
    for number, e in enumerate(examples()):
        text = form.text(e, number) or " "
        start, end = e.offsets(*e.spans[-1][1:])
        answers = [{"text": e.text[start:end], "answer_start": start}]
        if form.has("offsets in bytes", number):
            answers[0]["answer_start"] = len(e.text[:start].encode())
        if form.has("overlapping spans", number):
            answers.append({"text": e.text[start : end - 1], "answer_start": start})
        if form.has("mixed types", number):
            answers[0]["answer_start"] = str(start)
        asked = {"id": form.id(e, number), "question": "Where?", "answers": answers}
        field = "context" if form.flaw != "header missing" else "body"
        paragraphs.append({field: text, "qas": [asked]})
    data = [{"title": "", "paragraphs": paragraphs}]
    return json.dumps({"version": "1.1", "data": data})


def _lines(records) -> str:
    return "".join(f"{json.dumps(e, ensure_ascii=False)}\n" for e in records)


_SPANS = {"overlapping spans", "offsets in bytes"}
_OF_JSON = _SPANS | {"another delimiter"}
_OF_FIRST = _SPANS | {"duplicate ids", "header missing"}
_OF_COLUMNS = _OF_FIRST | {"quoted line breaks"}
_OF_CONLLU = _SPANS | {"header missing", "quoted line breaks"}
_TEXTS: Kind = "classification"
_LAYOUTS = ("entities", "spans", "triples", "label studio")

# Kind of `init`, ending, writer, and flaws that the format cannot have.
FORMATS: dict[str, tuple[Kind, str, Callable[[Form], object], set[str]]] = {
    "csv": (_TEXTS, "csv", lambda f: table(f, ",", "|"), _SPANS),
    "csv with semicolons": (_TEXTS, "csv", lambda f: table(f, ";", ","), _SPANS),
    "tsv with quotes": (_TEXTS, "tsv", lambda f: table(f, "\t", ","), _SPANS),
    "tsv": (_TEXTS, "tsv", plain_table, _SPANS),
    "table in .txt": (_TEXTS, "txt", lambda f: table(f, "\t", ","), _SPANS),
    "label first": (_TEXTS, "txt", label_first, _OF_FIRST),
    "fasttext": (_TEXTS, "txt", lambda f: label_first(f, "__label__"), _OF_FIRST),
    "json texts": (_TEXTS, "jsonl", lambda f: _lines(json_texts(f)), _OF_JSON),
    "json list": (_TEXTS, "json", lambda f: json.dumps([*json_texts(f)]), _OF_JSON),
    "json tokens": ("ner", "jsonl", lambda f: _lines(json_tokens(f)), _OF_JSON),
    **{
        f"json {x}": (
            *("ner", "jsonl", lambda f, x=x: _lines(json_entities(f, x))),
            {"another delimiter"},
        )
        for x in _LAYOUTS
    },
    "columns": ("ner", "conll", lambda f: columns(f, " ", "ner"), _OF_COLUMNS),
    "columns with tabs": ("ner", "tsv", lambda f: columns(f, "\t", "ner"), _OF_COLUMNS),
    "columns with comments": (
        *("ner", "conll", lambda f: columns(f, " ", "comments"), _OF_COLUMNS),
    ),
    "columns with numbers": (
        *("ner", "tsv", lambda f: columns(f, "\t", "numbered"), _OF_COLUMNS),
    ),
    "table of words": (
        *("ner", "csv", table_of_words, _OF_COLUMNS - {"header missing"}),
    ),
    "parts of speech": ("pos", "txt", lambda f: columns(f, "\t", "pos"), _OF_COLUMNS),
    "conllu": ("pos", "conllu", conllu, _OF_CONLLU),
    "brat": ("ner", "brat", brat, {"duplicate ids", "header missing"}),
    "squad": ("qa", "json", squad, {"another delimiter"}),
}


def cases() -> Iterator[tuple[str, str, int]]:
    """Yield format, flaw and the place of the flawed example."""
    for name, (_, _, _, impossible) in FORMATS.items():
        for flaw in FLAWS:
            if flaw not in impossible:
                for place in (0,) if flaw in WHOLE else (0, 7):
                    yield name, flaw, place


def write(path: Path, name: str, flaw: str, place: int) -> None:
    """Write a flawed file, or the files of a folder."""
    content = FORMATS[name][2](Form(flaw, place))
    if isinstance(content, str):
        path.write_bytes(_encoded(content, flaw))
        return
    path.mkdir(exist_ok=True)
    for part, text in content:
        (path / part).write_bytes(_encoded(text, flaw))


def _encoded(text: str, flaw: str) -> bytes:
    if flaw == "carriage returns":
        text = text.replace("\n", "\r\n")
    return text.encode("utf-8-sig" if flaw == "byte order mark" else "utf-8")
