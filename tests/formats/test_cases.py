"""Small files after public reports, each with its right result."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dicejax import config
from dicejax.cli import run
from dicejax.data.examples import LabelledText

from .test_round_trip import train

HAN = re.compile(r"(?<=[\u3040-\u30ff\u4e00-\u9fff]) (?=[\u3040-\u30ff\u4e00-\u9fff])")


@pytest.fixture(scope="module")
def cases(data_folder):
    """Return the folder of cases beside the real data sets."""
    folder = data_folder.parent / "cases"
    if not folder.is_dir():
        pytest.skip(f"there is no folder {folder}")
    return folder


# Case, kind, what the output holds: gold under an example, a note; or the one line.
INIT = [
    ("A2_predict_comment_rows/train.conll", "ner", "comment: #", "PER: Ada; LOC: "),
    ("B1_prodigy_answers/prodigy.jsonl", "ner", "PER: Ada", "3 rejected, 3 ignored"),
    ("B1_prodigy_answers/prodigy.jsonl", "ner", "4 train / 1 dev / 1 test"),
    ("B2_labelstudio_emoji/ls_utf16.json", "ner", "PER: A\n", "UTF-16 units"),
    ("B2_labelstudio_emoji/ls_min_utf16.json", "ner", "PER: A\n", "UTF-16 units"),
    ("B5_whitespace_entity/ws_entity.jsonl", "ner", "jsonl:1: entities[1] is ' '"),
    ("B5_whitespace_entity/brat", "ner", "d0.ann: entities[1] ('T2') is ' '"),
    ("B6_brat_line_break/brat", "ner", "PER: Ada; LOC: North America"),
    ("B7_marks_and_han/hindi.jsonl", "ner", "LOC: दिल्ली", "मैं दिल्ली में रहता हूँ"),
    ("B7_marks_and_han/chinese.jsonl", "ner", "LOC: 北京", "我住在北京市"),
    ("B7_marks_and_han/japanese.jsonl", "ner", "LOC: 東京", "東京に住んでいます"),
    (
        "B8_cut_words/endincl.jsonl",
        "ner",
        "jsonl:1:",
        "'Ad'",
        "all ends look inclusive",
    ),
    ("C8_too_few_misleading/pos_slash.txt", "pos", "word/TAG"),
    ("C8_too_few_misleading/qa_flat_ok.jsonl", "qa", "one text"),
    ("C9_leak", "classification", "8 of 8 test"),
    ("G_formats/bilou.conll", "ner", "PER: Ada; LOC: New York"),
    ("G_formats/germeval.tsv", "ner", "PER: Ada; LOC: Berlin"),
    ("G_formats/gliner.jsonl", "ner", "person: Ada; person: Bo"),
    ("G_formats/hf_tokens_labels.jsonl", "ner", "PER: Ada"),
    ("G_formats/kaggle_ner.csv", "ner", "per: Ada; per: Bo"),
    ("G_formats/ls_choice.json", "classification", "has only 'pos'"),
    ("G_formats/ls_key.json", "ner", "PER: Ada"),
    ("G_formats/qa_intid.json", "qa", "one text"),
    ("G_formats/qa_minus1.json", "qa", "one text"),
    ("G_formats/sagemaker.jsonl", "ner", "PER: Ada"),
    ("P_passes/ls.conll", "ner", "PER: Ada; PER: Bo"),
    ("P_passes/trail_tab.conll", "ner", "PER: Ada; LOC: New"),
    ("P_passes/ioe.conll", "ner", "PER: Ada; LOC: New York"),
    ("P_passes/nbspword.conllu", "pos", "NUM PROPN"),
    ("P_passes/davidson.csv", "classification", "first: tweet", "label: class"),
    ("P_passes/qa_utf16.json", "qa", "answer "),
    ("P_passes/qa_nfd.json", "qa", "answer "),
]


@pytest.mark.parametrize("case", INIT, ids=lambda case: f"{case[0]}-{case[-1][:9]}")
def test_init_reads_a_case_or_refuses_it_in_a_line(cases, tmp_path, capsys, case):
    file, kind, *parts = case
    argv = ["init", kind, str(tmp_path / "e"), "--data", str(cases / file)]
    status = run([*argv, "--encoder", "scratch"])
    out = "".join(capsys.readouterr())
    assert status in (0, 2), out
    if status == 2:
        assert out.splitlines()[-1].startswith("dicejax: ")
    for part in parts:
        assert part in HAN.sub("", out)


# Case, all different gold that `init` reads of it, what the output holds.
GOLD = [
    ("C1_fasttext_labels_in_text/fasttext_multi.txt", "pos x|neg x"),
    ("C4_labels_told_apart/pylist.csv", "a|a b|b|", "\n    a\n", "\n    b\n"),
    ("C4_labels_told_apart/floatlab_mixed.csv", "1.0|0.0|1|0", "'1.0' (10 times)"),
    ("C4_labels_told_apart/stray.csv", "pos|neg|Pos", "'Pos' (10 times)", "'pos'"),
    ("C4_labels_told_apart/comprehend_cls.jsonl", "pos|pos neg", "pos, neg"),
    ("G_formats/boollab.jsonl", "true|false", "\n    true\n", "\n    false\n"),
    ("G_formats/delim_list.csv", "a|a b|b|c a|"),
    ("G_formats/multihot.jsonl", "label_1|label_0||label_0 label_1"),
    (
        "G_formats/toxic.csv",
        "severe_toxic threat|toxic||toxic severe_toxic|toxic threat|severe_toxic|threat"
        "|toxic severe_toxic threat",
    ),
    ("P_passes/quoted_nl.csv", "a|b"),
    ("P_passes/davidson.csv", "0|1|2"),
    ("P_passes/crlf_bom.csv", "a|b", "\n    a\n", "\n    b\n"),
    ("P_passes/pretty.json", "a|b"),
]


@pytest.mark.parametrize("case", GOLD, ids=lambda case: case[0])
def test_init_reads_all_labels_of_a_case(cases, tmp_path, capsys, case):
    file, gold, *parts = case
    argv = ["init", "classification", str(tmp_path), "--data", str(cases / file)]
    assert run([*argv, "--encoder", "scratch"]) == 0
    out = "".join(capsys.readouterr())
    corpus = config.load(tmp_path / "experiment.py").data.load()
    examples = {*corpus.train, *corpus.dev, *corpus.test}
    labels = {
        e.label if isinstance(e, LabelledText) else " ".join(e.labels) for e in examples
    }
    assert labels == set(gold.split("|"))
    assert not any("__label__" in e.first for e in examples)
    assert all(part in out for part in parts)
    assert ("note: labels that differ" in out) == ("times" in "".join(parts))


@pytest.mark.parametrize("name", ["ws_entity.jsonl", "brat"])
def test_what_has_no_words_is_left_out_and_counted(cases, tmp_path, capsys, name):
    data = str(cases / "B5_whitespace_entity" / name)
    argv = ["init", "ner", str(tmp_path / "e"), "--data", data, "--encoder", "scratch"]
    assert run([*argv, "--align", "skip"]) == 0
    assert "without words left out" in capsys.readouterr().err
    assert 'align="skip"' in (tmp_path / "e/experiment.py").read_text()
    status = run([*argv, "--on_error", "skip", "--overwrite"])
    err = capsys.readouterr().err
    assert ("left out" in err and status == 0) or ("holds no sentences" in err)


def test_the_advice_fits_a_table_with_the_text_in_front(cases, tmp_path, capsys):
    data = str(cases / "C6_wrong_hint/textlabel.tsv")
    argv = ["init", "classification", str(tmp_path / "e"), "--data", data]
    if status := run([*argv, "--encoder", "scratch"]):
        assert status == 2
        flags = re.search(r"--text \d --label \d", capsys.readouterr().err)[0].split()
        assert run([*argv, "--encoder", "scratch", *flags]) == 0
    out = capsys.readouterr().out
    assert "\n    ham\n" in out and "\n    spam\n" in out


def test_a_case_is_predicted_as_it_was_trained(cases, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    case = cases / "A1_predict_splits_words_otherwise"
    data = str(case / "train.jsonl")
    train(tmp_path, "ner", data, 4)
    capsys.readouterr()
    assert run(["evaluate", "run", "--split", "train", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["f1"] == 1
    assert run(["predict", "run", "--file", data, "--out", "predicted.jsonl"]) == 0
    check = [sys.executable, str(case / "check.py"), data, "predicted.jsonl"]
    assert subprocess.run(check).returncode == 0


def test_comment_rows_come_out_as_they_are(cases, tmp_path):
    case = cases / "A2_predict_comment_rows"
    train(tmp_path, "ner", case / "train.conll", 5)
    out = tmp_path / "o.conll"
    argv = ["predict", str(tmp_path / "run"), "--file", str(case / "new.conll")]
    assert run([*argv, "--out", str(out)]) == 0
    before_tags = (case / "new.conll").read_text().splitlines()
    for before, after in zip(before_tags, out.read_text().splitlines(), strict=True):
        if before and not before.startswith("#"):
            tag = {"Ada": "B-PER", "lives": "O", "in": "O"}.get(before, "B-LOC")
            before = f"{before} {tag}"
        assert after == before


def test_a_table_is_predicted_without_header_and_label(cases, tmp_path):
    case, out = cases / "A4_predict_tsv", tmp_path / "o.jsonl"
    train(tmp_path, "classification", case / "rev.tsv", 1)
    file = case / "rev_new.tsv"
    argv = ["predict", str(tmp_path / "run"), "--file", str(file), "--out", str(out)]
    assert run(argv) == 0
    records = map(json.loads, out.read_text().splitlines())
    rows = [line.split("\t")[0] for line in file.read_text().splitlines()[1:]]
    assert [record["texts"] for record in records] == [[row] for row in rows]


def test_fractions_are_refused_or_read_as_fractions(cases, tmp_path, capsys):
    scores = str(cases / "E1_scores_as_fractions/sc_frac.csv")
    argv = ["report", "--scores", scores, "--out", str(tmp_path / "o")]
    assert run(argv) == 2
    assert "fraction" in capsys.readouterr().err
    assert run([*argv, "--unit", "fraction"]) == 0
    content = next((tmp_path / "o").rglob("comparison.json")).read_text()
    assert '"dsc"' in content


@pytest.mark.parametrize(
    "script",
    [
        "F1_cross_entropy_minus_inf/run.py",
        pytest.param("D1_tokenizer_config/make.py", marks=pytest.mark.exhaustive),
    ],
)
def test_a_script_finds_nothing_wrong(cases, tmp_path, script):
    if script.startswith("D1"):
        pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    argv = [sys.executable, str(cases / script)]
    done = subprocess.run(argv, cwd=tmp_path, env=os.environ | {"PATH": path})
    assert done.returncode == 0
