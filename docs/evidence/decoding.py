"""Entity F1 of the same runs with each word's likeliest tag, and with sequences.

    python docs/evidence/decoding.py --data DATA --encoder MODEL --multilingual MODEL

trains short runs on three sets with three seeds, decodes the best checkpoint of each by
either decoding, which the training knows nothing of, and archives the scores of test in
docs/evidence/scores/decoding.json. A run that is there is not done again; `--sets` and
`--seeds` do some. `--table` prints what docs/tasks.md has.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import archive
import numpy as np
import tyro

from dicejax.cli import parse
from dicejax.training.inference import evaluate
from dicejax.training.train import train

FILE = archive.SCORES / "decoding.json"
CONLL = Path(__file__).parents[2] / "experiments/ner/conll03.py"
SETS = {
    "CoNLL-2003": ("conll2003",),
    "CoNLL-2000 chunks": ("conll2000", "--data.dev", "None"),
    "MSRA": (
        *("msra", "--data.dev", "None"),
        *("--data.test", "test_same_preprocessing.txt", "--data.max_test", "1000"),
        *("--optimizer.learning_rate", "4e-4", "--optimizer.head_learning_rate", "30"),
        *("--training.head_bias", "prior"),
    ),
}
"""Of each the folder of the data, and settings."""
PART = {"MSRA": ", 1,000 of test"}
MULTILINGUAL = ("MSRA",)
"""Sets whose encoder is the multilingual one: at the other rate it learns nothing."""
SETTINGS = (
    *("--data.max_train", "1600", "--data.max_dev", "300"),
    *("--training.epochs", "2", "--training.batch_size", "32"),
    *("--training.max_length", "128", "--training.precision", "float32"),
    *("--optimizer.learning_rate", "2e-4", "--optimizer.warmup", "0.1"),
)
"""100 updates."""
DECODINGS = ("greedy", "viterbi")


def main(
    data: Path = Path("DATA"),
    encoder: Path = Path("MODEL"),
    multilingual: Path = Path("MULTILINGUAL"),
    sets: tuple[str, ...] = tuple(SETS),
    seeds: tuple[int, ...] = (0, 1, 2),
    runs: Path = Path("runs/decoding"),
    table: bool = False,
) -> None:
    """Do the runs that the archive lacks, or print the table."""
    for name in () if table else sets:
        folder, *more = SETS[name]
        for seed in seeds:
            scores = json.loads(FILE.read_text()) if FILE.exists() else {}
            if str(seed) in scores.get(name, {}):
                continue
            argv = ["train", str(CONLL), "--data.dir", str(data / folder), *SETTINGS]
            path = multilingual if name in MULTILINGUAL else encoder
            argv += ["--encoder.path", str(path)]
            argv += ["--loss", "ce", "--training.seed", str(seed), *more]
            out = runs / f"{folder}-{seed}"
            experiment = parse(argv).settings
            train(experiment, str(out), progress=False, score_test=False)
            row = {}
            for decoding in DECODINGS:
                result = evaluate(str(out), decoding=decoding, warn=lambda text: None)
                row[decoding] = dict(result.scores.values)
            shutil.rmtree(out)
            scores.setdefault(name, {})[str(seed)] = row
            FILE.write_text(json.dumps(scores, indent=1) + "\n")
            print(name, seed, *(f"{x} {row[x]['f1']:.4f}" for x in row), flush=True)
    if table:
        print("\n".join(rows()))


def rows() -> list[str]:
    """Return a line of the table for each set that is archived."""
    lines = []
    for name, by_seed in json.loads(FILE.read_text()).items():
        f1 = np.array([[100 * x[d]["f1"] for d in DECODINGS] for x in by_seed.values()])
        gains = f1[:, 1] - f1[:, 0]
        means = [f"{x.mean():.2f} ± {x.std(ddof=1):.2f}" for x in f1.T]
        gain = f"{gains.mean():+.2f} ± {gains.std(ddof=1):.2f}"
        each = ", ".join(f"{x:+.2f}" for x in gains)
        lines.append(
            f"| {name}{PART.get(name, '')} | {' | '.join(means)} | {gain} ({each}) |"
        )
    return lines


if __name__ == "__main__":
    tyro.cli(main, description=__doc__, use_underscores=True, args=sys.argv[1:])
