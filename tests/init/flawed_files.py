"""Small files of every format that `init` knows, each with one flaw."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterator
from pathlib import Path

from dicejax.init.formats import Kind

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
    """One example, and how it is written where it is flawed.

    Attributes:
      id: may come twice.
      words: with punctuation among them.
      spans: label, first word, end.
      label: class of the text.
    """

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
        found = ["O"] * len(self.words)
        for label, start, end in self.spans:
            found[start:end] = [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
        return found


def examples() -> list[Example]:
    """Twelve examples; each has letters of two bytes before its last span."""
    places = ["Rome", "Oslo", "New York"]
    names = [
        "Zoë",
        "Mia",
        "Léa",
        "Ada",
        "Bo",
        "Eva",
        "Ida",
        "Jo",
        "Kim",
        "Liv",
        "Mo",
        "Una",
    ]
    found = []
    for number in range(12):
        place = places[number % 3].split()
        words = [
            names[number],
            "Berg",
            "met",
            "José",
            ",",
            "said",
            "no",
            ",",
            "in",
            *place,
        ]
        spans = [("PER", 0, 2), ("PER", 3, 4), ("LOC", 9, 9 + len(place))]
        found.append(Example(str(number), words, spans, ["good", "bad"][number % 2]))
    return found


@dataclasses.dataclass
class Form:
    """How a flaw changes what is written.

    Attributes:
      flaw: one of `FLAWS`.
      place: of the flawed example.
    """

    flaw: str
    place: int

    def at(self, number: int) -> bool:
        return number == self.place and self.flaw not in WHOLE

    def separator(self, usual: str, other: str) -> str:
        return other if self.flaw == "another delimiter" else usual

    def text(self, example: Example, number: int) -> str:
        """The text of an example, with a line break or none at all."""
        if self.at(number) and self.flaw == "quoted line breaks":
            return example.text.replace(" , ", " ,\n", 1)
        if self.at(number) and self.flaw == "empty text":
            return ""
        return example.text

    def id(self, example: Example, number: int) -> str:
        return "5" if self.at(number) and self.flaw == "duplicate ids" else example.id

    def label(self, example: Example, number: int) -> object:
        return 1 if self.at(number) and self.flaw == "mixed types" else example.label

    def spans(self, example: Example, number: int) -> list[tuple[int, int, str]]:
        """Entities by characters, or by bytes, or one twice."""
        found = []
        for label, first, last in example.spans:
            start, end = example.offsets(first, last)
            if self.at(number) and self.flaw == "offsets in bytes":
                start, end = (
                    len(example.text[:place].encode()) for place in (start, end)
                )
            found.append((start, end, label))
        if self.at(number) and self.flaw == "overlapping spans":
            start, end, _ = found[0]
            found.append((start, end - 5, "ORG"))
        return found


def table(form: Form, separator: str, other: str, header: bool = True) -> str:
    """CSV as pandas writes it, with an index of the user's own."""
    written = io.StringIO()
    separator = form.separator(separator, other)
    writer = csv.writer(written, delimiter=separator, lineterminator="\n")
    if header and form.flaw != "header missing":
        writer.writerow(["id", "text", "label"])
    for number, one in enumerate(examples()):
        row = [form.id(one, number), form.text(one, number), form.label(one, number)]
        writer.writerow(row)
    return written.getvalue()


def plain_table(form: Form) -> str:
    """Tab-separated without quotes: no field can hold a line break."""
    separator = form.separator("\t", "|")
    rows = [] if form.flaw == "header missing" else [["id", "text", "label"]]
    for number, one in enumerate(examples()):
        label = str(form.label(one, number))
        rows.append([form.id(one, number), form.text(one, number), label])
    return "".join(f"{separator.join(row)}\n" for row in rows)


def label_first(form: Form) -> str:
    separator = form.separator(" ", ";")
    return "".join(
        f"{form.label(one, number)}{separator}{form.text(one, number)}\n"
        for number, one in enumerate(examples())
    )


def json_texts(form: Form) -> Iterator[dict]:
    named = ("body", "cls") if form.flaw == "header missing" else ("text", "label")
    for number, one in enumerate(examples()):
        values = form.text(one, number), form.label(one, number)
        yield {"id": form.id(one, number), **dict(zip(named, values, strict=True))}


def json_tokens(form: Form) -> Iterator[dict]:
    named = ("words", "labels") if form.flaw == "header missing" else ("tokens", "tags")
    for number, one in enumerate(examples()):
        words, tags = list(one.words), one.tags()
        if form.at(number) and form.flaw == "empty text":
            words, tags = [], []
        if form.at(number) and form.flaw == "mixed types":
            tags[-1] = 7
        if form.at(number) and form.flaw == "quoted line breaks":
            words[4] = "\n"
        values = words, tags
        yield {"id": form.id(one, number), **dict(zip(named, values, strict=True))}


def json_entities(form: Form, layout: str) -> Iterator[object]:
    for number, one in enumerate(examples()):
        text, spans = form.text(one, number), form.spans(one, number)
        if form.at(number) and form.flaw == "mixed types":
            spans[-1] = (str(spans[-1][0]), *spans[-1][1:])
        field = "text" if form.flaw != "header missing" else "body"
        objects = [{"start": s, "end": e, "label": label} for s, e, label in spans]
        record = {"id": form.id(one, number), field: text}
        match layout:
            case "spans":
                yield {**record, "spans": objects}
            case "entities":
                yield {**record, "entities": objects}
            case "triples":
                yield {**record, "label": spans}
            case "label studio":
                found = [{"start": s, "end": e, "labels": [x]} for s, e, x in spans]
                yield {**record, "label": found}


def columns(form: Form, separator: str, labels: str) -> str:
    separator = form.separator(separator, ",")
    lines = []
    for number, one in enumerate(examples()):
        words, tags = list(one.words), one.tags()
        if labels == "pos":
            tags = ["X" if tag == "O" else "PROPN" for tag in tags]
        if form.at(number) and form.flaw == "empty text":
            words[2] = ""
        if form.at(number) and form.flaw == "mixed types":
            tags[-1] = "7"
        if labels == "comments":
            lines.append(f"# text = {one.text}")
        lines += [f"{w}{separator}{t}" for w, t in zip(words, tags, strict=True)]
        lines.append("")
    return "\n".join(lines) + "\n"


def brat(form: Form) -> Iterator[tuple[str, str]]:
    """Names and contents of the files of a folder."""
    separator = form.separator("\t", " ")
    for number, one in enumerate(examples()):
        lines = []
        for place, (start, end, label) in enumerate(form.spans(one, number), 1):
            told = one.text[start:end]
            if form.flaw == "offsets in bytes" and place <= len(one.spans):
                told = one.text[slice(*one.offsets(*one.spans[place - 1][1:]))]
            first = (
                f"{start}.0"
                if form.at(number) and form.flaw == "mixed types"
                else start
            )
            lines.append(f"T{place}{separator}{label} {first} {end}{separator}{told}")
        yield f"{number:02}.txt", form.text(one, number)
        yield f"{number:02}.ann", "".join(f"{line}\n" for line in lines)


def conllu(form: Form) -> str:
    lines = []
    separator = form.separator("\t", " ")
    for number, one in enumerate(examples()):
        lines.append(f"# sent_id = {form.id(one, number)}")
        for place, (word, tag) in enumerate(zip(one.words, one.tags(), strict=True), 1):
            label = "X" if tag == "O" else "PROPN"
            if form.at(number) and form.flaw == "empty text" and place == 3:
                word = ""
            if form.at(number) and form.flaw == "mixed types" and place == 3:
                label = "7"
            row = [str(place), word, "_", label, *"______"]
            lines.append(separator.join(row))
        lines.append("")
    return "\n".join(lines) + "\n"


def squad(form: Form) -> str:
    paragraphs = []
    for number, one in enumerate(examples()):
        text = form.text(one, number) or " "
        start, end = one.offsets(*one.spans[-1][1:])
        answers = [{"text": one.text[start:end], "answer_start": start}]
        if form.at(number) and form.flaw == "offsets in bytes":
            answers[0]["answer_start"] = len(one.text[:start].encode())
        if form.at(number) and form.flaw == "overlapping spans":
            answers.append({"text": one.text[start : end - 1], "answer_start": start})
        if form.at(number) and form.flaw == "mixed types":
            answers[0]["answer_start"] = str(start)
        asked = {"id": form.id(one, number), "question": "Where?", "answers": answers}
        field = "context" if form.flaw != "header missing" else "body"
        paragraphs.append({field: text, "qas": [asked]})
    return json.dumps(
        {"version": "1.1", "data": [{"title": "", "paragraphs": paragraphs}]}
    )


def _lines(records) -> str:
    return "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in records)


_OF_SPANS = {"overlapping spans", "offsets in bytes"}
_OF_IDS = {"duplicate ids"}
_OF_TABLES = {"header missing", "another delimiter"}

# Kind of `init`, ending, writer, and flaws that the format cannot have.
FORMATS: dict[str, tuple[Kind, str, object, set[str]]] = {
    "csv": ("classification", "csv", lambda form: table(form, ",", "|"), _OF_SPANS),
    "csv with semicolons": (
        *("classification", "csv", lambda form: table(form, ";", ",")),
        _OF_SPANS,
    ),
    "tsv with quotes": (
        *("classification", "tsv", lambda form: table(form, "\t", ",")),
        _OF_SPANS,
    ),
    "tsv": ("classification", "tsv", plain_table, _OF_SPANS),
    "table in .txt": (
        *("classification", "txt", lambda form: table(form, "\t", ",")),
        _OF_SPANS,
    ),
    "label first": (
        *("classification", "txt", label_first),
        _OF_SPANS | _OF_IDS | {"header missing"},
    ),
    "json texts": (
        *("classification", "jsonl", lambda form: _lines(json_texts(form))),
        _OF_SPANS | {"another delimiter"},
    ),
    "json list": (
        *("classification", "json", lambda form: json.dumps([*json_texts(form)])),
        _OF_SPANS | {"another delimiter"},
    ),
    "json tokens": (
        *("ner", "jsonl", lambda form: _lines(json_tokens(form))),
        _OF_SPANS | {"another delimiter"},
    ),
    **{
        f"json {layout}": (
            *("ner", "jsonl", lambda f, la=layout: _lines(json_entities(f, la))),
            {"another delimiter"},
        )
        for layout in ("entities", "spans", "triples", "label studio")
    },
    "columns": (
        *("ner", "conll", lambda form: columns(form, " ", "ner")),
        _OF_SPANS | _OF_IDS | {"header missing", "quoted line breaks"},
    ),
    "columns with tabs": (
        *("ner", "tsv", lambda form: columns(form, "\t", "ner")),
        _OF_SPANS | _OF_IDS | {"header missing", "quoted line breaks"},
    ),
    "columns with comments": (
        *("ner", "conll", lambda form: columns(form, " ", "comments")),
        _OF_SPANS | _OF_IDS | {"header missing", "quoted line breaks"},
    ),
    "parts of speech": (
        *("pos", "txt", lambda form: columns(form, "\t", "pos")),
        _OF_SPANS | _OF_IDS | {"header missing", "quoted line breaks"},
    ),
    "conllu": (
        *("pos", "conllu", conllu),
        _OF_SPANS | {"header missing", "quoted line breaks"},
    ),
    "brat": ("ner", "brat", brat, _OF_IDS | {"header missing"}),
    "squad": ("qa", "json", squad, {"another delimiter"}),
}  # fmt: skip


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
