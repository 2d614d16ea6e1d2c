"""Held-out parts: a share of each label, equal texts and documents in one part."""

import json
from collections import Counter

import numpy as np
import pytest

from dicejax import config
from dicejax.cli import run
from dicejax.data.source import text_of
from dicejax.formats import ConllFiles, TextFiles

SHARES = {"dev": None, "test": None, "dev_share": 0.15, "test_share": 0.15}
SPLITS = ("train", "dev", "test")
# A rare label that is the first, the last and the second of three by name.
CLASSES = [("complaint", "ok"), ("spam", "ham"), ("mid", "high", "zero")]


def counts_of(corpus):
    """Return the number of examples of each label by split."""
    return {x: Counter(e.label for e in getattr(corpus, x)) for x in SPLITS}


def rare(folder, labels, *, few=29, texts=609, distinct=10**6):
    """Read a file of which a few texts have the first label, at random places."""
    gold = [labels[0]] * few
    gold += [labels[1 + n % (len(labels) - 1)] for n in range(texts - few)]
    order = np.random.default_rng(5).permutation(texts)
    rows = (f"{gold[n]} text {n % distinct}\n" for n in order)
    (folder / "all.txt").write_text("".join(rows))
    return TextFiles(layout="label-first", dir=str(folder), train="all.txt", **SHARES)


@pytest.mark.parametrize("labels", CLASSES)
def test_each_part_has_its_share_of_each_class(tmp_path, labels):
    counts = counts_of(rare(tmp_path, labels).load())
    whole = sum(counts.values(), Counter())
    for split in ("dev", "test"):
        for label in labels:
            assert abs(counts[split][label] - 0.15 * whole[label]) <= 1
    assert counts_of(rare(tmp_path, labels).load()) == counts


def test_at_random_the_rare_class_has_another_share(tmp_path):
    source = rare(tmp_path, CLASSES[0])
    fields = json.loads(config.to_json(config.Experiment(name="x", data=source)))
    del fields["data"]["stratified"]  # as earlier versions wrote it
    earlier = config.from_json(json.dumps(fields)).data
    assert not earlier.stratified and source.stratified
    corpus = earlier.load()
    assert corpus.notes[0].endswith(" texts (random)")
    # The draw of earlier versions: test first, a permutation of all by its seed.
    order = np.random.default_rng((0, 3)).permutation(609)
    lines = sorted(1 + order[: round(0.15 * 609)])
    assert [example.line for example in corpus.test] == lines
    fields["data"] |= {"dev": "dev.txt", "test": "test.txt"}  # nothing is held out
    assert config.from_json(json.dumps(fields)).data.stratified


def test_equal_texts_are_in_one_part_whatever_their_gold(tmp_path):
    corpus = rare(tmp_path, ("complaint", "ok"), few=60, distinct=200).load()
    texts = [{text_of(e) for e in getattr(corpus, x)} for x in SPLITS]
    assert sum(map(len, texts)) == len(set.union(*texts)) == 200
    assert sum(len(getattr(corpus, x)) for x in SPLITS) == 609
    counts = counts_of(corpus)
    assert abs(counts["test"]["complaint"] - 0.15 * 60) <= 1.5


@pytest.mark.parametrize("documents", [False, True])
def test_both_parts_are_drawn_alike_though_few_texts_are_left_for_dev(
    documents, tmp_path
):
    rows = [
        {"text": f"{n % 21}", "label": "ab"[n % 3 > 0]}
        | ({"text": f"{n}", "document": f"{n % 21}"} if documents else {})
        for n in range(210)
    ]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    source = TextFiles(layout="json", dir=str(tmp_path), train="all.jsonl", **SHARES)
    corpus = source.load()
    units = [
        {e.document if documents else text_of(e) for e in getattr(corpus, split)}
        for split in SPLITS
    ]
    assert sum(map(len, units)) == len(set.union(*units)) == 21
    whole = "documents" if documents else "equal texts"
    assert corpus.notes[0].endswith(f"(a share of each label, {whole} together)")


def test_documents_stay_whole_and_their_classes_have_shares(tmp_path):
    rows, random = [], np.random.default_rng(2)
    for document in range(60):
        for number in range(10):
            label = "bad" if random.random() < 0.05 else "good"
            text = f"{document} {number}" if number else "the same"
            rows.append({"text": text, "label": label, "document": f"d{document}"})
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    source = TextFiles(layout="json", dir=str(tmp_path), train="all.jsonl", **SHARES)
    corpus = source.load()
    names = [{e.document for e in getattr(corpus, x)} for x in SPLITS]
    assert sum(map(len, names)) == len(set.union(*names)) == 60
    assert "a share of each label, documents together" in corpus.notes[0]
    counts = counts_of(corpus)
    whole = sum(counts.values(), Counter())
    for split in ("dev", "test"):
        assert abs(counts[split]["bad"] - 0.15 * whole["bad"]) <= 2
        assert abs(counts[split].total() - 90) <= 10


def test_the_rarest_of_several_labels_has_its_share(tmp_path):
    random, shares = np.random.default_rng(3), {"a": 0.3, "m": 0.02, "z": 0.6}
    rows = [
        {
            "text": f"{n}",
            "labels": [x for x, p in shares.items() if random.random() < p],
        }
        for n in range(1000)
    ]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    source = TextFiles(
        layout="json",
        multi_label=True,
        label="labels",
        dir=str(tmp_path),
        train="all.jsonl",
        **SHARES,
    )
    corpus = source.load()
    whole = Counter(x for row in rows for x in row["labels"])
    for split in ("dev", "test"):
        examples = getattr(corpus, split)
        assert abs(len(examples) - 150) <= 3
        counts = Counter(x for e in examples for x in e.labels)
        for label, total in whole.items():
            assert abs(counts[label] - 0.15 * total) <= 2


def test_rare_types_of_entities_have_shares(tmp_path):
    lines = []
    for n in range(400):
        kind = "DIS" if n % 20 == 7 else "PER"
        lines.append(f"w{n} B-{kind}\nslept O\n\n")
    (tmp_path / "all.conll").write_text("".join(lines))
    corpus = ConllFiles(dir=str(tmp_path), train="all.conll", **SHARES).load()
    for split in ("dev", "test"):
        types = Counter(e.spans[0].type for e in getattr(corpus, split))
        assert types == {"DIS": 3, "PER": 57}


@pytest.mark.parametrize("labels", CLASSES)
def test_a_test_split_without_a_class_is_a_note_that_names_it(tmp_path, labels):
    rows = "".join(f"t{n},{labels[n % 10 > 0]}\n" for n in range(40))
    for name in ("train", "dev"):
        (tmp_path / f"{name}.csv").write_text(f"text,label\n{rows}")
    others = "".join(f"u{n},{labels[1]}\n" for n in range(9))
    (tmp_path / "test.csv").write_text(f"text,label\n{others}")
    files = {x: f"{x}.csv" for x in SPLITS}
    corpus = TextFiles(dir=str(tmp_path), first="text", label="label", **files).load()
    (note,) = corpus.notes
    what = f"test has no example of '{labels[0]}' (4 in train)"
    assert note == f"{what}: no score tells whether they are found"


def test_an_empty_table_is_told_what_to_do_as_one(tmp_path, capsys):
    rows = "".join(f"t{n},{'ab'[n % 2]}\n" for n in range(40))
    (tmp_path / "train.csv").write_text(f"text,label\n{rows}")
    (tmp_path / "test.csv").write_text("text,label\n")
    argv = ["init", "classification", str(tmp_path / "e"), "--data", str(tmp_path)]
    assert run([*argv, "--encoder", "scratch"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / 'test.csv'}: holds no texts; add rows below" in line
    (tmp_path / "test.csv").unlink()  # as it says
    assert run([*argv, "--encoder", "scratch"]) == 0
