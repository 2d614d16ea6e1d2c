"""Functions of the package that a run and a comparison walk through.

Counts the distinct functions that Python enters, and their files: from the start of
`train` to the end of the first update; from the last run of a `compare`, scored with
its baselines, to the page; and from the record of that comparison to the page, drawn
anew. The experiment is the quickstart with 60 sentences. Lambdas and comprehensions are
not counted. A step back up is a call of a function in a file that imports the caller's,
and not the other way round: what a reader cannot find by following imports.

usage:    python benchmarks/hops.py [--smallest]
measured: see benchmarks/README.md
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import shutil
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

import dicejax
from dicejax import config
from dicejax.study import compare as comparison
from dicejax.study.compare.record import FILE as RECORD
from dicejax.training import train as training

PACKAGE = str(Path(dicejax.__file__).parent)
QUICKSTART = Path(__file__).parents[1] / "experiments" / "quickstart.py"


@functools.cache
def imports_of(file: str) -> frozenset[str]:
    """Return the files of the package that a file imports."""
    files: set[str] = set()
    for node in ast.parse(Path(file).read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "dicejax"
        ):
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in (node.module, *modules):
                path = Path(PACKAGE).parent / str(name).replace(".", "/")
                files |= {str(path.with_suffix(".py")), str(path / "__init__.py")}
    return frozenset(name for name in files if Path(name).exists())


@functools.cache
def imported_by(file: str) -> frozenset[str]:
    """Return the files that a file imports, and those that they do."""
    seen, waiting = set[str](), [file]
    while waiting:
        new = imports_of(waiting.pop()) - seen
        seen |= new
        waiting += new
    return frozenset(seen)


def is_of_package(code: CodeType) -> bool:
    """Return whether code is Python of the package, and not of a template."""
    return code.co_filename.startswith(PACKAGE) and code.co_filename.endswith(".py")


class Walk:
    """The functions of the package that are entered while it is on."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()
        self._calls: set[tuple[CodeType, CodeType]] = set()

    def start(self) -> None:
        """Forget what was entered before, and listen in all threads."""
        self._codes.clear()
        self._calls.clear()
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)

    def stop(self) -> None:
        """Stop listening."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> None:
        del argument
        code = frame.f_code
        is_function = code.co_flags & 0x2 and not code.co_name.startswith("<")
        if event == "call" and is_function and is_of_package(code):
            self._codes.add(code)
            if frame.f_back is not None:
                self._calls.add((frame.f_back.f_code, code))

    def __str__(self) -> str:
        files = {code.co_filename for code in self._codes}
        up = 0
        for caller, code in self._calls:
            above, below = caller.co_filename, code.co_filename
            if is_of_package(caller) and below not in imported_by(above):
                up += above in imported_by(below)
        functions = f"{len(self._codes):4d} functions in {len(files):3d} files"
        return f"{functions}, {up} steps back up"


def main(argv: Sequence[str]) -> None:
    """Print the functions of both ways."""
    experiment = config.load(QUICKSTART)
    data = dataclasses.replace(experiment.data, train=60, dev=20, test=20)
    experiment = dataclasses.replace(experiment, data=data)
    if argv == ["--smallest"]:
        experiment = dataclasses.replace(
            experiment,
            encoder=config.ScratchEncoder(hidden_size=16, num_hidden_layers=1),
            training=dataclasses.replace(experiment.training, epochs=1),
        )
    walk, step = Walk(), training.train_step
    score_baselines = comparison.score_baselines

    def step_and_stop(*args: Any, **options: Any) -> Any:
        try:
            return step(*args, **options)
        finally:
            walk.stop()

    def score_and_start(*args: Any) -> None:
        score_baselines(*args)
        walk.start()

    with tempfile.TemporaryDirectory() as folder:
        with mock.patch.object(training, "train_step", step_and_stop):
            walk.start()
            training.train(experiment, f"{folder}/run")
        print(f"train, to the end of its first update: {walk}", flush=True)
        with mock.patch.object(comparison, "score_baselines", score_and_start):
            comparison.compare(experiment, seeds=1, out=f"{folder}/comparison")
            walk.stop()
        print(f"compare, from its last run to its page: {walk}")
        # The record alone, in an empty folder.
        Path(folder, "record").mkdir()
        shutil.copy(f"{folder}/comparison/{RECORD}", f"{folder}/record")
        walk.start()
        comparison.compare_runs([f"{folder}/record"])
        walk.stop()
        print(f"report, from a record to its page: {walk}")


if __name__ == "__main__":
    main(sys.argv[1:])
