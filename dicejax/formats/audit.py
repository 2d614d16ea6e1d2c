"""What words, labels and files show that has likely been misread: one list of notes."""

from __future__ import annotations

import dataclasses
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dicejax.data.examples import (
    LabelledText,
    MultiLabelText,
    ReadingExample,
    Sentence,
    TaggedWords,
    labels_of,
)
from dicejax.data.source import text_of
from dicejax.errors import InputError, quote, truncate
from dicejax.formats import label_studio
from dicejax.formats.labelled import TextFiles
from dicejax.formats.labels import BETWEEN
from dicejax.formats.mapping import LABELS, PAIRS, TEXTS
from dicejax.formats.records import DOCUMENT, count
from dicejax.formats.source import FileSource, first_path

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_NO_LABELS = ("-", "?", "_", "N/A", "n/a", "NULL", "null", "None", "nan", "NaN")
_LATIN = str.maketrans("аеорсухіјѕ", "aeopcyxijs")  # letters of Cyrillic
_MOSTLY = 0.8
"""Share of words from which on they are no words of a language."""
# Names of fields that hold more of the gold than a class does.
_BESIDE = {"probs", "probabilities", "soft_label", "soft_labels", "weight", "weights"}
_BESIDE |= {"sample_weight", "label_text", "label_name"}
_NO_CONTENT = {"id", "idx", "answer", "status", *DOCUMENT}


def remarks(examples: Sequence[Any], source: FileSource | None = None) -> list[str]:
    """Return warnings on words and labels that suggest a misread file.

    Raises:
      InputError: nearly each text has a class of its own.
    """
    counts: Counter[str] = Counter()
    lines: dict[str, int] = {}
    for example in examples:
        labels = labels_of(example)
        counts.update(labels)
        for label in labels:
            lines.setdefault(label, example.line)
    of_texts = bool(examples) and isinstance(examples[0], LabelledText)
    if of_texts and len(examples) >= 8 and len(counts) > len(examples) / 2:
        few = ", ".join(map(quote, sorted(counts)[:3]))
        raise InputError(
            f"{len(counts)} classes in {len(examples)} texts ({few}, ...): no class "
            "can be learnt; name the columns of a table with --text and --label"
        )
    warnings = [*_kinds_of_labels(counts, lines)]
    once = [label for label, times in counts.items() if times == 1]
    if of_texts and once:
        warnings.append(f"classes with a single text: {_list(once, lines)}")
    warnings += [*_alike(counts), *_none(counts)]
    warnings += [*_contradictions(examples), *_empty(examples), *_words(examples)]
    if of_texts:
        warnings += _misread(examples, counts)
    if isinstance(source, TextFiles):
        warnings += _unread(source)
    return warnings


def _kinds_of_labels(
    counts: Mapping[str, int], lines: Mapping[str, int]
) -> Iterator[str]:
    """Yield notes on labels of another kind than the rest, or that stand for none."""
    numbers = {label for label in counts if _NUMBER.fullmatch(label)}
    if 0 < len(numbers) < len(counts):
        groups = (numbers, counts.keys() - numbers)
        fewer = min(groups, key=lambda group: sum(map(counts.__getitem__, group)))
        yield f"labels are numbers and names: {_list(fewer, lines)}"
    if "-1" in numbers and len(numbers) == len(counts) and numbers != {"-1", "1"}:
        times = f"{counts['-1']} times"
        yield f"label '-1' among numbers often means unknown: {times}"


def _none(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield notes on labels that stand for none."""
    for label in (name for name in _NO_LABELS if name in counts):
        yield (
            f"label {quote(label)} ({count(counts[label], 'time')}) often means that "
            "there is none, or that annotators did not agree: remove it if so"
        )


def _alike(counts: Counter[str]) -> list[str]:
    """Return notes on labels that most likely are one."""
    groups: dict[tuple[str, str], list[str]] = {}
    for label in sorted(counts):
        key = ("", _plain(label))
        if _NUMBER.fullmatch(label):
            key = ("number format", f"{float(label):g}")
        groups.setdefault(key, []).append(label)
    notes = []
    for (how, _), alike in groups.items():
        if len(alike) > 1:
            are_cases = len({label.casefold() for label in alike}) == 1
            forms = "case" if are_cases else "Unicode form, invisible signs or spaces"
            listed = (f"{quote(label)} ({counts[label]} times)" for label in alike)
            what = f"labels that differ by {how or forms} alone are different labels"
            notes.append(
                f"{what}: {', '.join(listed)}; write them alike if they are one"
            )
    return notes


def _plain(label: str) -> str:
    """Return the visible form of a label, in lower case."""
    folded = unicodedata.normalize("NFKC", label).casefold().translate(_LATIN)
    kinds = ((c, unicodedata.category(c)) for c in folded)
    seen = ("-" if k == "Pd" else c for c, k in kinds if k not in ("Cf", "Cc"))
    return " ".join("".join(seen).split())


def _contradictions(examples: Sequence[Any]) -> Iterator[str]:
    """Yield a note on texts that occur with different gold."""
    golds: dict[tuple[str | None, ...], set[Any]] = {}
    for example in examples:
        if not isinstance(example, ReadingExample):
            gold = getattr(example, "spans", None)
            gold = tuple(labels_of(example)) if gold is None else gold
            golds.setdefault(text_of(example), set()).add(gold)
    several = {text: gold for text, gold in golds.items() if len(gold) > 1}
    if several and len(golds) > 1:
        first = quote(" ".join(filter(None, next(iter(several)))))
        noun = (
            "two classes or more"
            if isinstance(examples[0], LabelledText)
            else "different gold"
        )
        what = f"{count(len(several), 'text')} with {noun}"
        yield f"{what}, such as {first}: no model gets both right"


def _empty(examples: Sequence[Any]) -> Iterator[str]:
    """Yield a note on texts without any label where all others have one."""
    sizes = Counter(
        len(e.labels)
        for e in examples
        if isinstance(e, MultiLabelText) and e.labels is not None
    )
    if sizes.keys() == {0, 1}:
        what = f"{sizes[0]} of {sizes.total()} texts have no label while all others"
        yield f"{what} have exactly one: are they annotated?"


def _words(examples: Sequence[Any]) -> Iterator[str]:
    """Yield a note on words that are numbers or all alike."""
    words = Counter(
        word
        for example in examples
        if isinstance(example, Sentence | TaggedWords)
        for word in example.words
    )
    numbers = sum(times for word, times in words.items() if _NUMBER.fullmatch(word))
    is_constant = len(words) == 1 < words.total()
    if is_constant or numbers > _MOSTLY * words.total() > 0:
        how = "alike" if is_constant else "numbers"
        few = ", ".join(map(quote, itertools.islice(words, 3)))
        yield f"words are {how} ({few}): name their column, from 0, with --text"


def _misread(examples: Sequence[LabelledText], counts: Counter[str]) -> list[str]:
    """Return notes on classes that look like lists or like a header."""
    notes = []
    for between in (*BETWEEN, "/", "+", "&"):
        parts = {label: label.split(between) for label in counts}
        lists = [
            label
            for label, names in parts.items()
            if len(names) > 1 and counts.keys() & set(map(str.strip, names))
        ]
        if lists:
            times = f"{sum(map(counts.__getitem__, lists))} times"
            what = f"classes may be labels with {quote(between)} between"
            notes.append(f"{what}: {quote(lists[0])}, {times}")
    first = examples[0]
    names = {*LABELS, *TEXTS, *itertools.chain(*PAIRS)}
    if first.line == 1 and names & {(first.label or "").lower(), first.first.lower()}:
        notes.append(f"line 1 looks like names of columns: {quote(first.first)}")
    if len(examples) > 1 and len({(e.first, e.second) for e in examples}) == 1:
        notes.append(f"all {len(examples)} texts are {quote(first.first)}")
    return notes


def _unread(source: TextFiles) -> Iterator[str]:
    """Yield notes on the fields of records that are not read, if there are any."""
    path = first_path(source.dir, source.train)
    fields = next((r.value for r in source.records(path) if type(r.value) is dict), {})
    values = [getattr(source, field.name) for field in dataclasses.fields(source)]
    used = {x for v in values for x in (v if isinstance(v, tuple) else (v,))}
    rest = [n for n in fields if n not in used and n not in _NO_CONTENT]
    beside = " and ".join(quote(name) for name in rest if name in _BESIDE)
    others = ", ".join(quote(name) for name in rest if name not in _BESIDE)
    if beside:
        do = "--label names another field, and --data.weight of train that of weights"
        yield f"not read beside the class: {beside}; {do}"
    if others and not label_studio.is_task(fields):
        yield f"not read of each text: {truncate(others, 240)}"


def _list(labels: Iterable[str], lines: Mapping[str, int]) -> str:
    descriptions = [f"{quote(label)} (line {lines[label]})" for label in sorted(labels)]
    more = f" and {len(descriptions) - 5} more" if len(descriptions) > 5 else ""
    return ", ".join(descriptions[:5]) + more
