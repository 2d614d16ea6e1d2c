"""Tasks of Label Studio: `{"data": {"text"}, "annotations": [{"result": [...]}]}`.

An annotation that was cancelled is not read; of several others the first with regions
is. Regions of type `labels` are entities, those of type `choices` and `rating` classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dicejax.errors import Flaw, quote
from dicejax.formats.words import Entity
from dicejax.io import json_text

_OF_TEXTS = ("choices", "rating", "textarea", "taxonomy", "relation", "number")


def is_task(record: Mapping[str, object]) -> bool:
    """Return whether a record is a task of Label Studio."""
    return "annotations" in record and isinstance(record.get("data"), dict)


def text_of(record: Mapping[str, object], name: str | None = None) -> str:
    """Return the text of a task: its field `text`, or the only one that is text.

    Raises:
      Flaw: there is none, or more than one.
    """
    data = json_text.field(record, "data", dict)
    texts = [field for field, value in data.items() if isinstance(value, str)]
    if name is None and "text" not in data and len(texts) == 1:
        name = texts[0]
    if name is None and "text" not in data and texts:
        listed = ", ".join(map(quote, texts))
        raise Flaw(f"'data' has the texts {listed}", "name one with --text")
    return json_text.field(data, name or "text", str)


def reason(record: Mapping[str, object]) -> str | None:
    """Return why a task has no gold; None where it has."""
    annotations = json_text.field(record, "annotations", list)
    if not annotations:
        return "not annotated"
    return None if _valid(annotations) else "cancelled"


def has_several(record: object) -> bool:
    """Return whether a task has more than one annotation that was not cancelled."""
    if not (isinstance(record, dict) and is_task(record)):
        return False
    return len(_valid(json_text.field(record, "annotations", list))) > 1


def regions(record: Mapping[str, object]) -> Iterator[tuple[str, dict]]:
    """Yield the place and the value of each entity.

    Raises:
      Flaw: a region is of another type.
    """
    for place, region in _results(record):
        kind = json_text.field(region, "type", str, "labels")
        if kind == "labels":
            yield place, json_text.field(region, "value", dict)
        elif kind not in _OF_TEXTS:
            do = "export the regions of a Labels tag"
            raise Flaw(f"{place} is of type {quote(kind)}", do)


def classes(record: Mapping[str, object]) -> list[str]:
    """Return the choices and ratings of a task."""
    names: list[str] = []
    for _, region in _results(record):
        value = json_text.field(region, "value", dict)
        if "choices" in value:
            names += json_text.field(value, "choices", list)
        elif "rating" in value:
            names.append(str(json_text.field(value, "rating", int)))
    return names


def with_classes(record: dict[str, Any]) -> dict[str, Any]:
    """Return a task that has choices with its text and classes as fields.

    A task with one choice has a `label`, another one `labels`.
    """
    if not is_task(record):
        return record
    fields = {**record, "text": text_of(record)}
    names = classes(record)
    return fields | ({"label": names[0]} if len(names) == 1 else {"labels": names})


def write(record: Mapping[str, Any], entities: Sequence[Entity]) -> dict[str, Any]:
    """Return a task with entities as a prediction, as Label Studio imports it."""
    of_text = next((r for _, r in _results(record)), {})
    names = {name: of_text.get(name, name) for name in ("from_name", "to_name")}
    result = [
        {
            **names,
            "id": f"e{number}",
            "type": "labels",
            "value": {"start": e.start, "end": e.end, "text": e.text}
            | {"labels": [e.label]},
        }
        for number, e in enumerate(entities)
    ]
    return {**record, "predictions": [{"result": result}]}


def _valid(annotations: list) -> list[tuple[int, Any]]:
    """Return annotations that were not cancelled, with their numbers."""
    return [
        (number, annotation)
        for number, annotation in enumerate(annotations)
        if not json_text.field(annotation, "was_cancelled", bool, False)
    ]


def _results(record: Mapping[str, object]) -> Iterator[tuple[str, dict]]:
    """Yield the regions of the annotation that is read, with their places."""
    valid = _valid(json_text.field(record, "annotations", list))
    filled = [pair for pair in valid if json_text.field(pair[1], "result", list)]
    for number, annotation in (filled or valid)[:1]:
        for place, region in enumerate(json_text.field(annotation, "result", list)):
            yield f"annotations[{number}].result[{place}]", region
