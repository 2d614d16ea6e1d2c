"""What represents a text of a sentence embedder: [CLS] by its pooler, or the mean.

    python docs/evidence/thin.py PHRASES SENTENCES THINNED 10 5 2 --held_out 1000 3000
    python docs/evidence/pooled.py --data THINNED --encoder MINILM

trains on 2,000 texts of SST-2 of which 10, 5 or 2 in 100 are positive, and prints test
F1 of the positive class as a table. Each of the comparisons continues after a kill.
`--smallest` does one of a few texts.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import tyro

from dicejax.cli import run
from dicejax.io import json_text

ROOT = Path(__file__).parents[2]
POOLINGS = {"first": "[CLS]", "mean": "mean"}
LOSSES = ("ce", "ce+prior")
COLUMNS = ("ce", "ce + tuned threshold", "ce+prior")
FLAGS = (
    *("--task.primary_metric", "f1", "--task.positive", "1"),
    *("--optimizer.warmup", "0.1", "--optimizer.weight_decay", "0.01"),
    *("--training.epochs", "2", "--training.max_length", "128", "--resample"),
    "--no-baselines",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What to train.

    Args:
      data: folder with those of the shares, as `thin.py` writes it.
      encoder: folder of the encoder.
      runs: folder for the comparisons.
      shares: percent of positives.
      texts: training texts of a run.
      seeds: number of runs of a loss.
      rate: learning rate.
      head: learning rate of the head, as a factor.
      smallest: compare once, with a few texts.
    """

    data: Path
    encoder: Path
    runs: Path = Path("runs/pooled")
    shares: tuple[int, ...] = (10, 5, 2)
    texts: int = 2000
    seeds: int = 5
    rate: float = 2e-4
    head: float = 1.0
    smallest: bool = False


SMALLEST = {"texts": 24, "seeds": 1}
FEW = ("--data.max_dev", "8", "--data.max_test", "8")


def main(argv: Sequence[str] | None = None) -> int:
    """Train, and print the table; return the status of a comparison that failed."""
    settings = tyro.cli(Settings, description=__doc__, use_underscores=True, args=argv)
    if settings.smallest:
        shares = settings.shares[:1]
        settings = dataclasses.replace(settings, **SMALLEST, shares=shares)
    lines = []
    for share in settings.shares:
        for pooling, name in POOLINGS.items():
            folder = settings.runs / f"{share}-{pooling}"
            if status := run(arguments(settings, share, pooling, folder)):
                return status
            rows = json_text.read(folder / "comparison.json")["losses"]
            cells = [cell(rows.get(loss)) for loss in COLUMNS]
            lines.append(f"| {share}% | {name} | {' | '.join(cells)} |")
    print(f"\n| positives | a text is | {' | '.join(COLUMNS)} |")
    print(f"| ---: | --- |{' ---: |' * len(COLUMNS)}", *lines, sep="\n")
    return 0


def arguments(settings: Settings, share: int, pooling: str, folder: Path) -> list[str]:
    """Return the arguments of the comparison of a share with one pooling."""
    more = {
        "--data.dir": settings.data / str(share),
        "--data.max_train": settings.texts,
        "--encoder.path": settings.encoder,
        "--encoder.pooling": pooling,
        "--optimizer.learning_rate": settings.rate,
        "--optimizer.head_learning_rate": settings.head,
        "--seeds": settings.seeds,
        "--out": folder,
    }
    experiment = str(ROOT / "experiments" / "ablations" / "sst2.py")
    flags = [str(word) for pair in more.items() for word in pair]
    smallest = FEW if settings.smallest else ()
    return ["compare", experiment, "--losses", *LOSSES, *FLAGS, *flags, *smallest]


def cell(row: dict | None) -> str:
    """Return mean and standard deviation of F1, in percent."""
    if row is None or row["summary"]["mean"] is None:
        return ""
    mean, deviation = row["summary"]["mean"], row["summary"]["sd"] or 0.0
    return f"{100 * mean:.1f} ± {100 * deviation:.1f}"


if __name__ == "__main__":
    sys.exit(main())
