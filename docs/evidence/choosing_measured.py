"""What `dicejax choose` picks on real data, beside the best of a full grid.

    python docs/evidence/thin.py SST2 SENTENCES DATA/thinned 10 5 2 --held_out 1000 3000
    python docs/evidence/choosing_measured.py --data DATA --encoder MODEL

chooses on each set within ten minutes, trains each model of a grid once, and archives
the scores of test in docs/evidence/scores/choosing.json: of the chosen model and its
control those of the fresh seeds. What is there is not done again; `--sets` does
some. `--budgets 4m 7m 10m` goes on with one choice. `--table` prints a line
for each set.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tyro
from archive import SCORES
from macro_tagging import MacroWordTagging

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.data.examples import labels_of
from dicejax.errors import Diverged
from dicejax.formats import ConllFiles, FileSource, TextFiles, recognise
from dicejax.optimizers import AdamW
from dicejax.study.choose import choose
from dicejax.study.choose.confirm import with_threshold_scores
from dicejax.study.choose.search import with_tuned_threshold
from dicejax.study.choose.settings import LOSSES, Setting
from dicejax.study.compare.jobs import PLAIN, Job, scored
from dicejax.tasks import Classification, MultiLabelClassification, Tagging, Task
from dicejax.training.encoded import load_corpus
from dicejax.training.train import train

FILE = SCORES / "choosing.json"
SIZES = {"max_train": 600, "max_dev": 300, "max_test": 800}
GRID = [
    *(Setting(name) for name in PLAIN),
    *(Setting(name, rate=x) for name in LOSSES for x in (1.0, 2.0)),
]


def texts(share: int) -> Callable[[Path, Path], tuple[FileSource, Task]]:
    """Return how texts of which so many of 100 are positive are read."""

    def read(data: Path, folder: Path) -> tuple[FileSource, Task]:
        thinned = str(data / "thinned" / str(share))
        names = {split: f"{split}.txt" for split in ("train", "dev", "test")}
        # So many texts that both have positives enough to tell models apart.
        sizes = {"max_train": 800, "max_dev": 400, "max_test": 1200}
        source = TextFiles(dir=thinned, layout="label-first", **names, **sizes)
        return source, Classification(positive="1")

    return read


def tagging(data: Path, folder: Path) -> tuple[FileSource, Task]:
    """Return how entities are read."""
    return ConllFiles(dir=str(data / "conll2003"), **SIZES), Tagging()


def words(data: Path, folder: Path) -> tuple[FileSource, Task]:
    """Return how parts of speech are read."""
    names = {split: f"{split}.conllu" for split in ("train", "dev", "test")}
    ewt = str(data / "ud_english_ewt")
    source = ConllFiles(dir=ewt, layout="conllu", **names, **SIZES)
    return source, MacroWordTagging()


def pairs(data: Path, folder: Path) -> tuple[FileSource, Task]:
    """Return how pairs are read."""
    source = recognise.source_of("classification", str(data / "mrpc"))
    return dataclasses.replace(source, **SIZES), Classification()


def several(data: Path, folder: Path) -> tuple[FileSource, Task]:
    """Return sentences of CoNLL-2003 with the types of their entities."""
    for split in ("train", "dev", "test"):
        lines = [
            json.dumps(
                {
                    "text": " ".join(example.words),
                    "labels": sorted({*labels_of(example)}),
                }
            )
            for example in ConllFiles.read_file(data / "conll2003" / f"{split}.txt")
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    source = recognise.source_of("classification", str(folder))
    return dataclasses.replace(source, **SIZES), MultiLabelClassification()


SETS = {
    "entities (CoNLL-2003)": tagging,
    "texts, 10 % positive (SST-2)": texts(10),
    "pairs (MRPC)": pairs,
    "several labels (CoNLL-2003)": several,
    "parts of speech (UD English)": words,
    "texts, 5 % positive (SST-2)": texts(5),
    "texts, 2 % positive (SST-2)": texts(2),
}


def main(
    data: Path = Path("DATA"),
    encoder: Path = Path("MODEL"),
    sets: tuple[str, ...] = tuple(SETS),
    budgets: tuple[str, ...] = ("10m",),
    runs: Path = Path("runs/choosing"),
    table: bool = False,
) -> None:
    """Choose, train the grid, and archive; or print the table."""
    for name in () if table else sets:
        place = runs / str([*SETS].index(name))
        place.mkdir(parents=True, exist_ok=True)
        source, task = SETS[name](data, place)
        experiment = Experiment(
            name="choosing",
            data=source,
            task=task,
            encoder=PretrainedEncoder(path=str(encoder)),
            optimizer=AdamW(learning_rate=2e-4, warmup=0.1),
            training=Training(
                epochs=1, batch_size=16, max_length=96, precision="float32"
            ),
        )
        measure(name, experiment, budgets, place)
    if table:
        print("\n".join(rows()))


def measure(
    name: str, experiment: Experiment, budgets: tuple[str, ...], runs: Path
) -> None:
    """Do what the archive lacks of a set."""
    made = json.loads(FILE.read_text()) if FILE.exists() else {}
    row = made.setdefault(name, {"choices": {}, "grid": {}})
    for budget in budgets:
        if budget in row["choices"]:
            continue
        began = time.monotonic()
        choice = choose(experiment, budget, out=runs / "choose", progress=False)
        of_runs = {x.loss: [r.score for r in x.runs] for x in choice.comparison.rows}
        row["choices"][budget] = {
            "chosen": choice.chosen.name,
            "control": choice.control and choice.control.name,
            "advised": choice.advised.name,
            "sentence": choice.sentence,
            "tried": choice.tried,
            "seconds": round(time.monotonic() - began),
            "test": of_runs,
        }
        trials = json.loads((runs / "choose/choose.json").read_text())["trials"]
        row["trials"] = [
            [Setting(**x["setting"]).name, x["seed"], x["dev"], x["seconds"]]
            for x in trials
        ]
        FILE.write_text(json.dumps(made, indent=1) + "\n")
        print(name, budget, choice.sentence, flush=True)
    examples = load_corpus(experiment, lambda note: None).train
    decided = with_tuned_threshold(experiment, examples)
    for setting in GRID:
        if setting.name in row["grid"]:
            continue
        folder, began = runs / "grid" / setting.name, time.monotonic()
        job = Job(setting.name, setting.apply_to(decided), str(folder))
        try:
            train(job.experiment, job.folder, progress=False)
            score = with_threshold_scores(scored(job)).score
        except Diverged:
            score = None
        shutil.rmtree(folder)
        row["grid"][setting.name] = {
            "test": score,
            "seconds": round(time.monotonic() - began, 1),
        }
        FILE.write_text(json.dumps(made, indent=1) + "\n")
        print(name, setting.name, score, flush=True)


def rows() -> list[str]:
    """Return a line of the table for each set that is archived."""
    lines = []
    for name, row in json.loads(FILE.read_text()).items():
        budget, choice = [*row["choices"].items()][-1]
        scores: dict[str, Any] = {k: 100 * x["test"] for k, x in row["grid"].items()}
        best = max(scores, key=lambda k: scores[k])
        fresh = {k: 100 * statistics.fmean(x) for k, x in choice["test"].items()}
        used, leader = choice["advised"], choice["chosen"]
        plain = " / ".join(f"{scores[k]:.1f}" if k in scores else "-" for k in PLAIN)
        seconds = sum(x["seconds"] for x in row["choices"].values())
        cells = [
            name,
            f"{used} {fresh[used]:.1f}",
            "the same" if used == leader else f"{leader} {fresh[leader]:.1f}",
            f"{seconds / 60:.0f} of {budget.removesuffix('m')}",
            f"{best} {scores[best]:.1f}",
            f"{scores[best] - fresh[used]:+.1f}",
            plain,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    tyro.cli(main, description=__doc__, use_underscores=True, args=sys.argv[1:])
