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

from collections.abc import Mapping
from typing import NamedTuple

from dicejax.data.readers.skipping import check_label
from dicejax.errors import Flaw, shown
from dicejax.io import json_text

FIELDS = ("entities", "spans", "ents", "label", "labels")
"""Those that may hold the entities of `text`; the first that holds a list does."""


class Entity(NamedTuple):
    """A labelled part of a text, in characters from 0, the end excluded."""

    start: int
    end: int
    label: str


class Annotated(NamedTuple):
    """A text and its entities.

    Attributes:
      text: as in the file.
      entities: in their order there.
      places: of each entity in its record, for errors.
    """

    text: str
    entities: list[Entity]
    places: list[str]


def record_of(value: object) -> dict:
    """Return the record of a line: an object, or spaCy 2's pair as one.

    >>> record_of(["Anna met Bo", {"entities": [[0, 4, "PER"]]}])
    {'text': 'Anna met Bo', 'entities': [[0, 4, 'PER']]}

    Raises:
      Flaw: it is neither.
    """
    if isinstance(value, list) and [type(part) for part in value] == [str, dict]:
        return {"text": value[0], **value[1]}
    return json_text.value_of(value, dict)


def annotated(record: Mapping[str, object]) -> Annotated:
    """Return the text and the entities of a record in any of the layouts.

    >>> annotated({"text": "Anna met Bo", "label": [[0, 4, "PER"]]}).entities
    [Entity(start=0, end=4, label='PER')]

    Raises:
      Flaw: it has no text or no list of entities, or one of them has no place or label.
    """
    if "annotations" in record and "data" in record:
        return _of_label_studio(record)
    text = json_text.field(record, "text", str)
    name = next((n for n in FIELDS if isinstance(record.get(n), list)), FIELDS[0])
    entities, places = [], []
    for number, value in enumerate(json_text.field(record, name, list)):
        places.append(f"{name}[{number}]{_id(value)}")
        try:
            entities.append(_entity(value))
        except Flaw as flaw:
            raise Flaw(f"{places[-1]} {flaw.what}", flaw.do) from None
    return Annotated(text, entities, places)


def _of_label_studio(record: Mapping[str, object]) -> Annotated:
    """Return the first annotation that was not cancelled; relations are left out."""
    text = json_text.field(json_text.field(record, "data", dict), "text", str)
    entities, places = [], []
    for number, annotation in enumerate(json_text.field(record, "annotations", list)):
        if json_text.field(annotation, "was_cancelled", bool, False):
            continue
        for place, result in enumerate(json_text.field(annotation, "result", list)):
            if json_text.field(result, "type", str, "labels") != "labels":
                continue
            places.append(f"annotations[{number}].result[{place}]")
            try:
                entities.append(_entity(json_text.field(result, "value", dict)))
            except Flaw as flaw:
                raise Flaw(f"{places[-1]} {flaw.what}", flaw.do) from None
        break
    return Annotated(text, entities, places)


def _id(value: object) -> str:
    """Return the name of an entity in its file, if it has one, in parentheses."""
    name = value.get("id") if isinstance(value, dict) else None
    return f" ({shown(name)})" if isinstance(name, str) else ""


def _entity(value: object) -> Entity:
    if isinstance(value, list):
        if [type(part) for part in value[:3]] != [int, int, str]:
            raise Flaw("is a list, but not of start, end and label", "correct it")
        entity = Entity(*value[:3])
    else:
        entity = _entity_of_object(json_text.value_of(value, dict))
    check_label(entity.label, None)
    return entity


def _entity_of_object(record: dict) -> Entity:
    suffix = "_offset" if "start_offset" in record else ""
    start = json_text.field(record, f"start{suffix}", int)
    end = json_text.field(record, f"end{suffix}", int)
    if "label" not in record and "labels" in record:
        labels = json_text.field(record, "labels", list)
        if len(labels) != 1:
            raise Flaw(f"has {len(labels)} labels", "give it one")
        return Entity(start, end, json_text.value_of(labels[0], str))
    return Entity(start, end, json_text.field(record, "label", str))
