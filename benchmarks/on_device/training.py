"""Cell 8 of the protocol: CoNLL-2003 whole, ten epochs, three losses, three seeds.

One process, so that each loss is compiled once; the losses of a seed come before the
next seed, and runs that are finished stay finished when the time is over.
"""

from __future__ import annotations

import dataclasses
import functools
import tarfile
import time
from pathlib import Path
from typing import Any

import dicejax
from dicejax import config
from dicejax.config import Experiment
from dicejax.objectives import (
    CrossEntropy,
    Focal,
    Objective,
    SelfAdjustingDice,
    name_of,
)
from on_device.cargo import unpack
from on_device.report import Report

SEEDS = 3
LOSSES = (CrossEntropy(), SelfAdjustingDice(smooth=0.01), Focal())
EXPERIMENT = Path(__file__).parents[2] / "experiments" / "ner" / "conll03.py"
QUICKSTART = EXPERIMENT.parents[1] / "quickstart.py"


def run(report: Report) -> None:
    """Train the seeds in turn, as many as there is time for."""
    folder = report.file.parent / "14041-10"
    cargo = None if report.cargo is None else unpack(report.cargo)
    longest = 0.0

    def trained(loss: Objective, seed: int) -> dict[str, Any]:
        nonlocal longest
        started = time.monotonic()
        experiment = settings(cargo, loss, seed, smallest=report.smallest)
        result = dicejax.train(experiment, str(folder / name_of(loss) / f"seed-{seed}"))
        seconds = time.monotonic() - started
        longest = max(longest, 0.0 if report.smallest else seconds)
        archive(folder)
        return {
            "seconds": seconds,
            "updates": result.steps,
            "tokens_per_s": result.tokens_per_s,
            "dev": result.best_dev_score,
            "test": result.test[result.primary_metric],
        }

    for seed in range(1 if report.smallest else SEEDS):
        for loss in LOSSES[: 1 if report.smallest else None]:
            report.attempt(
                functools.partial(trained, loss, seed),
                needs=longest,
                loss=name_of(loss),
                seed=seed,
            )


def settings(
    cargo: Path | None, loss: Objective, seed: int, *, smallest: bool
) -> Experiment:
    """Return the experiment of a run; generated sentences where there is no cargo."""
    if cargo is None:
        experiment = config.load(QUICKSTART)
        data = dataclasses.replace(experiment.data, train=64, dev=8, test=8)
    else:
        experiment = config.load(EXPERIMENT)
        data = dataclasses.replace(
            experiment.data,
            dir=str(cargo / "data"),
            max_train=64 if smallest else None,
            max_dev=8 if smallest else 1000,
        )
        experiment = dataclasses.replace(
            experiment,
            encoder=dataclasses.replace(experiment.encoder, path=str(cargo / "model")),
            optimizer=dataclasses.replace(experiment.optimizer, learning_rate=2e-4),
        )
    training = dataclasses.replace(
        experiment.training,
        precision="float32",
        batch_size=32,
        epochs=1 if smallest else 10,
        seed=seed,
    )
    return dataclasses.replace(
        experiment, name="14041-10", data=data, objective=loss, training=training
    )


def archive(folder: Path) -> None:
    """Pack the finished runs into one file, without their checkpoints."""
    partial = folder.with_name(f"{folder.name}.tar.xz.partial")
    with tarfile.open(partial, "w:xz") as packed:
        for result in sorted(folder.glob("*/*/result.json")):
            for file in sorted(result.parent.iterdir()):
                if file.is_file():
                    packed.add(file, file.relative_to(folder.parent))
    partial.rename(folder.with_name(f"{folder.name}.tar.xz"))
