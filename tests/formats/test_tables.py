"""Saved folders, Arrow and Parquet of `datasets`, read without it."""

import datetime
import decimal
import functools

import pyarrow as pa
import pytest
from pyarrow import parquet

from dicejax.errors import InputError
from dicejax.formats import JsonSentences, SquadFiles, TextFiles, recognise, tables
from dicejax.formats.records import Columns, Skipped

from ..data import saved

read_texts = functools.partial(TextFiles.read_file, layout="json")


def records(path):
    return [record.content() for record in tables.records(path)]


def test_a_saved_folder_is_read_in_the_order_of_its_files(tmp_path):
    saved.save_to_disk(tmp_path / "x", saved.sentences(20), saved.NER, shards=3)
    result = records(tmp_path / "x")
    assert [e["id"] for e in result] == [str(n) for n in range(20)]
    assert result[7] == {
        "id": "7",
        "tokens": ["Ada", "Berg", "met", "Bo"],
        "ner_tags": ["B-PER", "I-PER", "O", "B-PER"],
    }
    sentence = JsonSentences.read_file(tmp_path / "x")[19]
    assert [tuple(span) for span in sentence.spans] == [("PER", 0, 2), ("PER", 3, 4)]


@pytest.mark.parametrize("kind", ["stream", "file", "parquet"])
def test_names_of_classes_in_the_metadata_of_a_file(tmp_path, kind):
    rows = [*saved.reviews(3), {"sentence": "hidden", "label": -1, "idx": 3}]
    path = tmp_path / ("x.parquet" if kind == "parquet" else "x.arrow")
    if kind == "parquet":
        saved.to_parquet(path, rows, saved.TEXTS)
    else:
        whole = saved.table(rows, saved.TEXTS)
        opened = {"stream": pa.ipc.new_stream, "file": pa.ipc.new_file}[kind]
        with opened(path, whole.schema) as out:
            out.write_table(whole)
    result = read_texts(path, first="sentence")
    assert [e.label for e in result] == ["bad", "good", "bad", None]


def test_labels_in_lists_and_sequences_of_objects(tmp_path):
    names = saved.classes("film", "praise")
    rows = [{"text": "a", "labels": [1, 0]}, {"text": "b", "labels": []}]
    for number, lists in enumerate([saved.several(names), [names]]):  # new, old
        path = tmp_path / f"{number}.parquet"
        saved.to_parquet(path, rows, {"text": saved.STRING, "labels": lists})
        several, none = read_texts(path, multi_label=True, label="labels")
        assert (several.labels, none.labels) == (("praise", "film"), ())
    # A sequence of objects is stored as an object of lists.
    rows = [{"spans": {"start": [0, 4], "label": [0, 1]}}]
    inner = {"start": saved.INT, "label": names}
    features = {"spans": {"feature": inner, "_type": "Sequence"}}
    saved.to_parquet(tmp_path / "s.parquet", rows, features)
    (result,) = records(tmp_path / "s.parquet")
    assert result["spans"] == {"start": [0, 4], "label": ["film", "praise"]}
    rows = [{"spans": [{"start": 0, "label": 0}, {"start": 4, "label": 1}]}]
    saved.to_parquet(tmp_path / "l.parquet", rows, {"spans": saved.several(inner)})
    (result,) = records(tmp_path / "l.parquet")
    assert [x["label"] for x in result["spans"]] == ["film", "praise"]


def test_questions_of_a_saved_folder(tmp_path):
    saved.save_to_disk(tmp_path / "x", saved.questions(2), saved.READING)
    e, _ = SquadFiles.read_file(tmp_path / "x")
    assert (e.id, e.question) == ("q0", "Whom?")
    assert [[tuple(span) for span in a] for a in e.answers] == [[(10, "Bo")]]


def test_a_table_of_pandas_without_features(tmp_path):
    columns = {
        "text": pa.array(["fine", "dull"], pa.large_string()),
        "label": pa.array(["good", "bad"]).dictionary_encode(),
        "score": pa.array([1.5, float("nan")]),
        "when": pa.array([datetime.datetime(2024, 1, 1)] * 2),
        "image": pa.array([b"\x00", b"\xff"]),
    }
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table(columns), path)
    first, other = records(path)
    assert first == {"text": "fine", "label": "good", "score": 1.5}
    assert other["score"] is None
    assert "when (timestamp[us], not read), image (b" in tables.describe(path)


@pytest.mark.parametrize("name", ["text", "label"])
def test_no_column_is_taken_for_one_that_is_not_read(tmp_path, name):
    whole = {"text": ["a text"] * 30, "label": [0, 1] * 15, "group": [0, 1, 2] * 10}
    whole[name] = pa.array(map(decimal.Decimal, range(30)))
    parquet.write_table(pa.table(whole), tmp_path / "x.parquet")
    for named in (Columns(), Columns(**{name: name})):
        with pytest.raises(InputError, match=rf"'{name}' holds decimal.* --{name}$"):
            recognise.source_of("classification", str(tmp_path / "x.parquet"), named)


@pytest.mark.parametrize("name", ["x.parquet", "x/data-00000-of-00001.arrow"])
def test_a_file_cut_off_anywhere_is_one_line(tmp_path, name):
    saved.to_parquet(tmp_path / "x.parquet", saved.reviews(9), saved.TEXTS)
    saved.save_to_disk(tmp_path / "x", saved.reviews(9), saved.TEXTS)
    path = tmp_path / name
    content = path.read_bytes()
    source = tmp_path / name.split("/")[0]
    assert len(records(source)) == 9
    for size in [*range(1, len(content), 61), len(content) - 8, len(content) - 1]:
        path.write_bytes(content[:size])
        with pytest.raises(InputError, match=f"{path}: .*; save or download it again"):
            records(source)


def test_what_is_wrong_with_a_row_names_it_as_datasets_counts(tmp_path):
    rows = saved.reviews(4)
    rows[2]["label"] = 7
    rows[3]["sentence"] = ""
    saved.save_to_disk(tmp_path / "x", rows, saved.TEXTS)
    with pytest.raises(InputError, match=r"x: \[2\]: 'label' is 7, but has names for"):
        read_texts(tmp_path / "x", first="sentence")
    skipped = Skipped()
    result = read_texts(tmp_path / "x", first="sentence", on_error=skipped)
    assert len(result) == skipped.count == 2
    assert f"{tmp_path / 'x'}: [3]: the text is empty" in skipped.messages[1]
    with pytest.raises(InputError, match=r"x: \[0\]: has no 'text'"):
        read_texts(tmp_path / "x")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("state.json", "{", "state.json:1: not JSON"),
        ("state.json", "{}", "state.json: has no '_data_files'"),
        ("state.json", '{"_data_files": []}', "state.json: names no files"),
        (
            *("state.json", '{"_data_files": [{"filename": "../y.arrow"}]}'),
            "x/y.arrow: no such file",
        ),
        ("dataset_info.json", "[]", "dataset_info.json: is a list, not an object"),
        ("data-00000-of-00001.arrow", "text", "cannot be read as Arrow"),
    ],
)
def test_damaged_folders_are_one_line(tmp_path, file, content, message):
    saved.save_to_disk(tmp_path / "x", saved.reviews(3), saved.TEXTS)
    (tmp_path / "x" / file).write_text(content)
    with pytest.raises(InputError, match=message):
        records(tmp_path / "x")


@pytest.mark.parametrize("name", ["x.parquet", "y/data-00000-of-00001.arrow"])
def test_a_column_whose_name_is_no_text_is_one_line(tmp_path, name):
    saved.to_parquet(tmp_path / "x.parquet", saved.reviews(3), saved.TEXTS)
    saved.save_to_disk(tmp_path / "y", saved.reviews(3), saved.TEXTS)
    file = tmp_path / name
    file.write_bytes(file.read_bytes().replace(b"sentence", b"sent\xe5nce"))
    with pytest.raises(InputError, match="can't decode byte 0xe5"):
        records(file)
