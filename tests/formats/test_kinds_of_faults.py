"""One small input for each kind of fault of files, each with its right result."""

import json
import runpy
from collections import Counter

import pytest

from dicejax import config
from dicejax.cli import run
from dicejax.data.examples import labels_of

from .test_round_trip import train


@pytest.fixture(scope="module")
def cases(data_folder):
    """Return the folder of cases beside the real data sets."""
    folder = data_folder.parent / "cases"
    if not (folder / "seed_below_0").is_dir():
        pytest.skip(f"there are no newer cases in {folder}")
    return folder


def start(folder, kind, data, *more):
    argv = ["init", kind, str(folder), "--data", str(data), "--encoder", "scratch"]
    return run([*argv, "--overwrite", *more])


def labels(folder):
    """Return how often each label is in the data of an experiment, each text once."""
    corpus = config.load(folder / "experiment.py").data.load()
    splits = {id(x): x for x in (corpus.train, corpus.dev, corpus.test)}.values()
    return Counter(" ".join(labels_of(e)) for split in splits for e in split)


# Case, kind, file and more arguments, status, what the output holds.
CLASSES = "classification"
INIT = [
    ("comment_with_as_many_words", "ner", "train.conll", 0, "comment: #"),
    (
        "discarded_responses",
        CLASSES,
        "records.jsonl --label topic.responses",
        0,
        "10 discarded left out",
    ),
    (
        "empty_label_of_untouched_texts",
        CLASSES,
        "export.jsonl",
        0,
        "10 of 40 texts have no label",
    ),
    ("hash_between_labels", CLASSES, "export.csv", 0, "between: #"),
    ("index_from_0_is_no_word", "ner", "train.conll", 0, "PER: Ada; LOC: Oslo"),
    ("labels_that_look_alike", CLASSES, "cafes.csv", 0, "Unicode form"),
    (
        "message_that_contradicts_itself",
        "ner",
        "rows.jsonl",
        2,
        "'tokens' is text, not a list of words",
    ),
    ("nested_tags_in_a_column", "ner", "train.conll", 2, "conll:1: ", "is two tags"),
    ("no_consensus_is_a_class", CLASSES, "pairs.jsonl", 0, "'-'", "agree"),
    ("pos_last_column_says_nothing", "pos", "train.txt", 0, "PROPN"),
    ("same_text_two_classes", CLASSES, "reviews.csv", 0, "20 texts with two classes"),
    ("squad_2_through_init", "qa", "train.json", 0, "10 of 20 questions have no"),
    (
        "test_file_silently_ignored",
        CLASSES,
        "data",
        2,
        "test.csv:1: ",
        "between ';', not ','",
    ),
    ("ten_words_are_not_conllu", CLASSES, "q", 0),
]


@pytest.mark.parametrize("case", INIT, ids=lambda case: case[0])
def test_init_says_or_reads_it(cases, tmp_path, capsys, case):
    name, kind, words, status, *parts = case
    file, *more = words.split()
    assert start(tmp_path, kind, cases / name / file, *more) == status
    out = "".join(capsys.readouterr())
    assert all(part in out for part in parts), out
    if name == "ten_words_are_not_conllu":
        corpus = config.load(tmp_path / "experiment.py").data.load()
        assert len(corpus.test) == 12
    if kind == "qa":
        assert "unanswerable=True" in (tmp_path / "experiment.py").read_text()


def test_a_number_in_the_first_row_makes_no_header(cases, tmp_path, capsys):
    data = cases / "advice_that_cannot_be_obeyed/news.csv"
    assert start(tmp_path, "classification", data, "--text", "1", "--label", "0") == 0
    assert labels(tmp_path).keys() == {"0", "1"}


def test_types_are_stripped(cases, tmp_path):
    data = cases / "entity_label_with_a_space_behind/ents.jsonl"
    assert start(tmp_path, "ner", data) == 0
    corpus = config.load(tmp_path / "experiment.py").data.load()
    assert {s.type for e in corpus.train for s in e.spans} == {"PER", "LOC"}


FORMS = {
    b"\x1f\x8b": "packed with gzip",
    b"version ": "a pointer of Git LFS",
    b"\xff\xfe": "UTF-16",
    b"BZh": "packed with bzip2",
    b"PK": "a zip archive",
}


@pytest.mark.parametrize("file", ["a.csv.bz2", "a.zip", "b.csv", "c.csv", "d.csv"])
def test_packed_files_are_named_by_their_first_bytes(cases, tmp_path, capsys, file):
    path = cases / "packed_files_by_their_first_bytes" / file
    begins = path.read_bytes()[:20].startswith
    what = next(name for first, name in FORMS.items() if begins(first))
    assert start(tmp_path, CLASSES, path) == 2
    assert f"{file}: is {what}" in capsys.readouterr().err


def test_accepted_and_rejected_are_two_classes(cases, tmp_path, capsys):
    data = cases / "prodigy_accept_and_reject_are_two_classes/textcat.jsonl"
    assert start(tmp_path, "classification", data) == 0
    assert len(labels(tmp_path)) == 2


def test_quotes_of_tsv_swallow_no_rows(cases, tmp_path, capsys):
    data = cases / "tsv_quotes_swallow_rows/reviews.tsv"
    assert start(tmp_path, "classification", data) == 0
    assert sum(labels(tmp_path).values()) == 40


def refused(argv, capsys):
    """Return what a command says that ends with status 2."""
    capsys.readouterr()
    try:
        status = run(argv)
    except SystemExit as end:  # of a flag
        status = end.code
    assert status == 2
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("case", "flags", "what"),
    [
        ("seed_below_0", "--training.seed -1", "seed is -1"),
        (
            "seed_below_0",
            "--training.seed 18446744073709551616",
            "seed is 18446744073709551616",
        ),
        ("frozen_layers_above_the_depth", "--optimizer.frozen_layers 99", "2 layers"),
    ],
)
def test_a_setting_out_of_range_is_a_line(cases, tmp_path, capsys, case, flags, what):
    assert start(tmp_path / "e", "ner", cases / case / "train.conll") == 0
    argv = ["train", str(tmp_path / "e/experiment.py"), "--out", str(tmp_path / "run")]
    assert what in refused([*argv, "--training.epochs", "1", *flags.split()], capsys)


def test_a_train_without_entities_is_the_cause(cases, tmp_path, capsys):
    data = cases / "no_entity_in_train/d"
    assert start(tmp_path / "e", "ner", data) == 0
    argv = ["train", str(tmp_path / "e/experiment.py"), "--out", str(tmp_path / "run")]
    capsys.readouterr()
    run([*argv, "--training.epochs", "2"])
    out = "".join(capsys.readouterr())
    assert "Likely cause: train has no entity" in out


def same(folder, file, epochs=1):
    """Train on a file, predict it in the same layout, return what is written."""
    train(folder, "ner", file, epochs)
    out = folder / f"same{file.suffix}"
    argv = ["predict", str(folder / "run"), "--file", str(file), "--out", str(out)]
    assert run([*argv, "--out_format", "same"]) == 0
    return out.read_text()


def test_same_keeps_the_scheme(cases, tmp_path):
    file = cases / "same_keeps_the_scheme/train.conll"
    assert same(tmp_path, file, 25) == file.read_text()


@pytest.mark.parametrize(
    "case", ["same_loses_the_texts_of_entities", "same_of_a_json_list"]
)
def test_same_is_one_list_with_the_fields_of_entities(cases, tmp_path, case):
    file = cases / case / "export.json"
    rows = json.loads(same(tmp_path, file, 25))
    before = json.loads(file.read_text())
    assert len(rows) == len(before)
    if case.startswith("same_loses"):
        assert rows == before


def script(cases, name):
    """Run the script of a case in this process; return the error that ends it."""
    try:
        runpy.run_path(str(cases / name / "run.py"), run_name="__main__")
    except (Exception, SystemExit) as error:
        return error
    return None


def test_positions_beyond_the_table_are_refused(cases):
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    assert "16" in str(script(cases, "positions_beyond_the_table")).splitlines()[-1]


def test_a_temperature_of_nan_is_refused(cases):
    assert isinstance(script(cases, "temperature_of_nan"), ValueError)


def test_a_prefix_of_weights_is_named_or_taken_off(cases, capsys):
    pytest.importorskip("torch")
    assert script(cases, "weights_with_a_prefix") is None
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and all(" read" in x or "named: True" in x for x in lines)


@pytest.mark.parametrize(
    ("case", "status", "parts"),
    [
        ("scores_equal_over_seeds", 0, "seed"),
        ("scores_without_rows", 2, "no scores"),
        ("tiny_test_set_learnt_nothing", 0, ""),
    ],
)
def test_a_file_of_scores(cases, tmp_path, capsys, case, status, parts):
    file = str(cases / case / "scores.csv")
    assert run(["report", "--scores", file, "--out", str(tmp_path / "o")]) == status
    out = "".join(capsys.readouterr())
    assert parts in out
    if case.startswith("tiny"):
        assert "learnt nothing" not in out
    if case == "scores_equal_over_seeds":
        assert "same" in out.lower() or "equal" in out.lower() or "one run" in out
