"""Profile the data of an experiment: label counts, lengths, padding."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Mapping, Sequence

import cattrs
import numpy as np

from dicejax.config import Experiment
from dicejax.data.pack import pack
from dicejax.data.source import shared
from dicejax.errors import InputError
from dicejax.study.profile import imbalance
from dicejax.study.profile.imbalance import (
    ClassExamples,
    LabelSupport,
    OutputCounts,
    Rule,
    count_outputs,
)
from dicejax.training.encoded import SPLITS, Encoded, Warn, load_data
from dicejax.training.setup import epochs_drawn

BINS = 10
Padding = dict[str, dict[str, float]]


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Lengths of the sequences of a split in pieces, special ones included.

    Quantiles are by percent: the shortest length that this share does not exceed. A bin
    has `sequences` of `first` to `last` pieces, both included.
    """

    quantiles: dict[int, int]
    longest: int
    bins: tuple[dict[str, int], ...]


@dataclasses.dataclass(frozen=True)
class SplitProfile:
    """Counts of one split; without sequences there are neither lengths nor padding.

    Padding is that of one pass in the order of the first epoch, by layout: "to_row", a
    row of the largest length per sequence; "to_batch", padded to the longest of its
    batch; or "packed", several sequences in a row, as in training. Of each it has the
    `places`, the share of `filled` ones, and as `factor` the ratio to packed rows.
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

    A label is rare below so many positives in training. `smooth` is that of the
    objective in counts, by output. `classes` has the rarest of train first, and
    `rarest` says what is known of it; there are none without classes.
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
    classes: tuple[ClassExamples, ...]
    rarest: str
    warnings: tuple[str, ...]

    @property
    def rare_labels(self) -> tuple[LabelSupport, ...]:
        """Labels that are rare by at least one rule."""
        return tuple(label for label in self.support if label.reasons)


def profile(
    experiment: Experiment,
    warn: Warn,
    *,
    rare: int = 20,
    data: Encoded | None = None,
) -> DataProfile:
    """Profile the data of an experiment, without reading weights.

    >>> from dicejax.data.synthetic import SyntheticNER
    >>> data = SyntheticNER(train=50, dev=20, test=5)
    >>> counts = profile(Experiment(name="mine", data=data), warn=print)
    >>> (tags,) = counts.splits["train"].outputs
    >>> tags.negative, tags.negatives == tags.labels[0].positives
    ('O', True)

    The profile keeps the warnings too. `rare` is the minimum of a label's positives in
    the training split. `data` is what `load_data` has read; None reads it here.

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
    if data is None:
        data = load_data(experiment, note)
    chosen = imbalance.rules(task, data.items["train"], data.labels)
    splits = {split: _split(experiment, data, split, chosen) for split in SPLITS}
    items, draw = data.items["train"], epochs_drawn(experiment, data)
    epoch = items if draw is None else [items[index] for index in draw(0).indices]
    try:
        objective = experiment.objective.bind(task.targets(data.labels))
    except ValueError as error:
        raise InputError(str(error)) from error
    smooth = imbalance.smooth_by_output(objective)
    counts = {split: counts.outputs for split, counts in splits.items()}
    drawn = count_outputs(task, epoch, data.labels, chosen)
    share = min(1.0, training.batch_size / max(len(epoch), 1))
    for text in shared(data.corpus):
        note(text)
    by_split = {split: getattr(data.corpus, split) for split in SPLITS}
    classes = imbalance.class_examples(task, by_split)
    return DataProfile(
        name=experiment.name,
        task=type(task).__name__,
        objective=experiment.objective.short_name,
        max_length=training.max_length,
        batch_size=training.batch_size,
        rare=rare,
        smooth=smooth,
        splits=splits,
        support=imbalance.support(counts, drawn, share, smooth, rare),
        classes=classes,
        rarest=imbalance.rarest(task, classes, len(by_split["train"])),
        warnings=tuple(warnings),
    )


def to_json(profile: DataProfile) -> str:
    """Return a profile as one JSON object."""
    return json.dumps(cattrs.unstructure(profile), ensure_ascii=False)


def from_json(text: str) -> DataProfile:
    """Return the profile that `to_json` wrote."""
    return cattrs.structure(json.loads(text), DataProfile)


def _split(
    experiment: Experiment, data: Encoded, split: str, chosen: Mapping[str, Rule]
) -> SplitProfile:
    task, training = experiment.task, experiment.training
    examples, items = getattr(data.corpus, split), data.items[split]
    lengths, labels = [len(item) for item in items], tuple(data.labels)
    if split != "train":
        # The split's labels may be kept back, or of a type without a query.
        with contextlib.suppress(InputError):
            names = task.label_names([*data.corpus.train, *examples])
            labels = tuple(dict.fromkeys([*labels, *names]))
    counted = items
    if len(labels) > len(data.labels) and items:
        # Items lack labels unknown in training: encode again to count these.
        counted = task.encode(examples, data.tokenizer, labels, max(lengths))
    layout = (training.max_length, training.batch_size, training.seed)
    return SplitProfile(
        examples=len(examples),
        sequences=len(items),
        pieces=sum(lengths),
        outputs=count_outputs(task, counted, labels, chosen, weights=split == "train"),
        lengths=measure_lengths(lengths) if lengths else None,
        padding=measure_padding(lengths, *layout) if lengths else None,
    )


def measure_lengths(lengths: Sequence[int]) -> Lengths:
    """Return quantiles and a histogram, from 1 to the longest."""
    percents = (50, 90, 95, 99)
    values = np.percentile(lengths, percents, method="inverted_cdf").astype(int)
    longest = int(max(lengths))
    width = math.ceil(longest / BINS)
    edges = np.arange(1, longest + width + 1, width)
    counts = np.histogram(lengths, edges)[0].tolist()
    bins = tuple(
        {"first": first, "last": min(first + width - 1, longest), "sequences": count}
        for first, count in zip(edges[:-1].tolist(), counts, strict=True)
    )
    return Lengths(dict(zip(percents, values.tolist(), strict=True)), longest, bins)


def measure_padding(
    lengths: Sequence[int], max_length: int, per_batch: int, seed: int
) -> Padding:
    """Lay sequences out in three ways, in the order of the first epoch."""
    shuffled = np.array(lengths)
    np.random.default_rng((seed, 0)).shuffle(shuffled)
    batches = np.split(shuffled, range(per_batch, len(shuffled), per_batch))
    to_batch = sum(len(batch) * int(batch.max()) for batch in batches)
    pieces = int(shuffled.sum())
    packed = len(pack(shuffled.tolist(), max_length)) * max_length

    places = {
        "to_row": len(shuffled) * max_length,
        "to_batch": to_batch,
        "packed": packed,
    }
    return {
        name: {"places": count, "filled": pieces / count, "factor": count / packed}
        for name, count in places.items()
    }
