"""What `dicejax compare` says of each archive: the sentences of the first pages.

README.md, RESULTS.md and docs/choosing.md say of a loss what the advice of the package
prints for the archive that they rest on, and the primary comparisons of the protocols.
Items are the documents of the test set where it has some.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import archive
import documents
import tables

from dicejax.study.compare.advice import headline
from dicejax.study.compare.statistics import Row, rows_of

CONTROLS = ("wce", "ce+prior", "logit_adjusted")
"""Trained controls of the second protocol, whose runs have no moved decisions."""
ENTITIES = "CoNLL-2003, {}"
COMPARISONS = {
    "third/conll2003-minilm-64": ENTITIES.format("third protocol, all tuned"),
    "third/sst2-minilm-64": "SST-2, one in twenty positive, third protocol, all tuned",
    "mechanism/1000-2": ENTITIES.format("second protocol"),
    "mechanism/250-10": ENTITIES.format("second protocol"),
    "mechanism/3500-2": ENTITIES.format("second protocol"),
    "mechanism/250-2": ENTITIES.format("second protocol"),
    "mpnet/1000-2": ENTITIES.format("MPNet"),
    "mpnet/250-2": ENTITIES.format("MPNet"),
    "curve/250-2": ENTITIES.format("the curve"),
    "curve/1000-2": ENTITIES.format("the curve"),
    "curve/250-10": ENTITIES.format("the curve"),
    "curve/3500-2": ENTITIES.format("the curve"),
    "curve/1000-10": ENTITIES.format("the curve"),
    "curve/14041-2": ENTITIES.format("the curve"),
    "curve/3500-10": ENTITIES.format("the curve"),
    "tuned/250-2": ENTITIES.format("tuned rates"),
    "tuned/1000-2": ENTITIES.format("tuned rates"),
    "tuned/250-10": ENTITIES.format("tuned rates"),
    "tuned/3500-2": ENTITIES.format("tuned rates"),
    "tuned/conll2003": ENTITIES.format("tuned rates"),
    "tuned/mrpc": "MRPC, tuned rates",
    "mrc/plain": ENTITIES.format("machine reading"),
    "mrc/answerable": ENTITIES.format("machine reading"),
    "thinned/50": "SST-2, half positive",
    "thinned/25": "SST-2, one in four positive",
    "thinned/10": "SST-2, one in ten positive",
    "thinned/5": "SST-2, one in twenty positive",
    "thinned/2": "SST-2, one in fifty positive",
}
"""The comparisons that have a verdict, with what they are of."""


@functools.cache
def rows(name: str, baseline: str = "ce") -> tuple[Row, ...]:
    """Return the statistics of an archive vs. a baseline."""
    archived = archive.read(name)
    if COMPARISONS[name].startswith("CoNLL-2003"):
        archived = documents.by_document(archived)
    if name.partition("/")[0] not in archive.WITHOUT_MOVED:
        return tuple(archived.rows(baseline))
    controls = [each for each in CONTROLS if each != baseline]
    return tuple(rows_of(archived.runs, baseline, controls=controls))


@functools.cache
def lines(name: str, baseline: str = "ce") -> tuple[str, ...]:
    """Return the advice on an archive, line by line."""
    return tuple(headline(rows(name, baseline)).splitlines())


def first(name: str, baseline: str = "ce") -> str:
    """Return the first line of the advice in quotation marks."""
    return quoted(lines(name, baseline)[0])


def sentence(name: str, beginning: str, baseline: str = "ce") -> str:
    """Return the sentence of the advice that begins so, in quotation marks."""
    for line in lines(name, baseline):
        start = line.find(beginning)
        if start >= 0:
            ends = [end for end in (line.find(". ", start), len(line) - 1) if end >= 0]
            return quoted(line[start : min(ends) + 1])
    raise ValueError(f"the advice on {name} has no sentence {beginning!r}")


def quoted(text: str) -> str:
    """Return a sentence in quotation marks, which no other text of the pages has."""
    return f"“{text}”"


def updates(name: str) -> str:
    """Return the updates of the runs of an archive, mean over seeds."""
    trained = [run for row in rows(name) for run in row.runs if run.result]
    steps = [run["steps"] for run in (run.result for run in trained) if "steps" in run]
    return f"{sum(steps) / len(steps):,.0f}"


def of_archives(names: Sequence[str] = tuple(COMPARISONS)) -> str:
    """Return the table of what is said of each comparison."""
    cells = []
    for name in names:
        seeds = max(len(row.finished) for row in rows(name))
        controls = [f"`{row.loss}`" for row in rows(name) if row.is_control]
        cells.append(
            [
                COMPARISONS[name],
                updates(name),
                str(seeds),
                ", ".join(controls),
                first(name),
            ]
        )
    return tables.table(
        "comparison | updates | seeds | controls | `compare` says", cells
    ).replace("| ---: | ---: | ---: | ---: |", "| ---: | ---: | --- | --- |")
