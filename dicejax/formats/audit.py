"""What words, labels and files show that has likely been misread: one list of notes."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from dicejax.formats.labels import BETWEEN
from dicejax.formats.mapping import LABELS, PAIRS, TEXTS
from dicejax.formats.records import DOCUMENT, count

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")
_COLUMNS = re.compile(r"[,;|\t]")
_SPAN = re.compile("O|[BIESMLU]-.+")
_FEW = 20  # labels that words may have however few they are
_MARKS = ".,:;!?'`\"()[]{}<>-_"  # around a label
_BETWEEN_WORDS = re.compile(r"(?<=[^\W\d])[ _-](?=[^\W\d])")
_NO_LABELS = ("-", "?", "_", "N/A", "n/a", "NULL", "null", "None", "nan", "NaN")
# Parts of speech may be these.
_NO_CLASSES = ("--", "---", "*", ".", "NA", "#N/A", "nil", "NIL", "undefined")
_LATIN = str.maketrans("аеорсухіјѕ", "aeopcyxijs")  # letters of Cyrillic
MOST = 5
"""Labels or files that a note names."""
_MOSTLY = 0.8
"""Share of words from which on they are no words of a language."""
# Names of fields that hold more of the gold than a class does.
_BESIDE = {"probs", "probabilities", "soft_label", "soft_labels", "weight", "weights"}
_BESIDE |= {"sample_weight", "label_text", "label_name"}
_NO_CONTENT = {"id", "idx", "answer", "status", *DOCUMENT}


def remarks(splits: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return warnings on words and labels of splits that suggest a misread file.

    Raises:
      InputError: nearly each text has a class of its own.
    """
    examples = list(itertools.chain(*splits.values()))
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
    warnings += [*_alike(counts), *_none(counts, of_texts)]
    warnings += [*_contradictions(examples), *_empty(examples)]
    for name, split in splits.items():
        warnings += _words(split, name)
    warnings += _labels_of_words(examples, counts)
    if of_texts:
        warnings += _misread(examples, counts)
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


def _none(counts: Mapping[str, int], of_texts: bool) -> Iterator[str]:
    """Yield notes on labels that stand for none."""
    names = _NO_LABELS + _NO_CLASSES * of_texts
    for label in (name for name in names if name in counts):
        yield (
            f"label {quote(label)} ({count(counts[label], 'time')}) often means that "
            "there is none, or that annotators did not agree: remove it if so"
        )


def _alike(counts: Counter[str]) -> list[str]:
    """Return notes on labels that most likely are one."""
    groups: dict[tuple[str, str], list[str]] = {}
    for label in sorted(counts):
        key = ("", _letters(_plain(label)))
        if _NUMBER.fullmatch(label):
            key = ("number format", f"{float(label):g}")
        groups.setdefault(key, []).append(label)
    notes = []
    for (how, _), alike in groups.items():
        if len(alike) > 1:
            forms = how or "Unicode form, invisible signs or spaces"
            if len({label.casefold() for label in alike}) == 1:
                forms = "case"
            elif not how and len({_plain(label) for label in alike}) > 1:
                forms = "punctuation or spaces"
            listed = (f"{quote(label)} ({counts[label]} times)" for label in alike)
            note = f"labels that differ by {forms} alone are different labels: "
            note += ", ".join(listed)
            notes.append(f"{note}; write them alike if they are one")
    return notes


def _plain(label: str) -> str:
    """Return the visible form of a label, in lower case."""
    folded = unicodedata.normalize("NFKC", label).casefold().translate(_LATIN)
    kinds = ((c, unicodedata.category(c)) for c in folded)
    seen = ("-" if k == "Pd" else c for c, k in kinds if k not in ("Cf", "Cc"))
    return " ".join("".join(seen).split())


def _letters(label: str) -> str:
    """Return a label without marks around it or between its words."""
    letters = label.strip(_MARKS + " ")
    return _BETWEEN_WORDS.sub("", letters) if any(map(str.isalnum, letters)) else label


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
        of_texts = isinstance(examples[0], LabelledText)
        noun = "two classes or more" if of_texts else "different gold"
        note = f"{count(len(several), 'text')} with {noun}"
        yield f"{note}, such as {first}: no model gets both right"


def _empty(examples: Sequence[Any]) -> Iterator[str]:
    """Yield a note on texts without any label where all others have one."""
    several = (e.labels for e in examples if isinstance(e, MultiLabelText))
    sizes = Counter(len(labels) for labels in several if labels is not None)
    if sizes.keys() == {0, 1}:
        note = f"{sizes[0]} of {sizes.total()} texts have no label while all others"
        yield f"{note} have exactly one: are they annotated?"


def _words(examples: Sequence[Any], split: str) -> Iterator[str]:
    """Yield a note on words of a split that are numbers or all alike."""
    sentences = (e for e in examples if isinstance(e, Sentence | TaggedWords))
    words = Counter(word for sentence in sentences for word in sentence.words)
    numbers = sum(times for word, times in words.items() if _NUMBER.fullmatch(word))
    is_constant = len(words) == 1 < words.total()
    if is_constant or numbers > _MOSTLY * words.total() > 0:
        how = "alike" if is_constant else "numbers"
        few = ", ".join(map(quote, itertools.islice(words, 3)))
        note = f"words of {split} are {how} ({few})"
        yield f"{note}: name their column, from 0, with --text"


def _labels_of_words(examples: Sequence[Any], counts: Counter[str]) -> Iterator[str]:
    """Yield notes on labels of words that are tags of spans, numbers or words."""
    tagged = [e for e in examples if isinstance(e, TaggedWords)]
    if not tagged:
        return
    remedy = "name their column, from 0, with --label"
    few = ", ".join(map(quote, itertools.islice(counts, 3)))
    if any(x[:2] == "B-" for x in counts) and all(_SPAN.fullmatch(x) for x in counts):
        yield f"labels look like tags of spans ({few}): `init ner` reads these"
    numbers = sum(times for x, times in counts.items() if _NUMBER.fullmatch(x))
    if numbers > _MOSTLY * counts.total():
        yield f"labels of words are numbers ({few}): {remedy}"
    words = {word for e in tagged for word in e.words}
    if len(counts) > max(_FEW, len(words) / 2):
        note = f"{len(counts)} labels of {len(words)} different words ({few})"
        yield f"{note}: {remedy}, that of words with --text"


def _misread(examples: Sequence[LabelledText], counts: Counter[str]) -> list[str]:
    """Return notes on classes that look like lists or like a header."""
    notes = []
    for between in (*BETWEEN, "/", "+", "&", " and "):
        parts = {label: label.split(between) for label in counts}
        lists = [
            label
            for label, names in parts.items()
            if len(names) > 1 and counts.keys() & set(map(str.strip, names))
        ]
        if lists:
            times = f"{sum(map(counts.__getitem__, lists))} times"
            note = f"classes may be labels with {quote(between)} between"
            notes.append(f"{note}: {quote(lists[0])}, {times}")
    several = (e for e in examples if "\n" in e.first)
    swallowed = [e for e in several if _holds_rows(e.first, counts)]
    if swallowed:
        lines = truncate(", ".join(str(e.line) for e in swallowed), 60)
        note = f"texts of several lines hold rows with classes (line {lines})"
        notes.append(f"{note}: do quotes there swallow rows?")
    first = examples[0]
    names = {*LABELS, *TEXTS, *itertools.chain(*PAIRS)}
    if first.line == 1 and names & {(first.label or "").lower(), first.first.lower()}:
        notes.append(f"line 1 looks like names of columns: {quote(first.first)}")
    if len(examples) > 1 and len({(e.first, e.second) for e in examples}) == 1:
        notes.append(f"all {len(examples)} texts are {quote(first.first)}")
    return notes


def _holds_rows(text: str, counts: Mapping[str, int]) -> bool:
    """Return whether a line of a text begins or ends with a class as rows do."""
    rows = [[x.strip(' "') for x in _COLUMNS.split(s)] for s in text.split("\n")]
    return any(len(row) > 1 and {row[0], row[-1]} & counts.keys() for row in rows)


def unread(fields: Iterable[str | int], used: Collection[Any], noun: str) -> list[str]:
    """Return notes on fields of the records of a file that are not read.

    Args:
      fields: all fields of the records, or numbers of columns.
      used: those that are read.
      noun: what a record is, such as "text".
    """
    rest = [n for n in fields if n not in used and n not in _NO_CONTENT]
    rest = [n for n in rest if str(n)[:1] != "_"]  # as Prodigy's hashes
    beside = [quote(str(n)) for n in rest if n in _BESIDE and noun == "text"]
    names = [f"column {n}" if isinstance(n, int) else quote(n) for n in rest]
    others = ", ".join(name for name in names if name not in beside)
    notes = []
    if beside:
        note = (
            f"not read beside the class: {' and '.join(beside)}; --label names another"
        )
        notes.append(f"{note} field, and --data.weight of train that of weights")
    if others:
        notes.append(f"not read of each {noun}: {truncate(others, 240)}")
    return notes


def _list(labels: Iterable[str], lines: Mapping[str, int]) -> str:
    descriptions = [f"{quote(label)} (line {lines[label]})" for label in sorted(labels)]
    return some_of(descriptions)


def some_of(names: Sequence[str], most: int = MOST) -> str:
    """Return the first names of a list, and how many more there are.

    >>> some_of("abc"), some_of("abcdefg")
    ('a, b, c', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def lacking(train: Sequence[Any], others: Sequence[Any], split: str) -> list[str]:
    """Return a note on the labels of train that a split lacks, if there are any."""
    counts = Counter(label for each in train for label in set(labels_of(each)))
    there = {label for each in others for label in labels_of(each)}
    rare = sorted(counts.keys() - there, key=lambda label: (-counts[label], label))
    if not rare:
        return []
    named = [f"{quote(label)} ({counts[label]:,} in train)" for label in rare]
    note = f"{split} has no example of {some_of(named)}"
    return [f"{note}: no score tells whether they are found"]
