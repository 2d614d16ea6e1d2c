"""What texts are labelled with: each form of gold in each format that can hold it."""

from __future__ import annotations

import dataclasses
import json

import pytest

from dicejax.data.examples import LabelledText, MultiLabelText
from dicejax.errors import InputError
from dicejax.formats import TextFiles, recognise
from dicejax.formats.records import Columns

from ..data import glue
from .writers import csv_text, json_lines

WORDS = ("a fine film", "not worth the evening", "two hours that flew by")


def table(separator, *columns, head=None):
    """Return a table of WORDS and of columns that begin with their names."""
    names = ["text", *(name for name, *_ in columns)] if head is None else head
    rows = zip(WORDS * 4, *(values * 4 for _, *values in columns), strict=True)
    return csv_text([names, *rows] if names else rows, separator)


def lines(**fields):
    """Return JSON lines of WORDS and of three values of each field."""
    records = (
        {"text": text} | {name: values[n] for name, values in fields.items()}
        for n, text in enumerate(WORDS)
    )
    return json_lines(records) * 4


def labels_first(*labels):
    return "".join(f"{x} {text}\n" for x, text in zip(labels, WORDS, strict=True)) * 4


LISTS = (("a",), ("a", "b"), ())
SPLIT = (("a",), ("a", "b"), ("b",))
CODES = ([1, 0], [1, 1], [0, 0])
NUMBERED = (("label_0",), ("label_0", "label_1"), ())
ZERO_ONE = {"a": [1, 1, 0], "b": [0, 1, 0]}
PYTHON = ("labels", "['a']", "['a', 'b']", "[]")
# The ending, the content, the labels of the three texts.
SEVERAL = {
    "csv, as Python writes lists": ("csv", table(",", PYTHON), LISTS),
    "tsv, as Python writes lists": ("tsv", table("\t", PYTHON), LISTS),
    "csv, tuples": ("csv", table(",", ("x", "('a',)", "('a', 'b')", "()")), LISTS),
    "tsv, sets": ("tsv", table("\t", ("x", "{'a'}", "{'a', 'b'}", "set()")), LISTS),
    "csv, as JSON": ("csv", table(";", ("x", '["a"]', '["a", "b"]', "[]")), LISTS),
    "csv, commas": ("csv", table(",", ("labels", "a", "a,b", "")), LISTS),
    "csv, semicolons": ("csv", table(",", ("labels", "a", "a; b", "b")), SPLIT),
    "tsv, bars": ("tsv", table("\t", ("label", "a", "a|b", "b")), SPLIT),
    "csv, 0 and 1": ("csv", table(",", ("a", 1, 1, 0), ("b", 0, 1, 0)), LISTS),
    "tsv, 0.0 and 1.0": (
        *("tsv", table("\t", ("a", "1.0", "1.0", "0.0"), ("b", "0.0", "1.0", "0.0"))),
        LISTS,
    ),
    "csv, True and False": (
        *("csv", table(",", ("a", True, True, False), ("b", False, True, False))),
        LISTS,
    ),
    "csv, indicators": ("csv", table(",", ("labels", *map(str, CODES))), NUMBERED),
    "json, lists": ("jsonl", lines(labels=[["a"], ["a", "b"], []]), LISTS),
    "json, lists as text": ("jsonl", lines(label=["['a']", "['a', 'b']", "[]"]), LISTS),
    "json, bars": ("jsonl", lines(labels=["a", "a|b", "b"]), SPLIT),
    "json, 0 and 1": ("jsonl", lines(**ZERO_ONE), LISTS),
    "json, indicators": ("jsonl", lines(labels=CODES), NUMBERED),
    "json, floats": ("jsonl", lines(labels=[[1.0, 0.0], [1.0, 1.0], [0, 0]]), NUMBERED),
    "fastText": (
        *("txt", labels_first("__label__a", "__label__a __label__b", "")),
        LISTS,
    ),
    "fastText, behind": (
        "txt",
        "".join(f"{x} __label__a\t__label__b\n" for x in WORDS) * 4,
        [("a", "b")] * 3,
    ),
}


GOOD, TRUE = ("good", "bad", "good"), ("true", "false", "true")
# The ending, the content, the classes of the three texts.
CLASSES = {
    "csv": ("csv", table(",", ("label", *GOOD)), GOOD),
    "csv for Excel": ("csv", "sep=;\n" + table(";", ("label", *GOOD)), GOOD),
    "tsv": ("tsv", table("\t", ("label", *GOOD)), GOOD),
    "csv, names with commas": (
        *("csv", table(",", ("label", "Rome, Italy", "Oslo", "Oslo"))),
        ("Rome, Italy", "Oslo", "Oslo"),
    ),
    "csv, names in parentheses": (
        *("csv", table(",", ("label", "('tis)", "(0, 1)", "{x}"))),
        ("('tis)", "(0, 1)", "{x}"),
    ),
    "csv, stray blanks": ("csv", table(",", ("label", "x", " y", "x ")), "xyx"),
    "csv, true": ("csv", table(",", ("label", *TRUE)), TRUE),
    "json": ("jsonl", lines(label=GOOD), GOOD),
    "json, true": ("jsonl", lines(label=[True, False, True]), TRUE),
    "json, numbers": ("jsonl", lines(label=[1, 0, 1]), "101"),
    "json, stray blanks": ("jsonl", lines(label=["x", " y", "x "]), "xyx"),
    "fastText, a class": ("txt", labels_first(*(f"__label__{x}" for x in GOOD)), GOOD),
    "label first": ("txt", labels_first(*GOOD), GOOD),
}


@pytest.mark.parametrize("name", [*SEVERAL, *CLASSES])
def test_gold_is_read_predicted_and_written(tmp_path, name):
    """Predictions take the place of gold, and are read as the file itself."""
    ending, content, gold = (SEVERAL | CLASSES)[name]
    kind, field = LabelledText, "label"
    if name in SEVERAL:
        kind, field = MultiLabelText, "labels"
    path = tmp_path / f"data.{ending}"
    path.write_text(content)
    source = recognise.source_of("classification", str(path))
    assert source.multi_label == (name in SEVERAL)
    classes = gold if field == "label" else ()
    texts = [*source.without_gold([*source.texts(path)], classes)]
    for golds in (None, gold, [gold[1]] * 3):
        if golds is not None:
            records = [{field: x} for x in golds] * 4
            written = source.lines(zip(texts, records, strict=True))
            path.write_text("\n".join(written) + "\n")
        examples = source.read(path, None)
        assert {type(example) for example in examples} == {kind}
        assert [getattr(e, field) for e in examples] == [*(golds or gold)] * 4
        assert [e.first for e in examples] == [*WORDS * 4]
        texts = [*source.without_gold([*source.texts(path)], classes)]
        assert [text.text for text in texts] == [*WORDS * 4]


SOFT = [{"good": 0.8, "bad": 0.2}, {"good": 0.25, "bad": 0.75}, {"good": 1, "bad": 0}]
COLUMNS = [(name, *(share[name] for share in SOFT)) for name in ("good", "bad")]
PROBABILITIES = {"probabilities": ("good", "bad")}


@pytest.mark.parametrize(
    ("source", "content"),
    [
        (TextFiles(layout="json", dir=""), lines(label=SOFT, weight=[1, 0.5, 0])),
        (
            TextFiles(layout="json", dir="", **PROBABILITIES),
            lines(weight=[1, 0.5, 0], **{name: v for name, *v in COLUMNS}),
        ),
        (
            TextFiles(dir="", **PROBABILITIES),
            table(",", *COLUMNS, ("weight", 1, 0.5, 0)),
        ),
        (
            TextFiles(**glue.TSV, dir="", **PROBABILITIES),
            table("\t", *COLUMNS, ("weight", 1, 0.5, 0)),
        ),
    ],
)
def test_soft_labels_and_weights(write, source, content):
    source = dataclasses.replace(source, weight="weight")
    path = write(content)
    examples = source.read(path, None)
    assert [e.label for e in examples] == ["good", "bad", "good"] * 4
    assert [e.probabilities for e in examples[:3]] == [
        (("good", 0.8), ("bad", 0.2)),
        (("good", 0.25), ("bad", 0.75)),
        (("good", 1.0), ("bad", 0.0)),
    ]
    assert [e.weight for e in examples] == [1.0, 0.5, 0.0] * 4
    records = [{"label": "bad", "probabilities": {"good": 0.4, "bad": 0.6}}] * 12
    written = source.lines(zip(source.texts(path), records, strict=True))
    path = write("\n".join(written) + "\n")
    assert {e.probabilities for e in source.read(path, None)} == {
        (("good", 0.4), ("bad", 0.6))
    }


def test_a_sum_that_is_rounded_is_made_whole(write):
    rounded = [{"a": 0.3334, "b": 0.6667}, {"a": 0.33, "b": 0.33, "c": 0.33}] * 2
    first, thirds, *_ = TextFiles(layout="json", dir="").read(
        write(lines(label=rounded)), None
    )
    shares = dict(first.probabilities)
    assert sum(shares.values()) == pytest.approx(1, abs=1e-15)
    assert shares["a"] == pytest.approx(0.3334 / 1.0001, abs=1e-15)
    assert dict(thirds.probabilities) == pytest.approx(dict.fromkeys("abc", 1 / 3))


JSON, JSON_LISTS = (
    TextFiles(layout="json", dir=""),
    TextFiles(layout="json", multi_label=True, label="labels", dir=""),
)
FASTTEXT = TextFiles(layout="fasttext", dir="")
CSV = TextFiles(dir="", weight="w")
CSV_SOFT = TextFiles(dir="", **PROBABILITIES)
CSV_LISTS = TextFiles(dir="", multi_label=True, label="labels")
CSV_COLUMNS = TextFiles(dir="", multi_label=True, label=("a", "b"))
INDICATORS = TextFiles(
    layout="json",
    multi_label=True,
    label="labels",
    dir="",
    indicators=True,
    names=("a", "b"),
)
# The source, the content, the message.
FLAWS = [
    (JSON, {"label": {"a": 0.5, "b": 0.47}}, "in 'label' sum to 0.97, not to 1"),
    (JSON, {"label": {"a": 1.5, "b": -0.5}}, "'label[b]' is -0.5, no finite number fr"),
    (JSON, {"label": {"a": True}}, "'label[a]' is True, no finite number"),
    (JSON, {"label": {}}, "'label' names no class"),
    (JSON_LISTS, {"labels": "['a' 'b']"}, "not a list"),  # as NumPy prints two
    (JSON_LISTS, {"labels": "[a, b]"}, "not a list"),
    (JSON_LISTS, {"labels": [1, 0, 0]}, "'labels' has '0' twice; remove one, or set"),
    (INDICATORS, {"labels": [1, 0, 0]}, "'labels' has 3 values for 2 names"),
    (INDICATORS, {"labels": [1, 2]}, "'labels[1]' is 2, not 0 or 1"),
    (CSV, "text,label,w\nx,a,-1\n", ":2: 'w' is '-1', no finite number from 0 on"),
    (CSV, "text,label,w\nx,a,nan\n", ":2: 'w' is 'nan', no finite number"),
    (CSV, "text,label,w\nx,a,\n", ":2: 'w' is '', no finite number"),
    (CSV, "text,label\nx,a\n", ":1: the header has no column 'w'"),
    (CSV, "text,label,w,label\nx,a,1,b\n", ":1: the header has 'label' twice"),
    (CSV_SOFT, "text,good,bad\nx,0.5,0.4\n", ":2: the probabilities in 'probabilit"),
    (CSV_SOFT, "text,good\nx,0.5\n", ":1: the header has no column 'bad'"),
    (CSV_LISTS, "text,labels\nx,\n", ":2: 'labels' is '', not a list"),
    (CSV_COLUMNS, "text,a,b\nx,1,-1\n", ":2: 'b' is '-1', not 0 or 1"),
    (
        FASTTEXT,
        "__label__a __label__b x\n",
        ":1: the text has 2 labels;",
    ),
    (
        FASTTEXT,
        "__label__a\n",
        ":1: the text is empty; add it, remove",
    ),
    (
        FASTTEXT,
        "__label__ x\n",
        ":1: the label behind __label__ is e",
    ),
    (
        FASTTEXT,
        "__label__a x __label__a\n",
        ":1: label 'a' is there twice",
    ),
]


@pytest.mark.parametrize("case", FLAWS)
def test_gold_that_is_flawed_is_refused_in_one_line(write, refusal, case):
    source, content, message = case
    if not isinstance(content, str):
        content = json.dumps({"text": "x", **content}) + "\n"
    assert message in refusal(lambda path: source.read(path, None), write(content))


@pytest.mark.parametrize("separator", [",", "\t"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_advice_on_a_file_without_header_reads_it(tmp_path, separator, order):
    rows = [
        [f"{text} {n}", "ham" if n % 2 else "spam"] for n, text in enumerate(WORDS * 10)
    ]
    content = "".join(separator.join(row[n] for n in order) + "\n" for row in rows)
    path = tmp_path / ("data.csv" if separator == "," else "data.tsv")
    path.write_text(content)
    with pytest.raises(InputError, match="begins with an example") as caught:
        recognise.source_of("classification", str(path))
    *_, text, _, label = str(caught.value).split()
    assert (text, label) == (str(order.index(0)), str(order.index(1)))
    named = Columns(text=text, label=label)
    source = recognise.source_of("classification", str(path), named)
    examples = source.read(path, None)
    assert [[e.first, e.label] for e in examples] == rows
    texts = [*source.texts(path)]
    assert [text.text for text in texts] == [text for text, _ in rows]
    pairs = [(t, {"label": e.label}) for t, e in zip(texts, examples, strict=True)]
    assert list(source.lines(pairs)) == content.splitlines()


def test_lists_in_columns_without_names(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(table(",", ("", "a", "a;b", "b"), ("", "a", "b", "a"), head=[]))
    source = recognise.source_of("classification", str(path), Columns("0", label="1"))
    assert [e.labels for e in source.read(path, None)] == [*SPLIT] * 4
    texts = [*source.texts(path)]
    rows = source.lines((text, {"labels": ["b"]}) for text in texts)
    assert next(rows) == "a fine film,b,a"


def test_rows_keep_their_columns_when_predicted(write):
    path = write('id,a,text,a\n7,"x, y", so fine ,z\n8,,dull,\n', "new.csv")
    source = TextFiles(dir="")
    texts = [*source.texts(path)]
    assert [text.text for text in texts] == ["so fine", "dull"]
    records = [{"label": "good"}, {"label": "bad"}]
    assert list(source.lines(zip(texts, records, strict=True))) == [
        "id,a,text,a,label",
        '7,"x, y", so fine ,z,good',
        "8,,dull,,bad",
    ]


@pytest.mark.parametrize(
    "source",
    [
        TextFiles(dir="", label="a"),
        TextFiles(dir="", probabilities=("a", "b")),
        TextFiles(dir="", multi_label=True, label=("a", "b")),
        TextFiles(dir="", multi_label=True, label="a", between=";"),
    ],
)
def test_gold_of_a_text_without_prediction_is_left_empty(write, source):
    (text,) = source.texts(write("text,a,b\n ,x,\n"))
    assert text.is_blank
    assert list(source.lines([(text, {})])) == ["text,a,b", " ,,"]


def test_a_pair_is_two_texts_with_a_tab_between(write):
    path = write("q,r,label\na\tb,c,1\nd,,1\n")
    texts = [*TextFiles(dir="", first="q", second="r").texts(path)]
    assert [text.text for text in texts] == ["a b\tc", "d\t"]


def test_objects_keep_their_lines_and_the_kind_of_their_classes(write):
    content = '{"text": "so fine", "label": 1}\n\n{"text": "dull", "x": [2]}\n'
    source = TextFiles(layout="json", dir="", names=("bad", "good"))
    texts = [*source.texts(write(content))]
    assert [text.text for text in texts] == ["so fine", "", "dull"]
    records = [{"label": "bad"}, {}, {"label": "good"}]
    assert list(source.lines(zip(texts, records, strict=True))) == [
        '{"text": "so fine", "label": 0}',
        "",
        '{"text": "dull", "x": [2], "label": "good"}',
    ]


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("1 so fine\n\n0\tdull\n", ["so fine", "", "dull"]),
        ("1 so fine\n2 dull\n", ["1 so fine", "2 dull"]),
        ("1 so fine\n0\n", ["1 so fine", "0"]),
        ("so fine\nso dull\n" * 8, ["so fine", "so dull"] * 8),
    ],
)
def test_first_words_of_lines_to_predict_are_removed_where_all_are_labels(
    write, content, texts
):
    source = TextFiles(layout="label-first", dir="")
    read = [*source.texts(write(content))]
    lines = [*source.without_gold(read, ("0", "1"))]
    assert [text.text for text in lines] == texts
    assert [text.line for text in lines] == [n + 1 for n in range(len(texts))]


def test_a_field_may_be_as_long_as_a_document(write):
    long = "so, fine " * 30_000
    path = write(f'text,label\n"{long}",a\nx,b\n')
    first, other = TextFiles(dir="").read(path, None)
    assert first == LabelledText(long.strip(), None, "a", "0", 2)
    assert other.label == "b"


def test_columns_of_0_and_1_beside_others_are_not_taken_for_labels(tmp_path):
    path = tmp_path / "data.csv"
    others = ("is_new", 0, 1, 0), ("is_long", 1, 0, 0), ("shop", "x", "x", "y")
    path.write_text(table(",", *others))
    with pytest.raises(InputError, match="do not say which is the class"):
        recognise.source_of("classification", str(path))
    named = Columns(label="is_new,is_long")
    source = recognise.source_of("classification", str(path), named)
    assert source.label == ("is_new", "is_long")


@pytest.mark.parametrize("label", [None, "good,bad"])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_columns_that_sum_to_1_are_probabilities(tmp_path, ending, label):
    rows = [("a fine film", 0.9, 0.1), ("a dull play", 0.25, 0.75)] * 4
    path = tmp_path / f"data.{ending}"
    if ending == "csv":
        lines = ["text,good,bad", *(",".join(map(str, row)) for row in rows)]
    else:
        names = ("text", "good", "bad")
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    named = Columns(label=label)
    source = recognise.source_of("classification", str(path), named)
    examples = source.read(path, None)
    assert [dict(e.probabilities) for e in examples] == [
        {"good": good, "bad": bad} for _, good, bad in rows
    ]
    assert [e.label for e in examples] == ["good", "bad"] * 4
