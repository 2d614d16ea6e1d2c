"""Functions of the package that a run and a comparison walk through.

Counts the distinct functions that Python enters, and their files: from the start of
`train` to the end of the first update; and from the last run of a `compare`, scored
with its baselines, to the page. The experiment is the quickstart with 60 sentences.
Lambdas and comprehensions are not counted.

usage:    python benchmarks/hops.py [--smallest]
measured: see benchmarks/README.md
"""

from __future__ import annotations

import dataclasses
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
from dicejax.training import train as training

PACKAGE = str(Path(dicejax.__file__).parent)
QUICKSTART = Path(__file__).parents[1] / "experiments" / "quickstart.py"


class Walk:
    """The functions of the package that are entered while it is on."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()

    def start(self) -> None:
        """Forget what was entered before, and listen in all threads."""
        self._codes.clear()
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
        if event == "call" and is_function and code.co_filename.startswith(PACKAGE):
            self._codes.add(code)

    def __str__(self) -> str:
        files = {code.co_filename for code in self._codes}
        return f"{len(self._codes):4d} functions in {len(files):3d} files"


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


if __name__ == "__main__":
    main(sys.argv[1:])
