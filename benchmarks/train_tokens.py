"""Real tokens per second in training: dicejax vs. a PyTorch loop, in turn.

Both fine-tune the same weights on the same sentences of a CoNLL column file with
dropout on and 32 sentences per update. Padding is not counted. The PyTorch loop is a
script that takes MODEL TRAIN TEST --batch --lr --steps --max-train [--bf16] and prints
JSON with `train_tokens_per_s`; `torch_tagger.py` is one.

usage:    python benchmarks/train_tokens.py MODEL_FOLDER CONLL_FOLDER [--smallest]
needs:    pip install -e ".[parity]"
measured: see benchmarks/README.md
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

HERE = Path(__file__).parent
HUGE_PAGES = "glibc.malloc.hugetlb=1"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Data and sizes.

    Args:
      model: folder with config.json, model.safetensors and tokenizer files.
      data: folder with train.txt and test.txt in CoNLL columns.
      peer: the PyTorch loop.
      sentences: training sentences, the first of the file.
      rounds: number of times each is run, in turn.
      smallest: few sentences and float32 alone, to see that the program runs.
    """

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL_FOLDER")]
    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CONLL_FOLDER")]
    peer: Path = HERE / "torch_tagger.py"
    sentences: int = 2560
    rounds: int = 3
    smallest: bool = False


def run(command: list[str], **environment: str) -> str:
    """Run a command and return its output."""
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | environment
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def dicejax(settings: Settings, data: Path, precision: str) -> float:
    """Train one epoch with the command line; read the rate from the run's record."""
    experiment = HERE.parent / "experiments" / "ner" / "conll03.py"
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "--loss": "ce",
            "--data.dir": data,
            "--encoder.path": settings.model,
            "--training.epochs": 1,
            "--training.precision": precision,
            "--optimizer.learning_rate": 1e-4,
            "--out": f"{folder}/run",
        }
        flags = [str(word) for pair in options.items() for word in pair]
        # By module, not by script: the command on the PATH may be another installation.
        command = [
            sys.executable,
            "-c",
            "from dicejax.cli import main; main()",
            "train",
        ]
        run([*command, str(experiment), *flags])
        return json.loads(Path(folder, "run/result.json").read_text())["tokens_per_s"]


def peer(settings: Settings, data: Path, *flags: str, **environment: str) -> float:
    """Run the PyTorch loop over the same sentences once."""
    files = [settings.model, data / "train.txt", data / "test.txt"]
    steps = settings.sentences // 32
    sizes = ["--batch", 32, "--lr", 1e-4, "--steps", steps]
    command = [sys.executable, settings.peer, *files, *sizes, *flags]
    out = run([str(word) for word in command], **environment)
    return json.loads(out.strip().splitlines()[-1])["train_tokens_per_s"]


def shortened(settings: Settings, folder: Path) -> Path:
    """Write the first sentences to a new folder; dev and test are short."""
    for name, count in (("train", settings.sentences), ("dev", 32), ("test", 32)):
        source = settings.data / ("train.txt" if name == "train" else "test.txt")
        blocks = source.read_text(encoding="utf-8").split("\n\n")
        blocks = [b for b in blocks if b.strip() and not b.startswith("-DOCSTART-")]
        (folder / f"{name}.txt").write_text("\n\n".join(blocks[:count]) + "\n")
    return folder


def main(argv: Sequence[str] | None = None) -> None:
    """Measure in turn and print the medians."""
    settings = tyro.cli(Settings, description=__doc__, args=argv)
    if settings.smallest:
        settings = dataclasses.replace(settings, sentences=64, rounds=1)
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = shortened(settings, Path(folder))
        measured = {
            "PyTorch float32": lambda: peer(settings, data),
            "PyTorch bfloat16": lambda: peer(settings, data, "--bf16"),
            "PyTorch bfloat16, huge pages": lambda: peer(
                settings, data, "--bf16", GLIBC_TUNABLES=HUGE_PAGES
            ),
            "dicejax float32": lambda: dicejax(settings, data, "float32"),
            "dicejax bfloat16": lambda: dicejax(settings, data, "bfloat16"),
        }
        if settings.smallest:
            measured = {k: v for k, v in measured.items() if k.endswith("float32")}
        for turn in range(settings.rounds):
            for name, measure in measured.items():
                rates.setdefault(name, []).append(measure())
                print(f"round {turn + 1}  {name:30} {rates[name][-1]:8,.0f} tokens/s")
    baseline = "PyTorch float32" if settings.smallest else "PyTorch bfloat16"
    plain = statistics.median(rates[baseline])
    print(f"\n{'':30} {'median':>8} {'min':>8} {'max':>8}  vs. {baseline}")
    for name, values in rates.items():
        middle = statistics.median(values)
        print(
            f"{name:30} {middle:8,.0f} {min(values):8,.0f} {max(values):8,.0f}"
            f"  {middle / plain:6.2f}"
        )


if __name__ == "__main__":
    main()
