"""Experiment files for new data: suggested settings, the text."""

from __future__ import annotations

import dataclasses
import json
import math
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import jinja2

from dicejax.config import Experiment, Training
from dicejax.data import tags
from dicejax.data.examples import MultiLabelText
from dicejax.data.plan import packing_plan, rows_per_batch
from dicejax.data.synthetic import SyntheticNER
from dicejax.errors import quote, visible
from dicejax.formats import FileSource, audit
from dicejax.formats.containers import SPLITS
from dicejax.formats.kinds import Kind
from dicejax.objectives import FromPrior
from dicejax.study.profile import DataProfile, LabelCount, OutputCounts
from dicejax.study.profile.imbalance import OTHERS
from dicejax.study.sentences import sentences
from dicejax.tasks import (
    Classification,
    MultiLabelClassification,
    QuestionAnswering,
    Tagging,
    Task,
    WordTagging,
)
from dicejax.tasks.classification import choice_of
from dicejax.training.outcome import RATES, UPDATES

KINDS: dict[Kind, type[Task]] = {
    "ner": Tagging,
    "pos": WordTagging,
    "classification": Classification,
    "qa": QuestionAnswering,
}

ROWS = (64, 128, 256, 384, 512)
OUTSIDE = "O"  # of all spans
RARE = 20  # times that micro F1 of several labels leaves the rarest out of sight
IMBALANCED = 4.0  # negatives per positive that call for other losses
SMALL = 512
"""Width below which encoders have `SMALL_RATES`."""
SMALL_RATES = 2e-4, 30.0
"""Learning rate, and that of the heads as its factor: docs/evidence/tables.md."""
MOST_EPOCHS = {"pretrained": 30, "scratch": 100}
NEED = {
    "pretrained": f"a pretrained encoder needs about {UPDATES['pretrained']:,}",
    "scratch": f"random weights need about {UPDATES['scratch']:,}",
}


def task_of(kind: Kind, examples: Sequence[Any]) -> tuple[Task, str]:
    """Return the task of a kind that takes the examples.

    It names the positive one of two classes, or takes questions without answers; the
    text says why.

    Raises:
      InputError: the examples have no classes.
    """
    if isinstance(examples[0], MultiLabelText):
        return MultiLabelClassification(), ""
    if kind == "ner" and any(getattr(e, "prompt", "") for e in examples):
        return Tagging(prompt=True), ""
    without = sum(getattr(e, "impossible", False) for e in examples)
    if without:
        note = f"{without} of {len(examples)} questions have no answer"
        return QuestionAnswering(unanswerable=True), f"{note}: unanswerable=True"
    if kind != "classification":
        return KINDS[kind](), ""
    task = Classification()
    labels = task.label_names(examples)
    if len(labels) != 2:
        return task, ""
    counts = {name: sum(e.label == name for e in examples) for name in labels}
    choice = f"{choice_of(counts)}; positive in the file names it"
    return task.with_labels(labels), choice


def by_macro_f1(task: Task) -> Task:
    """Return a task of several labels with macro F1 as its primary metric."""
    if isinstance(task, MultiLabelClassification):
        return dataclasses.replace(task, primary_metric="macro_f1")
    return task


@dataclasses.dataclass(frozen=True)
class Suggestions:
    """Suggested settings.

    Attributes:
      max_length: length that holds the longest sequence of all splits, or `ROWS[-1]`.
      epochs: passes that make about `UPDATES`.
      updates: number of updates of these epochs.
      encoder: folder or hub id; None for one from random weights.
      head_learning_rate: factor of the heads' rate, which begin at the class
        frequencies; None where they do not.
      rates: others to try, in words.
      ratio: negatives per positive of what is most imbalanced, from the rare side; None
        where nothing has both.
      losses: expressions to compare, cross-entropy first.
      reason: why these.
      metric: why the primary metric is macro F1; None where it is not.
    """

    max_length: int
    batch_size: int
    epochs: int
    updates: int
    encoder: str | None
    learning_rate: float
    head_learning_rate: float | None
    rates: str
    ratio: float | None
    losses: tuple[str, ...]
    reason: str
    metric: str | None = None


def suggest(
    profile: DataProfile,
    lengths: Sequence[int],
    texts: Iterable[str],
    encoder: str | None,
    width: int | None,
) -> Suggestions:
    """Choose settings for data whose training sequences have these lengths.

    Args:
      profile: of the data.
      lengths: of the training sequences.
      texts: some of train, whose script decides the encoder if none is named.
      encoder: folder or hub id; "scratch" for random weights.
      width: of the encoder's states, if it is at hand.
    """
    train = profile.splits["train"]
    longest = _longest(profile)
    max_length = next((row for row in ROWS if row >= longest), ROWS[-1])
    sentences = 32 if train.sequences >= 2000 else 16
    per_epoch = _updates(lengths, max_length, sentences)
    from_scratch = encoder == "scratch"
    kind = "scratch" if from_scratch else "pretrained"
    epochs = min(MOST_EPOCHS[kind], max(3, math.ceil(UPDATES[kind] / per_epoch)))
    balances = [x for output in train.outputs for x in _balances(output, profile)]
    ratio, balance = max(balances, default=(None, ""))
    updates = _updates(lengths, max_length, sentences, epochs)
    rule = train.outputs, ratio, balance
    losses, reason = _choose_losses(*rule, kind, updates)
    is_small = not from_scratch and width is not None and width < SMALL
    positions = any(output.rule == "positions" for output in train.outputs)
    has_prior = not from_scratch and not positions
    rate, factor = SMALL_RATES if is_small else (RATES[kind], FromPrior.FACTOR)
    rates = "three and ten" if updates < UPDATES["pretrained"] else "a third and three"
    return Suggestions(
        max_length=max_length,
        batch_size=sentences,
        epochs=epochs,
        updates=updates,
        encoder=None if from_scratch else encoder or _choose_encoder(texts),
        learning_rate=rate,
        head_learning_rate=factor if has_prior else None,
        rates="half of it and twice" if is_small else f"{rates} times",
        ratio=ratio,
        losses=losses,
        reason=reason,
        metric=_why_macro(profile),
    )


def _updates(
    lengths: Sequence[int], max_length: int, sentences: int, epochs: int = 1
) -> int:
    """Count the updates of epochs, packed as in training with the first seed."""
    rows = rows_per_batch(lengths, max_length, sentences)
    plan = packing_plan(
        lengths, max_length=max_length, rows=rows, epochs=epochs, seed=Training().seed
    )
    return len(plan)


def _why_macro(profile: DataProfile) -> str | None:
    """Say why macro F1 is the primary metric of several labels, if it is."""
    train = profile.splits["train"]
    rare = next((each for each in profile.classes if each.train), None)
    several = any(output.sets is not None for output in train.outputs)
    if rare is None or not several or RARE * rare.train >= train.examples:
        return None
    return (
        f"Macro F1, since micro F1 follows the frequent labels: {rare.train:,} of "
        f"{train.examples:,} texts have {quote(rare.name)}"
    )


def _balances(
    output: OutputCounts, profile: DataProfile
) -> Iterator[tuple[float, str]]:
    """Yield ratios of negatives to positives of an output and its rarest, in words."""
    rare, train = None, profile.splits["train"]
    if output.ratio is not None:
        yield output.ratio, _ratio_text(output)
    if OUTSIDE in (output.negative, output.positive):  # of spans
        rare = next((each for each in profile.classes if each.train), None)
    if rare is not None:
        ratio = (train.examples - rare.train) / rare.train
        yield ratio, f"{_number(ratio)} sentences without {quote(rare.name)} to one"


def _choose_losses(
    outputs: Sequence[OutputCounts],
    ratio: float | None,
    balance: str,
    kind: str,
    updates: int,
) -> tuple[tuple[str, ...], str]:
    """Return losses that `docs/choosing.md` has evidence for, and what it says."""
    smoothed = ("CrossEntropy()", "CrossEntropy(label_smoothing=0.1)")
    if any(output.rule == "positions" for output in outputs):
        return ("CrossEntropy()", "Focal()"), (
            "On CoNLL-2003 read as questions no loss was shown to beat cross-entropy. "
            "Tune its threshold first, which `dicejax compare` does as a control."
        )
    if any(output.sets is not None for output in outputs):
        return ("CrossEntropy()", "Asymmetric()", "DistributionBalanced()"), (
            "For several labels per text, most of them rare: the two lower the weight "
            "of easy negatives. Whether they help here, five seeds tell."
        )
    if kind == "scratch":
        return smoothed, (
            "From random weights no loss was shown to beat cross-entropy on UD Chinese "
            "and CLUENER. More updates or a pretrained encoder gain more."
        )
    balance = f"{balance[:1].upper()}{balance[1:]}"
    if ratio is None or ratio < IMBALANCED:
        hardly = f"{balance}: hardly an imbalance, so e" if balance else "E"
        return smoothed, f"{hardly}xpect little of any loss but cross-entropy."
    if updates >= UPDATES[kind]:
        return ("CrossEntropy()", "FromPrior(CrossEntropy())", "Focal()"), (
            f"{balance}. On CoNLL-2003, with a small encoder, ce+prior was the advice "
            "after 221 updates, and no other loss was shown to beat cross-entropy."
        )
    dice = "SelfAdjustingDice(alpha=0.01, smooth=0.01)"
    return ("CrossEntropy()", "FromPrior(CrossEntropy())", dice, "Focal()"), (
        f"{balance}, and few updates: raise the rate first, then let heads start at "
        "the class frequencies (ce+prior), then try another loss. Only five seeds or "
        "more tell."
    )


SAMPLE = "sample.conll"


def sample() -> str:
    """Return the text of `sample.conll`, 4,000 sentences of `SyntheticNER`."""
    corpus = SyntheticNER(train=4000, dev=1, test=1, o_per_entity=8.0).load()
    lines = []
    for sentence in corpus.train:
        labels = tags.encode(sentence.spans, len(sentence.words), "BIO")
        rows = zip(sentence.words, labels, strict=True)
        lines += [*(f"{word} {tag}" for word, tag in rows), ""]
    return "\n".join(lines) + "\n"


def _longest(profile: DataProfile) -> int:
    lengths = (split.lengths for split in profile.splits.values())
    return max((length.longest for length in lengths if length is not None), default=0)


def _choose_encoder(texts: Iterable[str]) -> str:
    """Return a hub id by the script of most letters and by the device.

    ModernBERT is for English alone, and large for a CPU; of mmBERT the hub has pickles.
    """
    letters = [c for text in texts for c in text if c.isalpha()][:20_000]
    names = [unicodedata.name(c, "?") for c in letters]
    han = sum(name.startswith("CJK") for name in names)
    latin = [c for c, name in zip(letters, names, strict=True) if "LATIN" in name]
    if han > len(letters) / 2:
        return "bert-base-chinese"
    # Umlauts and accents: some other language than English, as a rule.
    if sum(c > "\x7f" for c in latin) > len(latin) / 100 or 2 * len(latin) < len(
        letters
    ):
        return "bert-base-multilingual-cased"
    if jax.default_backend() == "cpu":
        return "bert-base-cased"
    return "answerdotai/ModernBERT-base"


TITLES = {
    "ner": "Named entities",
    "pos": "Parts of speech",
    "classification": "Classes of texts",
    "qa": "Extractive reading",
}
MOST_LABELS = 12  # in a list of labels


def file_for(
    kind: Kind,
    experiment: Experiment,
    file: str,
    profile: DataProfile,
    suggested: Suggestions,
    summary: str = "",
) -> str:
    """Return the text of an experiment file; `summary`: how its encoder reads texts."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dicejax.init", "."),
        autoescape=False,  # it is Python: inserted values pass one of the filters
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {"python": _python, "comment": _comment}
    source = experiment.data
    if not isinstance(source, FileSource):
        raise TypeError(f"{type(source).__name__} has no files")
    return environment.get_template("experiment.py.jinja").render(
        title=TITLES[kind],
        where=f"{source.dir}/{source.train}",
        file=file,
        name=experiment.name,
        task=type(experiment.task).__name__,
        task_fields=_changed(experiment.task),
        source=source,
        source_fields=_changed(source, "dir", "train", "dev", "test"),
        encoder_class=(
            "ScratchEncoder" if suggested.encoder is None else "PretrainedEncoder"
        ),
        objectives=sorted({loss.partition("(")[0] for loss in suggested.losses}),
        suggested=suggested,
        summary=summary,
        need=NEED["scratch" if suggested.encoder is None else "pretrained"],
        reason=textwrap.wrap(suggested.reason, 78),
        is_whole=_longest(profile) < ROWS[-1],
        facts=_facts(profile),
    )


def _changed(part: Any, *always: str) -> list[tuple[str, object]]:
    """Return the fields that differ from their defaults, and some always."""
    pairs = [(x, getattr(part, x.name)) for x in dataclasses.fields(part)]
    return [(x.name, y) for x, y in pairs if x.name in always or y != x.default]


def _facts(profile: DataProfile) -> list[str]:
    """Describe sizes, lengths, labels and labels that are too rare, line by line."""
    sizes = (f"{name} {profile.splits[name].examples:,}" for name in SPLITS)
    facts = [f"Examples: {', '.join(sizes)}."]
    train = profile.splits["train"]
    if (lengths := train.lengths) is not None:
        facts.append(
            f"Lengths: half up to {lengths.quantiles[50]} pieces, 99% up to "
            f"{lengths.quantiles[99]}, the longest {lengths.longest}."
        )
    for output in train.outputs:
        sentence = imbalance(output)
        facts.append(f"{output.output}: {sentence}." if sentence else output.output)
        if output.sets is not None:
            facts.append(f"{sentences('profile').label_sets(output.sets)}.")
        labels = (x for x in output.labels if not (output.sets and x.is_negative))
        ranked = sorted(labels, key=lambda label: -label.positives)
        listed = [f"{x.label} {x.positives:,}" for x in ranked]
        facts.append(audit.some_of(listed, MOST_LABELS))
    if profile.rarest:
        facts.append(f"The rarest: {profile.rarest}.")
    rare = [each for each in profile.classes if each.train < profile.rare]
    if rare:
        named = audit.some_of([f"{x.name} {x.train:,}" for x in rare], MOST_LABELS)
        facts.append(f"In fewer than {profile.rare} examples of train: {named}.")
    wrapper = textwrap.TextWrapper(
        84,
        subsequent_indent="  ",
        expand_tabs=False,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line for fact in facts for line in wrapper.wrap(fact) or [""]]


def imbalance(output: OutputCounts) -> str:
    """Say how imbalanced an output is, from the rare side; empty without positives."""
    if output.ratio is None:
        return ""
    sizes = f"{output.negatives:,} vs. {output.positives:,}"
    if (rare := _rarest_label(output)) is not None:
        sizes = f"{rare.negatives:,} vs. {rare.positives:,}"
    return f"imbalance: {_ratio_text(output)} ({sizes})"


def _ratio_text(output: OutputCounts) -> str:
    """Return the number of negatives per positive in words."""
    if (rare := _rarest_label(output)) is not None:
        name = quote(rare.label)
        return f"{_number(rare.ratio)} times as many texts without {name} as with it"
    ratio = _number(output.ratio)
    ends = output.negative, output.positive
    if ends == (OUTSIDE, OTHERS):
        return f"{ratio} O tokens per entity token"
    if ends == (OTHERS, OUTSIDE):
        return f"{ratio} entity tokens per O token"
    if output.rule == "multi-label":
        return f"{ratio} negatives per positive"
    if len({*ends}) == 1:
        return "all classes are equally frequent"
    many, few = ("all others together" if x == OTHERS else quote(x) for x in ends)
    times = "" if ratio == "1" else f"{ratio} times "
    return f"{times}as many {many} as {few}"


def _rarest_label(output: OutputCounts) -> LabelCount | None:
    """Return the rarest of several labels of a text."""
    labels = [x for x in output.labels if not x.is_negative and x.positives]
    if output.sets is None:
        return None
    return min(labels, key=lambda label: (label.positives, label.label), default=None)


def _number(ratio: float | None) -> str:
    return f"{ratio or 0:.1f}".removesuffix(".0")


def _python(value: object) -> str:
    """Write a value as a Python literal; JSON's strings are such."""
    if isinstance(value, str):
        return visible(json.dumps(value, ensure_ascii=False))
    return repr(value)


def _comment(value: object) -> str:
    """Keep a text on its line, and from ending a docstring around it."""
    return visible(str(value)).replace("\\", "/").replace('"""', "'''")
