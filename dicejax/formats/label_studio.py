"""Tasks of Label Studio: `{"data": {"text"}, "annotations": [{"result": [...]}]}`.

An annotation that was cancelled is not read; of several others the first with regions
is. Regions of type `labels` are entities, those of type `choices` and `rating` classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dicejax.errors import Flaw, quote
from dicejax.formats.records import Fields
from dicejax.formats.words import Entity, to_utf16
from dicejax.io import json_text

_MIN = ["choices"]  # keys of several choices in JSON-MIN
_OF_TEXTS = ("choices", "rating", "textarea", "taxonomy", "relation", "number")


def is_task(record: Mapping[str, object]) -> bool:
    """Return whether a record is a task of Label Studio, perhaps not annotated yet."""
    is_bare = record.keys() <= {"id", "data", "meta", "predictions"}
    return isinstance(record.get("data"), dict) and ("annotations" in record or is_bare)


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
    annotations = json_text.field(record, "annotations", list, [])
    if not annotations:
        return "not annotated"
    return None if _valid(annotations) else "cancelled"


def has_several(record: Mapping[str, object]) -> bool:
    """Return whether a task has more than one annotation that was not cancelled."""
    return len(_valid(json_text.field(record, "annotations", list, []))) > 1


def regions(record: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the place and the value of each entity.

    Raises:
      Flaw: a region is of another type.
    """
    for place, region in _results(record):
        kind = json_text.field(region, "type", str, "labels")
        if kind == "labels":
            yield place, json_text.field(region, "value", dict)
        elif kind not in _OF_TEXTS:
            remedy = "export the regions of a Labels tag"
            raise Flaw(f"{place} is of type {quote(kind)}", remedy)


def classes(record: Mapping[str, object]) -> list[Any]:
    """Return the choices, ratings and numbers of a task."""
    names: list[Any] = []
    for _, region in _results(record):
        value = json_text.field(region, "value", dict, {})  # a relation has none
        if "choices" in value:
            names += json_text.field(value, "choices", list)
        elif "rating" in value:
            names.append(str(json_text.field(value, "rating", int)))
        elif "number" in value:
            names.append(value["number"])
    return names


def with_classes(
    record: dict[str, Any], name: str | None = None, several: bool = False
) -> dict[str, Any]:
    """Return a task that has choices with its text and classes as fields.

    Its `label` is the choice, null for none, a list of several.

    Args:
      record: a task; another record is returned as it is.
      name: field of the text; None takes `text`, or the only one.
      several: whether any number is a list.
    """
    if not is_task(record):
        chosen = [n for n, v in record.items() if isinstance(v, dict) and [*v] == _MIN]
        return {**record, **{n: record[n]["choices"] for n in chosen}}
    names = classes(record)
    label = names if several or len(names) > 1 else next(iter(names), None)
    text = {name or "text": text_of(record, name)}
    return {"annotations": [], **record, **text, "label": label}


def write_classes(record: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return a task with classes as a prediction, as Label Studio imports it."""
    kinds = ("choices", "rating")
    region = next((r for _, r in _results(record) if r.get("type") in kinds), {})
    kind = region.get("type", "choices")
    value = int(names[0]) if kind == "rating" and len(names) == 1 else [*names]
    return _with_prediction(record, region, [{"type": kind, "value": {kind: value}}])


def write(
    record: Mapping[str, Any], entities: Sequence[Entity], name: str | None = None
) -> dict[str, Any]:
    """Return a task with entities as a prediction, as Label Studio imports it."""
    text = text_of(record, name)
    regions_ = [region for _, region in _results(record)]
    result = []
    if not _counts_characters(text, regions_):
        entities = to_utf16(text, entities)
    for e in entities:
        value = {"start": e.start, "end": e.end, "text": e.text, "labels": [e.label]}
        result.append({"type": "labels", "value": value})
    return _with_prediction(record, next(iter(regions_), {}), result)


def _counts_characters(text: str, regions: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether places count characters: by texts of regions, as a script does.

    Label Studio itself counts UTF-16 units.
    """
    values = [region.get("value") or {} for region in regions]
    quoted = [value for value in values if isinstance(value.get("text"), str)]
    return bool(quoted) and all(
        text[value["start"] : value["end"]] == value["text"] for value in quoted
    )


def _with_prediction(
    record: Mapping[str, Any], region: Mapping[str, Any], result: Sequence[Fields]
) -> dict[str, Any]:
    """Return a task with regions as a prediction, of the tags of one that it has."""
    names = {"from_name": "label", "to_name": "text"}  # of its template
    names = {name: region.get(name, usual) for name, usual in names.items()}
    rows = [{**names, "id": f"e{number}", **row} for number, row in enumerate(result)]
    return {**record, "predictions": [{"result": rows}]}


def _valid(annotations: Sequence[Any]) -> list[tuple[int, Any]]:
    """Return annotations that were not cancelled, with their numbers."""
    return [
        (number, annotation)
        for number, annotation in enumerate(annotations)
        if not json_text.field(annotation, "was_cancelled", bool, False)
    ]


def _results(record: Mapping[str, object]) -> Iterator[tuple[str, Fields]]:
    """Yield the regions of the annotation that is read, with their places."""
    valid = _valid(json_text.field(record, "annotations", list, []))
    filled = [pair for pair in valid if json_text.field(pair[1], "result", list)]
    for number, annotation in (filled or valid)[:1]:
        for place, region in enumerate(json_text.field(annotation, "result", list)):
            yield f"annotations[{number}].result[{place}]", region
