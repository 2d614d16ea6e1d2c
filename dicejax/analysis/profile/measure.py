"""Profile the data of an experiment: label counts, lengths, padding."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence

import cattrs
import numpy as np

from dicejax.analysis.profile.imbalance import (
    LabelSupport,
    OutputCounts,
    count_outputs,
    rules,
    smooth_by_output,
    support,
)
from dicejax.config import Experiment
from dicejax.data.pack import pack
from dicejax.errors import InputError
from dicejax.tasks import Item
from dicejax.training.setup import SPLITS, Encoded, Warn, encode, epochs_drawn

BINS = 10


@dataclasses.dataclass(frozen=True)
class Bin:
    """Sequences of `first` to `last` pieces, both included."""

    first: int
    last: int
    sequences: int


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Lengths of the sequences of a split in pieces, special ones included.

    Attributes:
      quantiles: by percent, the shortest length that so many sequences do not exceed.
      longest: the most pieces of any.
      bins: how many sequences there are of which lengths, from 1 to the longest.
    """

    quantiles: dict[int, int]
    longest: int
    bins: tuple[Bin, ...]


@dataclasses.dataclass(frozen=True)
class BatchFill:
    """Share of a batch that one layout of the sequences fills.

    Attributes:
      places: of all batches of one pass over the split.
      filled: the share of them that holds a piece; the rest is padding.
      factor: places it takes for each place that packed rows take.
    """

    places: int
    filled: float
    factor: float


@dataclasses.dataclass(frozen=True)
class Padding:
    """Padding of three kinds of batches, with one order of sequences.

    Attributes:
      max_length: places per row.
      to_row: one row per sequence, all rows full width.
      to_batch: a row for each sequence, as wide as the longest of its batch of
        `batch_size`.
      packed: several sequences in a row, as training has them.
    """

    max_length: int
    to_row: BatchFill
    to_batch: BatchFill
    packed: BatchFill


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
class DataProfile:
    """Counts of a data set, as a task and an encoder's tokenizer see it.

    Attributes:
      name: of the experiment.
      task: its kind.
      objective: its short name.
      max_length: the most pieces a row holds.
      batch_size: about how many sequences an update sees.
      rare: fewer positives of a label in the training split are too few.
      smooth: of the objective, by output, in counts.
      splits: "train", "dev" and "test".
      support: training examples of each label to be learned.
      warnings: of reading and encoding the data.
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


def profile(experiment: Experiment, warn: Warn, *, rare: int = 20) -> DataProfile:
    """DataProfile the data of an experiment. No weights are read.

    >>> from dicejax.data.sources import SyntheticNER
    >>> data = SyntheticNER(train=50, dev=5, test=5)
    >>> found = profile(Experiment(name="mine", data=data), warn=print)
    >>> (tags,) = found.splits["train"].outputs
    >>> tags.negative, tags.negatives == tags.labels[0].positives
    ('O', True)

    Args:
      experiment: names data, task and tokenizer.
      warn: called with each warning; the profile keeps them too.
      rare: fewer positives of a label in the training split are too few.

    Raises:
      InputError: data or tokenizer cannot be used, the sampling or the objective does
        not fit the labels, or `rare` is negative.
    """
    if rare < 0:
        raise InputError(f"rare is {rare}; want 0 or more")
    warnings: list[str] = []

    def note(text: str) -> None:
        warnings.append(text)
        warn(text)

    task, training = experiment.task, experiment.training
    data = encode(experiment, note)
    chosen = rules(task, data.items["train"], data.labels)
    splits = {split: _split(experiment, data, split, chosen) for split in SPLITS}
    epoch = _epoch(experiment, data)
    smooth = _smooth(experiment, data)
    return DataProfile(
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


def to_json(found: DataProfile) -> str:
    """Write a profile as one JSON object, numbers as they are."""
    return json.dumps(cattrs.unstructure(found), ensure_ascii=False)


def from_json(text: str) -> DataProfile:
    """Read what `to_json` wrote."""
    return cattrs.structure(json.loads(text), DataProfile)


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


def measure_lengths(lengths: Sequence[int]) -> Lengths:
    """Describe lengths.

    >>> found = measure_lengths([3, 4, 4, 5, 30])
    >>> found.quantiles[50], found.longest, found.bins[:2]
    (4, 30, (Bin(first=1, last=3, sequences=1), Bin(first=4, last=6, sequences=3)))

    Args:
      lengths: one or more.
    """
    percents = (50, 90, 95, 99)
    values = np.percentile(lengths, percents, method="inverted_cdf")
    longest = int(max(lengths))
    width = math.ceil(longest / BINS)
    edges = np.arange(1, longest + width + 1, width)
    counts, _ = np.histogram(lengths, edges)
    return Lengths(
        {percent: int(value) for percent, value in zip(percents, values, strict=True)},
        longest,
        tuple(
            Bin(int(first), min(int(first) + width - 1, longest), int(count))
            for first, count in zip(edges[:-1], counts, strict=True)
        ),
    )


def measure_padding(
    lengths: Sequence[int], max_length: int, per_batch: int, seed: int
) -> Padding:
    """Lay sequences out in three ways, in the order of the first epoch.

    >>> padding = measure_padding([2, 2, 4, 8], max_length=8, per_batch=4, seed=0)
    >>> padding.to_row.places, padding.packed.places, padding.to_row.factor
    (32, 16, 2.0)

    Args:
      lengths: of the sequences, one or more.
      max_length: places per row; no sequence is longer.
      per_batch: sequences that are padded to the longest of them.
      seed: of the order, as `Training.seed`.
    """
    shuffled = np.array(lengths)
    np.random.default_rng((seed, 0)).shuffle(shuffled)
    to_batch = sum(
        len(batch) * int(batch.max())
        for batch in (
            shuffled[start : start + per_batch]
            for start in range(0, len(shuffled), per_batch)
        )
    )
    pieces = int(shuffled.sum())
    packed = len(pack(shuffled.tolist(), max_length)) * max_length

    def layout(places: int) -> BatchFill:
        return BatchFill(places, pieces / places, places / packed)

    return Padding(
        max_length,
        to_row=layout(len(shuffled) * max_length),
        to_batch=layout(to_batch),
        packed=layout(packed),
    )
