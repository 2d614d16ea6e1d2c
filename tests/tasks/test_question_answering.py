"""Question answering: windows, exact decoding, warnings."""

import dataclasses
import itertools
import json
import re

import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.data import tokenize
from dicejax.data.examples import AnswerSpan, ReadingExample
from dicejax.data.pack import fill, pack
from dicejax.errors import InputError
from dicejax.formats import SquadFiles
from dicejax.models.heads import AnswerHead, StartEndHead, per_segment
from dicejax.tasks.answers import Answer, Candidate, RankedAnswers
from dicejax.tasks.question_answering import QuestionAnswering
from dicejax.tasks.task import IGNORED

from ..data import made
from . import perfect
from .perfect import remarks_of

FORMS = [{"form": "positions"}, {"form": "sigmoid"}]
FORMS += [{"form": "positions", "head": "xlnet"}]
CONTEXT = "the cat in New York sang and the cafe in Zurich costs 1,000 a world"


def question(context, *answers, asked="the cat ?", impossible=False, id_="q"):
    """Return an example; each answer lists the texts of its spans."""
    located = tuple(
        tuple(AnswerSpan(context.index(text), text) for text in answer)
        for answer in answers
    )
    return ReadingExample(id_, asked, context, located, impossible)


def round_trip(task, examples, tokenizer, max_length=384):
    """Decode the gold labels; return scores, the numbers in warnings, predictions."""
    trip = perfect.round_trip(task, examples, tokenizer, max_length)
    lost = [int(re.match(r"dev: (\d+) of", line)[1]) for line in trip.remarks]
    asked = tokenize.encode_texts(tokenizer, [example.question for example in examples])
    if long := sum((example.texts == 0).sum() > task.max_question for example in asked):
        assert trip.remarks[-1].endswith("max_question") and lost.pop() == long
    return trip.scores, lost, trip.predictions


@pytest.fixture(scope="module", params=made.KINDS)
def tokenizer(request, tmp_path_factory):
    return made.read(request.param, tmp_path_factory.mktemp("pieces"), words=False)


DATA = {
    "squad_v1.1": ({}, {}),
    "squad_v2.0": ({"unanswerable": True}, {}),
    "quoref": (
        {"several_spans": True},
        {"several_spans": True, "repair": True},
    ),
}


def read(data_folder, name):
    return SquadFiles.read_file(data_folder / name / "dev.json", **DATA[name][1])


@pytest.mark.parametrize("name", DATA)
def test_gold_as_prediction_scores_full(data_folder, name):
    examples = read(data_folder, name)
    predictions = [
        perfect.answered(
            *(span.text for answer in e.answers[:1] for span in answer),
            no_answer=float(e.impossible),
        )
        for e in examples
    ]
    scores = QuestionAnswering(**DATA[name][0]).score(examples, predictions).values
    names = {"f1", "exact"}
    if name == "squad_v2.0":
        names |= {"answerable_f1", "unanswerable"}
    assert {scores[name] for name in names} == {1.0}


# Answers of more pieces than max_answer, answers that no pieces match exactly, and F1
# with positions; all at 384 pieces. In Quoref: answers whose spans overlap in place of
# long ones, and F1 with sigmoid.
EXPECTED = {
    ("squad_v1.1", "bert-base-uncased"): (9, 23, 0.997592),
    ("squad_v1.1", "bert-base-cased"): (14, 23, 0.997111),
    ("squad_v1.1", "xlnet-base-cased"): (15, 22, 0.997151),
    ("squad_v2.0", "bert-base-uncased"): (9, 2, 0.999344),
    ("squad_v2.0", "bert-base-cased"): (12, 2, 0.999084),
    ("squad_v2.0", "xlnet-base-cased"): (14, 2, 0.998939),
    ("quoref", "bert-base-uncased"): (1, 2, 0.999309),
    ("quoref", "bert-base-cased"): (1, 2, 0.999309),
    ("quoref", "xlnet-base-cased"): (1, 3, 0.998896),
}


SQUAD_1 = pytest.param("squad_v1.1", marks=pytest.mark.exhaustive)
# XLNet's head is for XLNet. By default the smallest set; the rest are exhaustive.
CASES = [case for case in itertools.product(EXPECTED, FORMS) if "head" not in case[1]]
CASES += [((name, "xlnet-base-cased"), FORMS[2]) for name in DATA]
CASES = [
    pytest.param(*case, form, marks=[] if n == 15 else [pytest.mark.exhaustive])
    for n, (case, form) in enumerate(CASES)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "vocabulary", "form"), CASES)
def test_gold_survives_but_for_what_the_warnings_count(
    data_folder, name, vocabulary, form
):
    examples = read(data_folder, name)
    tokenizer = tokenize.read(data_folder / "vocab" / vocabulary, words=False)
    task = QuestionAnswering(**DATA[name][0], **form)
    scores, lost, _ = round_trip(task, examples, tokenizer)
    first, inexact, f1 = EXPECTED[name, vocabulary]
    if name == "quoref" and task.form == "positions":
        first, f1 = 221, {2: 0.947204, 3: 0.946791}[inexact]
    if name == "squad_v2.0" and task.form == "sigmoid":
        # A long answer, of which no part is likely, is refused and not met in part.
        f1 = {9: 0.999222, 12: 0.998970, 14: 0.998801}[first]
    assert lost == [first, inexact]
    assert scores["exact"] == pytest.approx(1 - sum(lost) / len(examples))
    assert scores["f1"] == pytest.approx(f1, abs=1e-6)


# SQuAD 1.1 is as 2.0, without questions that have no answer.
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [SQUAD_1, "squad_v2.0", "quoref"])
def test_gold_survives_narrow_windows(data_folder, name, form):
    examples = read(data_folder, name)[:150]
    tokenizer = tokenize.read(data_folder / "vocab" / "xlnet-base-cased", words=False)
    task = QuestionAnswering(**DATA[name][0], **form, stride=40, max_question=20)
    scores, lost, predictions = round_trip(task, examples, tokenizer, max_length=120)
    assert scores["exact"] == pytest.approx(1 - sum(lost) / len(examples))
    for example, answer in zip(examples, predictions, strict=True):
        assert all(text in example.context for text in answer.texts)


@pytest.mark.parametrize("form", FORMS)
def test_characters_are_exact_whatever_the_text(tokenizer, form):
    """Each word of each hard text, unless a piece straddles its ends."""
    examples = [
        question(text, [word], asked="é ?", id_=f"{text} {word}")
        for text in made.TEXTS
        for word in text.split()
        if tokenize.encode_texts(tokenizer, [word])[0].pieces(0, len(word))
    ]
    task = QuestionAnswering(**form, max_answer=200)
    items = task.encode(examples, tokenizer, (), 300)
    exact = 0
    candidates = perfect.decode_perfectly(task, examples, items)
    for example, ranked in zip(examples, candidates, strict=True):
        best, (gold,) = ranked.spans[0], example.answers[0]
        pair = encoded_pair(tokenizer, example)
        ends = pair.span(*pair.pieces(gold.start, gold.end, text=1))
        assert (best.start, best.end) == ends
        assert best.text == example.context[slice(*ends)]
        exact += best.text == gold.text
    assert exact >= 0.9 * len(examples)


@pytest.mark.parametrize("form", FORMS)
def test_packed_rows_give_what_sequences_give_alone(tokenizer, form):
    """Through batches: labels, rows, logits, log-probabilities, items."""
    task = QuestionAnswering(**form, stride=4)
    examples = [
        question(CONTEXT, ["New York"]),
        question("a world", ["world"], asked="in ?", id_="r"),
    ]
    items = task.encode(examples, tokenizer, (), 32)
    rows = pack([len(item) for item in items], 80)
    arrays = [[items[number].arrays for number in row] for row in rows]
    batch = fill(arrays, 80, task.layout(tokenizer), sequences=5)
    segments = jnp.asarray(batch["segment_ids"])
    rng = np.random.default_rng(0)
    logits = {
        n: jnp.asarray(rng.normal(size=(len(rows), 80))) for n in ("start", "end")
    }
    outputs = dict(logits)
    if task.form == "positions":
        outputs = {n: per_segment(x, segments, 5) for n, x in logits.items()}
    if "head" in form:
        outputs["impossible"] = jnp.asarray(rng.normal(size=(len(rows), 5)))
    predicted = task.reduce_logits(outputs, batch)
    for row, numbers in enumerate(rows):
        end = 0
        for place, number in enumerate(numbers):
            start, end = end, end + len(items[number])
            mine = predicted.item(row, place, start, end)
            for name in ("start", "end"):
                logit = np.asarray(logits[name], np.float64)[row, start:end]
                if task.form == "positions":
                    expected = logit - np.log(np.exp(logit).sum())
                    gold = batch[name][row, place]
                    label = items[number].arrays[name]
                    assert gold == (label + start if label >= 0 else IGNORED)
                else:
                    expected = -np.log1p(np.exp(-logit))
                np.testing.assert_allclose(mine[name], expected, rtol=1e-5)
            if "head" in form:
                assert mine["impossible"] == outputs["impossible"][row, place]
    # The loss and the head have the same outputs; binary ones have a class axis.
    inputs, labels = task.loss_inputs(outputs, batch)
    for name, target in task.targets(()).items():
        binary = target.kind == "multi_label"
        assert binary == bool(target.classes) == (labels[name].shape[-1] == 1)
        assert inputs[name].shape == outputs[name].shape + (1,) * binary
        assert labels[name].shape == inputs[name].shape[: None if binary else -1]
    ((_, head),) = task.heads(())
    assert {*head.names} == {*outputs} == {*task.targets(())}
    # Gold would give XLNet's `impossible` away.
    heads = (AnswerHead(teacher="predicted"), StartEndHead(form=task.form))
    assert head == heads["head" not in form]


def encoded_pair(tokenizer, example):
    return tokenize.encode_texts(tokenizer, [example.question], [example.context])[0]


def test_what_is_in_no_window_is_said_and_missed():
    tokenizer = tokenize.learn_wordpiece(list("abcdefgh"), 60)
    task = QuestionAnswering(stride=0)
    examples = [question("a b c d e f g h", ["d e"], asked="a")]
    scores, lost, _ = round_trip(task, examples, tokenizer, max_length=8)
    assert lost == [1] and scores["exact"] == 0
    (remark,) = remarks_of(
        task, "dev", examples, task.encode(examples, tokenizer, (), 8)
    )
    assert str(remark).startswith("dev: 1 of 1 answers fit no window")
    task = dataclasses.replace(task, max_answer=1)
    (remark,) = remarks_of(
        task, "dev", examples, task.encode(examples, tokenizer, (), 64)
    )
    assert remark.kind == "gold" and "more pieces than max_answer" in remark.text


def test_gold_that_is_absent_or_kept_back(tokenizer):
    unknown = question(CONTEXT)
    impossible = question(CONTEXT, impossible=True)
    for form in FORMS:
        task = QuestionAnswering(unanswerable=True, **form)
        blind, none = task.encode([unknown, impossible], tokenizer, (), 200)
        assert np.all(np.asarray(blind.arrays["start"]) == IGNORED)
        start = np.asarray(none.arrays["start"])
        if task.head == "xlnet":
            assert (blind.arrays["impossible"], none.arrays["impossible"]) == (-100, 1)
            assert start == IGNORED
        elif task.form == "positions":
            assert start == none.detail.encoded.summary
        else:
            assert set(start.tolist()) == {IGNORED, 0}
        assert remarks_of(task, "test", [unknown, impossible], [blind, none]) == []


def test_a_context_of_one_piece_and_of_none(tokenizer):
    task = QuestionAnswering(unanswerable=True)
    single, none = question("a", ["a"]), question("  ", impossible=True, id_="r")
    items = task.encode([single, none], tokenizer, (), 64)
    sure, ranked = perfect.decode_perfectly(task, [single, none], items)
    assert task.decide(sure).texts == ("a",)
    assert ranked.spans == () and np.isfinite(ranked.no_answer)
    assert task.decide(ranked, 1e9) == Answer((), ranked.no_answer, "")
    json.dumps(task.show(none, task.decide(ranked)), allow_nan=False)


PLACES = [
    CONTEXT,
    *made.TEXTS,
    " ".join(made.TEXTS),
    "\U0001f600\U0001f600 A 👍🏽 é 🇩🇪 b.",
    "e\u0301a\u0300 o\u0308x\u0302 e\u0301",
    "one\r\ntwo\r\n\r\n three\r four",
    "a\tb  c\u00a0d",
    " ".join(f"w\u0301{n} 👩\u200d👧\r\n" for n in range(40)),
]


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("context", PLACES)
def test_decoding_finds_what_two_loops_find(tokenizer, context, several):
    """Whatever the text; records name the characters of answers.

    Of 30 pairs of pieces in a window some have the same characters, as of one emoji.
    """
    rng = np.random.default_rng(len(context))
    form = "sigmoid" if several else "positions"
    task = QuestionAnswering(
        stride=4, max_answer=5, n_best=30, form=form, several_spans=several
    )
    example = question(context)
    pair = encoded_pair(tokenizer, example)
    rest = int((pair.texts != 1).sum())
    items = task.encode([example], tokenizer, (), rest + 11)
    outputs = [
        {n: -rng.exponential(4, len(i)).astype(np.float32) for n in ("start", "end")}
        for i in items
    ]
    best = {}
    for item, output in zip(items, outputs, strict=True):
        part = item.detail.encoded
        for first in np.flatnonzero(item.detail.starts).tolist():
            for last in range(first, min(first + 5, len(part))):
                if part.texts[last] != 1 or part.span(last, last) is None:
                    continue
                ends = part.span(first, last)
                score = output["start"][first] + output["end"][last]
                best[ends] = max(score, best.get(ends, -np.inf))
    expected = sorted(best.items(), key=lambda pair: -pair[1])
    ranked = task.decode(example, items, outputs, ())
    assert bool(expected) <= len(ranked.spans) <= (150 if several else 30)
    for candidate, (ends, score) in zip(ranked.spans[:7], expected, strict=False):
        assert (candidate.start, candidate.end) == ends
        assert candidate.score == pytest.approx(score)
        assert candidate.text == context[slice(*ends)]
    record, _ = task.show(example, task.decide(ranked, 1.0 if several else None))
    record = json.loads(json.dumps(record))
    answers = record["answers"] if several else [record | {"text": record["answer"]}]
    answers = [answer for answer in answers if answer["text"]]
    assert bool(answers) == bool(expected)
    for answer in answers:
        assert context[answer["start"] : answer["end"]] == answer["text"]
        assert 0 < answer["probability"] <= 1
    if expected and not several:
        score = expected[0][1]
        assert record["probability"] == pytest.approx(np.exp(score), rel=1e-5)


def two_windows(task):
    """Return [CLS] a [SEP] with "a b" and "c d" behind it, and log-probabilities."""
    tokenizer = tokenize.learn_wordpiece(list("abcd"), 60)
    example = question("a b c d", ["c"], asked="a")
    items = task.encode([example], tokenizer, (), 6)
    low, high = np.full(6, -9.0, np.float32), np.full(6, -9.0, np.float32)
    low[[0, 3]], high[[0, 3, 4]] = (-0.25, -3.0), (-1.0, -0.5, -2.0)
    outputs = [{"start": low, "end": low}, {"start": high, "end": high}]
    return example, items, outputs


def test_the_no_answer_score_by_hand():
    task = QuestionAnswering(unanswerable=True, stride=0)
    example, items, outputs = two_windows(task)
    ranked = task.decode(example, items, outputs, ())
    # Best: "c" with -1. [CLS]: -0.5 and -2, the least counts.
    assert [c.text for c in ranked.spans[:2]] == ["c", "c d"]
    assert (ranked.spans[0].score, ranked.no_answer) == (-1.0, -1.0)
    assert task.decide(ranked).texts == ("c",)
    assert task.decide(ranked, -1.5) == Answer((), -1.0, "c")
    task = dataclasses.replace(task, form="sigmoid")
    odds = np.log1p(-np.exp(-1)) + 1
    assert task.decode(example, items, outputs, ()).no_answer == pytest.approx(odds)
    task = QuestionAnswering(unanswerable=True, stride=0, head="xlnet")
    pairs = zip(outputs, (0.75, 0.5), strict=True)
    with_odds = [output | {"impossible": x} for output, x in pairs]
    ranked = task.decode(example, items, with_odds, ())
    assert ranked.spans[0].score == pytest.approx(-1 - np.log1p(np.exp(0.5)))
    assert ranked.no_answer == 0.5 and task.decide(ranked).texts == ()
    plain = QuestionAnswering(stride=0)
    assert plain.decide(plain.decode(example, items, outputs, ())).texts == ("c",)


def test_several_spans_are_chosen_by_their_odds():
    tokenizer = tokenize.learn_wordpiece(list("abcdefgh"), 60)
    task = QuestionAnswering(several_spans=True, form="sigmoid")
    example = question("a b c d e f g h", ["b", "d e", "h"], asked="a")
    scores, lost, (answer,) = round_trip(task, [example], tokenizer)
    assert answer.texts == ("b", "d e", "h") and lost == []
    assert scores == {"f1": 1.0, "exact": 1.0}
    ranked = RankedAnswers(
        (Candidate("b", 2, 3, np.log(0.4)), Candidate("d", 6, 7, -3.0)), 0.4
    )
    assert task.decide(ranked).texts == ("b",)  # the best, though below the odds
    assert task.decide(ranked, 9.0).texts == ("b", "d")
    single = QuestionAnswering(several_spans=True)
    scores, lost, (answer,) = round_trip(single, [example], tokenizer)
    assert answer.texts == ("b",) and lost == [1]
    assert scores["exact"] == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stride": -1}, "stride is -1; want 0 or more"),
        ({"max_question": 0}, "max_question is 0; want 1 or more"),
        ({"max_answer": 0}, "max_answer is 0"),
        ({"n_best": 0}, "n_best is 0"),
        ({"form": "soft"}, "form is 'soft'; supported: 'positions', 'sigmoid'"),
        ({"head": "bert"}, "head is 'bert'; supported"),
        ({"head": "xlnet", "form": "sigmoid"}, "xlnet"),
        ({"unanswerable": True, "several_spans": True}, "both"),
        ({"tune_threshold": True}, "unanswerable"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(ValueError, match=message):
        QuestionAnswering(**settings)


def test_data_of_another_kind_is_refused():
    none, two = question("a", impossible=True), question("a b", ["a", "b"])
    alternatives = question("a b", ["a"], ["b"])
    plain, several = QuestionAnswering(), QuestionAnswering(several_spans=True)
    cases = [(plain, none, "no answer"), (plain, two, "several spans")]
    for task, example, what in [*cases, (several, alternatives, "several answers")]:
        with pytest.raises(InputError, match=what):
            task.adapt([example])
    with pytest.raises(InputError, match="ReadingExample"):
        plain.adapt(["a"])
    assert plain.adapt([alternatives]) == [alternatives]
    assert several.adapt([two]) == [two]
