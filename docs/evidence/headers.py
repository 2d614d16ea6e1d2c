"""Compare the figures in the headers of experiments with the archives they name.

    python docs/evidence/headers.py

prints what is wrong. Behind `measured:` a header has figures of an archive, each with
its loss, or says that they are archived nowhere:

    docs/evidence/scores/mrc/plain, F1 of 5 seeds: 83.51 ce, 83.41 focal. Archived
    nowhere: F1 74.94 with cross-entropy.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import archive

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
MEASURED = re.compile(r"^measured: (.*?)(?=^\w+:|\Z)", re.MULTILINE | re.DOTALL)
SOURCE = re.compile(
    r"(?:docs/evidence/scores/([\w/-]+), (\w+) of (\d+) seeds|archived nowhere): ",
    re.IGNORECASE,
)
FIGURE = re.compile(r"\d+\.\d\d\b(?: ([a-z](?:[\w=+.:,-]*\w)?))?")


def flaws(header: str) -> Iterator[str]:
    """Yield what is wrong with the figures that a header has behind `measured:`."""
    measured = " ".join(MEASURED.search(header)[1].split())
    before, *parts = SOURCE.split(measured)
    if figure := FIGURE.search(before):
        yield f"{figure[0]}: name its archive, or say that it is archived nowhere"
    for name, metric, seeds, said in zip(*[iter(parts)] * 4, strict=True):
        for figure in FIGURE.finditer(said) if name else ():
            scores = [
                100 * run.result["test"][metric.lower()]
                for run in archive.read(name).runs
                if run.loss == figure[1] and run.result
            ]
            if len(scores) != int(seeds):
                yield f"{name} has {len(scores)} runs of {figure[1]}, not {seeds}"
            elif not figure[0].startswith(f"{statistics.fmean(scores):.2f} "):
                yield f"{name}: {figure[0]} is {statistics.fmean(scores):.2f}"


if __name__ == "__main__":
    headers = {
        file: file.read_text(encoding="utf-8").split('"""')[1]
        for file in sorted(EXPERIMENTS.rglob("*.py"))
    }
    lines = [
        f"{file}: {flaw}"
        for file, header in headers.items()
        if MEASURED.search(header)
        for flaw in flaws(header)
    ]
    sys.exit("\n".join(lines) or 0)
