"""Folders of finished runs with made-up numbers, written without training."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

import numpy as np
from etils import epath

from dicejax import config
from dicejax.data.synthetic import SyntheticNER
from dicejax.io.files import write_checked
from dicejax.metrics import score_counts
from dicejax.models.bert import BertConfig
from dicejax.objectives import Objective
from dicejax.study import compare as comparison
from dicejax.study import significance
from dicejax.study.compare.jobs import Job, ScoredRun
from dicejax.study.compare.record import Comparison
from dicejax.study.compare.statistics import rows_of
from dicejax.training.run_folder import SCORE_COUNTS, Run

LABELS = ("O", "B-PER", "I-PER", "B-LOC")
EXPERIMENT = config.Experiment(
    name="conll03", data=SyntheticNER(), encoder=config.ScratchEncoder()
)
SENTENCES = 200


def made(
    folder: object,
    objectives: Sequence[Objective],
    seeds: int,
    *,
    experiment: config.Experiment = EXPERIMENT,
    labels: Sequence[str] = LABELS,
    types: Sequence[str] = ("PER", "LOC"),
    skill: Sequence[float] = (0.7,),
    rising: Sequence[str] = (),
) -> list[Job]:
    """Make a comparison's runs; the i-th loss has the i-th skill, or the last.

    On dev the scores of rising losses are half as high at the evaluation before.
    """
    jobs = comparison.jobs_of(experiment, objectives, seeds, str(folder))
    losses = list(dict.fromkeys(job.loss for job in jobs))
    for job in jobs:
        place = losses.index(job.loss)
        rng = np.random.default_rng([place, job.seed])
        level = skill[min(place, len(skill) - 1)]
        # Effects of the loss and of the seed.
        level += 0.01 * float(np.random.default_rng(job.seed).normal())
        write(job, rng, level, labels, types, is_rising=job.loss in rising)
    return jobs


def write(
    job, rng, skill, labels=LABELS, types=("PER", "LOC"), *, is_rising=False
) -> None:
    """Write the folder of one run."""
    run = run_of(job)
    write_setup(run, job.experiment, labels)
    shares = sentences(rng, skill)
    (output, *_) = job.experiment.task.targets(labels)
    run.write_arrays(SCORE_COUNTS, {output: counts(rng, skill, len(labels))})
    f1 = float(significance.score(shares))
    with (run.path / "metrics.jsonl").open("w") as file:
        for step in range(10, 101, 10):
            record = {"step": step, "loss": 1 / (step + rng.random())}
            if step % 50 == 0:
                record["dev/f1"] = f1 / (1 + (is_rising and step < 100))
            file.write(json.dumps(record) + "\n")
    per_type = {
        name: {"f1": f1 / (1 + place), "support": 1000 // 4**place}
        for place, name in enumerate(types)
    }
    test = {"f1": f1, "macro_f1": f1 / 2, "per_type": per_type}
    run.write_statistics(shares)
    result = {"best_step": 100, "devices": 1, "primary_metric": "f1"}
    run.write_result(result | {"checksums": {"test": "12345"}, "test": test})


def run_of(job) -> Run:
    """Return the run in the folder of a job or an outcome."""
    return Run(epath.Path(job.folder))


def statistics_of(runs) -> np.ndarray:
    """Return the statistics of the test examples of runs, [S, N, C, 2]."""
    return np.stack([run.example_statistics for run in runs])


def record_of(folder) -> dict:
    """Read what a comparison wrote for programs."""
    return json.loads((folder / "comparison.json").read_text())


def write_splits(folder, text) -> str:
    """Write the same text as all three splits, and return the folder."""
    for name in ("train", "dev", "test"):
        (folder / f"{name}.txt").write_text(text)
    return str(folder)


def write_setup(run, experiment, labels=LABELS) -> None:
    """Write the files that a run has from its beginning."""
    run.path.mkdir(parents=True, exist_ok=True)
    write_checked(run.path, "experiment.json", config.to_json(experiment))
    write_checked(run.path, "labels.json", json.dumps(list(labels)))
    encoder = dataclasses.asdict(BertConfig(vocab_size=9))
    write_checked(run.path, "encoder.json", json.dumps(encoder))
    write_checked(run.path, "tokenizer.json", "{}")


def sentences(rng, skill) -> np.ndarray:
    """Return right, predicted and gold entities of each sentence."""
    gold = rng.integers(0, 4, SENTENCES)
    right = rng.binomial(gold, skill)
    predicted = right + rng.binomial(gold, 1 - skill)
    return np.stack([2 * right, predicted + gold], axis=-1)[:, None].astype(float)


def counts(rng, skill, classes) -> np.ndarray:
    """Return counts of log-odds: negatives low, positives high, by skill."""
    counted = np.zeros((classes, 2, score_counts.BINS), np.int64)
    for c in range(classes):
        for truth, size, middle in ((0, 900, -6 * skill), (1, 60, 6 * skill)):
            odds = rng.normal(middle, 2.5, size)
            place = np.floor((odds + score_counts.LIMIT) / score_counts.WIDTH)
            place = np.clip(place, 0, score_counts.BINS - 1).astype(int)
            np.add.at(counted[c, truth], place, 1)
    return counted


def in_record(rows) -> dict:
    """Return rows as the record of their comparison has them."""
    return Comparison(name="mine", rows=tuple(rows)).to_json()["losses"]


def outcome(loss, seed, right, dev=(), **more) -> ScoredRun:
    """Return a finished run that is right on these examples."""
    shares = np.stack([right, np.ones_like(right)], -1)[:, None].astype(float)
    test = {"f1": float(np.mean(right))}
    result = {"primary_metric": "f1", "test": test, "seconds": 90.0} | more
    points = np.array([*enumerate(dev)], float).reshape(-1, 2)
    return ScoredRun(loss, seed, "x", "finished", result, shares, dev=points)


def compared(skills, seeds=5, spread=0.001, n=4000, draw=0, **options):
    """Return rows of losses that are right this often, or this often by seed."""
    outcomes = []
    for place, (loss, by_seed) in enumerate(skills.items()):
        for seed, skill in enumerate(np.broadcast_to(by_seed, seeds)):
            rng = np.random.default_rng([place, seed + 1000 * draw])
            chance = skill + spread * rng.normal() if skill else 0.0
            outcomes.append(outcome(loss, seed, rng.random(n) < chance))
    return rows_of(outcomes, "ce", **options)
