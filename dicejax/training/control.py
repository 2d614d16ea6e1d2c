"""Fit of a control in the place of training, in a run folder like any other."""

from __future__ import annotations

import dataclasses
import json
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from dicejax.config import Experiment
from dicejax.controls import (
    ControlModel,
    Linear,
    Majority,
    TfIdf,
    fit_logistic,
    targets_of,
)
from dicejax.errors import InputError
from dicejax.models.heads import with_biases
from dicejax.models.network import Params
from dicejax.tasks import Item, Predicted, Task
from dicejax.tasks.tagging import TokenTask
from dicejax.tasks.task import Arrays, Labels, Outputs
from dicejax.tasks.word_items import by_word
from dicejax.training.checkpoint import Checkpoints
from dicejax.training.encoded import Encoded
from dicejax.training.final_scores import score_test_split
from dicejax.training.logging import FILE as METRICS
from dicejax.training.loop_state import LoopState
from dicejax.training.predict import decode_logits
from dicejax.training.progress import TrainingProgress
from dicejax.training.restored import write_control
from dicejax.training.run_folder import CHECKPOINTS, Run
from dicejax.training.setup import Setup, prepare
from dicejax.training.sharding import put
from dicejax.training.throughput import versions

STRENGTHS = (0.001, 0.01, 0.1, 1.0)
"""Inverse strengths of the penalty on the weights of standardised states."""
MOST_WORDS = 200_000
"""Of more words or texts of train, so many are drawn for a regression."""


class _Fit(NamedTuple):
    """A fitted model with its settings, its score on dev, and the time it took."""

    model: Any
    settings: dict[str, Any]
    score: float
    seconds: float


_FITS: weakref.WeakKeyDictionary[Encoded, dict[str, _Fit]] = weakref.WeakKeyDictionary()
"""Models on counts of all of train by name, which are the same for every seed."""


def fit_control(
    experiment: Experiment, run: Run, progress: TrainingProgress, *, score_test: bool
) -> dict[str, Any]:
    """Fit the control of an experiment in its folder; what dev scores best is kept.

    Returns:
      The fields of a `Result`, which is to be written.

    Raises:
      InputError: data or encoder cannot be used, or the folder not be written to.
    """
    begin = time.monotonic()
    mesh, name = experiment.mesh.make(), experiment.control
    if jax.process_count() > 1:
        raise InputError(f"control {name} is fitted by one process; start no others")
    setup = prepare(experiment, progress.note, weights=name == "frozen")
    data, task = setup.data, experiment.task
    run.write_setup(experiment, data)  # whatever an interrupted fit has left
    prepared = time.monotonic() - begin
    fit = _fit_frozen(setup, mesh) if name == "frozen" else _fit_counts(setup)
    model, settings, score, seconds = fit
    seconds += prepared
    metric = task.primary_metric
    line = {"step": 0, f"dev/{metric}": score, **settings}
    run.write(METRICS, json.dumps(line) + "\n")
    if isinstance(model, ControlModel):
        write_control(run, model)
    else:
        checkpoints = Checkpoints(run.path / CHECKPOINTS)
        checkpoints.save(0, setup.initial_state(mesh, 1, model), score)
        checkpoints.close()
    chosen = ", ".join(f"{key} {value}" for key, value in settings.items())
    progress.say(f"{name}: dev {100 * score:.2f}{f' with {chosen}' if chosen else ''}")
    loop = LoopState(best_dev_score=score, dev_score=score, versions=versions())
    tested = {}
    if score_test:
        nothing: Callable[[], None] = lambda: None  # noqa: E731
        tested = score_test_split(setup, run, mesh, None, loop, nothing, progress.say)
    tokens = sum(map(len, data.items["train"]))
    return {
        "steps": 0,
        "seconds": round(seconds, 1),
        "tokens_per_s": round(tokens / seconds, 4),
        "padding_share": 0.0,
        "wait_share": 0.0,
        "share_filled": 1.0,
        **setup.facts(mesh, loop),
        **tested,
    }


def _fit_counts(setup: Setup) -> _Fit:
    """Return the majority, or the regression on counts that is best on dev.

    The seed only draws texts where there are too many: else one fit serves all seeds.
    """
    task, labels, data = setup.experiment.task, setup.data.labels, setup.data
    name, fits = str(setup.experiment.control), _FITS.setdefault(data, {})
    if name in fits:
        return fits[name]
    examples, _ = drawn(setup)
    choices: Iterator[tuple[dict[str, Any], ControlModel]]
    if name == "majority":
        choices = iter([({}, Majority.fit(task, data.corpus.train, labels))])
    else:
        choices = TfIdf.fits(task, examples, labels)
    dev = data.corpus.dev
    fit = _best(setup, ((model, made, model.logits(dev)) for made, model in choices))
    if len(examples) == len(data.corpus.train):
        fits[name] = fit
    return fit


def _best(setup: Setup, choices: Any) -> _Fit:
    """Return the model that is best on dev, of models with their logits of dev."""
    begin = time.monotonic()
    task, labels, data = setup.experiment.task, setup.data.labels, setup.data
    best: _Fit | None = None
    for model, settings, logits in choices:
        (candidates,) = decode_logits(
            logits, data.corpus.dev, data.items["dev"], task=task, labels=labels
        ).candidates
        score = setup.score(candidates, "dev").values[task.primary_metric]
        if best is None or score > best.score:
            best = _Fit(model, settings, score, 0.0)
    if best is None:
        raise ValueError("there is nothing to choose from")
    return best._replace(seconds=time.monotonic() - begin)


def drawn(setup: Setup) -> tuple[list[Any], np.ndarray]:
    """Return training examples with at most `MOST_WORDS` words or texts, and which."""
    task, train = setup.experiment.task, setup.data.corpus.train
    of_words = isinstance(task, TokenTask)
    sizes = np.array([len(x.words) if of_words else 1 for x in train])
    places = np.arange(len(train))
    if sizes.sum() > MOST_WORDS:
        generator = np.random.default_rng(setup.experiment.training.seed)
        places = generator.permutation(len(train))
        places = np.sort(places[np.cumsum(sizes[places]) <= MOST_WORDS])
    return [train[place] for place in places], places


def _fit_frozen(setup: Setup, mesh: Mesh) -> _Fit:
    """Return the encoder as it is below the best regression on its states."""
    begin = time.monotonic()
    task, labels = setup.experiment.task, setup.data.labels
    ((name, _),) = setup.network.heads
    examples, places = drawn(setup)
    params = setup.initial_params(mesh)
    states = _states(setup, mesh, params, "train", places)
    golds = targets_of(task, examples, labels)
    of_words = isinstance(task, TokenTask)
    x = (np.concatenate if of_words else np.stack)(states)
    targets = (np.concatenate if of_words else np.stack)(golds)
    sizes = [len(gold) if of_words else 1 for gold in golds]
    weights = np.repeat([example.weight for example in examples], sizes)
    used = targets >= 0 if targets.ndim == 1 else np.ones(len(targets), bool)
    mean, scale = x.mean(axis=0), x.std(axis=0) + 1e-6
    x = (x - mean) / scale
    on_dev = _states(setup, mesh, params, "dev")

    def choices() -> Iterator[tuple[Linear, dict[str, Any], list[np.ndarray]]]:
        for balanced in (False, True):
            for strength, fitted in fit_logistic(
                x[used],
                targets[used],
                strengths=STRENGTHS,
                balanced=balanced,
                classes=len(labels),
                weights=None if (weights == 1).all() else weights[used],
            ):
                kernel = fitted.kernel / scale[:, None]
                linear = Linear(kernel, fitted.bias - mean @ kernel)
                logits = [linear(rows).astype(np.float32) for rows in on_dev]
                yield linear, {"C": strength, "balanced": balanced}, logits

    fit = _best(setup, choices())
    model = _with_head(params, name, fit.model, mesh)
    return fit._replace(model=model, seconds=time.monotonic() - begin)


def _with_head(params: Params, name: str, linear: Linear, mesh: Mesh) -> Params:
    dense = {"kernel": linear.kernel, "bias": linear.bias}
    dense = {key: np.asarray(x, np.float32) for key, x in dense.items()}
    return with_biases(params, put({"heads": {name: {"dense": dense}}}, mesh))


@dataclasses.dataclass(frozen=True)
class _States:
    """What the last layer of a task's head reads, in the place of predictions."""

    task: Task

    def layout(self, tokenizer: Any) -> Any:
        return self.task.layout(tokenizer)

    def reduce_logits(self, outputs: Arrays, batch: Arrays) -> Predicted:
        if isinstance(self.task, TokenTask):
            return Predicted(tokens=dict(outputs))
        return Predicted(sequences=dict(outputs))

    def decode(
        self, example: Any, items: Sequence[Item], outputs: Outputs, labels: Labels
    ) -> np.ndarray:
        """Return `[D]` of a text, the mean over its windows, or `[W, D]` of words."""
        (name,) = outputs[0]
        if isinstance(self.task, TokenTask):
            return by_word(items, outputs, name, 0.0)
        return np.mean([output[name] for output in outputs], axis=0)


def _states(
    setup: Setup,
    mesh: Mesh,
    params: Params,
    split: str,
    places: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Return what the head reads of the examples of a split, or of some of them."""
    ((name, head),) = setup.network.heads
    width = setup.network.encoder.width
    # The head's last layer is left out: its kernel is the identity.
    wide = dataclasses.replace(head, **{"classes": width})
    network = dataclasses.replace(setup.network, heads=((name, wide),))
    identity = Linear(np.eye(width), np.zeros(width))
    examples, items = getattr(setup.data.corpus, split), setup.data.items[split]
    if places is not None and len(places) < len(examples):
        numbers = {place: number for number, place in enumerate(places.tolist())}
        examples = [examples[place] for place in places]
        items = [
            dataclasses.replace(item, example=numbers[item.example])
            for item in items
            if item.example in numbers
        ]
    task = _States(setup.experiment.task)  # all that decoding asks of a task
    replaced = {"examples": examples, "items": items, "task": task, "network": network}
    as_head = _with_head(params, name, identity, mesh)
    return setup.decode(as_head, split, mesh, **replaced).candidates[0]
