"""Experiments: Python files that say what to train, and the JSON that records it.

An experiment file defines `get_config() -> Experiment`. Everything in it is a frozen
dataclass, so the command line can override any leaf and two can be compared.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import runpy
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import cattrs
from cattrs.strategies import (
    configure_tagged_union,
    configure_union_passthrough,
    include_subclasses,
)

from dicejax.data import synonyms
from dicejax.data.augment import ImbalanceAblation
from dicejax.data.resample import Sampling
from dicejax.data.sources import Source
from dicejax.errors import InputError
from dicejax.mesh import MeshShape
from dicejax.objectives import CrossEntropy, Objective, SelfAdjustingDice
from dicejax.optimizers import AdamW, Optimizer
from dicejax.tasks import Tagging, Task


def _check_at_least(settings: object, least: dict[str, int]) -> None:
    for name, low in least.items():
        value = getattr(settings, name)
        if value is not None and value < low:
            raise ValueError(f"{name} is {value}; want at least {low}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainedEncoder:
    """An encoder read from a Hugging Face model folder.

    Args:
      path: the folder (config.json, model.safetensors, tokenizer files) or a hub id.
      hidden_dropout_prob: overrides the folder's dropout of hidden states.
      attention_probs_dropout_prob: overrides the folder's dropout of attention weights.
    """

    path: str
    hidden_dropout_prob: float | None = None
    attention_probs_dropout_prob: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScratchEncoder:
    """A BERT trained from random weights, with a vocabulary learnt from the data.

    Args:
      vocab_size: upper bound on the word pieces learnt from the training words.
      hidden_size: width of the hidden states.
      num_hidden_layers: depth.
      num_attention_heads: attention heads; divides the width.
      intermediate_size: width inside the feed-forward blocks.
      dropout: share of hidden states and attention weights set to zero.
    """

    vocab_size: int = 8000
    hidden_size: int = 128
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    intermediate_size: int = 512
    dropout: float = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """How long and in what portions to train.

    Args:
      epochs: passes over the training data.
      batch_size: sequences per update, on average: they are packed into rows, so the
        number varies a little.
      rows_per_update: rows of a batch; None: as many as hold those sequences. Batches
        are the same on any number of devices, filled up with empty rows if need be.
      max_length: tokens of a packed row, which holds several sequences; longer ones are
        truncated.
      batching: "packed" puts several sequences into a row, "buckets" one, with rows of
        like length together.
      buckets: the most widths of rows, with batching "buckets".
      micro_batches: parts that a batch is cut into, to save memory; the step is that of
        the whole batch, for every loss.
      precision: type of activations and matrix products; parameters are float32. The
        loss is scaled for float16.
      remat: recompute layers in the backward pass, which saves memory and costs time.
      max_consecutive_skips: a step whose loss or gradient is not finite changes
        nothing; after this many in a row the run stops and keeps the batch.
      seed: of initial weights, data order and dropout; the same seed gives the same
        run bit for bit on the same hardware and versions.
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
    remat: bool = False
    max_consecutive_skips: int = 20
    seed: int = 0
    log_every: int = 20

    def __post_init__(self):
        least = {
            "epochs": 1,
            "batch_size": 1,
            "rows_per_update": 1,
            "max_length": 3,
            "buckets": 1,
            "micro_batches": 1,
            "max_consecutive_skips": 1,
            "log_every": 1,
        }
        _check_at_least(self, least)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recording:
    """What is kept of a run while it goes on.

    Args:
      checkpoint_every: updates between two checkpoints; there is one after each epoch
        too. This is what a kill loses, a SIGTERM loses nothing.
      keep_last: of the last checkpoints how many stay.
      keep_best: of those with the best dev scores how many stay.
      wandb_project: project of Weights & Biases to log to; needs `pip install wandb`.
    """

    checkpoint_every: int = 500
    keep_last: int = 2
    keep_best: int = 1
    wandb_project: str | None = None

    def __post_init__(self):
        _check_at_least(self, {"checkpoint_every": 1, "keep_last": 1, "keep_best": 1})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Analysis:
    """What is measured of the gradients of a run while it goes on.

    Args:
      every: the first step and each n-th are looked at, before they are taken, and
        analysis.jsonl gets a line; 50 costs about one percent of the time. 0: none.
    """

    every: int = 0

    def __post_init__(self):
        _check_at_least(self, {"every": 0})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """What to train on what, and how.

    Args:
      name: names the folder of the runs.
      data: the corpus.
      task: how examples become labels and back.
      augmentation: changes the training split of texts with a class; None leaves it.
      sampling: which training examples each epoch holds; None takes all once.
      encoder: the encoder and where its weights come from.
      objective: the loss that `dicejax train` uses.
      compared: the losses that `dicejax compare` trains one after the other.
      optimizer: the update rule and its learning rates.
      training: length, batch, precision, seed.
      mesh: how the devices share the work.
      recording: checkpoints and logs.
      analysis: of the gradients, for `dicejax plot`.
    """

    name: str
    data: Source
    task: Task = Tagging()
    augmentation: ImbalanceAblation | None = None
    sampling: Sampling | None = None
    encoder: PretrainedEncoder | ScratchEncoder = ScratchEncoder()
    objective: Objective = CrossEntropy()
    compared: tuple[Objective, ...] = (CrossEntropy(), SelfAdjustingDice())
    optimizer: Optimizer = AdamW()
    training: Training = Training()
    mesh: MeshShape = MeshShape()
    recording: Recording = Recording()
    analysis: Analysis = Analysis()


# Fields of earlier versions, with their names now.
RENAMED = {
    "training.row_length": "training.max_length",
    "training.sentences_per_update": "training.batch_size",
    "training.most_skipped": "training.max_consecutive_skips",
}

# What may change when a run is resumed without changing its results.
_FREE = ("mesh.", "recording.", "analysis.", "training.micro_batches")


def differences(old: Experiment, new: Experiment) -> list[str]:
    """Say in what two experiments differ that changes what comes out.

    >>> from dicejax.data.sources import SyntheticNER
    >>> one = Experiment(name="mine", data=SyntheticNER())
    >>> other = dataclasses.replace(one, training=Training(seed=3, micro_batches=2))
    >>> differences(one, other)
    ['training.seed was 0 and is 3']
    """
    before, after = _leaves(json.loads(to_json(old))), _leaves(json.loads(to_json(new)))
    return [
        f"{name} was {json.dumps(before.get(name))} and is "
        f"{json.dumps(after.get(name))}"
        for name in sorted(before | after)
        if before.get(name) != after.get(name) and not name.startswith(_FREE)
    ]


def load(path: str | Path) -> Experiment:
    """Run an experiment file and return what its `get_config()` gives.

    Raises:
      InputError: the file is missing, fails, or gives no Experiment.
    """
    path = Path(path)
    with _told_by_line(path):
        get_config = _namespace(path).get("get_config")
        if get_config is None:
            raise InputError(f"{path}: defines no get_config()")
        experiment = get_config()
    if not isinstance(experiment, Experiment):
        kind = type(experiment).__name__
        raise InputError(f"{path}: get_config() gives {kind}, not an Experiment")
    return experiment


@contextlib.contextmanager
def classes_of(path: str | Path | None) -> Iterator[None]:
    """Run an experiment file and know the classes that it defines while this lasts.

    Runs that use one of them can be read within.

    Args:
      path: the file; None for none, which changes nothing.

    Raises:
      InputError: the file is missing or fails.
    """
    namespace = {}
    if path is not None:
        with _told_by_line(Path(path)):
            # Classes are found as subclasses, which live as long as somebody has them.
            namespace = _namespace(Path(path))
    yield
    del namespace


def _namespace(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"{path}: no such experiment file")
    return runpy.run_path(str(path))


@contextlib.contextmanager
def _told_by_line(path: Path) -> Iterator[None]:
    """Tell what goes wrong in a Python file with the line of it that did."""
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
        raise InputError(f"{where}: {type(error).__name__}: {error}") from error


def to_json(experiment: Experiment) -> str:
    """Write an experiment as JSON; each choice among types carries its type's name."""
    return json.dumps(_converter().unstructure(experiment, Experiment), indent=2) + "\n"


def from_json(text: str, origin: str = "experiment.json") -> Experiment:
    """Read what `to_json` wrote.

    >>> from dicejax.data.sources import SyntheticNER
    >>> experiment = Experiment(name="mine", data=SyntheticNER())
    >>> from_json(to_json(experiment)) == experiment
    True

    Raises:
      InputError: not JSON, an unknown field or type, or a value that does not fit.
    """
    try:
        return _converter().structure(json.loads(text), Experiment)
    except json.JSONDecodeError as error:
        raise InputError(f"{origin}:{error.lineno}: not JSON: {error.msg}") from error
    except Exception as error:  # cattrs groups the errors of all fields
        reasons = "; ".join(cattrs.transform_error(error, format_exception=_reason))
        raise InputError(f"{origin}: not an experiment: {reasons}") from error


# What a user may derive from: a field may hold any subclass.
_OPEN = (Objective, Optimizer, Sampling, Source, Task)


def _leaves(tree: object, path: str = "") -> dict[str, object]:
    """Name the leaves of JSON by their paths, with dots."""
    if isinstance(tree, list):
        tree = {str(number): part for number, part in enumerate(tree)}
    if not isinstance(tree, dict) or not tree:
        return {path: tree}
    found: dict[str, object] = {}
    for name, part in tree.items():
        found |= _leaves(part, f"{path}.{name}" if path else name)
    return found


def _reason(error: BaseException, kind: type | None) -> str:
    if isinstance(error, KeyError) and str(error.args[0])[:1].isupper():
        return (
            f"no class is called {error}; if an experiment file defines it, name that "
            "file with --experiment"
        )
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return cattrs.v.format_exception(error, kind)


def _converter() -> cattrs.Converter:
    # An experiment file may have defined a class of its own since the last call.
    return _converter_of(tuple(known for base in _OPEN for known in _descendants(base)))


def _descendants(base: type) -> list[type]:
    found = base.__subclasses__()
    return found + [below for cls in found for below in _descendants(cls)]


@functools.lru_cache(maxsize=1)
def _converter_of(classes: tuple[type, ...]) -> cattrs.Converter:
    del classes  # they are found again; as the key they say when to begin anew
    converter = cattrs.Converter(forbid_extra_keys=True)
    tagged = functools.partial(configure_tagged_union, tag_name="type")
    configure_union_passthrough(str | int | None, converter)
    for kind in _OPEN:
        include_subclasses(kind, converter, union_strategy=tagged)
    tagged(PretrainedEncoder | ScratchEncoder, converter)
    tagged(synonyms.Synonyms, converter)
    return converter
