"""What a GPU or a TPU says of this package: one queue, a section at a time.

full-*     training steps that fill the card, and PyTorch packed as they are
flags      flags of XLA, each alone
right      losses, steps, draws and packing vs. the CPU's values; leaks between segments
fast-*     training steps of large encoders, and PyTorch's on the same sentences
attention  each path of attention, forward and backward
tune       tiles of the attention kernels for GPUs
planned    `dicejax plan` vs. what was measured

Each section is a process with a time limit. Its JSON file is written after every row,
so that a section that fails, is killed or runs out of memory leaves its finished rows,
and the next one begins. Nothing is read from outside; sections that lack a package or a
library say so in their rows.

A card that is lent for 6 minutes has time for the first three: `--seconds 350`.

usage:    python benchmarks/accelerator.py [--smallest] [--out FOLDER]
          python benchmarks/accelerator.py --show FOLDER
needs:    pip install -e ".[cuda]" or ".[tpu]", and torch for its side
measured: see benchmarks/README.md
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import tyro
from on_device.json_file import write_json

HERE = Path(__file__).parent
QUICK_COMPILATION = "--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=0"
"""Halves the time of compiling; autotuning float32 products took over eight minutes."""


LEAST = 10.0
"""Seconds with fewer of which no section begins."""


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the queue.

    Attributes:
      module: module of `on_device` with a function `run`.
      seconds: time limit.
      arguments: further arguments of `run`.
      environment: variables of its process.
    """

    module: str
    seconds: float
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


SECTIONS = {
    "full-bert-large": Section("on_device.full", 200, ("bert-large",)),
    "flags": Section("on_device.flags", 100, ("bert-large",)),
    "full-modernbert-base": Section("on_device.full", 100, ("modernbert-base",)),
    "right": Section("on_device.right", 200, (), {"XLA_FLAGS": QUICK_COMPILATION}),
    "fast-bert-base": Section("on_device.fast", 200, ("bert-base",)),
    "attention": Section("on_device.paths", 90),
    "tune": Section("on_device.tune", 60),
    "fast-bert-large": Section("on_device.fast", 280, ("bert-large",)),
    "fast-modernbert-base": Section("on_device.fast", 100, ("modernbert-base",)),
    "profile-bert-base": Section("on_device.profiled", 100, ("bert-base",)),
    "planned": Section("on_device.planned", 60, (), {"JAX_PLATFORMS": "cpu"}),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What to run.

    Args:
      out: folder for the JSON files and the log.
      sections: sections to run, in this order; all by default.
      seconds: time limit of the whole queue.
      show: folder whose JSON files to print as tables of Markdown, and stop.
      reference: write the CPU's values that section right compares with, and stop.
      cpu: measure a CPU, if that is all there is.
      smallest: smoke test of all sections at the smallest sizes, on any device.
    """

    out: Path = Path("runs/accelerator")
    sections: tuple[str, ...] = ()
    seconds: float = 840
    show: Path | None = None
    reference: bool = False
    cpu: bool = False
    smallest: bool = False


def main(argv: Sequence[str] | None = None) -> int:
    """Run the queue; return 1 if a section failed, 2 if it could not begin."""
    settings = tyro.cli(Settings, description=__doc__, use_underscores=True, args=argv)
    unknown = [name for name in settings.sections if name not in SECTIONS]
    if unknown:
        print(f"accelerator.py: no section {unknown[0]}; want {', '.join(SECTIONS)}")
        return 2
    if settings.show is not None:
        return call("on_device.report", "show", settings.show)
    if settings.reference:
        return call("on_device.right", "write_reference")
    started = time.monotonic()
    settings.out.mkdir(parents=True, exist_ok=True)
    if not sees_accelerator(settings):
        return 2
    states = {}
    for name in settings.sections or SECTIONS:
        left = settings.seconds - (time.monotonic() - started)
        if left < LEAST:
            print(f"{name}: not begun, the queue's {settings.seconds:.0f} s are over")
            continue
        # A smoke test is to end the same on a slow or busy machine.
        limit = left if settings.smallest else min(SECTIONS[name].seconds, left)
        states[name] = run(name, settings, limit)
        print(f"{name}: {states[name]}", flush=True)
    print(f"all sections: {time.monotonic() - started:.0f} s, see {settings.out}")
    return int(any(state != "finished" for state in states.values()))


def call(module: str, function: str, *words: object) -> int:
    """Call a function of a section in a process of its own; return its exit status."""
    command = [sys.executable, __file__, "child", module, function, *map(str, words)]
    return subprocess.call(command, env=environment({}))


def sees_accelerator(settings: Settings) -> bool:
    """Write machine.json; where JAX sees no accelerator, print why."""
    command = [sys.executable, __file__, "child", "on_device.report", "print_machine"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, env=environment({})
        )
        printed = done.stderr
    except subprocess.TimeoutExpired:
        done, printed = None, "the driver does not answer for two minutes"
    runs = done is not None and done.returncode == 0
    facts = json.loads(done.stdout.splitlines()[-1]) if runs else {}
    on_cpu = facts.get("platform", "cpu") == "cpu"
    if on_cpu:
        facts["error"] = reason(printed) or "no plugin for CUDA or TPUs is installed"
    write_json(settings.out / "machine.json", facts)
    print(f"{facts.get('card', 'no device')}  {facts.get('driver', '')}", flush=True)
    if runs and (not on_cpu or settings.smallest or settings.cpu):
        return True
    print(f"accelerator.py: JAX sees no accelerator: {facts['error']}")
    return False


def reason(text: str) -> str:
    """Return the line of JAX's output that says why it uses no accelerator."""
    lines = text.splitlines()
    about = [
        line for line in lines if re.search("cuda|driver|tpu", line, re.IGNORECASE)
    ]
    return last_line("\n".join(about) or text)


def run(name: str, settings: Settings, seconds: float) -> str:
    """Run a section in a process of its own; return how it ended."""
    section, file = SECTIONS[name], settings.out / f"{name}.json"
    file.unlink(missing_ok=True)
    arguments = section.arguments
    if settings.smallest and arguments:
        arguments = ("tiny",)  # the model
    words = (file, name, seconds, int(settings.smallest))
    command = [sys.executable, __file__, "child", section.module, "run"]
    command += map(str, (*words, *arguments))
    started = time.monotonic()
    with open(settings.out / "log.txt", "a+") as log:
        begin = log.tell()
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(section.environment),
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=seconds)
            state = "finished" if code == 0 else f"exit status {code}"
            if code < 0:
                state = f"killed by {signal.Signals(-code).name}"
        except subprocess.TimeoutExpired:
            state = f"stopped after {seconds:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and what it started
            process.wait()
        log.seek(begin)
        printed = log.read()
    content = {"section": name, "rows": []}
    if file.exists():
        content = json.loads(file.read_text())
    broken = [row for row in content["rows"] if row.get("holds") is False]
    if broken and state == "finished":
        state = f"finished, {len(broken)} rows do not hold"
    content |= {"status": state, "seconds": round(time.monotonic() - started, 1)}
    if not state.startswith("finished"):
        content["error"] = last_line(printed)
    write_json(file, content)
    return state


def environment(changes: dict[str, str]) -> dict[str, str]:
    """Return the variables of a section's process."""
    root = str(HERE.parent)
    path = os.pathsep.join(
        part for part in (str(HERE), root, os.environ.get("PYTHONPATH")) if part
    )
    cache = Path(tempfile.gettempdir()) / "dicejax-programs"
    flags = f"{os.environ.get('XLA_FLAGS', '')} {changes.get('XLA_FLAGS', '')}".strip()
    return {
        # PyTorch has to find memory too.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        **os.environ,
        **changes,
        "PYTHONPATH": path,
        "XLA_FLAGS": flags,
    }


def last_line(text: str) -> str:
    """Return the last line of an output, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def child(module: str, function: str, *words: str) -> int:
    """Run a section in this process."""
    entry = getattr(importlib.import_module(module), function)
    if function != "run":
        entry(*words)
        return 0
    from on_device.report import Report

    file, name, seconds, smallest, *arguments = words
    report = Report(Path(file), name, float(seconds), smallest == "1")
    entry(report, *arguments)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        sys.exit(child(*sys.argv[2:]))
    sys.exit(main())
