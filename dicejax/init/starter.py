"""Experiment files for new data: suggested settings, the text."""

from __future__ import annotations

import dataclasses
import json
import math
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence

import jax
import jinja2

from dicejax.config import Experiment
from dicejax.data import tags
from dicejax.data.examples import MultiLabelText
from dicejax.data.synthetic import SyntheticNER
from dicejax.errors import quote, visible
from dicejax.formats.recognise import Kind
from dicejax.formats.splits import SPLITS
from dicejax.study.profile import DataProfile, OutputCounts
from dicejax.tasks import (
    Classification,
    MultiLabelClassification,
    QuestionAnswering,
    Tagging,
    Task,
    WordTagging,
)
from dicejax.training.outcome import RATES, UPDATES

KINDS: dict[Kind, type[Task]] = {
    "ner": Tagging,
    "pos": WordTagging,
    "classification": Classification,
    "qa": QuestionAnswering,
}

ROWS = (64, 128, 256, 384, 512)
IMBALANCED = 4.0  # negatives per positive that call for other losses
MOST_EPOCHS = {"pretrained": 30, "scratch": 100}
NEED = {
    "pretrained": f"a pretrained encoder needs about {UPDATES['pretrained']:,}",
    "scratch": f"random weights need about {UPDATES['scratch']:,}",
}


def task_of(kind: Kind, examples: Sequence[object]) -> Task:
    """Return the task of a kind that takes the examples."""
    if isinstance(examples[0], MultiLabelText):
        return MultiLabelClassification()
    if kind == "ner" and any(getattr(e, "prompt", "") for e in examples):
        return Tagging(prompt=True)
    return KINDS[kind]()


@dataclasses.dataclass(frozen=True)
class Suggestions:
    """Suggested settings.

    Attributes:
      max_length: length that holds the longest sequence of all splits, or `ROWS[-1]`.
      epochs: passes that make about `UPDATES`.
      updates: about the number of updates of these epochs.
      encoder: folder or hub id; None for one from random weights.
      ratio: negatives per positive of the most imbalanced output; None where no output
        has both.
      losses: expressions to compare, cross-entropy first.
      reason: why these.
    """

    max_length: int
    batch_size: int
    epochs: int
    updates: int
    encoder: str | None
    learning_rate: float
    ratio: float | None
    losses: tuple[str, ...]
    reason: str


def suggest(
    profile: DataProfile, texts: Iterable[str], encoder: str | None
) -> Suggestions:
    """Choose settings for data."""
    train = profile.splits["train"]
    longest = _longest(profile)
    sentences = 32 if train.sequences >= 2000 else 16
    per_epoch = max(1, math.ceil(train.sequences / sentences))
    from_scratch = encoder == "scratch"
    kind = "scratch" if from_scratch else "pretrained"
    epochs = min(MOST_EPOCHS[kind], max(3, math.ceil(UPDATES[kind] / per_epoch)))
    ratios = [output.ratio for output in train.outputs if output.ratio is not None]
    ratio = max(ratios, default=None)
    losses, reason = _choose_losses(train.outputs, ratio, kind, epochs * per_epoch)
    return Suggestions(
        max_length=next((row for row in ROWS if row >= longest), ROWS[-1]),
        batch_size=sentences,
        epochs=epochs,
        updates=epochs * per_epoch,
        encoder=None if from_scratch else encoder or _choose_encoder(texts),
        learning_rate=RATES[kind],
        ratio=ratio,
        losses=losses,
        reason=reason,
    )


def _choose_losses(
    outputs: Sequence[OutputCounts], ratio: float | None, kind: str, updates: int
) -> tuple[tuple[str, ...], str]:
    """Return losses that `docs/choosing.md` has evidence for, and what it says."""
    smoothed = ("CrossEntropy()", "CrossEntropy(label_smoothing=0.1)")
    if any(output.rule == "positions" for output in outputs):
        return ("CrossEntropy()", "Focal()"), (
            "No loss was shown to beat cross-entropy here. Tune its threshold first, "
            "which `dicejax compare` does as a control."
        )
    if any(output.sets is not None for output in outputs):
        return ("CrossEntropy()", "Asymmetric()", "DistributionBalanced()"), (
            "For several labels per text, most of them rare, these two led "
            "cross-entropy in one comparison, from random weights."
        )
    if kind == "scratch":
        return smoothed, (
            "From random weights no loss was shown to beat cross-entropy, and set "
            "losses alone were far behind. More updates or a pretrained encoder gain "
            "more."
        )
    balance = "" if ratio is None else f"{ratio:.1f} negatives to a positive"
    if ratio is None or ratio < IMBALANCED:
        hardly = f"{balance} are hardly an imbalance: e" if balance else "E"
        return smoothed, f"{hardly}xpect little of any loss but cross-entropy."
    if updates >= UPDATES[kind]:
        return ("CrossEntropy()", "FromPrior(CrossEntropy())", "Focal()"), (
            f"{balance}. From {UPDATES[kind]} updates on no loss was shown to beat "
            "cross-entropy, whose threshold is tuned as a control; ce+prior gained."
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
) -> str:
    """Return the text of an experiment file."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dicejax.init", "."),
        autoescape=False,  # it is Python: inserted values pass one of the filters
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {"python": _python, "comment": _comment}
    source = experiment.data
    always = ("dir", "train", "dev", "test")
    fields = [
        (field.name, getattr(source, field.name))
        for field in dataclasses.fields(source)
        if field.name in always or getattr(source, field.name) != field.default
    ]
    return environment.get_template("experiment.py.jinja").render(
        title=TITLES[kind],
        where=f"{source.dir}/{source.train}",
        file=file,
        name=experiment.name,
        task=type(experiment.task).__name__,
        has_prompt=getattr(experiment.task, "prompt", False),
        source=source,
        source_fields=fields,
        encoder_class=(
            "ScratchEncoder" if suggested.encoder is None else "PretrainedEncoder"
        ),
        objectives=sorted({loss.partition("(")[0] for loss in suggested.losses}),
        suggested=suggested,
        few=suggested.encoder is not None and suggested.updates < UPDATES["pretrained"],
        need=NEED["scratch" if suggested.encoder is None else "pretrained"],
        reason=textwrap.wrap(suggested.reason, 78),
        is_whole=_longest(profile) < ROWS[-1],
        facts=_facts(profile),
    )


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
            facts.append(f"{output.sets}.")
        labels = (x for x in output.labels if not (output.sets and x.is_negative))
        ranked = sorted(labels, key=lambda label: -label.positives)
        listed = [f"{x.label} {x.positives:,}" for x in ranked[:MOST_LABELS]]
        more = len(ranked) - len(listed)
        facts.append(f"{', '.join(listed)}{f' and {more} more' if more else ''}")
    rare = [label.label for label in profile.too_rare][:MOST_LABELS]
    if rare:
        facts.append(f"Too rare to learn, by one rule or more: {', '.join(rare)}.")
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
    """Return the number of negatives per positive in words; empty without positives."""
    if output.ratio is None:
        return ""
    ratio = f"{output.ratio:.1f}".removesuffix(".0")
    if output.negative == "O":
        text = f"{ratio} O tokens per entity token"
    elif output.rule == "multi-label":
        text = f"{ratio} negatives per positive"
    else:
        others = output.positive == "all others"
        few = "all others together" if others else quote(output.positive)
        text = f"{ratio} times as many {quote(output.negative)} as {few}"
    return f"imbalance: {text} ({output.negatives:,} vs. {output.positives:,})"


def _python(value: object) -> str:
    """Write a value as a Python literal; JSON's strings are such."""
    if isinstance(value, str):
        return visible(json.dumps(value, ensure_ascii=False))
    return repr(value)


def _comment(value: object) -> str:
    """Keep a text on its line, and from ending a docstring around it."""
    return visible(str(value)).replace("\\", "/").replace('"""', "'''")
