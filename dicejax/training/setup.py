"""Setup of a run from its experiment: corpus, labels, network, weights, objective."""

from __future__ import annotations

import dataclasses
import functools
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from dicejax.config import Experiment
from dicejax.controls import ControlModel
from dicejax.data.pipeline import Batches
from dicejax.data.plan import bucket_plan, packing_plan, rows_per_batch
from dicejax.data.resample import Epoch, UnitCounts
from dicejax.errors import InputError
from dicejax.mesh import batch_parts
from dicejax.metrics.scores import Scores
from dicejax.models import huggingface
from dicejax.models.heads import biases_at, with_biases
from dicejax.models.network import Network, Params
from dicejax.objectives import Objective
from dicejax.tasks import scoring
from dicejax.tasks.judged import require_attainable
from dicejax.tasks.priors import log_priors, require_classes
from dicejax.training.encoded import SPLITS, Encoded, Warn, load_data
from dicejax.training.gold import check_gold, soft_arrays, weights_of_items
from dicejax.training.loop_state import LoopState
from dicejax.training.predict import Decoded, decode_examples
from dicejax.training.sharding import put
from dicejax.training.state import (
    TrainState,
    abstract_state,
    init_params_fn,
    init_state_fn,
)
from dicejax.training.throughput import imitates_bfloat16


@dataclasses.dataclass(frozen=True)
class Setup:
    """Data, network and objective of a run."""

    experiment: Experiment
    data: Encoded
    network: Network
    weights: huggingface.Weights | None = None

    def initial_params(self, mesh: Mesh) -> Params:
        """Return the parameters of the encoder's folder; what it lacks is drawn."""
        key, _ = jax.random.split(jax.random.key(self.experiment.training.seed))
        weights = self.weights
        heads = None if weights is None else tuple(weights.new_heads)
        params = init_params_fn(self.network, mesh, heads)(key)
        if weights is not None:
            read = dataclasses.replace(weights, params=put(weights.params, mesh))
            params = read.over(params)
        if self.prior_biases:
            params = with_biases(params, put({"heads": self.prior_biases}, mesh))
        return params

    def initial_state(
        self, mesh: Mesh, steps: int, params: Params | None = None
    ) -> TrainState:
        """Return the state before the first of so many steps, by default as drawn."""
        _, key = jax.random.split(jax.random.key(self.experiment.training.seed))
        optimizer = self.experiment.optimizer
        params = self.initial_params(mesh) if params is None else params
        create = init_state_fn(self.network, optimizer, self.objective, mesh)
        return create(params, total_steps=steps, rng=key)

    def abstract_state(self) -> TrainState:
        """Return the shapes of a state."""
        return abstract_state(self.network, self.experiment.optimizer, self.objective)

    @functools.cached_property
    def class_counts(self) -> dict[str, np.ndarray]:
        """Counts of the training labels by output, as of `Task.class_counts`."""
        task = self.experiment.task
        return task.class_counts(self.data.items["train"], self.data.labels)

    @functools.cached_property
    def prior_biases(self) -> dict[str, Any]:
        """Biases of drawn heads that predict the class frequencies; empty for zeros.

        Raises:
          InputError: an output has no classes, or a head no biases.
        """
        if self.experiment.training.head_bias == "zeros":
            return {}
        targets = self.experiment.task.targets(self.data.labels)
        require_classes(targets)
        heads, weights = self.network.heads, self.weights
        if weights is not None:
            heads = tuple(pair for pair in heads if pair[0] in weights.new_heads)
        return biases_at(heads, log_priors(targets, self.class_counts))

    @functools.cached_property
    def objective(self) -> Objective:
        """The experiment's objective, bound to the task and the training data.

        Raises:
          InputError: it does not fit the task, or a hyper-parameter is out of range.
        """
        return self.bind(self.experiment.objective)

    def bind(self, objective: Objective) -> Objective:
        """Return an objective with the outputs and class counts that it needs.

        Raises:
          InputError: it does not fit the task, or a hyper-parameter is out of range;
            or dev cannot promise what the task's threshold is to keep.
        """
        task, name = self.experiment.task, objective.short_name
        rule = task.threshold_rule
        if rule is not None and rule.constraint is not None:
            if objective.follows_decisions:
                raise InputError(
                    f"task.threshold: {name} learns from decisions on dev, which then "
                    "promise nothing for new data; take another loss, or "
                    "--task.tune_threshold"
                )
            # The checkpoint is that of the best of all epochs on dev.
            epochs = self.experiment.training.epochs
            judged = task.judge(self.data.corpus.dev, self.data.labels)
            require_attainable(rule.constraint, judged, epochs)
        targets = task.targets(self.data.labels)
        try:
            objective = objective.bind(targets, self.class_counts)
            # Inside a step, as under `eval_shape`, values are traced and not checked.
            logits, golds = {}, {}  # of one element
            for output, target in targets.items():
                width = 2 if target.kind == "positions" else len(target.classes)
                logits[output] = jnp.zeros((1, width))
                shape = (1, width) if target.kind == "multi_label" else (1,)
                golds[output] = jnp.zeros(shape, jnp.int32)
            soft = soft_arrays(self.data.items["train"])
            weighted = self.example_weights is not None
            check_gold(objective, logits, golds, soft, weighted)
        except ValueError as error:
            message = str(error)
            if not message.startswith("objective "):
                message = f"objective {name}: {message}"
            raise InputError(message) from error
        return objective

    @functools.cached_property
    def example_weights(self) -> np.ndarray | None:
        """The weight of each training item, float32 `[E]`; None where all are 1."""
        return weights_of_items(self.data.corpus.train, self.data.items["train"])

    def batches(self, mesh: Mesh) -> Batches:
        """Return the training batches of the whole run.

        Their content does not depend on the devices; empty rows are padding.

        Raises:
          InputError: the sampling does not fit the labels, or `rows_per_update` does
            not divide.
        """
        training, shares = self.experiment.training, batch_parts(mesh)
        parts, rows = shares * training.micro_batches, training.rows_per_update
        if rows is not None and rows % parts:
            fitting = sorted({max(rows // parts, 1) * parts, -(-rows // parts) * parts})
            raise InputError(
                f"training: rows_per_update {rows} does not divide into {shares} parts "
                f"of the mesh x {training.micro_batches} micro-batches; take "
                f"{' or '.join(map(str, fitting))}"
            )
        items = self.data.items["train"]
        lengths, max_length = [len(item) for item in items], training.max_length
        settings: dict[str, Any] = {
            "max_length": max_length,
            "epochs": training.epochs,
            "seed": training.seed,
            "drawn": epochs_drawn(self.experiment, self.data),
        }
        if training.batching == "buckets":
            rows = rows or training.batch_size
            plan = bucket_plan(lengths, rows=rows, buckets=training.buckets, **settings)
        else:
            rows = rows or rows_per_batch(lengths, max_length, training.batch_size)
            plan = packing_plan(lengths, rows=rows, **settings)
        if plan.weights is not None and self.example_weights is not None:
            raise InputError(
                "sampling: it weights what it draws, and the examples of train have "
                "weights; leave one out, or take OverSampling"
            )
        layout = self.experiment.task.layout(self.data.tokenizer)
        sequences = {**layout.sequences, **dict.fromkeys(soft_arrays(items), 0)}
        layout = dataclasses.replace(layout, sequences=sequences)
        return Batches(
            [item.arrays for item in items],
            layout=layout,
            plan=plan,
            multiple_of=parts,
            example_weights=self.example_weights,
        )

    def step_settings(self, mesh: Mesh, places: int = 0) -> dict[str, Any]:
        """Return arguments of `train_step` for all steps; `places`: padded tokens."""
        share, platform = places // batch_parts(mesh), mesh.devices.flat[0].platform
        return {
            "network": self.network.for_training(share, platform),
            "optimizer": self.experiment.optimizer,
            "task": self.experiment.task,
            "micro_batches": self.experiment.training.micro_batches,
            "mesh": mesh,
        }

    def decode(
        self, params: Params | ControlModel, split: str, mesh: Mesh, **options: Any
    ) -> Decoded:
        """Decode a split, or what the options name, as `decode_examples`."""
        settings = {
            "examples": getattr(self.data.corpus, split),
            "items": self.data.items[split],
            "task": self.experiment.task,
            "network": self.network,
            "labels": self.data.labels,
            "tokenizer": self.data.tokenizer,
            "max_length": self.experiment.training.max_length,
        }
        return decode_examples(params, mesh=mesh, **{**settings, **options})

    def facts(self, mesh: Mesh, loop: LoopState) -> dict[str, Any]:
        """Return fields of a `Result`: of the data, the devices and dev's scores."""
        corpus = self.data.corpus
        return {
            "examples": {split: len(getattr(corpus, split)) for split in SPLITS},
            "labels": corpus.label_counts(),
            "cut": self.data.cut or None,
            "checksums": self.data.identity.checksums,
            "devices": mesh.size,
            "device_kind": mesh.devices.flat[0].device_kind,
            "primary_metric": self.experiment.task.primary_metric,
            "best_dev_score": loop.best_dev_score,
            "last_dev_score": loop.dev_score,
            "skipped": loop.skipped,
            "versions": loop.versions,
        }

    def score(
        self, candidates: Sequence[Any], split: str, threshold: Any = None
    ) -> Scores:
        """Score the decoded candidates for a split."""
        examples = getattr(self.data.corpus, split)
        task, labels = self.experiment.task, self.data.labels
        predictions = [task.decide(each, threshold) for each in candidates]
        return scoring.score(task, examples, predictions, labels)[0]


def checksum(examples: Iterable[Mapping[str, Any]]) -> int:
    """Return a checksum of arrays by name, of each example in turn."""
    value = 0
    for arrays in examples:
        for name in sorted(arrays):
            value = zlib.crc32(np.ascontiguousarray(arrays[name]).data, value)
    return value


def epochs_drawn(
    experiment: Experiment, data: Encoded
) -> Callable[[int], Epoch] | None:
    """Return a function that draws the training items of an epoch; None: all.

    It counts, for each item, the labels of each class of the task's first output.

    Raises:
      InputError: the sampling does not fit the labels.
    """
    sampling = experiment.sampling
    if sampling is None:
        return None
    name, target = next(iter(experiment.task.targets(data.labels).items()))
    if target.kind == "positions":
        raise InputError(
            f"sampling: labels of output {name!r} are positions and have no classes"
        )
    classes = 2 if target.kind == "multi_label" else max(2, len(target.classes))
    items = data.items["train"]
    units = np.zeros((len(items), classes), np.int64)
    for row, item in zip(units, items, strict=True):
        values = np.atleast_1d(item.arrays[name])
        row += np.bincount(values[values >= 0], minlength=classes)
    try:
        counts = UnitCounts(units)
        draw = functools.partial(sampling.epoch, counts, experiment.training.seed)
        draw(0)
    except ValueError as error:
        raise InputError(f"sampling: {error}") from error
    return draw


def prepare(
    experiment: Experiment, warn: Warn, *, weights: bool = True, fetch: bool = True
) -> Setup:
    """Load the data, build the network, load its weights and bind the objective.

    Without `weights`, as where no training follows, none are loaded, and objective and
    hardware are not checked. With `fetch` an encoder may be fetched from the hub.

    Raises:
      InputError: data, weights or objective cannot be used.
    """
    data = load_data(experiment, warn, fetch=fetch)
    network = Network(
        encoder=data.encoder,
        heads=experiment.task.heads(data.labels),
        precision=experiment.training.precision,
        remat=experiment.training.remat,
    )
    frozen, depth = experiment.optimizer.frozen_layers, data.encoder.distinct_layers
    if frozen > depth:
        raise InputError(f"frozen_layers is {frozen}; the encoder has {depth} layers")
    if not weights:
        return Setup(experiment, data, network)
    loaded = None
    if data.folder is None:
        network.check_memory("encoder")
    else:
        loaded = huggingface.read_weights(data.folder, network, data.labels)
        for note in loaded.notes:
            warn(note)
    setup = Setup(experiment, data, network, loaded)
    _ = setup.objective  # its errors are raised before anything is written
    if experiment.training.head_bias == "prior" and not setup.prior_biases:
        warn(f"{data.folder}: has weights of all heads, which head_bias prior leaves")
    is_bfloat16 = experiment.training.precision == "bfloat16"
    if is_bfloat16 and jax.default_backend() == "cpu" and imitates_bfloat16():
        warn(
            "this CPU has no instructions for bfloat16, which is slower than float32 "
            "here: --training.precision float32"
        )
    return setup
