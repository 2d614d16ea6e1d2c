"""Models that are no fine-tuned encoders, on the samples of part S of the protocol.

    python docs/evidence/thin.py DATA/sst2 DATA/sst2_sentences THINNED 50 25 10 5 2
    python docs/evidence/plain.py --data THINNED --encoder MODEL

fits each on the training samples of the first seeds, and archives F1 of the positive
class on test in docs/evidence/scores/plain.json, by the default threshold and by the
one that dev tunes. What is there is not done again. `results.py` makes a table of it.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

import archive
import thinned
import tyro

from dicejax.cli import parse
from dicejax.study.compare.jobs import PLAIN
from dicejax.training.train import train

FILE = archive.SCORES / "plain.json"
EXPERIMENT = Path(__file__).parents[2] / "experiments/ablations/sst2.py"
FLAGS = (
    *("--task.primary_metric", "f1", "--task.positive", "1", "--task.tune_threshold"),
    *(
        "--encoder.pooling",
        "auto",
        "--training.precision",
        "float32",
        "--data.max_train",
        "4000",
        "--loss",
        "ce",
    ),
)


class Line(NamedTuple):
    """Mean F1 in points of a share of positives, by the tuned threshold.

    Attributes:
      percent: share of positives.
      seeds: number of training samples.
      plain: by model.
      trained: of cross-entropy and of the best other loss, over all seeds.
    """

    percent: int
    seeds: int
    plain: dict[str, float]
    trained: tuple[float, str, float]


def main(
    data: Path = Path("THINNED"),
    encoder: Path = Path("MODEL"),
    shares: tuple[int, ...] = (10, 5, 2, 25, 50),
    seeds: int = 5,
    runs: Path = Path("runs/plain"),
) -> None:
    """Fit what the archive lacks."""
    for seed in range(seeds):
        for share in shares:
            for name in PLAIN:
                scores = json.loads(FILE.read_text()) if FILE.exists() else {}
                row = scores.setdefault(str(share), {}).setdefault(name, {})
                if str(seed) in row:
                    continue
                argv = ["train", str(EXPERIMENT), "--data.dir", str(data / str(share))]
                argv += ["--encoder.path", str(encoder), "--control", name, *FLAGS]
                argv += ["--training.seed", str(seed), "--data.train_sample", str(seed)]
                out = runs / f"{share}-{name}-{seed}"
                result = train(parse(argv).settings, str(out), progress=False)
                tuned = result.test_with_tuned_threshold or {}
                row[str(seed)] = {
                    "default": result.test["f1"],
                    "tuned": tuned.get("f1"),
                    "seconds": result.seconds,
                }
                shutil.rmtree(out)
                FILE.write_text(json.dumps(scores, indent=1) + "\n")
                print(share, name, seed, row[str(seed)], flush=True)


def lines() -> list[Line]:
    """Return the shares of which every model has a score."""
    scores = json.loads(FILE.read_text()) if FILE.exists() else {}
    made = []
    for share in thinned.finished():
        row = scores.get(str(share.percent), {})
        if {*row} != {*PLAIN}:
            continue
        plain = {
            name: 100 * statistics.fmean(x["tuned"] for x in by_seed.values())
            for name, by_seed in row.items()
        }
        seeds = min(map(len, row.values()))
        by_loss = {x.loss: 100 * x.mean for x in share.over_threshold}
        base = by_loss.pop(thinned.THRESHOLD)
        best = max(by_loss, key=lambda name: by_loss[name])
        made.append(Line(share.percent, seeds, plain, (base, best, by_loss[best])))
    return made


if __name__ == "__main__":
    tyro.cli(main, description=__doc__, use_underscores=True, args=sys.argv[1:])
