"""Examples whose answers the recommended loss changes, with what was predicted."""

import dataclasses

import numpy as np
import pytest

from dicejax.data.examples import LabelledText, ReadingExample, Sentence, TaggedWords
from dicejax.data.tags import Span
from dicejax.objectives import CrossEntropy, Focal
from dicejax.study.compare.changed import MOST, quote
from dicejax.study.compare.jobs import scored
from dicejax.study.compare.record import Comparison, Quoted
from dicejax.study.compare.statistics import rows_of
from dicejax.study.report.changed import changed_answers
from dicejax.tasks.answers import Answer
from dicejax.tasks.described import LONGEST, predicted_text, text_and_gold
from dicejax.tasks.task import Prediction

from .made_runs import SENTENCES, compared, made, outcome, run_of

RIGHT = {"ce": [1, 1, 0, 0], "dice": [1, 0, 1, 0]}
THIRD = {"ce": [1, 1, 0, 1], "dice": [1, 0, 0, 0]}
TEXTS = [LabelledText(f"text {n}", None, "yes", str(n), n) for n in range(4)]


NOTHING = Quoted()


def answers_of(rows, read_examples, earlier=NOTHING):
    """Return the section of a comparison, and what it quotes."""
    comparison = Comparison(name="mine", rows=tuple(rows), quoted=earlier)
    comparison = quote(comparison, read_examples)
    return changed_answers(comparison), comparison.quoted


def lines_of(changed):
    return [[tuple(line.values()) for line in each] for each in changed.tables.values()]


def test_gains_and_losses_have_a_table_each_with_text_and_gold():
    outcomes = [
        outcome(loss, seed, np.array((RIGHT if seed < 2 else THIRD)[loss]))
        for loss in RIGHT
        for seed in range(3)
    ]
    rows = rows_of(outcomes, "ce")
    answers, quoted = answers_of(rows, lambda: TEXTS)
    assert lines_of(answers) == [
        [("3", "text 2", "yes", "0 of 3", "2 of 3")],
        [
            ("2", "text 1", "yes", "3 of 3", "0 of 3"),
            ("4", "text 3", "yes", "1 of 3", "0 of 3"),
        ],
    ]
    assert "on 1 test example, and less often on 2. " in answers.text[0]
    without, _ = answers_of(rows, lambda: None)
    assert lines_of(without)[0] == [("3", "0 of 3", "2 of 3")]
    # With other examples than were scored, and with the texts of an earlier report.
    assert answers_of(rows, lambda: TEXTS[:3])[0] == without
    assert answers_of(rows, lambda: None, quoted)[0] == answers
    few = Quoted(texts={"2": ("text 1", "yes")})
    assert answers_of(rows, lambda: None, few)[0] == without
    names = np.array([*"abcd"])
    named = [dataclasses.replace(run, names=names) for run in outcomes]
    answers, _ = answers_of(rows_of(named, "ce"), lambda: None)
    assert lines_of(answers)[0] == [("c", "0 of 3", "2 of 3")]
    assert "Numbers" not in answers.text[0]
    scores = [dataclasses.replace(run, source="run scores") for run in outcomes]
    answers, quoted = answers_of(rows_of(scores, "ce"), lambda: None)
    assert not answers.text and not answers.tables and quoted == Quoted()


def test_as_many_gains_as_losses_of_the_advised_loss_are_shown():
    rows = compared({"ce": 0.7, "wce": 0.8, "dsc": 0.8}, controls=["wce"])
    answers, _ = answers_of(rows, lambda: None)
    assert answers.text[0].startswith("wce is right more often than ce on ")
    assert [len(lines) for lines in answers.tables.values()] == [MOST, MOST]
    right = {
        x.loss: sum(run.example_statistics[:, 0, 0] for run in x.runs) for x in rows
    }
    gain = right["wce"] - right["ce"]
    up, down = int((gain > 0).sum()), int((gain < 0).sum())
    assert f"on {up:,} test examples, and less often on {down:,}" in answers.text[0]
    for sign, each in zip((1, -1), answers.tables.values(), strict=True):
        numbers = [int(line["test example"]) - 1 for line in each]
        assert min(sign * gain[numbers]) >= np.sort(sign * gain)[-MOST]


def test_predictions_are_those_that_most_seeds_agree_on(tmp_path):
    jobs = made(tmp_path, (CrossEntropy(), Focal()), 3, skill=(0.5, 0.9))
    for job in jobs:
        run = run_of(job)
        texts = np.array([f"{job.loss} {n}" for n in range(SENTENCES)])
        if job.seed == 2:
            texts = np.array(["-"] * SENTENCES)
        run.write_statistics(run.example_statistics(), predictions=texts)
    rows = rows_of([scored(job) for job in jobs], "ce")
    for table in answers_of(rows, lambda: None)[0].tables.values():
        for line in table:
            n = int(line["test example"]) - 1
            for loss in ("ce", "focal"):
                assert line[f"{loss} predicted"] == f"{loss} {n} (2 of 3)"
    # One run is of a version that did not record them.
    run = run_of(jobs[0])
    run.write_statistics(run.example_statistics())
    rows = rows_of([scored(job) for job in jobs], "ce")
    (line, *_), *_ = answers_of(rows, list)[0].tables.values()
    assert [name for name in line if "predicted" in name] == ["focal predicted"]


WORDS = ("Ada", "met", "Bo")


@pytest.mark.parametrize(
    ("example", "prediction", "text"),
    [
        (Sentence(WORDS, (), 1), Prediction((Span("PER", 0, 1),)), "PER: Ada"),
        (Sentence(WORDS, (), 1), Prediction(()), "-"),
        (TaggedWords(WORDS, ("N",) * 3, 1), Prediction(("N", None, "V")), "N - V"),
        (TEXTS[0], Prediction(("no",)), "no"),
        (ReadingExample("1", "Who?", "Ada", (), True), Answer(()), "-"),
    ],
)
def test_a_prediction_is_written_as_gold_is(example, prediction, text):
    assert predicted_text(example, prediction) == text


def test_a_long_prediction_is_cut_as_gold_is():
    long = Prediction(("x" * 999,))
    gold = dataclasses.replace(TEXTS[0], label="x" * 999)
    assert len(predicted_text(TEXTS[0], long)) <= LONGEST
    assert predicted_text(TEXTS[0], long) == text_and_gold(gold)[1]
