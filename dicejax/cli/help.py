"""Help in two tiers, the flags that most runs need or all; examples at its end."""

from __future__ import annotations

import dataclasses
import typing
from typing import Annotated, Any

import docstring_parser
from tyro.conf import Suppress, arg

SETTINGS = (
    "data.dir",
    "data.max_train",
    "encoder.path",
    "optimizer.learning_rate",
    "training.epochs",
    "training.batch_size",
    "training.max_length",
    "training.seed",
)
"""Settings of an experiment that --help lists; --help-all lists all."""

RARE = ("processes", "baselines", "resample", "shard")
"""Flags of commands that only --help-all lists."""

EXAMPLES = {
    "": [
        "dicejax init ner mine --data corpus.txt",
        "dicejax train experiments/quickstart.py --out runs/first",
        "dicejax compare experiments/quickstart.py",
    ],
    "init": [
        "dicejax init ner mine --data corpus.txt",
        "dicejax init classification mine --data FOLDER --encoder bert-base-cased",
    ],
    "train": [
        "dicejax train experiments/quickstart.py --out runs/first",
        "dicejax train mine.py --loss dsc --objective.alpha 0.3 --training.epochs 5",
        "dicejax train mine.py --encoder.path bert-base-cased --mesh.fsdp 4",
    ],
    "compare": [
        "dicejax compare mine.py --losses ce focal dsc:alpha=0.3 --seeds 5",
        "dicejax compare mine.py --until decided --budget 2h",
        "dicejax compare mine.py --tune 20 --data.max_train 1000 --resample",
    ],
    "report": [
        "dicejax report runs/mine",
        "dicejax report runs/one runs/other --across",
        "dicejax report --scores scores.csv --out verdicts",
    ],
    "evaluate": ["dicejax evaluate runs/first --split dev --checkpoint last"],
    "predict": [
        'dicejax predict runs/first "Anna lives in New York City ."',
        "dicejax predict runs/first --file texts.jsonl --out predicted.jsonl",
        "dicejax predict runs/first --file new.conll --out tagged.conll",
    ],
    "profile": ["dicejax profile mine.py --out profile"],
    "plan": [
        "dicejax plan mine.py --mesh.fsdp 8 --training.micro_batches 4",
        "dicejax plan mine.py --topology v5e:4x4 --mesh.fsdp 16",
        "dicejax plan mine.py --topology h100:8 --find",
    ],
    "export": ["dicejax export runs/first model"],
    "plot": ["dicejax plot runs/first"],
}


def brief(command: type, settings: Any, chosen: tuple[str, ...] = ()) -> type:
    """Return a command whose help lists the flags that most runs need.

    Args:
      command: dataclass of a command.
      settings: experiment whose settings are flags too; None where no file is named.
      chosen: fields of the experiment all of whose settings are listed.
    """
    hints = typing.get_type_hints(command, include_extras=True)
    fields: list[tuple[str, Any, Any]] = [
        (one.name, Annotated[hints[one.name], Suppress], one.default)
        for one in dataclasses.fields(command)
        if one.name in RARE
    ]
    if settings is not None:
        short = _short(settings, chosen)
        flags: Any = Annotated[type(short), arg(name="")]
        fields.append(("settings", flags, short))
    return with_fields(command, fields)


def epilog(name: str, *, tiers: bool) -> str:
    """Return what follows the help of a command: examples, and where the rest is."""
    lines = ["examples:", *(f"  {line}" for line in EXAMPLES[name])]
    if tiers:
        lines += ["", "--help-all lists the rarer flags and all settings."]
    if not name:
        lines += ["", "COMMAND --help lists a command's flags, --version the version."]
    return "\n".join(lines)


def _short(settings: Any, chosen: tuple[str, ...]) -> Any:
    """Return an experiment with `SETTINGS` and the chosen fields only."""
    groups: list[tuple[str, Any, Any]] = []
    for group in dataclasses.fields(settings):
        value = getattr(settings, group.name)
        split = (one.split(".") for one in SETTINGS)
        names = [one for of, one in split if of == group.name and hasattr(value, one)]
        if group.name in chosen:
            groups.append((group.name, type(value), value))
        elif names:
            leaves = _leaves(value, names)
            # No subclass: tables of encoders, sources and optimizers would list it.
            kind = _dataclass(type(value), leaves)
            groups.append((group.name, kind, kind()))
    return _dataclass(type(settings), groups)()


def _leaves(value: Any, names: list[str]) -> list[tuple[str, Any, Any]]:
    """Return name, annotation with help, and value of some fields of a dataclass."""
    hints = typing.get_type_hints(type(value), include_extras=True)
    descriptions: dict[str, str] = {}
    for kind in reversed(type(value).__mro__):
        for entry in docstring_parser.parse(kind.__doc__ or "").params:
            descriptions[entry.arg_name] = " ".join((entry.description or "").split())
    return [
        (
            name,
            Annotated[hints[name], arg(help=descriptions[name])],
            getattr(value, name),
        )
        for name in names
    ]


def with_fields(command: type, fields: list[tuple[str, Any, Any]]) -> type:
    """Return a command with other fields: name, annotation and default of each."""
    return _dataclass(command, fields, bases=(command,))


def _dataclass(
    like: type, fields: list[tuple[str, Any, Any]], bases: tuple[type, ...] = ()
) -> Any:
    return dataclasses.make_dataclass(
        like.__name__,
        fields,
        bases=bases,
        frozen=True,
        kw_only=True,
        namespace={"__doc__": like.__doc__},
    )
