"""A run that learnt nothing says so wherever it is used, with a cause that fits."""

import json

import numpy as np
import pytest
from huggingface_hub import ModelCard
from sklearn.metrics import accuracy_score, f1_score, fbeta_score, matthews_corrcoef

from dicejax.cli import run
from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.data.examples import LabelledText
from dicejax.data.synthetic import SyntheticNER
from dicejax.optimizers import AdamW
from dicejax.tasks import Classification, Prediction, QuestionAnswering, Tagging
from dicejax.training.outcome import (
    best_constant,
    constant_answer,
    constant_scores,
    nothing_learnt,
    remedy,
)
from dicejax.training.setup import Setup

from ..small_project import write_project
from ..tasks.perfect import answered
from ..tasks.test_question_answering import question

FILE = """
from dicejax.config import Experiment, ScratchEncoder, Training
from dicejax.formats import (TextFiles)
from dicejax.tasks import Classification


def get_config():
    files = dict(train="train.csv", dev="dev.csv", test="test.csv")
    return Experiment(
        name="rare",
        data=TextFiles(dir={folder!r}, first="text", label="label", **files),
        task=Classification(positive={usual!r}),
        encoder=ScratchEncoder(vocab_size=60, hidden_size=8, intermediate_size=8,
                               num_attention_heads=2, num_hidden_layers=1),
        training=Training(epochs=1, batch_size=16, max_length=16,
                          head_bias="prior"),
    )
"""
# A rare label that is first, last, and in the middle.
ORDERS = [("complaint", "ok"), ("spam", "ham"), ("mid", "high", "zero")]


def scored(gold, predicted, labels):
    """Return the scores as a run's result has them."""
    examples = [LabelledText("a", None, label, "0", 1) for label in gold]
    even = dict.fromkeys(labels, 1 / len(labels))
    decisions = [Prediction((label,), even) for label in predicted]
    return Classification().score(examples, decisions, labels).to_json()


@pytest.mark.parametrize("order", ORDERS)
def test_constant_answers_score_what_scikit_learn_says(order):
    rare, *usual = order
    gold = [rare] * 5 + [label for label in usual for _ in range(40)]
    labels = tuple(sorted(order))
    rows = constant_scores(scored(gold, gold, labels))
    assert set(rows) == set(order)
    for label, row in rows.items():
        every = [label] * len(gold)
        assert row["accuracy"] == pytest.approx(accuracy_score(gold, every))
        assert row["matthews"] == matthews_corrcoef(gold, every) == 0
        if len(labels) == 2:
            f1 = f1_score(gold, every, pos_label=labels[-1], zero_division=0)
        else:
            f1 = f1_score(gold, every, average="macro", zero_division=0)
        assert row["f1"] == pytest.approx(f1)
        assert scored(gold, every, labels)["f1"] == pytest.approx(f1)
        f_score = f1_score(gold, every, labels=[label], average=None)
        best = best_constant(scored(gold, gold, labels), f"f1:{label}")
        assert best == (label, pytest.approx(f_score[0]))
        f_score = fbeta_score(gold, every, beta=2, labels=[label], average=None)
        best = best_constant(scored(gold, gold, labels), f"f2:{label}")
        assert best == (label, pytest.approx(f_score[0]))
    single = len(labels) == 2
    form = {"pos_label": labels[-1]} if single else {"average": "macro"}
    every = [
        fbeta_score(gold, [label] * len(gold), beta=2, zero_division=0, **form)
        for label in labels
    ]
    best = best_constant(scored(gold, gold, labels), "f2")
    assert best == (labels[np.argmax(every)], pytest.approx(max(every)))


@pytest.mark.parametrize("order", ORDERS)
def test_a_score_that_is_not_above_a_constant_answer_has_it_beside_it(order):
    rare, *usual = order
    gold = [rare] * 5 + [label for label in usual for _ in range(40)]
    labels = tuple(sorted(order))
    assert constant_answer(scored(gold, gold, labels), "f1") is None
    likely = usual[0]
    test = scored(gold, [likely] * len(gold), labels)
    text = constant_answer(test, "accuracy")
    accuracy = 100 * gold.count(likely) / len(gold)
    assert text == f"Always answering '{likely}' scores accuracy {accuracy:.2f}."
    spans = {"f1": 0.0, "per_type": {"PER": {"f1": 0.0, "support": 3}}}
    assert constant_answer(spans, "f1") is None


def experiment_of(task, rate, encoder=None, **parts):
    parts |= {} if encoder is None else {"encoder": encoder}
    optimizer = AdamW(learning_rate=rate)
    return Experiment(
        name="x", data=SyntheticNER(), task=task, optimizer=optimizer, **parts
    )


BERT = PretrainedEncoder(path="bert-base-cased")
RARE = {"complaint": 76, "ok": 1686}
FALLEN = {"losses": [0.6, 0.005]}
LEVEL = {"losses": [0.6, 0.59]}
OF_TEXTS = {"train": RARE, "positive": "complaint"}
AT_ENTROPY = OF_TEXTS | {"losses": [0.6, 0.17]}  # that of their labels is 0.178
BELOW_ENTROPY = OF_TEXTS | {"losses": [0.6, 0.15]}
LEARNT = "train was learnt, with a loss that fell"
BY_FREQUENCIES = (
    "the loss fell from 0.6 to {}, which class frequencies alone may explain: try "
    "--training.head_bias prior"
)


@pytest.mark.parametrize(
    ("task", "rate", "encoder", "result", "cause"),
    [
        (Tagging(), 1e-1, None, {}, "the learning rate 0.1 is high"),
        (Tagging(), 1e-3, None, {"skipped": 3}, "the learning rate 0.001 is high"),
        (Tagging(), 1e-9, BERT, LEVEL, "the learning rate 1e-09 is low"),
        # A loss of 0.005 is not that of a low rate; nor one of known frequencies.
        (Tagging(), 1e-5, BERT, FALLEN | {"head_bias": "prior"}, LEARNT),
        (QuestionAnswering(), 1e-5, BERT, FALLEN, LEARNT),
        (Tagging(), 1e-5, BERT, FALLEN, BY_FREQUENCIES.format(0.005)),
        (Classification(), 1e-3, None, AT_ENTROPY, BY_FREQUENCIES.format(0.17)),
        (Classification(), 1e-3, None, BELOW_ENTROPY, LEARNT),
        (Tagging(), 1e-3, None, {"steps": 90}, "90 updates are few"),
        (Tagging(), 1e-3, None, {"train": {}}, "train has no entity"),
        (Classification(), 1e-3, None, {"train": {}}, "train has no label"),
        (
            Classification(positive="ok"),
            1e-3,
            None,
            FALLEN | {"train": RARE, "positive": "ok"},
            "the positive class is 'ok', with 1,686 of 1,762 texts of train: try "
            "--task.positive 'complaint'",
        ),
        (
            Classification(),
            1e-3,
            None,
            OF_TEXTS | FALLEN,
            "train was learnt, with a loss that fell from 0.6 to 0.005, and new texts "
            "were not: more examples of 'complaint' (76 there) or a pretrained encoder",
        ),
        (Tagging(), 1e-3, None, LEVEL, "the learning rate 0.001 may be low"),
    ],
)
def test_the_cause_fits_what_happened(task, rate, encoder, result, cause):
    content = {"steps": 2139, "skipped": 0, **result}
    training = Training(head_bias=content.pop("head_bias", "zeros"))
    if (train := content.pop("train", None)) is not None:
        content["labels"] = {"train": train}
    if (positive := content.pop("positive", None)) is not None:
        names = sorted(RARE, key=lambda name: name == positive)
        content["test"] = {"per_type": {name: {} for name in names}}
    text = remedy(experiment_of(task, rate, encoder, training=training), content)
    assert text.startswith(cause)


@pytest.fixture(params=[("complaint", "ok"), ("spam", "ham")])
def constant(request, tmp_path, monkeypatch, capsys):
    """Return the output of a run whose positive class is the usual one."""
    rare, usual = request.param
    random = np.random.default_rng(0)
    for name, size in (("train", 60), ("dev", 40), ("test", 40)):
        labels = [rare if n % 20 == 0 else usual for n in range(size)]
        words = [
            f"w{a} w{b} {name}{n}"
            for n, (a, b) in enumerate(random.integers(0, 9, (size, 2)))
        ]
        rows = [f"{text},{label}\n" for text, label in zip(words, labels, strict=True)]
        (tmp_path / f"{name}.csv").write_text("text,label\n" + "".join(rows))
    (tmp_path / "rare.py").write_text(FILE.format(folder=str(tmp_path), usual=usual))
    monkeypatch.chdir(tmp_path)
    assert run(["train", "rare.py", "--out", "run"]) == 0
    return rare, usual, capsys.readouterr().out


def test_a_constant_classifier_is_never_recommended(constant, capsys, tmp_path):
    rare, usual, output = constant
    reason = f"every text is given the class '{usual}'"
    f1 = 100 * f1_score([0, *[1] * 19], [1] * 20)
    assert f"Nothing learnt: {reason}." in output and "next:" not in output
    cause = f"try --task.positive '{rare}', with --overwrite"
    assert cause in output and "learning rate" not in output.split("Likely cause")[1]
    assert f"Always answering '{usual}' scores" in output and f"{f1:.2f}." in output
    for argv in (["evaluate", "run"], ["export", "run", "model"]):
        assert run(argv) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[-2] == f"Nothing learnt: {reason}."
        assert f"--task.positive '{rare}'" in lines[-1]
    assert run(["predict", "run", "w1 w2"]) == 0
    captured = capsys.readouterr()
    last = captured.err.strip().splitlines()[-1]
    assert f"nothing was learnt in training: {reason}" in last
    assert usual in captured.out
    text = (tmp_path / "model" / "README.md").read_text()
    card = ModelCard(text)
    assert f"**Nothing learnt: {reason}.**" in card.text
    results = {x.metric_type: x for x in card.data.eval_results}
    assert results["f1"].metric_value == pytest.approx(f1 / 100, abs=1e-6)
    assert results["macro_f1"].metric_value == pytest.approx(f1 / 200, abs=1e-6)
    assert all(f"nothing learnt: {reason}" in x.metric_name for x in results.values())
    assert "\\`" not in text and "train: train.csv; dev: dev.csv" in card.text
    assert f"| {rare} | 3 | 2 | 2 |" in card.text
    assert f"| {usual} | 57 | 38 | 38 |" in card.text
    assert "0.5, the default: none was chosen on dev" in card.text
    assert "The licence of this model is not stated" in card.text
    assert "the licence of the data is not known" in card.text


def test_a_run_no_better_than_the_weights_it_began_with(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(write_project(tmp_path / "project"))
    calls, real = [], Setup.initial_params
    monkeypatch.setattr(Setup, "initial_params", lambda *a: calls.append(1) or real(*a))
    assert run(["train", "mine.py", "--out", "learnt"]) == 0
    assert "Nothing learnt" not in capsys.readouterr().out
    assert len(calls) == 1  # an ordinary run predicts dev no further time
    assert run(["export", "learnt", "model"]) == 0
    text = (tmp_path / "project" / "mine.py").read_text()
    encoder = text[text.index("encoder=") : text.index("optimizer=")]
    again = text.replace(encoder, "encoder=PretrainedEncoder(path='model'),\n        ")
    again = again.replace("ScratchEncoder", "PretrainedEncoder").replace("1e-2", "1e-9")
    (tmp_path / "project" / "again.py").write_text(again)
    capsys.readouterr()
    argv = ["train", "again.py", "--out", "again", "--training.epochs", "2"]
    assert run([*argv, "--training.log_every", "1"]) == 0
    output = capsys.readouterr().out
    assert len(calls) == 3
    result = json.loads((tmp_path / "project/again/result.json").read_text())
    first, last = result["losses"]
    assert last == pytest.approx(first, rel=0.2)
    reason = "dev F1 is 100.00 at best, and was 100.00 before training"
    assert result["nothing_learnt"] == reason
    assert f"Nothing learnt: {reason}." in output
    assert "Likely cause: the learning rate 1e-09 is low for a pretrained" in output
    assert run(["evaluate", "again"]) == 0
    assert f"Nothing learnt: {reason}." in capsys.readouterr().out


@pytest.mark.parametrize("guess", ["", "far", "Oslo"])
@pytest.mark.parametrize("answerable", [2, 0])
def test_who_answers_no_question_right_has_learnt_nothing(guess, answerable):
    context = "Oslo is far"
    examples = [question(context, ["Oslo"], id_=id_) for id_ in "ab"[:answerable]]
    examples += [question(context, impossible=True, id_=id_) for id_ in "cde"]
    guesses = [answered(*[guess] * bool(guess))] * answerable + [answered()] * 3
    task = QuestionAnswering(unanswerable=True)
    scores = task.score(examples, guesses)
    assert scores.values["f1"] >= 0.6
    untaught = answerable and guess != "Oslo"
    text = "none of 2 questions with an answer is answered right" if untaught else None
    assert nothing_learnt(task, guesses, scores) == text
