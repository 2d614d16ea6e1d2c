"""Entities by characters, in the JSON that annotation tools export.

docs/own-data.md lists the layouts. A list of entities may also be JSON in a string.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dicejax.errors import Flaw, quote, truncate
from dicejax.formats import label_studio
from dicejax.formats.records import ALL_UNNAMED, Columns, check_label
from dicejax.formats.words import Entity
from dicejax.io import json_text

# Usual names of each part; the first that a record has is taken.
TEXT = ["text", "source_text", "full_text", "raw_text", "answer", "response"]
TEXT += ["source", "input"]
SPANS = ["entities", "spans", "ents", "label", "labels", "privacy_mask", "output"]
SPANS += ["annotation"]
START = ["start", "start_offset", "start_position", "startOffset", "begin"]
END = ["end", "end_offset", "end_position", "endOffset"]
LABEL = ["label", "labels", "entity_type", "entity_group", "type", "tag"]
_QUOTED = ("text", "value", "entity_value")
_ANSWERS = ("answer", "response")  # whose records have the prompt

_LEFT_OUT = {
    "answer": {"reject": "rejected", "ignore": "ignored"},  # Prodigy
    "status": {name: name for name in ("discarded", "rejected", "pending")}  # Argilla
    | {"Discarded": "discarded"},
}
_INNER = ("annotations", "entities")  # of SageMaker and GLiNER2


class Annotation(NamedTuple):
    """A text with its entities, and the unlabelled text that it answers."""

    text: str
    entities: list[Entity]
    prompt: str = ""


def text_field(record: Mapping[str, object], named: Columns) -> str:
    """Return the field of the text."""
    return _first(record, named.text, TEXT)


def spans_field(record: Mapping[str, object], named: Columns) -> str:
    """Return the field of the entities."""
    text = text_field(record, named)
    usual = [n for n in SPANS if n != text and isinstance(record.get(n), list)]
    return named.spans or next(iter(usual), _first(record, None, SPANS))


def _parts(value: Mapping[str, object], named: Columns) -> dict[str, str]:
    """Return the fields of an entity: `start`, `end`, `label`."""
    usual = {"start": START, "end": END, "label": LABEL}
    return {part: _first(value, getattr(named, part), usual[part]) for part in usual}


def settings(record: Mapping[str, object], named: Columns) -> dict[str, str]:
    """Return names of fields as settings, but for those that Hugging Face takes."""
    names = {n: v for n, v in dataclasses.asdict(named).items() if v is not None}
    if label_studio.is_task(record):
        return names
    spans = spans_field(record, named)
    fields = {"text": text_field(record, named), "spans": spans}
    try:
        value = next((v for _, v in _values(record, spans)), None)
    except Flaw:  # the reader says it with its line
        return names
    if isinstance(value, dict):
        fields |= _parts(value, named)
    plain = {"text": "text", "spans": "entities"} | _parts({}, ALL_UNNAMED)
    return names | {n: v for n, v in fields.items() if v != plain[n]}


def left_out(record: Mapping[str, object], label: object = None) -> str | None:
    """Return why a text is left out, if its annotator says so.

    A record whose class is its `answer`, the `label`, is not rejected.
    """
    if label_studio.is_task(record):
        return label_studio.reason(record)
    if record.get("status") == "Default" and record.get("annotation", 0) is None:
        return "not annotated"  # Argilla 1
    for name, reasons in _LEFT_OUT.items():
        if isinstance(value := record.get(name), str) and value in reasons:
            return None if name == label and value == "reject" else reasons[value]
    states = record.get(f"{label}.status")  # of Argilla 2, flat
    if states and isinstance(states, list) and not {*states} - {"discarded", "draft"}:
        return str(states[0])
    return None


def notes(reasons: Counter[str]) -> list[str]:
    """Return a note on texts that are left out, if there are any."""
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    return [f"{listed} left out"] if listed else []


def has_text(record: Mapping[str, object], named: Columns) -> bool:
    """Return whether a record has a text."""
    return label_studio.is_task(record) or text_field(record, named) in record


def text_of(record: Mapping[str, object], named: Columns) -> tuple[str, str]:
    """Return the text of a record and its prompt, which is empty where it has none.

    Raises:
      Flaw: it has no text.
    """
    if label_studio.is_task(record):
        return label_studio.text_of(record, named.text), ""
    name = text_field(record, named)
    prompt = "prompt" if name in _ANSWERS else ""
    return (
        json_text.field(record, name, str),
        json_text.field(record, prompt, str) if prompt in record else "",
    )


def read(record: Mapping[str, object], named: Columns) -> Annotation:
    """Return the text and the entities of a record in any of the layouts.

    Raises:
      Flaw: it has no text or no list of entities, or one of them has no place or label.
    """
    text, prompt = text_of(record, named)
    if label_studio.is_task(record):
        values = label_studio.regions(record)
    else:
        values = _values(record, spans_field(record, named))
    entities = []
    for place, value in values:
        try:
            entities += _entities(value, named, place, text)
        except Flaw as flaw:
            raise Flaw(f"{place} {flaw.fault}", flaw.remedy) from None
    return Annotation(text, entities, prompt)


def write(
    record: Mapping[str, Any], named: Columns, entities: Sequence[Entity]
) -> dict[str, Any]:
    """Return a record with entities in place of its own, in its layout."""
    if label_studio.is_task(record):
        return label_studio.write(record, entities, named.text)
    name = spans_field(record, named) if has_text(record, named) else "entities"
    value = record.get(name)
    inner = _below(value)
    before = _by_entity(record, named, name)
    if before.keys() == {entity[:3] for entity in entities}:
        return dict(record)
    made: Any
    if isinstance(inner, dict):
        made = {}
        for entity in entities:
            made.setdefault(entity.label, []).append(entity.text)
    elif isinstance(inner, list) and inner and isinstance(inner[0], list):
        made = [list(entity[:3]) for entity in entities]
        if isinstance(inner[0][0], str):
            made = [[label, start, end] for start, end, label in made]
    else:
        objects = inner if isinstance(inner, list) else ()
        like = next((v for v in objects if isinstance(v, dict)), {})
        made = [before.get(e[:3], _object(record, named, like, e)) for e in entities]
    return {**record, name: _above(made, value)}


def _by_entity(
    record: Mapping[str, Any], named: Columns, name: str
) -> dict[tuple[int, int, str], Any]:
    """Return the entities of a record as they are written, by place and label."""
    try:
        text, _ = text_of(record, named)
        pairs = [(p, v) for p, v in _values(record, name)] if name in record else []
        return {e[:3]: v for p, v in pairs for e in _entities(v, named, p, text)}
    except Flaw:
        return {}


def _object(
    record: Mapping[str, Any], named: Columns, like: Mapping[str, Any], entity: Entity
) -> dict[str, Any]:
    """Return an entity with the fields of another that can be told."""
    start, end, label = _parts(like, named).values()
    is_list = label == "labels" or isinstance(like.get(label), list)
    made: dict[str, Any] = {start: entity.start, end: entity.end}
    made[label] = [entity.label] if is_list else entity.label
    tokens = [x for x in record.get("tokens") or () if isinstance(x, dict)]
    ends = {"token_start": ("start", entity.start), "token_end": ("end", entity.end)}
    for name, (part, place) in ends.items():
        number = next((n for n, x in enumerate(tokens) if x.get(part) == place), None)
        if name in like and number is not None:
            made[name] = number
    made |= {name: entity.text for name in _QUOTED if name in like}
    return {n: made[n] for n in like if n in made} | made


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


def _above(made: object, value: object) -> object:
    """Return a field with other entities below it; see `_below`."""
    if isinstance(value, str):
        return json.dumps(made, ensure_ascii=False)
    if not isinstance(value, dict) or not (inner := [n for n in _INNER if n in value]):
        return made
    return {**value, inner[0]: _above(made, value[inner[0]])}


def _values(record: Mapping[str, object], name: str) -> Iterator[tuple[str, object]]:
    if name not in record:
        listed = truncate(", ".join(map(quote, record)), 240)
        remedy = f"name the field of the entities with --spans, one of {listed}"
        raise Flaw(f"has no {quote(name)}", remedy)
    try:
        value = _below(record[name])
        if isinstance(value, dict):  # GLiNER2: the texts of each label
            yield from ((f"{name}.{label}", item) for label, item in value.items())
            return
        values = json_text.value_of(value, list)
    except Flaw as flaw:
        raise Flaw(f"{quote(name)} {flaw.fault}", flaw.remedy) from None
    for number, item in enumerate(values):
        # brat's entities have names in their file.
        id_ = item.get("id") if isinstance(item, dict) else None
        suffix = f" ({quote(id_)})" if isinstance(id_, str) else ""
        yield f"{name}[{number}]{suffix}", item


def _entities(value: object, named: Columns, place: str, text: str) -> list[Entity]:
    """Return the entity of a value; of a list of texts one for each."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        label = place.rpartition(".")[2]
        return [e for part in value for e in _mentions(text, part, label, place)]
    if isinstance(value, list):
        types = [type(part) for part in value[:3]]
        if types == [str, int, int]:  # Argilla 1
            value = [*value[1:], value[0]]
        elif types != [int, int, str]:
            raise Flaw("is a list, but not of start, end and label", "correct it")
        entity = Entity(value[0], value[1], value[2].strip(), place)
    else:
        record = json_text.value_of(value, dict)
        first, last, name = _parts(record, named).values()
        start = json_text.field(record, first, int)
        end = json_text.field(record, last, int)
        labels = record.get(name)
        if isinstance(labels, list):
            if len(labels) != 1:
                raise Flaw(f"has {len(labels)} labels", "give it one")
            label = json_text.value_of(labels[0], str)
        else:
            label = json_text.field(record, name, str)
        quoted = next((record[n] for n in _QUOTED if n in record), None)
        quoted = quoted if isinstance(quoted, str) else None
        entity = Entity(start, end, label.strip(), place, quoted)
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
