"""Where the processor's time of a comparison goes: CPU seconds by part.

The command `compare` is run with the flags that are given, in this process, with
functions of each part timed. Time in a function that another calls is the inner one's;
threads count where the main thread is meanwhile. Parts of JAX are its own functions,
whose names are those of jax 0.10 to 0.12.

usage:    python benchmarks/comparison.py EXPERIMENT.py [FLAGS] [--smallest]
measured: see benchmarks/README.md
"""

from __future__ import annotations

import collections
import contextlib
import functools
import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import dicejax.study.compare  # noqa: F401  # all that holds the functions by name
from dicejax.cli import run
from dicejax.cli.process import quieten, spare_copies

PARTS = {
    "trace and compile": (
        "jax._src.interpreters.partial_eval.trace_to_jaxpr_dynamic",
        "jax._src.interpreters.mlir.lower_jaxpr_to_module",
        "jax._src.compiler.compile_or_get_cached",
    ),
    "read and encode": (
        "dicejax.training.encoded.load_data",
        "dicejax.training.encoded.load_corpus",
        "dicejax.models.huggingface.read_weights",
        "dicejax.training.setup.checksum",
    ),
    "train": (
        "dicejax.training.step.train_step",
        "dicejax.training.loop_log.LoopLog.collect",
    ),
    "predict and score": (
        "dicejax.training.setup.Setup.decode",
        "dicejax.training.setup.Setup.score",
        "dicejax.training.final_scores.score_test_split",
    ),
    "checkpoints": (
        "dicejax.training.checkpoint.Checkpoints.save",
        "dicejax.training.checkpoint.Checkpoints.wait",
        "dicejax.training.checkpoint.restore_params",
    ),
    "models without an encoder": ("dicejax.training.control.fit_control",),
    "baselines from logits": ("dicejax.study.compare.baselines.score_baselines",),
    "tests of differences": ("dicejax.study.compare.results.evaluate_runs",),
    "page and figures": ("dicejax.study.report.write",),
}
SMALLEST = ("--seeds", "1", "--no-baselines", "--training.epochs", "1")
REST = "imports, flags and the rest"


class Meter:
    """CPU seconds by part, each without those of parts within."""

    def __init__(self) -> None:
        self.seconds = collections.defaultdict(float, {REST: time.process_time()})
        self._parts, self._since = [REST], time.process_time()

    def count(self) -> None:
        """Add the time since the last call to the part that runs."""
        now = time.process_time()
        self.seconds[self._parts[-1]] += now - self._since
        self._since = now

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its time counted."""

        @functools.wraps(function)
        def call(*inputs: Any, **options: Any) -> Any:
            self.count()
            self._parts.append(part)
            try:
                return function(*inputs, **options)
            finally:
                self.count()
                self._parts.pop()

        return call


def found(path: str) -> tuple[Any, str]:
    """Return the module or class that holds a function, and the function's name."""
    place, _, name = path.rpartition(".")
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.import_module(place), name
    module, _, owner = place.rpartition(".")
    return getattr(importlib.import_module(module), owner), name


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison, and print the parts and their sum."""
    words = list(sys.argv[1:] if argv is None else argv)
    if "--smallest" in words:
        words.remove("--smallest")
        words += SMALLEST
    spare_copies()
    quieten()
    meter = Meter()
    with contextlib.ExitStack() as stack:
        if "--out" not in words:
            words += ["--out", stack.enter_context(tempfile.TemporaryDirectory())]
        for part, paths in PARTS.items():
            for path in paths:
                holder, name = found(path)
                function = getattr(holder, name)
                timed = meter.timed(part, function)
                # Modules that have imported it by name hold it too.
                modules = [x for x in sys.modules.values() if x is not holder]
                for place in (holder, *modules):
                    if vars(place).get(name) is function:
                        stack.enter_context(mock.patch.object(place, name, timed))
        status = run(["compare", *words])
        meter.count()
    for part, seconds in sorted(meter.seconds.items(), key=lambda x: -x[1]):
        print(f"{seconds:8.1f}  {part}")
    print(f"{sum(meter.seconds.values()):8.1f}  CPU seconds")
    return status


if __name__ == "__main__":
    sys.exit(main())
