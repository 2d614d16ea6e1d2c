"""What represents a text of a sentence embedder: [CLS] by its pooler, or the mean.

    python docs/evidence/thin.py PHRASES SENTENCES THINNED 10 5 2 --held_out 1000 3000
    python docs/evidence/pooled.py --data THINNED --encoder MINILM
    python docs/evidence/archive.py runs/pooled/*

trains on 2,000 texts of SST-2 of which 10, 5 or 2 in 100 are positive, and archives the
runs, whose table `results.py` writes. Each of the comparisons continues after a kill.
`--smallest` does one of a few texts.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import archive
import numpy as np
import tables
import tyro

from dicejax.cli import run
from dicejax.study.compare.table import mean_and_spread

ROOT = Path(__file__).parents[2]
SHARES = (10, 5, 2)
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
    shares: tuple[int, ...] = SHARES
    texts: int = 2000
    seeds: int = 5
    rate: float = 2e-4
    head: float = 1.0
    smallest: bool = False


SMALLEST = {"texts": 24, "seeds": 1}
FEW = ("--data.max_dev", "8", "--data.max_test", "8")


def main(argv: Sequence[str] | None = None) -> int:
    """Train; return the status of a comparison that failed."""
    settings = tyro.cli(Settings, description=__doc__, use_underscores=True, args=argv)
    if settings.smallest:
        shares = settings.shares[:1]
        settings = dataclasses.replace(settings, **SMALLEST, shares=shares)
    for share in settings.shares:
        for pooling in POOLINGS:
            folder = settings.runs / f"{share}-{pooling}"
            if status := run(arguments(settings, share, pooling, folder)):
                return status
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


def finished() -> list[int]:
    """Return the shares of which the runs of both poolings are archived."""
    return [n for n in SHARES if all(_runs(n, pooling).seeds for pooling in POOLINGS)]


def updates() -> float:
    """Return the updates of a run, mean over the shares."""
    return float(np.mean([_runs(n, next(iter(POOLINGS))).updates for n in finished()]))


def of_poolings() -> str:
    """Return the table of F1 by share of positives and pooling."""
    heading = " | ".join(["positives", "loss", *POOLINGS.values()])
    heading += " | mean minus [CLS] (95% CI) | failed"
    return tables.table(
        heading, [_cells(share, loss) for share in finished() for loss in COLUMNS]
    )


def _cells(share: int, loss: str) -> list[str]:
    rows = [tables.row_of(_runs(share, pooling).rows(), loss) for pooling in POOLINGS]
    first, mean = rows
    failed = [tables.failures(row)[0] for row in rows]
    # Runs that failed are no noise about a mean.
    difference = "–" if any(failed) else tables.between(mean, first)
    return [
        f"{share}%",
        f"`{loss}`",
        *(mean_and_spread(row.scores("f1")) for row in rows),
        difference,
        " and ".join(map(str, failed)),
    ]


def _runs(share: int, pooling: str) -> archive.Archived:
    return archive.read(f"pooled/{share}-{pooling}")


if __name__ == "__main__":
    sys.exit(main())
