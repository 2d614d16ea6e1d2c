"""Sources of earlier versions: what they are now, in files and in records of runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

EARLIER: Mapping[str, tuple[str, dict[str, Any]]] = {
    "WordLabelFiles": ("ConllFiles", {"layout": "labels"}),
    "ConlluFiles": ("ConllFiles", {"layout": "conllu"}),
    "CsvFiles": ("TextFiles", {}),
    "TabSeparatedFiles": ("TextFiles", {"separator": "\t", "quoted": False}),
    "JsonTexts": ("TextFiles", {"layout": "json"}),
    "LabelFirstFiles": ("TextFiles", {"layout": "label-first"}),
    "FastTextFiles": ("TextFiles", {"layout": "fasttext"}),
    "CsvMultiLabelTexts": ("TextFiles", {"multi_label": True}),
    "JsonMultiLabelTexts": ("TextFiles", {"layout": "json", "multi_label": True}),
}


def today(record: Mapping[str, Any], classes: Collection[str]) -> dict[str, Any]:
    """Return a record by today's class, unless there is a class of its name.

    >>> today({"type": "JsonTexts", "dir": "x"}, ["TextFiles"])
    {'type': 'TextFiles', 'dir': 'x', 'layout': 'json'}
    """
    name = record["type"]
    if name in classes or name not in EARLIER:
        return dict(record)
    now, more = EARLIER[name]
    return {**record, **more, "type": now}


def new_names(message: str) -> list[tuple[str, str]]:
    """Return the sources of earlier versions that a message names, and what they are.

    >>> new_names("cannot import name 'FastTextFiles'")
    [('FastTextFiles', "TextFiles(layout='fasttext')")]
    """
    return [
        (name, f"{now}({', '.join(f'{n}={x!r}' for n, x in fields.items())})")
        for name, (now, fields) in EARLIER.items()
        if f"'{name}'" in message
    ]
