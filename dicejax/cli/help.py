"""Help in two tiers, the flags that most runs need or all; examples at its end."""

from __future__ import annotations

import dataclasses
import inspect
import shutil
import textwrap
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from tyro.conf import arg
from tyro.constructors import (
    ConstructorRegistry,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from dicejax import DESCRIPTION

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

RARE = ("processes", "baselines", "margin", "resample", "shard")
"""Flags of commands that only --help-all lists."""

EXAMPLES = {
    "": [
        "dicejax init ner mine --data corpus.txt",
        "dicejax compare quickstart",
        "dicejax compare mine.py --seeds 5",
    ],
    "init": [
        "dicejax init ner mine --data corpus.txt",
        "dicejax init classification mine --data FOLDER --encoder bert-base-cased",
    ],
    "train": [
        "dicejax train quickstart --out runs/first",
        "dicejax train mine.py --loss dsc --objective.alpha 0.3 --training.epochs 5",
        "dicejax train mine.py --encoder.path bert-base-cased --mesh.fsdp 4",
    ],
    "compare": [
        "dicejax compare mine.py --losses ce focal dsc:alpha=0.3 --seeds 5",
        "dicejax compare mine.py --until decided --budget 2h",
        "dicejax compare mine.py --tune 20 --data.max_train 1000 --resample",
    ],
    "choose": [
        "dicejax choose mine.py --budget 30m",
        "dicejax choose mine.py --budget 2h --out runs/mine/choose",
    ],
    "report": [
        "dicejax report runs/mine",
        "dicejax report runs/one runs/other --across",
        "dicejax report --scores scores.csv --out verdicts",
    ],
    "review": [
        "dicejax review runs/mine --out review",
        "dicejax review runs/mine --out review --splits train --folds 5",
        "dicejax review runs/mine --out review --marked review/to_mark.csv",
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


def option(metavar: str | None, default: str, help: str | None = None) -> object:
    """Describe a flag whose default follows from something else."""
    return arg(metavar=metavar, help=help, help_behavior_hint=f"(default: {default})")


def flags_of(
    command: type, settings: Any, chosen: Collection[str], *, is_brief: bool
) -> ConstructorRegistry:
    """Return tyro's rule for a command whose flags include an experiment's settings.

    The settings are None where no file is named; those of the `chosen` fields are all
    listed, others of --help-all only if the help is not brief.
    """
    registry, in_rule = ConstructorRegistry(), False
    parts: dict[str, Any] = {}  # of the experiment, by the start of their flags
    if settings is not None:
        parts = {f"{name}.": value for name, value in vars(settings).items()}
        parts[""] = settings

    def is_listed(flag: str) -> bool:
        listed = any(f"{name}.".startswith(f"{flag}.") for name in SETTINGS)
        return not is_brief or listed or flag.partition(".")[0] in chosen

    @registry.struct_rule
    def rule(info: StructTypeInfo) -> StructConstructorSpec | None:
        nonlocal in_rule
        if in_rule:
            return None  # another rule applies, tyro's for dataclasses
        in_rule = True
        spec: Any = registry.get_struct_spec(info)
        in_rule = False
        if not isinstance(spec, StructConstructorSpec):
            return spec
        fields = list(spec.fields)
        if info.type is command:
            fields = [x for x in fields if not (is_brief and x.name in RARE)]
            if settings is not None:
                flags: Any = Annotated[type(settings), arg(name="")]
                fields = [x for x in fields if x.name != "settings"]
                fields.append(StructFieldSpec("settings", flags, settings))
        for prefix, part in parts.items():
            if info.default is part:
                fields = [x for x in fields if is_listed(f"{prefix}{x.name}")]
        return dataclasses.replace(spec, fields=tuple(fields))

    return registry


def description(command: type) -> str:
    """Return a command's docstring above its arguments, wrapped for the terminal.

    tyro joins lines but those that are indented.
    """
    text = inspect.cleandoc(command.__doc__ or "").partition("\n\nArgs:")[0]
    return "\n\n".join(_wrap(x, "  ", "  ") for x in text.split("\n\n"))


def overview(commands: Mapping[str, type]) -> str:
    """Return the help of the program: its commands, a line or two for each."""
    lines = ["usage: dicejax COMMAND ...", "", _wrap(DESCRIPTION), "", "commands:"]
    for name, command in commands.items():
        about = (command.__doc__ or "").splitlines()[0]
        lines.append(_wrap(about, f"  {name:10}", 12 * " "))
    return "\n".join([*lines, "", epilog("", tiers=False)])


def _wrap(text: str, first: str = "", rest: str = "") -> str:
    """Wrap at the terminal's width between words alone, at most 100 columns."""
    return textwrap.fill(
        text,
        min(shutil.get_terminal_size().columns, 100),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def epilog(name: str, *, tiers: bool) -> str:
    """Return what follows the help of a command: examples, and where the rest is."""
    lines = ["examples:", *(f"  {line}" for line in EXAMPLES[name])]
    if tiers:
        lines += ["", "--help-all lists the rarer flags and all settings."]
    if not name:
        lines += ["", "COMMAND --help lists a command's flags, --version the version."]
    return "\n".join(lines)
