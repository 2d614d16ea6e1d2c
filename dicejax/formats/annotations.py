"""Entities by characters, in the JSON that annotation tools export.

| tool | one text |
| --- | --- |
| Hugging Face | `{"text", "entities": [{"start", "end", "label"}]}` |
| Prodigy, spaCy | `{"text", "spans": [...]}`, `{"text", "ents": [...]}` |
| spaCy 2 | `["the text", {"entities": [[start, end, label]]}]` |
| doccano | `{"text", "label": [[start, end, label]]}`; `start_offset`, `end_offset` |
| Label Studio, JSON-MIN | `{"text", "label": [{"start", "end", "labels": [label]}]}` |
| Label Studio, JSON | `{"data": {"text"}, "annotations": [{"result": [...]}]}` |

brat's files are read as the first of these: see `brat`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dicejax.errors import Flaw, quote
from dicejax.formats.skipping import check_label
from dicejax.io import json_text

# Fields that may hold the entities of `text`; the first that holds a list does.
FIELDS = ("entities", "spans", "ents", "label", "labels")


class Entity(NamedTuple):
    """A labelled part of a text, in characters from 0, and its place for errors."""

    start: int
    end: int
    label: str
    place: str


def text_and_entities(record: Mapping[str, object]) -> tuple[str, list[Entity]]:
    """Return the text and the entities of a record in any of the layouts.

    Raises:
      Flaw: it has no text or no list of entities, or one of them has no place or label.
    """
    of_label_studio = "annotations" in record and "data" in record
    if of_label_studio:
        text = json_text.field(json_text.field(record, "data", dict), "text", str)
        values = _of_label_studio(record)
    else:
        text = json_text.field(record, "text", str)
        values = _in_a_list(record)
    entities = []
    for place, value in values:
        try:
            if of_label_studio:
                value = json_text.field(value, "value", dict)
            start, end, label = _entity(value)
            check_label(label, None)
        except Flaw as flaw:
            raise Flaw(f"{place} {flaw.what}", flaw.do) from None
        entities.append(Entity(start, end, label, place))
    return text, entities


def _in_a_list(record: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    name = next((n for n in FIELDS if isinstance(record.get(n), list)), FIELDS[0])
    for number, value in enumerate(json_text.field(record, name, list)):
        # brat's entities have names in their file.
        id_ = value.get("id") if isinstance(value, dict) else None
        suffix = f" ({quote(id_)})" if isinstance(id_, str) else ""
        yield f"{name}[{number}]{suffix}", value


def _of_label_studio(record: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the first annotation that was not cancelled; relations are left out."""
    for number, annotation in enumerate(json_text.field(record, "annotations", list)):
        if json_text.field(annotation, "was_cancelled", bool, False):
            continue
        for place, result in enumerate(json_text.field(annotation, "result", list)):
            if json_text.field(result, "type", str, "labels") == "labels":
                yield f"annotations[{number}].result[{place}]", result
        return


def _entity(value: object) -> tuple[int, int, str]:
    if isinstance(value, list):
        if [type(part) for part in value[:3]] != [int, int, str]:
            raise Flaw("is a list, but not of start, end and label", "correct it")
        return value[0], value[1], value[2]
    record = json_text.value_of(value, dict)
    suffix = "_offset" if "start_offset" in record else ""
    start = json_text.field(record, f"start{suffix}", int)
    end = json_text.field(record, f"end{suffix}", int)
    if "label" in record or "labels" not in record:
        return start, end, json_text.field(record, "label", str)
    labels = json_text.field(record, "labels", list)
    if len(labels) != 1:
        raise Flaw(f"has {len(labels)} labels", "give it one")
    return start, end, json_text.value_of(labels[0], str)
