"""The text of an experiment file, with what was seen in the data as comments."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import jinja2

from dicejax.analysis.profile import Profile
from dicejax.analysis.starter.sources import KINDS, Kind
from dicejax.analysis.starter.suggestions import IMBALANCED, Suggestions
from dicejax.data.sources import FileSource
from dicejax.training.setup import SPLITS

TOLD = {
    "ner": "Named entities",
    "pos": "Parts of speech",
    "classification": "Classes of texts",
    "qa": "Extractive reading",
}
MOST_LABELS = 12
"""So many labels are listed, the rarest left out."""


def file_for(
    kind: Kind,
    name: str,
    file: str,
    source: FileSource,
    profile: Profile,
    suggested: Suggestions,
) -> str:
    """Return the text of an experiment file.

    Args:
      kind: what is to be learnt.
      name: of the experiment.
      file: where it will stand, as the commands in its header name it.
      source: reads the data.
      profile: of the data.
      suggested: settings.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dicejax.analysis.starter", "."),
        autoescape=False,  # it is Python: what is inserted passes one of the filters
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {"python": _python, "comment": _comment}
    train = profile.splits["train"]
    sequences = train.sequences
    updates = suggested.epochs * math.ceil(sequences / suggested.batch_size)
    longest = train.lengths.longest if train.lengths else 0
    return environment.get_template("experiment.py.jinja").render(
        kind_told=TOLD[kind],
        where=_where(source),
        file=file,
        name=name,
        task=KINDS[kind].__name__,
        source=source,
        source_fields=_own_fields(source),
        encoder_class=(
            "ScratchEncoder" if suggested.encoder is None else "PretrainedEncoder"
        ),
        objectives=sorted({loss.partition("(")[0] for loss in suggested.losses}),
        suggested=suggested,
        updates=updates,
        held="all" if longest <= suggested.max_length else "99 %",
        advice=_advice(suggested),
        facts=_facts(profile),
    )


def _facts(profile: Profile) -> list[str]:
    """Sizes, lengths, labels and what is too rare."""
    sizes = (f"{name} {profile.splits[name].examples:,}" for name in SPLITS)
    facts = [f"Examples: {', '.join(sizes)}."]
    train = profile.splits["train"]
    if train.lengths is not None:
        half, most = train.lengths.quantiles[50], train.lengths.quantiles[99]
        facts.append(
            f"Lengths: half up to {half} pieces, 99 % up to {most}, the longest "
            f"{train.lengths.longest}."
        )
    for output in train.outputs:
        ratio = "" if output.ratio is None else f", {output.ratio:.1f} to 1"
        facts.append(
            f"{output.output}: {output.negatives:,} {output.negative} beside "
            f"{output.positives:,} {output.positive}{ratio}."
        )
        ranked = sorted(output.labels, key=lambda label: -label.positives)
        listed = [f"{one.label} {one.positives:,}" for one in ranked[:MOST_LABELS]]
        more = len(ranked) - len(listed)
        facts.append(f"  {', '.join(listed)}{f' and {more} more' if more else ''}")
    rare = [label.label for label in profile.too_rare][:MOST_LABELS]
    if rare:
        facts.append(f"Too rare to learn, by one rule or more: {', '.join(rare)}.")
    return [part for fact in facts for part in _wrapped(fact)]


def _advice(suggested: Suggestions) -> str:
    ratio = suggested.ratio
    if ratio is None:
        return "Cross-entropy first; the others where it falls short."
    if ratio < IMBALANCED:
        return (
            f"{ratio:.1f} negatives to a\n        # positive are hardly an imbalance: "
            "expect little of any loss but cross-entropy."
        )
    return (
        f"{ratio:.1f} negatives to a\n        # positive: losses near F1 may help. "
        "Only five seeds or more tell."
    )


def _own_fields(source: FileSource) -> list[tuple[str, object]]:
    """The fields of a source that are not at their defaults, the files first."""
    always = ("dir", "train", "dev", "test")
    return [
        (field.name, getattr(source, field.name))
        for field in dataclasses.fields(source)
        if field.name in always or getattr(source, field.name) != field.default
    ]


def _where(source: FileSource) -> str:
    return f"{source.dir}/{source.train}"


def _python(value: object) -> str:
    """Write a value as a Python literal; JSON's strings are such."""
    is_text = isinstance(value, str)
    return json.dumps(value, ensure_ascii=False) if is_text else repr(value)


def _comment(value: object) -> str:
    """Keep a text on its line, and from ending the docstring it may stand in."""
    text = re.sub(r"[\x00-\x1f\x7f\u2028\u2029]+", " ", str(value))
    return text.replace("\\", "/").replace('"""', "'''")


def _wrapped(text: str, width: int = 84) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("  ")
        lines[-1] += (" " if lines[-1].strip() else "") + word
    return lines
