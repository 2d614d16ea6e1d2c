"""Entities by characters, in the JSON that annotation tools export.

| tool | one text |
| --- | --- |
| Hugging Face | `{"text", "entities": [{"start", "end", "label"}]}` |
| Prodigy, spaCy | `{"text", "spans": [...]}`, `{"text", "ents": [...]}` |
| spaCy 2 | `["the text", {"entities": [[start, end, label]]}]` |
| doccano | `{"text", "label": [[start, end, label]]}`; `start_offset`, `end_offset` |
| Label Studio, JSON-MIN | `{"text", "label": [{"start", "end", "labels": [label]}]}` |
| Label Studio, JSON | see `label_studio` |
| ai4privacy | `{"source_text", "privacy_mask": [{"start", "end", "label", "value"}]}` |
| Presidio | `{"full_text", "spans": [{"start_position", "entity_type", ...}]}` |
| SageMaker | `{"source", "labels": {"annotations": {"entities": [...]}}}` |
| GLiNER2 | `{"input", "output": {"entities": {label: [text]}}}` |
| LettuceDetect | `{"prompt", "answer", "labels": [{"start", "end", "label"}]}` |

A list of entities may also be JSON in a string. brat's files are read as the first of
these: see `brat`.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dicejax.errors import Flaw, quote, truncate
from dicejax.formats import label_studio
from dicejax.formats.skipping import check_label
from dicejax.formats.words import Entity
from dicejax.io import json_text

# Usual names of each part; the first that a record has is taken.
TEXT = ["text", "source_text", "full_text", "raw_text", "answer", "response"]
TEXT += ["source", "input"]
SPANS = ["entities", "spans", "ents", "label", "labels", "privacy_mask", "output"]
START = ["start", "start_offset", "start_position", "startOffset", "begin"]
END = ["end", "end_offset", "end_position", "endOffset"]
LABEL = ["label", "labels", "entity_type", "entity_group", "type", "tag"]
_QUOTED = ("text", "value", "entity_value")
_ANSWERS = ("answer", "response")  # whose records have the prompt

_LEFT_OUT = {
    "answer": {"reject": "rejected", "ignore": "ignored"},  # Prodigy
    "status": {name: name for name in ("discarded", "rejected", "pending")},  # Argilla
}
_INNER = ("annotations", "entities")  # of SageMaker and GLiNER2


class Annotation(NamedTuple):
    """A text with its entities, and the unlabelled text that it answers."""

    text: str
    entities: list[Entity]
    prompt: str = ""


@dataclasses.dataclass(frozen=True)
class Fields:
    """Names of the fields of a text and of its entities; None: a usual name."""

    text: str | None = None
    spans: str | None = None
    start: str | None = None
    end: str | None = None
    label: str | None = None

    def of_text(self, record: Mapping[str, object]) -> str:
        """Return the field of the text."""
        return _first(record, self.text, TEXT)

    def of_spans(self, record: Mapping[str, object]) -> str:
        """Return the field of the entities."""
        text = self.of_text(record)
        usual = [n for n in SPANS if n != text and isinstance(record.get(n), list)]
        return self.spans or next(iter(usual), _first(record, None, SPANS))

    def filled(self, record: Mapping[str, object]) -> Fields:
        """Return the names that a record has, but for those of Hugging Face."""
        if label_studio.is_task(record):
            return self
        spans = self.of_spans(record)
        names = {"text": self.of_text(record), "spans": spans}
        value = next((v for _, v in _values(record, spans)), None)
        if isinstance(value, dict):
            choices = {"start": START, "end": END, "label": LABEL}
            for part, usual in choices.items():
                names[part] = _first(value, getattr(self, part), usual)
        plain = {"text": "text", "spans": "entities", "start": "start"}
        plain |= {"end": "end", "label": "label"}
        changed = {n: v for n, v in names.items() if v != plain[n]}
        return dataclasses.replace(self, **changed)


def left_out(record: Mapping[str, object]) -> str | None:
    """Return why a text is left out, if its annotator says so."""
    if label_studio.is_task(record):
        return label_studio.reason(record)
    for name, reasons in _LEFT_OUT.items():
        if isinstance(value := record.get(name), str) and value in reasons:
            return reasons[value]
    return None


def notes(reasons: Counter[str]) -> list[str]:
    """Return a note on texts that are left out, if there are any."""
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    return [f"{listed} left out"] if listed else []


def has_text(record: Mapping[str, object], fields: Fields) -> bool:
    """Return whether a record has a text."""
    return label_studio.is_task(record) or fields.of_text(record) in record


def text_of(record: Mapping[str, object], fields: Fields) -> tuple[str, str]:
    """Return the text of a record and its prompt, which is empty where it has none.

    Raises:
      Flaw: it has no text.
    """
    if label_studio.is_task(record):
        return label_studio.text_of(record, fields.text), ""
    name = fields.of_text(record)
    prompt = "prompt" if name in _ANSWERS else ""
    return (
        json_text.field(record, name, str),
        json_text.field(record, prompt, str) if prompt in record else "",
    )


def read(record: Mapping[str, object], fields: Fields) -> Annotation:
    """Return the text and the entities of a record in any of the layouts.

    Raises:
      Flaw: it has no text or no list of entities, or one of them has no place or label.
    """
    text, prompt = text_of(record, fields)
    if label_studio.is_task(record):
        values = label_studio.regions(record)
    else:
        values = _values(record, fields.of_spans(record))
    entities = []
    for place, value in values:
        try:
            entities += _entities(value, fields, place, text)
        except Flaw as flaw:
            raise Flaw(f"{place} {flaw.what}", flaw.do) from None
    return Annotation(text, entities, prompt)


def write(
    record: Mapping[str, Any], fields: Fields, entities: Sequence[Entity]
) -> dict[str, Any]:
    """Return a record with entities in place of its own, in its layout."""
    if label_studio.is_task(record):
        return label_studio.write(record, entities)
    name = fields.of_spans(record) if fields.of_text(record) in record else "entities"
    value = record.get(name)
    inner = _below(value)
    made: Any
    if isinstance(inner, dict):
        made = {}
        for entity in entities:
            made.setdefault(entity.label, []).append(entity.text)
    elif isinstance(inner, list) and inner and isinstance(inner[0], list):
        made = [list(entity[:3]) for entity in entities]
    else:
        of_value = next((v for v in inner or () if isinstance(v, dict)), {})
        names = [
            _first(of_value, given, usual)
            for given, usual in (
                (fields.start, START),
                (fields.end, END),
                (fields.label, LABEL),
            )
        ]
        made = [dict(zip(names, entity[:3], strict=True)) for entity in entities]
        if names[2] == "labels":
            made = [span | {"labels": [span["labels"]]} for span in made]
    if isinstance(value, dict):
        made = (
            {**value, "entities": made}
            if "entities" in value
            else {**value, "annotations": {**value["annotations"], "entities": made}}
        )
    return {**record, name: made}


def _first(record: Mapping[str, object], name: str | None, usual: Sequence[str]) -> str:
    """Return the user's name, or the first usual one of a record."""
    return name or next((n for n in usual if n in record), usual[0])


def _below(value: object) -> object:
    """Return the entities below a field, and those in a string of JSON."""
    if isinstance(value, str):
        return json_text.parse(value)
    for name in _INNER:
        if isinstance(value, dict) and name in value:
            value = value[name]
    return value


def _values(record: Mapping[str, object], name: str) -> Iterator[tuple[str, object]]:
    if name not in record:
        listed = truncate(", ".join(map(quote, record)), 240)
        do = f"name the field of the entities with --spans, one of {listed}"
        raise Flaw(f"has no {quote(name)}", do)
    try:
        value = _below(record[name])
        if isinstance(value, dict):  # GLiNER2: the texts of each label
            yield from ((f"{name}.{label}", item) for label, item in value.items())
            return
        values = json_text.value_of(value, list)
    except Flaw as flaw:
        raise Flaw(f"{quote(name)} {flaw.what}", flaw.do) from None
    for number, item in enumerate(values):
        # brat's entities have names in their file.
        id_ = item.get("id") if isinstance(item, dict) else None
        suffix = f" ({quote(id_)})" if isinstance(id_, str) else ""
        yield f"{name}[{number}]{suffix}", item


def _entities(value: object, fields: Fields, place: str, text: str) -> list[Entity]:
    """Return the entity of a value; of a list of texts one for each."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        label = place.rpartition(".")[2]
        return [e for part in value for e in _mentions(text, part, label, place)]
    if isinstance(value, list):
        if [type(part) for part in value[:3]] != [int, int, str]:
            raise Flaw("is a list, but not of start, end and label", "correct it")
        entity = Entity(*value[:3], place)
    else:
        record = json_text.value_of(value, dict)
        start = json_text.field(record, _first(record, fields.start, START), int)
        end = json_text.field(record, _first(record, fields.end, END), int)
        name = _first(record, fields.label, LABEL)
        label = record.get(name)
        if isinstance(label, list):
            if len(label) != 1:
                raise Flaw(f"has {len(label)} labels", "give it one")
            (label,) = label
            label = json_text.value_of(label, str)
        else:
            label = json_text.field(record, name, str)
        quoted = next((record[n] for n in _QUOTED if n in record), None)
        entity = Entity(
            start, end, label, place, quoted if isinstance(quoted, str) else None
        )
    check_label(entity.label, None)
    return [entity]


def _mentions(text: str, mention: str, label: str, place: str) -> list[Entity]:
    """Return the places of an entity that is given by its text alone, all of them."""
    pattern = rf"(?<!\w){re.escape(mention)}(?!\w)"
    entities = [
        Entity(*match.span(), label, place, mention)
        for match in re.finditer(pattern, text)
        if mention
    ]
    if not entities:
        raise Flaw(f"{quote(mention)} is not in the text", "correct one of them")
    return entities
