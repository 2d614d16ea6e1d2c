"""Experiments: Python files that define what to train, and the JSON that records it.

An experiment file defines `get_config() -> Experiment`. Everything in it is a frozen
dataclass, so the command line can override any leaf and two can be compared.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import json
import operator
import os
import re
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import cattrs
from cattrs.strategies import configure_union_passthrough

from dicejax import formats as formats  # their classes are choices, see `_OPEN`
from dicejax import objectives
from dicejax.data import synthetic as synthetic
from dicejax.data import synthetic_labels as synthetic_labels
from dicejax.data.augmentation import Augmentation
from dicejax.data.resample import Sampling
from dicejax.data.source import Source
from dicejax.errors import Flaw, InputError, first_line
from dicejax.formats import earlier
from dicejax.io import files, json_text, paths
from dicejax.mesh import MeshShape
from dicejax.models.encoder import EncoderConfig
from dicejax.models.origin import PretrainedEncoder as PretrainedEncoder
from dicejax.models.origin import ScratchEncoder as ScratchEncoder
from dicejax.models.settings import Remat, check_fields
from dicejax.objectives import (
    ControlName,
    CrossEntropy,
    Objective,
    PositionCrossEntropy,
    SelfAdjustingDice,
    sets,
)
from dicejax.optimizers import AdamW, Optimizer
from dicejax.tasks import Tagging, Task


def _check_at_least(settings: object, low: int, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        if value is not None and value < low:
            raise ValueError(f"{name} is {value}; want at least {low}")


AnyEncoder = PretrainedEncoder | ScratchEncoder | EncoderConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """Length, batches and precision of training.

    Args:
      epochs: passes over the training data.
      batch_size: sequences per update, on average: they are packed into rows, so the
        number varies a little.
      rows_per_update: rows per batch; by default as many as hold `batch_size`
        sequences. Batches are the same on any number of devices, padded with empty rows
        where needed.
      max_length: tokens of a packed row, which holds several sequences; longer texts
        are read in windows that overlap, pairs and questions are cut.
      batching: "packed" puts several sequences into a row, "buckets" one, with rows of
        similar length together.
      buckets: maximum number of row widths, with batching "buckets".
      micro_batches: parts that a batch is split into to save memory; loss and gradient
        are those of the whole batch, for every loss.
      precision: type of activations and matrix products; parameters are float32. The
        loss is scaled for float16.
      remat: what the backward pass recomputes, which saves memory and costs time:
        attention's scores and weights, or each layer as a whole.
      head_bias: initial bias of drawn heads: "zeros", or "prior", which predicts the
        class frequencies of train (Lin et al., 2017, section 3.3). Losses that are
        named, as in `compare`, have "prior" if their names end with "+prior".
      max_consecutive_skips: a step whose loss or gradient is not finite is skipped;
        after this many in a row the run stops and saves the batch.
      seed: seed of initial weights, data order and dropout; the same seed gives the
        same run bit for bit on the same hardware and versions.
      log_every: updates between two lines in metrics.jsonl.
    """

    epochs: int = 3
    batch_size: int = 32
    rows_per_update: int | None = None
    max_length: int = 128
    batching: Literal["packed", "buckets"] = "packed"
    buckets: int = 8
    micro_batches: int = 1
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    remat: Remat = "none"
    head_bias: Literal["zeros", "prior"] = "zeros"
    max_consecutive_skips: int = 20
    seed: int = 0
    log_every: int = 20

    def __post_init__(self) -> None:
        check_fields(self)
        _check_at_least(self, 3, "max_length")
        counts = ("epochs", "batch_size", "rows_per_update", "buckets", "micro_batches")
        _check_at_least(self, 1, *counts, "max_consecutive_skips", "log_every")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is {self.seed}; want at least 0 and 63 bits")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recording:
    """Checkpoints and logs of a run.

    Args:
      checkpoint_every: updates between checkpoints, apart from one per epoch; a kill
        loses at most this many, SIGTERM none.
      keep_last: number of most recent checkpoints to keep.
      keep_best: number of checkpoints with the best dev scores to keep.
      tensorboard: write the metrics for TensorBoard too.
      wandb_project: Weights & Biases project to log to; needs `pip install wandb`.
    """

    checkpoint_every: int = 500
    keep_last: int = 2
    keep_best: int = 1
    tensorboard: bool = False
    wandb_project: str | None = None

    def __post_init__(self) -> None:
        _check_at_least(self, 1, "checkpoint_every", "keep_last", "keep_best")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Analysis:
    """Gradient diagnostics of a run.

    Args:
      every: measure the gradients of the first and every n-th step and write a line to
        analysis.jsonl; 50 costs about one percent of the time, 0 turns it off.
    """

    every: int = 0

    def __post_init__(self) -> None:
        _check_at_least(self, 0, "every")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything that defines a run: data, task, encoder, loss, optimizer, training.

    Args:
      name: name of the runs' folder.
      data: corpus.
      task: conversion of examples to labels and back; its labels are positions if the
        objective reads positions and the task can have both.
      augmentation: change of the training split, by a class of the experiment file.
      sampling: selection of the training examples of each epoch; by default all, once.
      encoder: pretrained encoder, or an architecture with random weights: a BERT, or
        any `EncoderConfig`; its `vocab_size` bounds the vocabulary learned from data.
      objective: loss of `dicejax train`.
      compared: losses of `dicejax compare`.
      optimizer: update rule and learning rates.
      training: length, batches, precision, seed.
      mesh: distribution over devices.
      recording: checkpoints and logs.
      analysis: gradient diagnostics, for `dicejax plot`.
      control: a model in the place of the fine-tuned encoder, to see what that is
        worth: "majority", the most frequent class, or the entities of train by look-up;
        "tfidf", a logistic regression on words and characters; "frozen", one on the
        encoder as it is. Objective, optimizer and updates are then without effect.
    """

    name: str
    data: Source
    task: Task = Tagging()
    augmentation: Augmentation | None = None
    sampling: Sampling | None = None
    encoder: AnyEncoder = ScratchEncoder()
    objective: Objective = CrossEntropy()
    compared: tuple[objectives.Candidate, ...] = (CrossEntropy(), SelfAdjustingDice())
    optimizer: Optimizer = AdamW()
    training: Training = Training()
    mesh: MeshShape = MeshShape()
    recording: Recording = Recording()
    analysis: Analysis = Analysis()
    control: ControlName | None = None

    def __post_init__(self) -> None:
        files.file_name(self.name, "name")
        if self.control is not None and not self.task.has_controls:
            raise InputError(
                f"control is {self.control!r}, which is for classes of texts and of "
                f"words, and not for {type(self.task).__name__}; leave it out"
            )
        if self.control == "frozen" and isinstance(self.encoder, ScratchEncoder):
            raise InputError(
                "control is 'frozen', but the encoder has random weights; name a "
                "pretrained one"
            )
        positions = PositionCrossEntropy in map(type, self.objective.terms())
        object.__setattr__(self, "task", self.task.over_positions(positions))


# Fields of earlier versions, with their names now.
RENAMED = {
    "data.tag_column": "data.label_column",
    "objective.classes": "objective.exclude_class",
    "objective.reduce": "objective.average",
    "training.row_length": "training.max_length",
    "training.sentences_per_update": "training.batch_size",
    "training.most_skipped": "training.max_consecutive_skips",
}

# Settings that may change when a run is resumed, without effect on its results.
_FREE = ("mesh.", "recording.", "analysis.", "training.micro_batches")

ExperimentOrFile = Experiment | str | os.PathLike[str]


def differences(old: Experiment, new: Experiment) -> list[str]:
    """Return the settings that differ between two experiments and change results.

    >>> from dicejax.data.synthetic import SyntheticNER
    >>> one = Experiment(name="mine", data=SyntheticNER())
    >>> other = dataclasses.replace(one, training=Training(seed=3, micro_batches=2))
    >>> differences(one, other)
    ['training.seed was 0 and is 3']
    """
    was, now = leaves(old), leaves(new)
    return [
        f"{name} was {json.dumps(was.get(name))} and is {json.dumps(now.get(name))}"
        for name in sorted(was | now)
        if was.get(name) != now.get(name) and not name.startswith(_FREE)
    ]


def leaves(experiment: Experiment) -> dict[str, Any]:
    """Return the values of an experiment by their dotted names."""
    values: dict[str, Any] = {}
    trees = list(json.loads(to_json(experiment)).items())
    for path, tree in trees:  # it grows
        parts = dict(enumerate(tree)) if isinstance(tree, list) else tree
        if isinstance(parts, dict) and parts:
            trees += [(f"{path}.{name}", part) for name, part in parts.items()]
        else:
            values[path] = parts
    return values


def load(path: ExperimentOrFile) -> Experiment:
    """Run an experiment file; return what its `get_config()` gives, paths `resolved`.

    Raises:
      InputError: the file is missing, fails, or gives no Experiment.
    """
    if isinstance(path, Experiment):  # as the functions take one or the other
        return path
    path = Path(path)
    with _python_errors(path):
        get_config = _namespace(path).get("get_config")
        if get_config is None:
            raise InputError(f"{path}: defines no get_config()")
        experiment = get_config()
    if not isinstance(experiment, Experiment):
        kind = type(experiment).__name__
        raise InputError(f"{path}: get_config() gives {kind}, not an Experiment")
    return paths.from_here(experiment, path.parent)


_FILE: contextvars.ContextVar[tuple[Path, dict[str, Any]]]
_FILE = contextvars.ContextVar("experiment file", default=(Path(), {}))


@contextlib.contextmanager
def classes_of(path: str | Path) -> Iterator[None]:
    """Make the classes of an experiment file known inside the context.

    Runs that use one of them can then be read.

    Raises:
      InputError: the file is missing or fails.
    """
    with _python_errors(Path(path)):
        # Classes are found as subclasses, which live while they are referenced.
        namespace = _namespace(Path(path))
    token = _FILE.set((Path(path), namespace))
    try:
        yield
    finally:
        _FILE.reset(token)


def file_leaves() -> dict[str, object]:
    """Return the leaves of the experiment of the file in use, see `classes_of`."""
    path, namespace = _FILE.get()
    if "get_config" not in namespace:
        return {}
    with _python_errors(path):
        return leaves(namespace["get_config"]())


def _namespace(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"{path}: no such experiment file")
    # Last, so that modules next to the file shadow nothing.
    sys.path += {str(path.parent.absolute())} - {*sys.path}
    return runpy.run_path(str(path))


@contextlib.contextmanager
def _python_errors(path: Path) -> Iterator[None]:
    """Turn exceptions of a Python file into an error with the line that raised them."""
    try:
        yield
    except InputError:
        raise
    except SyntaxError as error:
        raise InputError(f"{path}:{error.lineno}: {error.msg}") from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename) == path]
        where = f"{path}:{lines[-1]}" if lines else str(path)
        message = f"{type(error).__name__}: {error}{_new_names(str(error))}"
        raise InputError(f"{where}: {message}") from error


def to_json(experiment: Experiment) -> str:
    """Return an experiment as JSON, with class names where a field is open.

    Raises:
      InputError: a setting is infinite or not a number.
    """
    content = _converter().unstructure(experiment, Experiment)
    try:
        return json.dumps(content, indent=2, allow_nan=False) + "\n"
    except ValueError as error:
        raise InputError(f"experiment: {error}; want finite settings") from error


def from_json(text: str, origin: str = "experiment.json") -> Experiment:
    """Return the experiment that `to_json` wrote.

    >>> from dicejax.data.synthetic import SyntheticNER
    >>> experiment = Experiment(name="mine", data=SyntheticNER())
    >>> from_json(to_json(experiment)) == experiment
    True

    Raises:
      InputError: not JSON, an unknown field or type, or a value that does not fit.
    """
    try:
        return _converter().structure(json_text.parse(text), Experiment)
    except Flaw as flaw:
        raise flaw.at(origin, flaw.line) from flaw
    except Exception as error:  # cattrs groups the errors of all fields
        reasons = "; ".join(cattrs.transform_error(error, format_exception=_reason))
        reasons += _new_names(reasons)
        raise InputError(f"{origin}: not an experiment: {reasons}") from error


# Open base classes: a field may hold any subclass, also of an experiment file.
_OPEN = (Augmentation, Optimizer, Sampling, Source, Task)


def _new_names(message: str) -> str:
    """Return the new names of the fields of earlier versions in an error message."""
    last = dict([x.split(".")[-1] for x in pair] for pair in RENAMED.items())
    extra = re.findall(r"(?:argument '|fields found \()(\w+)", message)
    pairs = last | sets.RENAMED | {"labels": "names"}  # of `TextFiles`
    there = [pair for pair in pairs.items() if pair[0] in extra]
    there += earlier.new_names(message)
    return "".join(f"; {old} is now {new}" for old, new in there)


def _reason(error: BaseException, kind: type | None) -> str:
    # The check of a class, whose message names the valid values.
    if isinstance(error, InputError) or (type(error) is ValueError and kind is None):
        return first_line(error)
    if not isinstance(error, KeyError):
        return cattrs.v.format_exception(error, kind)
    if not str(error.args[0])[:1].isupper():
        return f"{error} is missing"
    return (
        f"no class is called {error}; if an experiment file defines it, name that file "
        "with --experiment"
    )


def _converter() -> cattrs.Converter:
    # An experiment file may have defined a class of its own since the last call.
    losses = (cls for cls in objectives.CLASSES.values() if cls is not Objective)
    classes = [cls for base in (*_OPEN, EncoderConfig) for cls in base.__subclasses__()]
    for cls in classes:  # it grows
        classes += cls.__subclasses__()
    return _converter_of(tuple(losses), tuple(classes))


@functools.lru_cache(maxsize=1)
def _converter_of(
    losses: tuple[type, ...], classes: tuple[type, ...]
) -> cattrs.Converter:
    """Let open fields hold any of their classes, named under "type" in JSON.

    Not cattrs' `include_subclasses`, which takes a second of each start.
    """
    converter = cattrs.Converter(forbid_extra_keys=True)
    configure_union_passthrough(str | int | None, converter)

    def structure(by_name: dict[str, type], content: Any, _: Any) -> Any:
        fields = earlier.today(content, by_name)
        cls = by_name[fields.pop("type")]
        return converter.structure(getattr(cls, "recorded", dict)(fields), cls)

    def unstructure(by_name: dict[str, type], value: Any) -> dict[str, Any]:
        cls = by_name[type(value).__name__]
        return {**converter.unstructure(value, cls), "type": cls.__name__}

    members: dict[Any, Sequence[type]] = {
        base: [cls for cls in classes if issubclass(cls, base)]
        for base in (*_OPEN, EncoderConfig)
    }
    encoders = members.pop(EncoderConfig)
    members[AnyEncoder] = [PretrainedEncoder, ScratchEncoder, *encoders]
    members[objectives.Candidate] = [*losses, objectives.FromPrior, objectives.Control]
    for kind, choices in (members | {Objective: losses}).items():
        fits = functools.partial(operator.eq, kind)
        by_name = {cls.__name__: cls for cls in choices}
        read, write = (functools.partial(f, by_name) for f in (structure, unstructure))
        converter.register_structure_hook_func(fits, read)
        converter.register_unstructure_hook_func(fits, write)
    return converter
