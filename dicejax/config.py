"""Experiments: Python files that say what to train, and the JSON that records it.

An experiment file defines `get_config() -> Experiment`. Everything in it is a frozen
dataclass, so the command line can override any leaf and two can be compared.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import runpy
import traceback
from pathlib import Path
from typing import Literal

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
from dicejax.objectives import CrossEntropy, Objective, SelfAdjustingDice
from dicejax.tasks import Tagging, Task
from dicejax.training.optimizers import AdamW


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
      sentences_per_update: about how many sequences one update sees; packed into
        rows, so the number varies a little.
      row_length: tokens per packed row; longer sequences are cut.
      precision: type of activations and matrix products; parameters are float32.
      remat: recompute layers in the backward pass, which saves memory and costs time.
      seed: of initial weights, data order and dropout; the same seed gives the same
        run bit for bit on the same hardware and versions.
      log_every: updates between two lines in metrics.jsonl.
    """

    epochs: int = 3
    sentences_per_update: int = 32
    row_length: int = 128
    precision: Literal["float32", "bfloat16"] = "float32"
    remat: bool = False
    seed: int = 0
    log_every: int = 20

    def __post_init__(self):
        least = {
            "epochs": 1,
            "sentences_per_update": 1,
            "row_length": 3,
            "log_every": 1,
        }
        for name, low in least.items():
            if getattr(self, name) < low:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; want at least {low}"
                )


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
    """

    name: str
    data: Source
    task: Task = Tagging()
    augmentation: ImbalanceAblation | None = None
    sampling: Sampling | None = None
    encoder: PretrainedEncoder | ScratchEncoder = ScratchEncoder()
    objective: Objective = CrossEntropy()
    compared: tuple[Objective, ...] = (CrossEntropy(), SelfAdjustingDice())
    optimizer: AdamW = AdamW()
    training: Training = Training()


def load(path: str | Path) -> Experiment:
    """Run an experiment file and return what its `get_config()` gives.

    Raises:
      InputError: the file is missing, fails, or gives no Experiment.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such experiment file")
    try:
        get_config = runpy.run_path(str(path)).get("get_config")
        if get_config is None:
            raise InputError(f"{path}: defines no get_config()")
        experiment = get_config()
    except InputError:
        raise
    except SyntaxError as error:
        raise InputError(f"{path}:{error.lineno}: {error.msg}") from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename) == path]
        where = f"{path}:{lines[-1]}" if lines else str(path)
        raise InputError(f"{where}: {type(error).__name__}: {error}") from error
    if not isinstance(experiment, Experiment):
        kind = type(experiment).__name__
        raise InputError(f"{path}: get_config() gives {kind}, not an Experiment")
    return experiment


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
_OPEN = (Objective, Sampling, Source, Task)


def _reason(error: BaseException, kind: type | None) -> str:
    if isinstance(error, KeyError):  # a required field, or the name of a type
        return f"{error} is missing or unknown"
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
    tagged(synonyms.Source, converter)
    return converter
