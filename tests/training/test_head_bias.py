"""Heads that begin at the class frequencies of train."""

import dataclasses
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from dicejax.cli import run
from dicejax.config import Experiment, PretrainedEncoder, ScratchEncoder, Training, load
from dicejax.data.synthetic import SyntheticNER
from dicejax.data.synthetic_labels import SyntheticLabels
from dicejax.errors import InputError
from dicejax.mesh import MeshShape
from dicejax.models.heads import TokenHead, biases_at
from dicejax.objectives import PositionCrossEntropy
from dicejax.tasks import (
    MachineReading,
    MultiLabelClassification,
    Tagging,
    Target,
    TwoPointerNER,
)
from dicejax.tasks.priors import log_priors
from dicejax.training.export import export
from dicejax.training.setup import prepare
from dicejax.training.sharding import by_path
from dicejax.training.step import train_step

from ..shrinking import ROOT, shrunk
from . import worker
from .commands import finished_here, same_end, stop_at, weights, words

QUERIES = tuple((name, f"{name} words") for name in ("LOC", "MISC", "ORG", "PER"))
TASKS = [
    Tagging(),
    TwoPointerNER(),
    MachineReading(queries=QUERIES, answerable=True),
    MultiLabelClassification(),
]
NAMES = SyntheticNER(train=24, dev=4, test=4, o_per_entity=5.0)
TOPICS = SyntheticLabels(train=24, dev=4, test=4, labels=3)


def experiment(task, **changes):
    data = TOPICS if isinstance(task, MultiLabelClassification) else NAMES
    encoder = ScratchEncoder(
        hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    training = Training(head_bias="prior", batch_size=8, max_length=64)
    settings = {"task": task, "encoder": encoder, "training": training}
    return Experiment(name="mine", data=data, **settings | changes)


def ready(settings):
    setup = prepare(settings, lambda text: None)
    mesh = settings.mesh.make(jax.devices()[:1])
    return setup, mesh, setup.initial_state(mesh, 1)


def without_kernels(params):
    """Return parameters whose heads see nothing but their biases."""
    return params | {
        "heads": jax.tree_util.tree_map_with_path(
            lambda path, leaf: 0 * leaf if path[-1].key == "kernel" else leaf,
            params["heads"],
        )
    }


def frequencies(setup, name):
    """Return the class frequencies of train, or of 1 of several labels, in float64."""
    items = setup.data.items["train"]
    counts = setup.experiment.task.class_counts(items, setup.data.labels)[name]
    counts = np.maximum(counts.astype(np.float64), 0.5)
    shares = counts / counts.sum(axis=-1, keepdims=True)
    return shares if counts.ndim == 1 else shares[:, 1]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_the_first_predictions_are_the_class_frequencies(task):
    setup, mesh, state = ready(experiment(task))
    (batch, *_) = setup.batches(mesh).iterate()
    apply = jax.jit(setup.network.apply)
    outputs = apply(without_kernels(state.params), batch.arrays)
    targets = task.targets(setup.data.labels)
    assert set(outputs) == set(targets)
    lowest = []
    for name, logits in outputs.items():
        expected = frequencies(setup, name)
        if logits.shape[-1] != len(expected):
            logits = logits[..., None]
        logits = np.asarray(logits, np.float64).reshape(-1, len(expected))
        logits = logits[logits[:, 0] > -9e3]  # pairs that are no span
        assert len(logits)
        softmax = targets[name].kind == "classes"
        function = scipy.special.softmax if softmax else scipy.special.expit
        options = {"axis": -1} if softmax else {}
        shares = function(logits, **options)
        np.testing.assert_allclose(
            shares, np.tile(expected, (len(shares), 1)), rtol=1e-5
        )
        lowest.append(expected.min())
    assert min(lowest) < 0.4  # zeros would be far from it


def test_the_first_loss_is_the_entropy_of_the_classes():
    settings = experiment(Tagging())
    rows = dataclasses.replace(settings.training, rows_per_update=24)  # all of train
    setup, mesh, state = ready(dataclasses.replace(settings, training=rows))
    tags = np.concatenate([item.arrays["tags"] for item in setup.data.items["train"]])
    counts = np.bincount(tags[tags >= 0])
    entropy = scipy.stats.entropy(counts)
    batches = setup.batches(mesh)
    assert len(batches) == settings.training.epochs
    first = batches[0].arrays
    outputs = jax.jit(setup.network.apply)(without_kernels(state.params), first)
    loss, _ = setup.objective(outputs, {"tags": jnp.asarray(first["tags"])})
    assert float(loss) == pytest.approx(entropy, rel=1e-5)
    # With the drawn kernels it is near, and far below that of zeros.
    _, metrics = train_step(state, first, setup.objective, **setup.step_settings(mesh))
    assert float(metrics["loss"]) == pytest.approx(entropy, rel=0.5)
    assert float(metrics["loss"]) < 0.8 * np.log(len(counts))


def test_a_class_without_elements_counts_as_half_of_one():
    targets = {
        "tags": Target("classes", ("O", "B", "I")),
        "topics": Target("multi_label", ("a", "b")),
        "start": Target("positions"),
    }
    counts = {"tags": np.array([80, 20, 0]), "topics": np.array([[9, 1], [10, 0]])}
    priors = log_priors(targets, counts)
    assert set(priors) == {"tags", "topics"}
    shares = np.array([80, 20, 0.5]) / 100.5
    np.testing.assert_allclose(priors["tags"], np.log(shares), rtol=1e-15)
    np.testing.assert_allclose(priors["topics"], np.log([1 / 9, 0.05]), rtol=1e-15)


def test_zeros_are_the_default_and_nothing_else_differs():
    settings = experiment(Tagging())
    zeros = dataclasses.replace(
        settings, training=Training(batch_size=8, max_length=64)
    )
    assert zeros.training.head_bias == "zeros"
    (_, _, ours), (_, _, plain) = ready(settings), ready(zeros)
    bias = plain.params["heads"]["tags"]["dense"].pop("bias")
    np.testing.assert_array_equal(bias, 0)
    assert np.abs(ours.params["heads"]["tags"]["dense"].pop("bias")).max() > 1
    jax.tree.map(np.testing.assert_array_equal, ours.params, plain.params)


def initial_parameters(shape):
    """Return the parameters that a mesh begins with, by their paths."""
    setup = prepare(experiment(Tagging()), lambda text: None)
    params = setup.initial_state(MeshShape(**shape).make(), 1).params
    return {name: np.asarray(leaf) for name, leaf in by_path(params).items()}


@pytest.mark.slow
def test_a_mesh_begins_alike(tmp_path):
    mesh = {"data": 2, "fsdp": 2, "tensor": 2}
    ours = worker.call(initial_parameters, mesh, devices=8, folder=tmp_path)
    theirs = initial_parameters({"data": 1})
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected)


def test_outputs_without_classes_are_refused(tmp_path):
    settings = shrunk(load(ROOT / "qa/squad1.py"), tmp_path)
    training = dataclasses.replace(settings.training, head_bias="prior")
    settings = dataclasses.replace(settings, training=training)
    over = dataclasses.replace(settings, objective=PositionCrossEntropy())
    message = (
        "head_bias prior needs class frequencies, but the labels of output 'start'"
    )
    with pytest.raises(InputError, match=message):
        prepare(over, lambda text: None)
    setup = prepare(settings, lambda text: None)  # binary ends have classes
    assert setup.prior_biases["answer"]["dense"]["bias"].shape == (2,)


def test_heads_that_name_no_biases_are_refused():
    custom = dataclasses.make_dataclass("Custom", [], bases=(TokenHead,), frozen=True)
    custom.biases = ()
    with pytest.raises(InputError, match=r"head 'x' names no biases .* of Custom"):
        biases_at([("x", custom(classes=2))], {"x": np.zeros(2)})


def test_resumed_runs_end_alike(tmp_path, capsys):
    more = {"--training.head_bias": "prior", "--optimizer.head_learning_rate": 10}
    more |= {"--training.epochs": 1}
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    finished_here(whole, **more)
    stop_at(5, signal.SIGTERM, words(stopped, **more))
    assert run(words(stopped)) == 2  # not with other settings
    errors = capsys.readouterr().err
    assert 'training.head_bias was "prior" and is "zeros"' in errors
    assert "optimizer.head_learning_rate was 10.0 and is null" in errors
    finished_here(stopped, **more)
    same_end(stopped, whole)


def test_a_head_of_the_encoders_folder_keeps_its_bias(tmp_path):
    more = {"--training.head_bias": "prior", "--training.epochs": 1}
    finished_here(tmp_path / "run", **more)
    _, params = weights(tmp_path / "run", "best")
    folder = str(tmp_path / "exported")
    export(str(tmp_path / "run"), folder, "best")
    notes = []
    settings = experiment(Tagging(), encoder=PretrainedEncoder(path=folder))
    setup = prepare(settings, notes.append)
    assert any(
        "has weights of all heads, which head_bias prior leaves" in n for n in notes
    )
    state = setup.initial_state(settings.mesh.make(jax.devices()[:1]), 1)
    bias = state.params["heads"]["tags"]["dense"]["bias"]
    np.testing.assert_array_equal(bias, params["heads"]["tags"]["dense"]["bias"])
