"""Experiment files for new data: formats, suggested settings, the text."""

from __future__ import annotations

import dataclasses
import json
import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

import jinja2
from etils import epath

from dicejax import files, json_text
from dicejax.analysis.profile import DataProfile, OutputCounts
from dicejax.data.sources import (
    ConllFiles,
    ConlluFiles,
    FileSource,
    JsonSentences,
    JsonTexts,
    LabelFirstFiles,
    SquadFiles,
    TabSeparatedFiles,
    WordLabelFiles,
)
from dicejax.errors import Flaw, InputError, shown, visible
from dicejax.tasks import (
    Classification,
    QuestionAnswering,
    Tagging,
    Task,
    WordTagging,
)

Kind = Literal["ner", "pos", "classification", "qa"]
KINDS: dict[Kind, type[Task]] = {
    "ner": Tagging,
    "pos": WordTagging,
    "classification": Classification,
    "qa": QuestionAnswering,
}
"""Kinds of experiments, and the task of each."""

SPLITS = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "val", "development", "eval"),
    "test": ("test", "testing"),
}
HELD_OUT = 0.15
"""The share held out of a single file for dev, and again for test."""
LABEL_COLUMNS = ("label", "class", "category", "target", "sentiment", "quality")
TEXT_COLUMNS = ("text", "sentence", "review", "content", "tweet", "comment")
PAIR_COLUMNS = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("premise", "hypothesis"),
    ("#1 string", "#2 string"),
)


def source_of(kind: Kind, data: str) -> FileSource:
    """Return the source for a file, or for a folder with a file for each split.

    Dev and test are held out of a single file, and where a folder lacks them. Files are
    recognised by name (train, dev or valid, test) and ending.

    Raises:
      InputError: there is no such data.
    """
    path = epath.Path(data)
    if not path.exists():
        raise InputError(f"{data}: no such file or folder")
    if path.is_dir():
        try:
            names = sorted(one.name for one in path.iterdir() if one.is_file())
        except OSError as error:
            raise InputError(f"{data}: cannot be read: {error.strerror}") from error
        found = {split: _named(names, words) for split, words in SPLITS.items()}
        if found["train"] is None:
            raise InputError(
                f"{data}: holds no train file (of {len(names)} files none has a name "
                "that begins with train); name the file itself with --data"
            )
        folder, train = path, found["train"]
    else:
        folder, train = path.parent, path.name
        found = {"train": train, "dev": None, "test": None}
    make, columns = _format(kind, folder / train)
    if columns and found["test"] and not _has_column(folder, found["test"], columns):
        found["test"] = None  # the labels of a competition's test file are kept back
    held_out = {"dev_share": HELD_OUT} if found["dev"] is None else {}
    if found["test"] is None:
        held_out["test_share"] = HELD_OUT
    return make(dir=str(folder), **found, **held_out, **columns)


def describe(source: FileSource) -> str:
    """Describe the format and the columns of a source in one line.

    >>> describe(JsonTexts(dir=".", train="my.jsonl", first="review"))
    'Texts or pairs with a class, a JSON object per line. first: review'
    """
    told = (type(source).__doc__ or "").partition("\n")[0]
    common = {field.name for field in dataclasses.fields(FileSource)}
    default = type(source)(dir=source.dir)
    changed = (
        f"{field.name}: {getattr(source, field.name)}"
        for field in dataclasses.fields(source)
        if field.name not in common
        and getattr(source, field.name) != getattr(default, field.name)
    )
    return " ".join([told, ", ".join(changed)]).strip()


def _named(names: Sequence[str], words: Sequence[str]) -> str | None:
    for word in words:
        for name in names:
            stem = name.lower().split(".")[0]
            if stem == word or stem.startswith((f"{word}-", f"{word}_")):
                return name.removesuffix(".gz")
    for word in words:
        for name in names:
            if word in name.lower().replace("-", "_").split(".")[0].split("_"):
                return name.removesuffix(".gz")
    return None


def _format(kind: Kind, path: epath.Path) -> tuple[type[FileSource], dict[str, str]]:
    """Return the source for a file's ending and first line, with the columns read."""
    ending = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if ending == "csv":  # by other rules each first word would be a class
        raise InputError.at(
            path,
            None,
            "is comma-separated, which is not read",
            "save it as JSON lines, in pandas by "
            'frame.to_json("data.jsonl", orient="records", lines=True)',
        )
    first = _first_line(path).lstrip()
    if first.startswith("{") and kind == "classification":
        return JsonTexts, _columns(path)
    match kind:
        case "ner":
            return (JsonSentences if first.startswith("{") else ConllFiles), {}
        case "pos":
            return (ConlluFiles if ending == "conllu" else WordLabelFiles), {}
        case "qa":
            return SquadFiles, {}
    if ending in ("tsv", "tab"):
        return TabSeparatedFiles, _columns(path)
    return LabelFirstFiles, {}


def _columns(path: epath.Path) -> dict[str, str]:
    """Return the columns of a tab-separated file with texts, and that of the class."""
    header = _header(path)
    by_lower = {name.lower(): name for name in header}
    label = next((by_lower[n] for n in LABEL_COLUMNS if n in by_lower), None)
    pair = next((p for p in PAIR_COLUMNS if all(n in by_lower for n in p)), None)
    alone = next((by_lower[n] for n in TEXT_COLUMNS if n in by_lower), None)
    if label is None or (pair is None and alone is None):
        raise InputError.at(
            path,
            1,
            f"the columns {', '.join(map(shown, header[:6]))} do not say which is the "
            "text and which the class",
            "name them 'text' and 'label', of pairs 'sentence1' and 'sentence2', in "
            "the first line",
        )
    if pair is not None:
        return {"first": by_lower[pair[0]], "second": by_lower[pair[1]], "label": label}
    return {"first": alone, "label": label}


def _has_column(folder: epath.Path, name: str, columns: dict[str, str]) -> bool:
    return columns["label"] in _header(folder / name)


def _header(path: epath.Path) -> list[str]:
    """Return the names of columns, or of the fields of the first JSON object."""
    first = _first_line(path)
    if not first.lstrip().startswith("{"):
        return first.split("\t")
    try:
        return list(json_text.value_of(json_text.parse(first), dict))
    except Flaw as flaw:
        raise flaw.at(path, 1) from None


def _first_line(path: epath.Path) -> str:
    if not path.exists():
        path = path.with_name(path.name + ".gz")
    return next(iter(files.lines(path)), (1, ""))[1]


ROWS = (64, 128, 256, 384, 512)
IMBALANCED = 4.0
"""From so many negatives per positive on, losses for imbalanced data are compared."""
UPDATES = 200
"""Fewer updates than these teach an encoder little, however small the data."""


@dataclasses.dataclass(frozen=True)
class Suggestions:
    """Suggested settings.

    Attributes:
      max_length: length that holds 99% of the sequences whole.
      batch_size: sequences per update, fewer for small data.
      epochs: number that gives some hundred updates.
      encoder: a model of the language's script; None for one from random weights.
      learning_rate: usual value for the encoder.
      ratio: negatives per positive of the most imbalanced output; None where no output
        has both.
      losses: expressions to compare, cross-entropy first.
    """

    max_length: int
    batch_size: int
    epochs: int
    encoder: str | None
    learning_rate: float
    ratio: float | None
    losses: tuple[str, ...]


def suggest(
    profile: DataProfile, texts: Iterable[str], encoder: str | None
) -> Suggestions:
    """Choose settings for data.

    Args:
      profile: profile of the data, with the vocabulary of any tokenizer.
      texts: sample of words or texts, whose script chooses the encoder.
      encoder: "scratch", a folder or a hub id; None to choose.
    """
    train = profile.splits["train"]
    most = train.lengths.quantiles[99] if train.lengths else ROWS[0]
    sentences = 32 if train.sequences >= 2000 else 16
    per_epoch = max(1, math.ceil(train.sequences / sentences))
    from_scratch = encoder == "scratch"
    ratios = [one.ratio for one in train.outputs if one.ratio is not None]
    ratio = max(ratios, default=None)
    of_positions = any(one.rule == "positions" for one in train.outputs)
    return Suggestions(
        max_length=next((row for row in ROWS if row >= most), ROWS[-1]),
        batch_size=sentences,
        epochs=min(30, max(3, math.ceil(UPDATES / per_epoch))),
        encoder=None if from_scratch else encoder or _pretrained(texts),
        learning_rate=1e-3 if from_scratch else 5e-5,
        ratio=ratio,
        losses=_losses(ratio, of_positions),
    )


def _losses(ratio: float | None, of_positions: bool) -> tuple[str, ...]:
    if of_positions:  # no classes to be imbalanced
        return ("CrossEntropy()", "Focal()")
    if ratio is None or ratio < IMBALANCED:
        return ("CrossEntropy()", "CrossEntropy(label_smoothing=0.1)", "Focal()")
    return (
        "CrossEntropy()",
        "Focal()",
        "Dice(smooth=0.01)",
        "SelfAdjustingDice(alpha=0.01, smooth=0.01)",
    )


def _pretrained(texts: Iterable[str]) -> str:
    """Return a hub id by the script of most letters."""
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
    return "bert-base-cased"


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
    profile: DataProfile,
    suggested: Suggestions,
) -> str:
    """Return the text of an experiment file."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dicejax.analysis", "."),
        autoescape=False,  # it is Python: inserted values pass one of the filters
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
        held="all" if longest <= suggested.max_length else "99%",
        advice=_advice(suggested),
        facts=_facts(profile),
    )


def _facts(profile: DataProfile) -> list[str]:
    """Return sizes, lengths, labels and labels that are too rare."""
    sizes = (f"{name} {profile.splits[name].examples:,}" for name in SPLITS)
    facts = [f"Examples: {', '.join(sizes)}."]
    train = profile.splits["train"]
    if train.lengths is not None:
        half, most = train.lengths.quantiles[50], train.lengths.quantiles[99]
        facts.append(
            f"Lengths: half up to {half} pieces, 99% up to {most}, the longest "
            f"{train.lengths.longest}."
        )
    for output in train.outputs:
        sentence = imbalance(output)
        facts.append(f"{output.output}: {sentence}." if sentence else output.output)
        ranked = sorted(output.labels, key=lambda label: -label.positives)
        listed = [f"{one.label} {one.positives:,}" for one in ranked[:MOST_LABELS]]
        more = len(ranked) - len(listed)
        facts.append(f"  {', '.join(listed)}{f' and {more} more' if more else ''}")
    rare = [label.label for label in profile.too_rare][:MOST_LABELS]
    if rare:
        facts.append(f"Too rare to learn, by one rule or more: {', '.join(rare)}.")
    return [part for fact in facts for part in _wrapped(fact)]


def imbalance(output: OutputCounts) -> str:
    """Return the number of negatives per positive in words; empty without positives."""
    if output.ratio is None:
        return ""
    few = "positive" if output.positive == "all others" else output.positive
    names = f"{output.negative} per {few}"
    if output.negative == "O":
        names = "O tokens per entity token"
    return (
        f"imbalance: {output.ratio:.1f} {names} "
        f"({output.negatives:,} vs. {output.positives:,})"
    )


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
    """Return a source's fields that are not at their defaults, the files first."""
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
    if isinstance(value, str):
        return visible(json.dumps(value, ensure_ascii=False))
    return repr(value)


def _comment(value: object) -> str:
    """Keep a text on its line, and from ending a docstring around it."""
    return visible(str(value)).replace("\\", "/").replace('"""', "'''")


def _wrapped(text: str, width: int = 84) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("  ")
        lines[-1] += (" " if lines[-1].strip() else "") + word
    return lines
