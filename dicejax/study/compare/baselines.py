"""Cheap baselines: cross-entropy with decisions moved after training.

Both baselines shift the logits of a finished run; the shift is chosen on dev, and test
is scored once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath
from jax.sharding import Mesh

from dicejax.metrics import thresholds
from dicejax.objectives import WeightedCrossEntropy, name_of
from dicejax.study.compare.jobs import (
    BASELINE,
    Job,
    Outcome,
    outcome_of,
    require_one_test_set,
)
from dicejax.tasks import Target
from dicejax.training.checkpoint import restore_params
from dicejax.training.lock import locked
from dicejax.training.predict import Shift
from dicejax.training.run_folder import Run
from dicejax.training.setup import Setup, prepare

ADJUSTED = "logit adjustment"
THRESHOLD = "tuned threshold"
STRENGTHS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Strengths of logit adjustment; 1 is the paper's, 0 leaves the logits unchanged."""
OFFSETS = tuple(np.linspace(-4.0, 4.0, 33).tolist())
"""Added to the negative class's log-odds."""


def logit_adjustments(
    targets: Mapping[str, Target], counts: Mapping[str, np.ndarray]
) -> dict[float, Shift]:
    """Return the shifts of post-hoc logit adjustment, by strength.

        z'_c = z_c - tau log pi_c,    pi_c the share of class c in training

    For multi-label outputs, log-odds of the shares replace their logs. A class without
    training elements counts as half an element.

    Source: Menon et al., "Long-tail learning via logit adjustment", ICLR 2021,
    equation 9, there with tau tuned as well.

    >>> from dicejax.tasks import Target
    >>> targets = {"tags": Target("classes", ("O", "B"))}
    >>> logit_adjustments(targets, {"tags": np.array([75, 25])})[1.0]["tags"].round(2)
    array([0.29, 1.39], dtype=float32)
    """
    priors = {}
    for name, target in targets.items():
        if target.kind == "positions":
            continue
        number = np.maximum(np.asarray(counts[name], np.float64), 0.5)
        if target.kind == "classes":
            priors[name] = np.log(number / number.sum())
        else:
            priors[name] = np.log(number[:, 1] / number[:, 0])
    return {
        tau: {name: np.float32(-tau * prior) for name, prior in priors.items()}
        for tau in (STRENGTHS if priors else ())
    }


def threshold_shifts(
    targets: Mapping[str, Target], counts: Mapping[str, np.ndarray]
) -> dict[float, Shift]:
    """Return shifts of the threshold of the negative class, by their size.

    None where an output has no negative class, or never uses it.
    """
    if not all(
        target.has_negative and counts[name][0] for name, target in targets.items()
    ):
        return {}
    first = {
        name: np.eye(len(target.classes), dtype=np.float32)[0]
        for name, target in targets.items()
    }
    return {
        offset: {name: np.float32(offset) * target for name, target in first.items()}
        for offset in OFFSETS
    }


def score_baselines(jobs: Sequence[Job], say: Callable[[str], None]) -> None:
    """Score the baselines of finished cross-entropy runs that have none yet.

    Raises:
      InputError: a run cannot be read, or another process writes it.
    """
    setup: Setup | None = None
    for job in jobs:
        run = Run(epath.Path(job.folder))
        if job.experiment.objective != BASELINE:
            continue
        if not run.is_finished or run.has_baselines:
            continue
        with locked(run.path):
            # Data that is the same for all seeds is read once.
            if setup is None or setup.experiment.data != job.experiment.data:
                setup = prepare(job.experiment, lambda text: None, weights=False)
            mesh = job.experiment.mesh.make()
            _, params = restore_params(run.checkpoints, setup.network, "best", mesh)
            controls = _Controls(setup, mesh, params).scored()
            run.write_baselines(controls)
        for name, control in controls.items():
            value = control["value"]
            chosen = (
                thresholds.shown(value) if isinstance(value, dict) else f"{value:g}"
            )
            message = f"{chosen}, dev {100 * control['dev_score']:.2f}"
            say(f"{job.loss} seed {job.seed}: {name} {message}")


def outcomes_of(jobs: Sequence[Job]) -> tuple[list[Outcome], list[str]]:
    """Return the outcomes of runs, moved decisions too, and the names of controls.

    Raises:
      InputError: runs cannot be read or compared.
    """
    outcomes = [outcome_of(job) for job in jobs]
    require_one_test_set(outcomes)
    standard = name_of(BASELINE)
    moved = _moved([outcome for outcome in outcomes if outcome.loss == standard])
    # By name, since tuned runs keep that of the loss whatever its numbers.
    weighted = name_of(WeightedCrossEntropy())
    controls = {outcome.loss for outcome in moved} | (
        {weighted} & {job.loss for job in jobs}
    )
    return [*outcomes, *moved], sorted(controls)


def _moved(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes of the baselines that have been scored."""
    made = []
    for outcome in outcomes:
        scored = Run(epath.Path(outcome.folder)).baselines() if outcome.result else None
        for name, control in (scored or {}).items():
            result = {
                "primary_metric": outcome.result["primary_metric"],
                "test_data": outcome.result["test_data"],
                "test": control["test"],
                "control": {key: control[key] for key in ("value", "dev_score")},
            }
            label, shares = f"{outcome.loss} + {name}", control["example_statistics"]
            made.append(
                Outcome(label, outcome.seed, outcome.folder, "finished", result, shares)
            )
    return made


class _Controls:
    """Baselines of one run's best weights."""

    def __init__(self, setup: Setup, mesh: Mesh, params: Any):
        self._setup, self._mesh, self._params = setup, mesh, params

    def scored(self) -> dict[str, Any]:
        """Choose on dev, and score on test."""
        task, labels = self._setup.experiment.task, self._setup.data.labels
        targets = task.targets(labels)
        counts = task.class_counts(self._setup.data.items["train"], labels)
        kinds = {
            ADJUSTED: logit_adjustments(targets, counts),
            THRESHOLD: threshold_shifts(targets, counts),
        }
        shifts = [shift for moved in kinds.values() for shift in moved.values()]
        dev = iter(self._search("dev", shifts or [{}]))
        chosen = {}
        for name, moved in kinds.items():
            of_dev = {value: self._score("dev", next(dev)) for value in moved}
            if moved:
                chosen[name] = _best(of_dev)
        test = iter(self._search("test", [kinds[k][v] for k, (v, _) in chosen.items()]))
        scored = {
            name: self._control(value, score, next(test))
            for name, (value, score) in chosen.items()
        }
        chooses_classes = any(target.kind == "classes" for target in targets.values())
        if task.default_threshold is not None and not chooses_classes:
            scored[THRESHOLD] = self._with_own_threshold()
        return scored

    def _with_own_threshold(self) -> dict[str, Any]:
        """Tune the task's own decision threshold, or those of its labels."""
        (dev,), (test,) = self._search("dev", [{}]), self._search("test", [{}])
        data = self._setup.data
        tuned = self._setup.experiment.task.tune(data.corpus.dev, dev, data.labels)
        threshold = tuned.threshold
        score = self._score("dev", dev, threshold)
        return self._control(threshold, score, test, threshold)

    def _control(
        self, value: Any, dev: float, predictions: Any, threshold: Any = None
    ) -> dict[str, Any]:
        task, data = self._setup.experiment.task, self._setup.data
        examples = data.corpus.test
        scores = task.score_found(examples, predictions, data.labels, threshold)
        decided = [task.decide(prediction, threshold) for prediction in predictions]
        return {
            "value": value,
            "dev_score": dev,
            "test": scores.to_json(),
            "example_statistics": task.example_statistics(
                examples, decided, data.labels
            ),
        }

    def _search(self, split: str, shifts: Sequence[Shift]) -> list[list[Any]]:
        if not shifts:
            return []
        search = self._setup.search
        return search(self._params, split, self._mesh, shifts=shifts).found

    def _score(self, split: str, predictions: Any, threshold: Any = None) -> float:
        task, data = self._setup.experiment.task, self._setup.data
        examples = getattr(data.corpus, split)
        scores = task.score_found(examples, predictions, data.labels, threshold)
        return scores.values[task.primary_metric]


def _best(scores: Mapping[float, float]) -> tuple[float, float]:
    """Return the value with the best score; of equals the smallest shift."""
    best = max(scores.values())
    value = min((v for v, score in scores.items() if score == best), key=abs)
    return value, best
