"""Cheap baselines: finished cross-entropy runs with logits shifted as dev chooses.

Runs of other losses are shifted too, to be compared with these on equal terms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath
from jax.sharding import Mesh

from dicejax.config import Experiment
from dicejax.errors import InputError
from dicejax.metrics import thresholds
from dicejax.objectives import Candidate, FromPrior, WeightedCrossEntropy, name_of
from dicejax.study.compare.jobs import (
    BASELINE,
    PLAIN,
    Job,
    ScoredRun,
    has_positions,
    scored,
)
from dicejax.study.compare.same_data import require_one_data
from dicejax.tasks import Target, scoring
from dicejax.tasks.priors import log_priors
from dicejax.training.encoded import noun_of
from dicejax.training.identity import changed
from dicejax.training.predict import Shift
from dicejax.training.restored import restore
from dicejax.training.run_folder import BASELINES, Run
from dicejax.training.run_lock import run_lock
from dicejax.training.setup import Setup, prepare

ADJUSTED = "logit adjustment"
THRESHOLD = "tuned threshold"
STRENGTHS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Strengths of logit adjustment; 1 is the paper's, 0 leaves the logits unchanged."""
OFFSETS = tuple(np.linspace(-4.0, 4.0, 33).tolist())
"""Added to the negative class's log-odds."""


SHORT = 250
"""Trainings of fewer updates have cross-entropy with a head from the prior beside."""


def with_prior_head(
    objectives: Sequence[Candidate], experiment: Experiment, folder: str
) -> tuple[Candidate, ...]:
    """Add cross-entropy with a head from the class frequencies to short trainings.

    Then it closes most of the lead of other losses. Updates are those of a finished run
    of cross-entropy in the folder, or counted from the data.
    """
    mended = FromPrior(BASELINE)
    if mended in objectives or has_positions(experiment.task):
        return tuple(objectives)
    name = f"seed-{experiment.training.seed}"
    run = Run(epath.Path(folder) / name_of(BASELINE) / name)
    if run.is_finished and "steps" in run.result():
        updates = run.result()["steps"]
    else:
        setup = prepare(experiment, lambda text: None, weights=False)
        updates = len(setup.batches(experiment.mesh.make()))
    return (*objectives, *((mended,) if updates < SHORT else ()))


def logit_adjustments(
    targets: Mapping[str, Target], counts: Mapping[str, np.ndarray]
) -> Mapping[float, Shift]:
    """Return the shifts of post-hoc logit adjustment, by strength.

        z'_c = z_c - tau log pi_c,    pi_c the share of class c in training

    For multi-label outputs, log-odds of the shares replace their logs. A class without
    training elements counts as half an element.

    Source: Menon et al., "Long-tail learning via logit adjustment", ICLR 2021,
    equation 9, there with tau tuned as well.
    """
    priors = log_priors(targets, counts)
    return {
        tau: {k: (-tau * prior).astype(np.float32) for k, prior in priors.items()}
        for tau in (STRENGTHS if priors else ())
    }


def threshold_shifts(
    targets: Mapping[str, Target], counts: Mapping[str, np.ndarray]
) -> Mapping[float, Shift]:
    """Return shifts of the threshold of the negative class, by their size.

    None where an output has no negative class, or never uses it.
    """
    shifts: dict[float, dict[str, np.ndarray]] = {offset: {} for offset in OFFSETS}
    for name, target in targets.items():
        if not (target.has_negative and counts[name][0]):
            return {}
        negative = np.eye(len(target.classes), dtype=np.float32)[0]
        for offset, shift in shifts.items():
            shift[name] = np.float32(offset) * negative
    return shifts


def score_baselines(jobs: Sequence[Job], say: Callable[[str], None]) -> None:
    """Score finished runs of all losses with moved decisions, if not scored yet.

    Runs of other losses than cross-entropy whose weights are gone are passed over.

    Raises:
      InputError: weights of a cross-entropy run cannot be read.
    """
    setup: Setup | None = None
    for job in jobs:
        run = Run(epath.Path(job.folder))
        rule = job.experiment.task.threshold_rule
        has_point = rule is not None and rule.constraint is not None  # no move keeps it
        if not run.is_finished or has_point or (run.path / BASELINES).exists():
            continue
        with run_lock(run.path):
            # Data that is the same for all seeds is read once.
            experiment = run.as_begun(job.experiment)
            if setup is None or (setup.experiment.data, setup.experiment.encoder) != (
                experiment.data,
                experiment.encoder,
            ):
                setup = prepare(experiment, lambda text: None, weights=False)
            noun = noun_of(job.experiment)
            if changes := run.changes(setup.data.identity, noun):
                raise InputError(
                    f"{run.path}: {changed(changes, 'the run')}: its decisions cannot "
                    "be moved; restore it, or train the run again with --overwrite"
                )
            mesh = job.experiment.mesh.make()
            try:
                _, params = restore(run, setup.network, "best", mesh)
            except InputError as error:
                if job.loss == name_of(BASELINE):
                    raise
                say(f"{job.loss} seed {job.seed}: decisions are not moved: {error}")
                continue
            controls = _controls(setup, mesh, params)
            run.write_baselines(controls)
        if controls:
            texts = "; ".join(map(_described, controls, controls.values()))
            say(f"{job.loss} seed {job.seed}: {texts}")


def scored_runs(jobs: Sequence[Job]) -> tuple[list[ScoredRun], list[str]]:
    """Read what runs have measured, moved decisions too, and the names of controls."""
    runs = [scored(job) for job in jobs]
    require_one_data(runs)
    standard = name_of(BASELINE)
    runs = [dataclasses.replace(run, moved=_moved(run)) for run in runs]
    for run in [run for run in runs if run.loss == standard]:
        for name, (result, statistics) in run.moved.items():
            label = f"{standard} + {name}"
            moved = ScoredRun(
                label, run.seed, run.folder, "finished", result, statistics
            )
            runs.append(moved)
    return runs, controls_among(run.loss for run in runs)


def controls_among(losses: Iterable[str]) -> list[str]:
    """Return the losses that are controls by their names, whoever trained them.

    >>> controls_among(["ce", "dsc+prior", "wce", "ce+prior", "ce + tuned threshold"])
    ['ce + tuned threshold', 'ce+prior', 'wce']
    """
    # By name, since tuned runs keep that of the loss whatever its numbers.
    standard, weighted = name_of(BASELINE), name_of(WeightedCrossEntropy())
    moves = (f"{standard} + {move}" for move in (ADJUSTED, THRESHOLD))
    plain = {*PLAIN, weighted, *moves}
    from_prior = name_of(FromPrior(BASELINE))
    return sorted({x for x in losses if x in plain or x.startswith(from_prior)})


def _moved(run: ScoredRun) -> dict[str, tuple[dict[str, Any], np.ndarray]]:
    """Read the result and statistics of a run with each move of its decisions."""
    scored = Run(epath.Path(run.folder)).baselines() if run.result else None
    moved = {}
    for name, control in (scored or {}).items():
        copied = ("primary_metric", "checksums")
        result = {key: run.result[key] for key in copied if key in run.result}
        result["test"] = control["test"]
        result["control"] = {key: control[key] for key in ("value", "dev_score")}
        moved[name] = result, control["example_statistics"]
    return moved


def _described(name: str, control: Mapping[str, Any]) -> str:
    value = control["value"]
    text = thresholds.describe(value) if isinstance(value, dict) else f"{value:g}"
    return f"{name} {text}, dev {100 * control['dev_score']:.2f}"


def _controls(setup: Setup, mesh: Mesh, params: Any) -> dict[str, Any]:
    """Choose the baselines of a run's best weights on dev, and score them on test."""
    task, data = setup.experiment.task, setup.data
    targets = task.targets(data.labels)
    counts = task.class_counts(data.items["train"], data.labels)
    kinds = {ADJUSTED: logit_adjustments(targets, counts)}
    kinds[THRESHOLD] = threshold_shifts(targets, counts)

    def decode(split: str, shifts: Sequence[Shift]) -> list[list[Any]]:
        if not shifts:
            return []
        return setup.decode(params, split, mesh, shifts=shifts).candidates

    def dev_score(candidates: Sequence[Any], threshold: Any = None) -> float:
        scores = setup.score(candidates, "dev", threshold)
        return scores.values[task.primary_metric]

    dev = iter(decode("dev", [s for shifts in kinds.values() for s in shifts.values()]))
    chosen: dict[str, tuple[float, float]] = {}
    for name, shifts in kinds.items():
        by_value = {value: dev_score(next(dev)) for value in shifts}
        if shifts:
            best = max(by_value, key=lambda value: (by_value[value], -abs(value)))
            chosen[name] = best, by_value[best]
    test = decode("test", [kinds[name][best] for name, (best, _) in chosen.items()])
    # Value, score on dev, candidates on test, shift, and threshold, by name.
    moves: dict[str, tuple[Any, float, Any, Shift, Any]] = {
        name: (best, score, candidates, kinds[name][best], None)
        for (name, (best, score)), candidates in zip(chosen.items(), test, strict=True)
    }
    chooses_classes = any(target.kind == "classes" for target in targets.values())
    if task.threshold_rule is not None and not chooses_classes:
        # The task's threshold, or those of its labels.
        (on_dev,), (on_test,) = decode("dev", [{}]), decode("test", [{}])
        threshold = task.tune(data.corpus.dev, on_dev, data.labels).threshold
        score = dev_score(on_dev, threshold)
        moves[THRESHOLD] = threshold, score, on_test, {}, threshold
    controls = {}
    for name, (value, score, candidates, shift, threshold) in moves.items():
        decided = [task.decide(each, threshold) for each in candidates]
        inputs = data.corpus.test, decided, data.labels
        controls[name] = {
            "value": value,
            "shift": {output: each.tolist() for output, each in shift.items()},
            "dev_score": score,
            "test": scoring.score(task, *inputs)[0].to_json(),
            "example_statistics": task.example_statistics(*inputs),
        }
    return controls
