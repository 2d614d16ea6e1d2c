"""Read an experiment's data and count all that a profile says of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

import cattrs

from dicejax.analysis.profile.imbalance import OutputCounts, count_outputs, rules
from dicejax.analysis.profile.lengths import (
    Lengths,
    Padding,
    measure_lengths,
    measure_padding,
)
from dicejax.analysis.profile.rarity import LabelSupport, smooth_by_output, support
from dicejax.config import Experiment
from dicejax.errors import InputError
from dicejax.tasks import Item
from dicejax.training.setup import SPLITS, Encoded, Warn, encode, epochs_drawn


@dataclasses.dataclass(frozen=True)
class SplitProfile:
    """One split.

    Attributes:
      examples: as the data has them: sentences, texts, questions.
      sequences: for the network; an example may need several.
      pieces: of all sequences, the special ones included.
      outputs: how often the labels occur. With class weights for the training split.
      lengths: of the sequences; None if there is none.
      padding: that batches of the split need; None if there is no sequence.
    """

    examples: int
    sequences: int
    pieces: int
    outputs: tuple[OutputCounts, ...]
    lengths: Lengths | None
    padding: Padding | None


@dataclasses.dataclass(frozen=True)
class Profile:
    """What a data set is like, as a task and an encoder's tokenizer see it.

    Attributes:
      name: of the experiment.
      task: its kind.
      objective: its short name.
      max_length: the most pieces a row holds.
      batch_size: about how many sequences an update sees.
      rare: fewer positives of a label in the training split are too few.
      smooth: of the objective, by output, in counts.
      splits: "train", "dev" and "test".
      support: each label to be learnt, with what there is to learn it from.
      warnings: what reading and encoding the data had to say.
    """

    name: str
    task: str
    objective: str
    max_length: int
    batch_size: int
    rare: int
    smooth: dict[str, float]
    splits: dict[str, SplitProfile]
    support: tuple[LabelSupport, ...]
    warnings: tuple[str, ...]

    @property
    def too_rare(self) -> tuple[LabelSupport, ...]:
        """The labels that are too rare to learn by one rule or more."""
        return tuple(label for label in self.support if label.reasons)


def profile(experiment: Experiment, warn: Warn, *, rare: int = 20) -> Profile:
    """Profile the data of an experiment. No weights are read.

    >>> from dicejax.data.sources import SyntheticNER
    >>> data = SyntheticNER(train=50, dev=5, test=5)
    >>> found = profile(Experiment(name="mine", data=data), warn=print)
    >>> (tags,) = found.splits["train"].outputs
    >>> tags.negative, tags.negatives == tags.labels[0].positives
    ('O', True)

    Args:
      experiment: names data, task and tokenizer.
      warn: is told in a sentence what the user should know; the profile keeps it too.
      rare: fewer positives of a label in the training split are too few.

    Raises:
      InputError: data or tokenizer cannot be used, the sampling or the objective does
        not fit the labels, or `rare` is negative.
    """
    if rare < 0:
        raise InputError(f"rare is {rare}; want 0 or more")
    warnings: list[str] = []

    def told(text: str) -> None:
        warnings.append(text)
        warn(text)

    task, training = experiment.task, experiment.training
    data = encode(experiment, told)
    chosen = rules(task, data.items["train"], data.labels)
    splits = {split: _split(experiment, data, split, chosen) for split in SPLITS}
    epoch = _epoch(experiment, data)
    smooth = _smooth(experiment, data)
    return Profile(
        name=experiment.name,
        task=type(task).__name__,
        objective=experiment.objective.short_name,
        max_length=training.max_length,
        batch_size=training.batch_size,
        rare=rare,
        smooth=smooth,
        splits=splits,
        support=support(
            {split: found.outputs for split, found in splits.items()},
            count_outputs(task, epoch, data.labels, chosen),
            min(1.0, training.batch_size / max(len(epoch), 1)),
            smooth,
            rare,
        ),
        warnings=tuple(warnings),
    )


def to_json(found: Profile) -> str:
    """Write a profile as one JSON object, numbers as they are."""
    return json.dumps(cattrs.unstructure(found), ensure_ascii=False)


def from_json(text: str) -> Profile:
    """Read what `to_json` wrote."""
    return cattrs.structure(json.loads(text), Profile)


def _split(
    experiment: Experiment, data: Encoded, split: str, chosen: dict
) -> SplitProfile:
    task, training = experiment.task, experiment.training
    examples, items = getattr(data.corpus, split), data.items[split]
    lengths = [len(item) for item in items]
    labels = (*data.labels, *_unseen(experiment, data, split))
    counted = items
    if len(labels) > len(data.labels) and items:
        # What training never has is left out of the items: encode again to count it.
        counted = task.encode(examples, data.tokenizer, labels, max(lengths))
    return SplitProfile(
        examples=len(examples),
        sequences=len(items),
        pieces=sum(lengths),
        outputs=count_outputs(task, counted, labels, chosen, weights=split == "train"),
        lengths=measure_lengths(lengths) if lengths else None,
        padding=measure_padding(
            lengths, training.max_length, training.batch_size, training.seed
        )
        if lengths
        else None,
    )


def _unseen(experiment: Experiment, data: Encoded, split: str) -> list[str]:
    """The labels of a split that training lacks."""
    if split == "train":
        return []
    known = set(data.labels)
    examples = [*data.corpus.train, *getattr(data.corpus, split)]
    try:
        names = experiment.task.label_names(examples)
    except InputError:  # the split's labels are kept back, or of a type without a query
        return []
    return [name for name in names if name not in known]


def _epoch(experiment: Experiment, data: Encoded) -> Sequence[Item]:
    """The training items that an epoch holds."""
    items, draw = data.items["train"], epochs_drawn(experiment, data)
    return items if draw is None else [items[number] for number in draw(0).indices]


def _smooth(experiment: Experiment, data: Encoded) -> dict[str, float]:
    """The objective's `smooth` by output, where the output has counts."""
    targets = experiment.task.targets(data.labels)
    try:
        objective = experiment.objective.bind_outputs(
            tuple(targets), experiment.task.loss_weights
        )
    except ValueError as error:
        raise InputError(str(error)) from error
    return {
        output: smooth
        for output, smooth in smooth_by_output(objective).items()
        if targets[output].kind != "positions"
    }
