"""The base class of controls that compute on the host, and the targets of training."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from dicejax.errors import Flaw
from dicejax.tasks import Task
from dicejax.tasks.tagging import TokenTask
from dicejax.tasks.texts import TextTask

Settings = dict[str, Any]
Arrays = Mapping[str, np.ndarray]


class ControlModel(abc.ABC):
    """A fitted model that gives logits of texts, or of words, without an encoder."""

    name: ClassVar[str]

    @abc.abstractmethod
    def logits(self, examples: Sequence[Any]) -> list[np.ndarray]:
        """Return float32 `[C]` of each text, or `[W, C]` of the words of a sentence."""

    @abc.abstractmethod
    def state(self) -> tuple[Settings, Arrays]:
        """Return what JSON can hold, and arrays; `from_state` takes both."""

    @classmethod
    @abc.abstractmethod
    def from_state(cls, settings: Settings, arrays: Arrays, task: Task) -> ControlModel:
        """Return the model of a `state`.

        Raises:
          KeyError, TypeError, ValueError: it is damaged.
        """


def restore(settings: Settings, arrays: Arrays, task: Task) -> ControlModel:
    """Return the model of a `ControlModel.state`, whose settings name it.

    Raises:
      Flaw: it is no such state.
    """
    classes = {cls.name: cls for cls in ControlModel.__subclasses__()}
    try:
        return classes[settings["name"]].from_state(settings, arrays, task)
    except (KeyError, TypeError, ValueError) as error:
        fault = f"holds no control that can be read ({error!r})"
        raise Flaw(fault, "train it again with --overwrite") from error


def targets_of(
    task: Task, examples: Sequence[Any], labels: Sequence[str]
) -> list[np.ndarray]:
    """Return the gold of each example as numbers of labels, without unknown words.

    That is int `[]` of a text, `[C]` of 0 and 1 of a text with any number of labels,
    and `[W]` of a sentence, -100 where the label is not among these.
    """
    index = {label: number for number, label in enumerate(labels)}
    if isinstance(task, TextTask):
        return [np.asarray(task.encode_target(task.gold(x), index)) for x in examples]
    if not isinstance(task, TokenTask):
        raise TypeError(f"{type(task).__name__} has no labels of texts or words")
    return [
        np.array([index.get(name, -100) for name in task.word_classes(x)], int)
        for x in examples
    ]
