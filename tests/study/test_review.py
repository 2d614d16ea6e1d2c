"""`dicejax review` ranks labels that held-out models contradict, and nothing else."""

import csv
import dataclasses
import itertools
import json
import math
import random
from fractions import Fraction

import pytest

from dicejax.cli import run
from dicejax.config import Experiment, ScratchEncoder, Training
from dicejax.data.source import text_of
from dicejax.errors import InputError
from dicejax.formats import ConllFiles, JsonSentences, TextFiles
from dicejax.study.significance import signed
from dicejax.tasks import (
    Classification,
    MultiLabelClassification,
    Tagging,
    WordTagging,
)
from dicejax.training.train import train

WORDS = {"good": ("fine", "superb", "lovely"), "bad": ("dull", "awful", "poor")}
NAMES = {"PER": ("Ada", "Bob", "Cleo"), "LOC": ("Oslo", "Rome", "Cairo")}
SIZES = {"train": 120, "dev": 30, "test": 40}
BROKEN = (3, 11, 29)
"""Numbers of the examples of test whose gold is wrong."""


def texts(draw, count):
    labels = [draw.choice([*WORDS]) for _ in range(count)]
    return [
        (f"the film number {n} was {draw.choice(WORDS[label])}", label)
        for n, label in enumerate(labels)
    ]


def sentences(draw, count):
    """Return words with a tag each: a person in a place."""
    made = []
    for number in range(count):
        person, place = (draw.choice(NAMES[kind]) for kind in ("PER", "LOC"))
        words = [person, "met", f"no{number}", "people", "in", place, "."]
        made.append((words, ["B-PER", "O", "O", "O", "O", "B-LOC", "O"]))
    return made


def columns(rows):
    lines = (
        f"{w} {t}"
        for words, marks in rows
        for w, t in [*zip(words, marks, strict=True), "  "]
    )
    return "\n".join(line.strip() for line in lines) + "\n"


def in_spans(words, marks):
    text, ends = " ".join(words), list(itertools.accumulate(len(w) + 1 for w in words))
    return text, [
        {"start": ends[n] - len(words[n]) - 1, "end": ends[n] - 1, "label": mark[2:]}
        for n, mark in enumerate(marks)
        if mark != "O"
    ]


def prodigy(rows):
    made = (in_spans(*row) for row in rows)
    lines = ({"text": t, "spans": s, "_task_hash": n} for n, (t, s) in enumerate(made))
    return "\n".join(map(json.dumps, lines)) + "\n"


def label_studio(rows):
    tasks = []
    for number, row in enumerate(rows):
        text, spans = in_spans(*row)
        values = [{**x, "labels": [x["label"]], "text": "?"} for x in spans]
        for value in values:
            value["text"] = text[value["start"] : value["end"]]
            del value["label"]
        regions = [
            {"from_name": "l", "to_name": "t", "type": "labels", "value": value}
            for value in values
        ]
        data = {"data": {"text": text}, "annotations": [{"result": regions}]}
        tasks.append({"id": number, **data})
    return json.dumps(tasks, indent=2) + "\n"


def objects(rows):
    return "".join(f"{json.dumps({'text': t, 'label': y})}\n" for t, y in rows)


def pairs(rows):
    lines = ("\t".join((t.replace(" was ", "\twas "), y)) for t, y in rows)
    return "\n".join(["one\tother\tlabel", *lines]) + "\n"


def several(rows):
    named = ({"text": t, "labels": [y] * (y == "bad") + ["film"]} for t, y in rows)
    return "".join(f"{json.dumps(row)}\n" for row in named)


def flip(row):
    text, label = row
    return text, {"good": "bad", "bad": "good"}[label]


def unmark(row):
    words, marks = row
    return words, ["O", *marks[1:]]


KINDS = {
    "entities": (sentences, columns, unmark, ConllFiles, {}, Tagging()),
    "words": (
        *(sentences, columns, unmark, ConllFiles),
        *({"layout": "labels"}, WordTagging()),
    ),
    "prodigy": (sentences, prodigy, unmark, JsonSentences, {}, Tagging()),
    "label studio": (sentences, label_studio, unmark, JsonSentences, {}, Tagging()),
    "texts": (
        *(texts, objects, flip, TextFiles),
        *({"layout": "json", "first": "text", "label": "label"}, Classification()),
    ),
    "pairs": (
        *(texts, pairs, flip, TextFiles),
        {"first": "one", "second": "other", "label": "label", "separator": "\t"},
        Classification(),
    ),
    "several": (
        *(texts, several, flip, TextFiles),
        {"layout": "json", "first": "text", "label": "labels", "multi_label": True},
        MultiLabelClassification(),
    ),
}
INIT = {"entities": "ner", "words": "pos", "prodigy": "ner", "label studio": "ner"}


def made(root, kind, control="tfidf", folder="runs"):
    """Write data whose test is broken in places, train a run, return its source."""
    draw = random.Random(0)
    make, write, break_, source, reads, task = KINDS[kind]
    root.mkdir(exist_ok=True)
    for split, size in SIZES.items():
        rows = make(draw, size)
        if split == "test":
            (root / "clean").write_text(write(rows))
            rows = [break_(x) if n in BROKEN else x for n, x in enumerate(rows)]
        (root / split).write_text(write(rows))
    data = source(dir=str(root), train="train", dev="dev", test="test", **reads)
    experiment = Experiment(
        name="mine", data=data, task=task, encoder=ScratchEncoder(), control=control
    )
    train(experiment, str(root / folder), progress=False)
    return data


def review(root, *words, runs="runs"):
    out = root / "review"
    return run(["review", str(root / runs), "--out", str(out), *map(str, words)]), out


@pytest.mark.parametrize("kind", KINDS)
def test_broken_labels_are_first_and_mended_in_the_format_of_the_data(
    kind, tmp_path, capsys, monkeypatch
):
    source = made(tmp_path, kind)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    status, out = review(tmp_path)
    assert status == 0, capsys.readouterr().err
    rows = json.loads((out / "review.json").read_text())["examples"]
    assert len(rows) == SIZES["dev"] + SIZES["test"]
    first, rest = rows[: len(BROKEN)], rows[len(BROKEN) :]
    assert {(x["split"], x["number"] - 1) for x in first} == {
        ("test", n) for n in BROKEN
    }
    assert all(x["contradicting"] == x["judges"] == 1 and x["kinds"] for x in first)
    assert not any(x["kinds"] or x["contradicting"] for x in rest)
    # What is read again is what was meant; of a tool's export the doubted alone.
    (file,) = (out / "corrected").iterdir()
    assert file.name == "test"
    clean = source.read(tmp_path / "clean", None)
    if kind == "label studio":  # a prediction beside the annotation, to be accepted
        tasks = json.loads(file.read_text())
        assert [task["id"] for task in tasks] == list(BROKEN)
        for task in tasks:
            task["annotations"] = task.pop("predictions")
        file.write_text(json.dumps(tasks))
    mended = source.read(file, None)
    if kind in ("prodigy", "label studio"):
        clean = [clean[n] for n in BROKEN]
        changes = {"line": 0}
        assert [dataclasses.replace(x, **changes) for x in mended] == [
            dataclasses.replace(x, **changes) for x in clean
        ]
    else:
        if kind == "several":  # what is added is behind the others
            clean = [
                dataclasses.replace(
                    x, labels=tuple(sorted(x.labels, reverse=n in BROKEN))
                )
                for n, x in enumerate(clean)
            ]
        assert list(mended) == list(clean)
        if kind != "several":
            assert file.read_text() == (tmp_path / "clean").read_text()
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "again"
    folder.mkdir()
    ending = ".jsonl" if file.read_text()[0] == "{" else ".json"
    ending = ".txt" if INIT.get(kind) and kind in ("entities", "words") else ending
    ending = ".tsv" if kind == "pairs" else ending
    # Beside train, since the three doubted of a tool are too few to hold some out.
    for path in (tmp_path / "train", file):
        (folder / f"{path.name}{ending}").write_text(path.read_text())
    task = INIT.get(kind, "classification")
    assert run(["init", task, "new", "--data", str(folder)]) == 0
    assert {path: path.read_bytes() for path in before} == before


def test_the_page_says_what_is_wrong_and_where(tmp_path):
    made(tmp_path, "entities")
    _, out = review(tmp_path)
    page = (out / "review.html").read_text()
    assert "3 of the first 3 labels are contradicted by every model" in page
    assert "missing PER" in page
    assert "1 of 1" in page
    assert "test, line 25" in page  # the fourth sentence, of eight lines each
    assert page.count("<h2") == 4  # the heading, the first, what to do, class PER


def mark(path, wrong):
    """Mark a list as a person would: a mark by split and number."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["mark"] = wrong(row)
    with path.open("w") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def is_broken(row):
    broken = row["split"] == "test" and int(row["number"]) - 1 in BROKEN
    return "wrong" if broken else "right"


def test_marks_become_a_statement_and_move_the_score_of_the_same_run(tmp_path, capsys):
    made(tmp_path, "entities")
    _, out = review(tmp_path, "--first", "20")
    rows = mark(out / "to_mark.csv", is_broken)
    assert [float(row["probability"]) for row in rows] == [1.0] * 10 + [1 / 6] * 10
    capsys.readouterr()
    status, _ = review(tmp_path, "--first", "20", "--marked", out / "to_mark.csv")
    said = capsys.readouterr().out
    assert status == 0
    # 3 of 70: the first 10 have all, and of 60 others none of 10 drawn.
    most = max(
        wrong
        for wrong in range(51)
        if Fraction(math.comb(60 - wrong, 10), math.comb(60, 10)) > Fraction(1, 40)
    )
    high = 100 * (3 + most) / 70
    assert (
        f"4.3% of the examples of dev and test have a wrong label (95% interval 4.3 "
        f"to {high:.1f})" in said
    )
    # The run finds every entity, so that of 80 spans 77 were gold.
    f1 = json.loads((tmp_path / "runs/result.json").read_text())["test"]["f1"]
    assert f1 == pytest.approx(2 * 77 / (77 + 80))
    moved = f"F1 moves by {signed(100 * (1 - f1))} points on the same run."
    assert f"With the 3 wrong labels of test mended, {moved}" in said
    # Only what was marked wrong is corrected.
    mark(out / "to_mark.csv", lambda row: "neither" if row["rank"] == "1" else "right")
    assert review(tmp_path, "--marked", out / "to_mark.csv")[0] == 0
    assert "1 wrong label of test stayed as it is" in capsys.readouterr().out
    # Marks are not lost.
    assert review(tmp_path)[0] == 2
    assert "line 2" not in (error := capsys.readouterr().err)
    assert "has marks, which would be lost; give it to --marked" in error


def test_train_is_judged_by_models_that_were_trained_without_it(tmp_path, capsys):
    made(tmp_path, "texts")
    rows = (tmp_path / "train").read_text().splitlines()
    flipped = [json.loads(rows[n]) for n in (7, 55)]
    for n, row in zip((7, 55), flipped, strict=True):
        row["label"] = {"good": "bad", "bad": "good"}[row["label"]]
        rows[n] = json.dumps(row)
    (tmp_path / "train").write_text("\n".join(rows) + "\n")
    data = TextFiles(
        dir=str(tmp_path),
        train="train",
        dev="dev",
        test="test",
        layout="json",
        first="text",
        label="label",
    )
    experiment = Experiment(
        name="mine",
        data=data,
        task=Classification(),
        encoder=ScratchEncoder(),
        control="tfidf",
    )
    train(experiment, str(tmp_path / "runs"), progress=False, overwrite=True)
    assert review(tmp_path, "--splits", "train")[0] == 2
    assert "no example of train can be judged" in capsys.readouterr().err
    status, out = review(tmp_path, "--splits", "train", "--folds", "3")
    assert status == 0
    made_ = sorted(path.name for path in (out / "folds-3/tfidf").iterdir())
    assert made_ == ["part-1", "part-2", "part-3"]
    rows = json.loads((out / "review.json").read_text())["examples"]
    assert len(rows) == SIZES["train"]
    assert {row["number"] - 1 for row in rows[:2]} == {7, 55}
    assert all(row["judges"] == 1 for row in rows)  # the run saw all of them


def test_runs_on_several_samples_of_train_judge_what_they_did_not_see(tmp_path):
    source = made(tmp_path, "texts", folder="first")
    # Without a test file dev is scored, and is ranked once.
    seen, places = [], {}
    for seed in (0, 1):
        data = dataclasses.replace(source, max_train=60, train_sample=seed, test=None)
        experiment = Experiment(
            name="mine",
            data=data,
            task=Classification(positive="bad"),
            encoder=ScratchEncoder(),
            training=Training(seed=seed),
            control="tfidf",
        )
        train(experiment, str(tmp_path / f"runs/tfidf/seed-{seed}"), progress=False)
        seen.append({x.line for x in data.load().train})
    status, out = review(tmp_path)
    assert status == 0
    rows = json.loads((out / "review.json").read_text())["examples"]
    for row in rows:
        places.setdefault(row["split"], {})[row["line"]] = row["judges"]
    assert places["dev"] == dict.fromkeys(range(1, SIZES["dev"] + 1), 2)
    every = range(1, SIZES["train"] + 1)
    judges = {n: sum(n not in lines for lines in seen) for n in every}
    assert places["train"] == {n: count for n, count in judges.items() if count}
    assert places.keys() == {"dev", "train"}


def test_parts_of_train_are_whole_and_share_every_label(tmp_path):
    draw = random.Random(1)
    rows = texts(draw, 90)
    rows += [(text, "bad") for text, _ in rows[:10]]  # copies, some with another label
    rows += [(f"rare {n}", "odd") for n in range(6)]
    (tmp_path / "train").write_text(objects(rows))
    (tmp_path / "dev").write_text(objects(rows[:5]))
    reads = {"layout": "json", "first": "text", "label": "label"}
    splits = {"train": "train", "dev": "dev", "test": "dev"}
    source = TextFiles(dir=str(tmp_path), **splits, **reads)
    every, out = source.load().train, []
    for part in range(1, 4):
        left = dataclasses.replace(source, leave_out=f"{part}/3").load().train
        out.append([x for x in every if x not in left])
        assert not {*map(text_of, left)} & {*map(text_of, out[-1])}
    assert sorted(x.line for some in out for x in some) == [x.line for x in every]
    for label in ("good", "bad", "odd"):
        counts = [sum(x.label == label for x in some) for some in out]
        assert max(counts) - min(counts) <= 2, label
    with pytest.raises(ValueError, match="want I/K with I from 1 to K"):
        dataclasses.replace(source, leave_out="4/3")


def test_lists_that_cannot_be_used_say_where_and_what_to_do(tmp_path, capsys):
    made(tmp_path, "entities")
    _, out = review(tmp_path, "--first", "6")
    list_ = out / "to_mark.csv"

    def error(*words):
        capsys.readouterr()
        assert review(tmp_path, *words)[0] == 2
        return capsys.readouterr().err

    assert ":2: has no mark; write right, wrong, neither there" in error(
        "--marked", list_
    )
    mark(list_, lambda row: "perhaps")
    assert "mark is 'perhaps'" in error("--marked", list_)
    mark(list_, is_broken)
    content = list_.read_text()
    list_.write_text("\n".join(content.splitlines()[:-1]) + "\n")
    assert "has 2 drawn examples" in error("--marked", list_)
    list_.write_text(content.replace("missing PER", "x").replace("PER: ", "LOC: "))
    assert "is not as in these runs and data" in error("--marked", list_)
    list_.write_text("a,b\n1,2\n")
    assert "has no column rank" in error("--marked", list_)
    assert "--first is 1; want at least 2" in error("--first", "1")
    assert "--folds is 1; want at least 2" in error("--folds", "1", "--marked", list_)
    list_.write_text(content.replace(",0.", ",1."))
    assert "leave all columns but mark as they were" in error("--marked", list_)


def test_runs_that_cannot_judge_are_refused(tmp_path, capsys):
    made(tmp_path, "texts", control="majority")
    assert review(tmp_path)[0] == 2
    assert "only the control majority there; train one" in capsys.readouterr().err
    assert not (tmp_path / "review").exists()
    with pytest.raises(InputError, match="none is named"):
        from dicejax.study.review.held_out import finished_jobs

        finished_jobs([], print)
