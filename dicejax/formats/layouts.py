"""The columns of words and labels in a file, told by a sample of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from typing import Any

from dicejax.data import tags
from dicejax.errors import InputError, quote
from dicejax.formats.rows import (
    LABEL_NAMES,
    POS_NAMES,
    SENTENCE_NAMES,
    WORD_NAMES,
    Layout,
    is_break,
)
from dicejax.formats.sample import FileSample
from dicejax.io import files

_TAG = re.compile(r"O|[BIOESMLUW][-_].+|.+[-_][BIESMLU]")
_CHUNKS = set(
    ["NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP"]
)
SAMPLE = 2000
"""Lines of a file from which columns are recognised."""
_COMMENT = re.compile("#+[ \t]")
_PLACE = re.compile(r"(\D{0,12})-?\d+([-:.,]\d+)?")  # of a word or its characters
_CONLL_2009 = 14  # columns, the fifth of which has parts of speech


def has_tags(file: FileSample) -> bool:
    """Return whether most lines have equally many words and end in a tag."""
    if table_fields(file, LABEL_NAMES):
        return True
    tags_of_lines = [_TAG.fullmatch(line.split()[-1]) for line in file.lines]
    tagged = sum(tag is not None for tag in tags_of_lines)
    return file.are_columns and tagged > len(file.lines) / 2


def table_fields(file: FileSample, names: Collection[str]) -> dict[str, Any]:
    """Return the fields for a table with columns of sentences, words and labels.

    Of several labels it is the last, as in Kaggle's `Sentence #,Word,POS,Tag`.
    """
    if not file.is_text or file.table is None:
        return {}
    fields = [
        name.strip('"').strip().lower()
        for name in file.first_line.split(file.table.separator)
    ]
    places = [
        [n for n, field in enumerate(fields) if field in some]
        for some in (SENTENCE_NAMES, WORD_NAMES, names)
    ]
    if not all(places):
        return {}
    sentences, words, labels = places
    return {
        "word_column": words[0],
        "label": labels[-1],
        "separator": file.table.separator,
        "sentence_column": sentences[0],
    }


def columns_of(
    file: FileSample, comment: str | None, has_tags: bool
) -> tuple[int, int | None]:
    """Return the column of words, and that of labels where it is not the last.

    Numbers and names of sentences may stand in front of words. Labels are in the column
    that a comment of CoNLL-U Plus names. Else of several columns of tags the first
    counts that does not hold chunks alone; a last column of one label says nothing.

    Raises:
      InputError: all words have one label.
    """
    layout = Layout(0, -1, None, comment)
    blocks = list(itertools.islice(layout.blocks(file.path), SAMPLE // 4))
    sentences = [layout.split(block.lines) for block in blocks if block.lines]
    rows = [row for sentence in sentences for row in sentence]
    width = min(map(len, rows), default=0)
    places = (n for n in range(width - 1) if not _counts(sentences, n))
    word = next(places, 0)
    heads = (x.lower().split() for block in blocks for x in block.before)
    head = next((x[3:] for x in heads if x[1:2] == ["global.columns"]), [])
    names = LABEL_NAMES - POS_NAMES if has_tags else POS_NAMES
    named = [n for n, name in enumerate(head[:width]) if name.split(":")[-1] in names]
    candidates = []
    for column in range(word + 1, width) if has_tags else ():
        values = [row[column] for row in rows]
        types = {tags.prefixed(v).partition("-")[2] for v in values if v != "O"}
        good = sum(_TAG.fullmatch(value) is not None for value in values)
        if types and good > 0.9 * len(values):
            candidates.append((types <= _CHUNKS, column))
    label = min(candidates, default=(False, width - 1))[1]
    says_nothing = not has_tags and len({row[-1] for row in rows}) == 1 < len(rows)
    if says_nothing and width == _CONLL_2009 and len({row[4] for row in rows}) > 1:
        named = [*named, 4]
    if named:
        label = named[0]
    elif says_nothing:
        what = f"all {len(rows)} words have the label {quote(rows[0][-1])}"
        do = "name the column of labels, from 0, with --label"
        raise InputError.at(file.path, None, what, do)
    return word, None if label == width - 1 else label


def _counts(sentences: Sequence[Sequence[Sequence[str]]], column: int) -> bool:
    """Return whether a column numbers words or names their sentence, and has none."""
    longer = [[r[column] for r in rows] for rows in sentences if len(rows) > 1]
    places = [_PLACE.fullmatch(value) for values in longer for value in values]
    if all(places) and len({place and place[1] for place in places}) == 1:
        return True
    return len(longer) > 1 and all(len(set(values)) == 1 for values in longer)


def comment_of(file: FileSample) -> str | None:
    """Return how comments begin, if lines at breaks begin with "#".

    They have other numbers of words than rows, or end in no label of a row.
    """
    at_break, marks = True, set()
    widths: dict[bool, set[int]] = {True: set(), False: set()}
    ends: dict[bool, set[str]] = {True: set(), False: set()}
    for _, line in itertools.islice(files.lines(file.path), SAMPLE):
        if is_break(line):
            at_break = True
            continue
        mark = _COMMENT.match(line) if at_break else None
        if mark is not None:
            marks.add(mark[0])
        is_header = not widths[False] and line.split()[0].lower() in WORD_NAMES
        at_break &= mark is not None or is_header
        if is_header:
            continue
        widths[mark is not None].add(len(line.split()))
        ends[mark is not None].add(line.split()[-1])
    if not marks or (widths[True] == widths[False] and ends[True] & ends[False]):
        return None
    return marks.pop() if len(marks) == 1 else "#"
