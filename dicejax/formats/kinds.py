"""The formats of files: a row for each, how it looks and the source that reads it."""

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from dicejax.data import tags
from dicejax.errors import InputError, quote
from dicejax.formats import annotations
from dicejax.formats.conll import ConllFiles
from dicejax.formats.json_sentences import JsonSentences, tokens_of
from dicejax.formats.labelled import LABEL, PREFIX, TextFiles
from dicejax.formats.mapping import columns_of
from dicejax.formats.records import ALL_UNNAMED, LOOKED_AT
from dicejax.formats.rows import (
    LABEL_NAMES,
    POS_NAMES,
    SAMPLE,
    SENTENCE_NAMES,
    WORD_NAMES,
    Layout,
    is_break,
)
from dicejax.formats.sample import RECORDS, Container, FileSample
from dicejax.formats.source import FileSource
from dicejax.formats.squad import SquadFiles
from dicejax.io import files

Kind = Literal["ner", "pos", "classification", "qa"]
Settings = dict[str, Any]

_TEXTS = "Texts or pairs with a class or labels"
_WORDS = "Files with a word"
_PAIR = re.compile(r"[^/]+/[^/]+")
_TAG = re.compile(r"O|[BIOESMLUW][-_].+|.+[-_][BIESMLU]")
_PHRASES = "NP VP PP ADVP ADJP SBAR PRT CONJP INTJ LST UCP"
_CHUNKS = {*_PHRASES.split()}
_WORD = re.compile(r"[^ \t]+")
_COMMENT = re.compile("#+[ \t]")
_PLACE = re.compile(r"(\D{0,12})-?\d+([-:.,]\d+)?")  # of a word or its characters
_CONLL_2009 = 14  # columns, the fifth of which has parts of speech


class Format(NamedTuple):
    """A format of files.

    Attributes:
      make: class of the source.
      settings: the fields that read a file, defaults or not.
      containers: what its examples may be in.
      is_like: whether a file in one of them looks so.
      looks: description of such a text file, as in "has labels on each line".
      title: what is in the files; empty for what the class says of itself.
      is_sure: whether a file that fits can hardly be of another format.
      layout: the field of the class that tells its formats apart, if it has several.
    """

    make: type[FileSource]
    settings: Callable[[FileSample], Settings] = lambda file: {}
    containers: Sequence[Container] = ("text",)
    is_like: Callable[[FileSample], bool] = lambda file: True
    looks: str = ""
    title: str = ""
    is_sure: Callable[[FileSample], bool] = lambda file: True
    layout: str = ""

    def fits(self, file: FileSample) -> bool:
        """Return whether a file looks so."""
        return file.container in self.containers and self.is_like(file)

    def fields(self, file: FileSample) -> Settings:
        """Return the fields that read a file.

        Raises:
          InputError: a column cannot be told.
        """
        layout = {"layout": self.layout} if self.layout else {}
        return layout | self.settings(file)


def format_of(source: FileSource) -> Format | None:
    """Return the format of a source; None for a class of the user's own."""
    key = (type(source), getattr(source, "layout", ""))
    every = itertools.chain.from_iterable(FORMATS.values())
    return next((form for form in every if (form.make, form.layout) == key), None)


def fits(source: FileSource, file: FileSample) -> bool:
    """Return whether a file looks like those of a source."""
    form = format_of(source)
    return source.fits(file) if form is None else form.fits(file)


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
    if file.container != "text" or file.table is None:
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
        "label_column": labels[-1],
        "separator": file.table.separator,
        "sentence_column": sentences[0],
    }


def word_columns(
    file: FileSample, comment: str | None, has_tags: bool
) -> tuple[int, int | None]:
    """Return the column of words, and that of labels where it is not the last.

    Numbers, names of sentences, tags and words in small letters may stand in front of
    words. Labels are in the column that a header or a comment of CoNLL-U Plus names.
    Else of several columns of tags the first counts that does not hold chunks alone,
    and of other labels the last that has no tags, numbers, lemmas or one label alone.

    Raises:
      InputError: all words have one label.
    """
    layout = Layout(0, -1, None, comment)
    blocks = list(itertools.islice(layout.blocks(file.path), SAMPLE // 4))
    sentences = [layout.split(block.lines) for block in blocks if block.lines]
    rows = [row for sentence in sentences for row in sentence]
    width = min(map(len, rows), default=0)
    heads = [x.lower().split() for block in blocks for x in block.before]
    head = next((x[3:] for x in heads if x[1:2] == ["global.columns"]), [])
    first = [name.strip().lower() for name in (rows or [[]])[0]]
    if WORD_NAMES & {*first} and LABEL_NAMES & {*first}:  # a header
        head, rows, sentences = first, rows[1:], [sentences[0][1:], *sentences[1:]]
    names = LABEL_NAMES - POS_NAMES if has_tags else POS_NAMES
    named = [n for n, name in enumerate(head[:width]) if name.split(":")[-1] in names]
    columns = [[row[n] for row in rows] for n in range(width)]
    types = {n: _types(values) for n, values in enumerate(columns)}
    last = width - 1
    candidates = [(types[n] <= _CHUNKS, n) for n in range(width) if types[n]]
    places = (
        n
        for n in range(width)
        if not (_counts(sentences, n) or types[n] or _is_small(*columns[n : n + 2]))
    )
    word = next(places, 0)
    if has_tags:
        label = min(candidates, default=(False, last))[1]
        word *= word != label
    else:
        word *= word < last
        others = range(last, word, -1)
        label = next((n for n in others if _are_labels(columns, word, n)), last)
    says_nothing = not has_tags and len({*columns[label]}) == 1 < len(rows)
    if not has_tags and width == _CONLL_2009 and len({*columns[-1]}) == 1:
        named = [*named, 4]
    if named:
        label = named[0]
    elif says_nothing:
        fault = f"all {len(rows)} words have the label {quote(rows[0][label])}"
        remedy = "name the column of labels, from 0, with --label"
        raise InputError.at(file.path, None, fault, remedy)
    return word, None if label == last else label


def _types(values: Sequence[str]) -> set[str]:
    """Return the types of a column of tags; none of any other column."""
    types = {tags.prefixed(v).partition("-")[2] for v in values if v != "O"}
    good = sum(_TAG.fullmatch(value) is not None for value in values)
    return types if types and good > 0.9 * len(values) else set()


def _are_labels(columns: Sequence[Sequence[str]], word: int, column: int) -> bool:
    """Return whether a column may have parts of speech: no tags, numbers or lemmas."""
    values, words = columns[column], columns[word]
    numbers = sum(value.replace(".", "").isdecimal() for value in values)
    pairs = zip(values, words, strict=True)
    lemmas = sum(value.lower() == word.lower() for value, word in pairs)
    most = max(Counter(values).values(), default=0)
    is_said = most <= 0.9 * len(values) and max(numbers, lemmas) <= len(values) / 2
    return is_said and not _types(values)


def _is_small(values: Sequence[str], others: Sequence[str] = ()) -> bool:
    """Return whether a column is the next one, if there is one, in small letters."""
    pairs = [*zip(values, others, strict=False)]
    return any(x != y for x, y in pairs) and all(x == y.lower() for x, y in pairs)


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
        words = _WORD.findall(line)
        is_header = not widths[False] and words[0].lower() in WORD_NAMES
        at_break &= mark is not None or is_header
        if is_header:
            continue
        widths[mark is not None].add(len(words))
        ends[mark is not None].add(words[-1])
    if not marks or (widths[True] == widths[False] and ends[True] & ends[False]):
        return None
    return marks.pop() if len(marks) == 1 else "#"


def _are_columns(file: FileSample) -> bool:
    """Return whether a file may have a word and its label on each line."""
    table = file.table
    is_csv = table is not None and table.flawless and table.separator != "\t"
    return file.are_columns or not is_csv or bool(table_fields(file, LABEL_NAMES))


def _columns(file: FileSample, has_tags: bool) -> Settings:
    """Return the columns and the mark of comments; word/TAG pairs are refused."""
    kinds = [POS_NAMES, LABEL_NAMES]
    for names in [LABEL_NAMES - POS_NAMES] if has_tags else kinds:
        if fields := table_fields(file, names):
            return fields
    words = [word for line in file.lines for word in line.split()]
    pairs = sum(_PAIR.fullmatch(word) is not None for word in words)
    if pairs > len(words) * 0.9:
        fault = f"{quote(words[0])} looks like word/TAG"
        remedy = "put each word and its tag on a line, a blank line between sentences"
        raise InputError.at(file.path, 1, fault, remedy)
    comment = comment_of(file)
    fields = {} if comment is None else {"comment": comment}
    word, label = file.named.text, file.named.label
    places = [name for name in (word, label) if name is not None]
    if not all(place.lstrip("-").isdecimal() for place in places):
        remedy = "number columns from 0, or from the end: -1"
        raise InputError.at(file.path, None, f"{places} name no columns", remedy)
    first, last = word_columns(file, comment, has_tags or label is not None)
    first, last = int(word or first), int(label) if label else last
    return fields | {"word_column": first, "label_column": last}


def _conllu(file: FileSample) -> Settings:
    """Return no fields: all are as they are by default."""
    if "\t" not in file.first:
        fault = "is CoNLL-U, but with spaces between its columns"
        raise InputError.at(file.path, None, fault, "put tabs there")
    return {}


def _entities(file: FileSample) -> Settings:
    """Return the fields of texts and entities that all records have alike."""
    alike: list[set[tuple[str, str]]] = []
    with contextlib.suppress(InputError):  # the reader says it, or leaves it out
        for record in itertools.islice(file.records(), LOOKED_AT):
            has_text = not tokens_of(record, file.named)
            if has_text and annotations.left_out(record) is None:
                alike.append({*annotations.settings(record, file.named).items()})
    return dict(set.intersection(*alike)) if alike else {}


def _objects(file: FileSample) -> Settings:
    """Return the fields of texts and of classes or labels, and their form.

    Where all have one label, accepted or rejected as in Prodigy's binary annotation,
    the class is the answer.
    """
    columns = file.columns
    labels = {str(row.get(columns.get("label"))) for row in file.sample}
    answers = {row.get("answer") for row in file.sample}
    if len(labels) == 1 and {"accept", "reject"} <= answers:
        texts = {n: x for n, x in columns.items() if n in ("first", "second")}
        return texts | {"label": "answer"}
    return columns


def _is_table(file: FileSample) -> bool:
    """Return whether a file is a table: by its ending, the user, or its header."""
    if has_tags(file):
        return False
    is_table = file.ending in ("csv", "tsv", "tab")
    if file.table is None:
        if not is_table:
            return False
        remedy = "give it a text and a label in each row"
        raise InputError.at(file.path, 1, "has one column alone", remedy)
    if is_table or file.named.fields():
        return True
    try:  # whether the first line is a header
        rows = file.sample if file.table.flawless else ()
        columns_of(file.path, rows, ALL_UNNAMED, by_name_alone=True)
    except InputError:
        return False
    return True


def _has_several(file: FileSample) -> Settings:
    """Return whether a line has several of fastText's labels.

    Where none has, a line without a label is a flaw: the rest of a broken one.
    """
    lines = (line for _, line in files.lines(file.path))
    return {"multi_label": any(len(LABEL.findall(x)) > 1 for x in lines)}


FORMATS: Mapping[Kind, Sequence[Format]] = {
    "qa": (Format(SquadFiles, containers=("document", *RECORDS)),),
    "pos": (
        Format(
            ConllFiles,
            _conllu,
            containers=("CoNLL-U",),
            title="CoNLL-U files: words with their part of speech.",
            layout="conllu",
        ),
        Format(
            ConllFiles,
            lambda file: _columns(file, has_tags=False),
            is_like=_are_columns,
            title=f"{_WORDS} and its label, such as its part of speech, on each line.",
            is_sure=lambda file: False,
            layout="labels",
        ),
    ),
    "ner": (
        Format(JsonSentences, _entities, containers=("brat", *RECORDS)),
        Format(
            ConllFiles,
            lambda file: _columns(file, has_tags=True),
            is_like=_are_columns,
            looks="holds a word and its tag on each line",
            title=f"{_WORDS} and the tag of a span on each line.",
            is_sure=has_tags,
            layout="tags",
        ),
    ),
    "classification": (
        Format(
            TextFiles,
            _objects,
            containers=RECORDS,
            title=f"{_TEXTS}: JSON lines, a list, or a saved table.",
            layout="json",
        ),
        Format(
            TextFiles,
            _has_several,
            is_like=lambda file: LABEL.search(file.first) is not None,
            looks=f"has {PREFIX} before labels",
            title=f"{_TEXTS}, `{PREFIX}NAME` before or behind them.",
            layout="fasttext",
        ),
        Format(
            TextFiles,
            lambda file: {**(file.table.form if file.table else {}), **file.columns},
            is_like=_is_table,
            title=f"{_TEXTS}, a table as spreadsheets and pandas write it.",
            layout="table",
        ),
        Format(
            TextFiles,
            is_like=lambda file: not has_tags(file),
            title="A label, a space or tab and a text on each line.",
            is_sure=lambda file: False,
            layout="label-first",
        ),
    ),
}
"""Formats of each kind of task; the first that fits a file reads it."""
