"""SQuAD JSON: answers at their offsets, several answers, several spans, none."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicejax.data.examples import AnswerSpan, ReadingExample
from dicejax.formats import SquadFiles
from dicejax.formats.records import Skipped

read = SquadFiles.read_file

CONTEXT = "Ada met Bob. Later Ada met Cy."


def answer(text, start):
    return {"text": text, "answer_start": start}


def question(*answers, id="q1", **more):
    return {"id": id, "question": "Who?", "answers": list(answers)} | more


def document(*questions, context=CONTEXT):
    return {"data": [{"paragraphs": [{"context": context, "qas": list(questions)}]}]}


def test_several_answers(write):
    (example,) = read(write(document(question(answer("Ada", 19), answer("Bob", 8)))))
    answers = ((AnswerSpan(19, "Ada"),), (AnswerSpan(8, "Bob"),))
    assert example == ReadingExample("q1", "Who?", CONTEXT, answers, False)
    for (span,) in example.answers:
        assert CONTEXT[span.start : span.end] == span.text


def test_several_spans_are_one_answer(write):
    path = write(document(question(answer("Cy", 27), answer("Bob", 8))))
    (example,) = read(path, several_spans=True)
    assert example.answers == ((AnswerSpan(8, "Bob"), AnswerSpan(27, "Cy")),)


def test_questions_without_answer(write):
    plausible = {"plausible_answers": [answer("Cy", 27)]}
    path = write(document(question(is_impossible=True, **plausible)))
    for several_spans in (False, True):
        (example,) = read(path, several_spans=several_spans)
        assert example.impossible
        assert example.answers == ()


@pytest.mark.parametrize(("start", "place"), [(7, 8), (9, 8), (28, 27), (-1, 0)])
def test_an_answer_near_its_offset_is_moved_where_someone_is_told(write, start, place):
    text = {8: "Bob", 27: "Cy", 0: "Ada"}[place]
    path = write(document(question(answer(text, start))))
    (example,), notes = SquadFiles(dir="", repair=True).read_with_notes(path, None)
    assert example.answers == ((AnswerSpan(place, text),),)
    assert notes == [
        f"1 repaired:\n  {path}: data[0].paragraphs[0].qas[0] (id 'q1'): answer "
        f"{text!r} is not at {start}; read at {place} instead"
    ]


def test_one_bad_offset_leaves_the_other_answers(write):
    moved_and_lost = question(answer("Bob", 7), answer("Eve", 0))
    path = write(document(moved_and_lost, question(answer("Ada", 0), id="q2")))
    skipped, source = Skipped(), SquadFiles(dir="", repair=True)
    (lost, retained), (note,) = source.read_with_notes(path, skipped)
    assert (retained.id, note[:11], skipped.count) == ("q2", "1 repaired:", 1)
    assert lost.answers == ((AnswerSpan(8, "Bob"),),) and lost.unlocated == ("Eve",)


def test_a_span_without_place_leaves_the_places_of_its_whole_answer_out(write):
    path = write(document(question(answer("Ada", 0), answer("Eve", 0))))
    (example,) = read(path, several_spans=True, on_error=Skipped())
    assert (example.answers, example.unlocated) == ((), ("Ada", "Eve"))


def test_between_two_places_at_the_same_distance_none_is_taken(write):
    asked = [question(answer("o", 1)), question(answer("o", 0), id="q2")]
    path = write(document(*asked, context="o-o"))
    skipped, source = Skipped(), SquadFiles(dir="", repair=True)
    (first, other), notes = source.read_with_notes(path, skipped)
    assert (first.unlocated, other.unlocated) == (("o",), ())
    assert (notes, skipped.count) == ([], 1)


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@settings(deadline=None)
@given(TEXT.filter(str.strip), TEXT, TEXT)
def test_answers_are_read_as_written(tmp_path_factory, text, before, after):
    context = before + text + after
    path = tmp_path_factory.mktemp("squad") / "file.json"
    written = document(question(answer(text, len(before))), context=context)
    path.write_text(json.dumps(written, ensure_ascii=False), "utf-8", newline="\n")
    (example,) = read(path)
    assert example.context == context
    ((span,),) = example.answers
    assert context[span.start : span.end] == span.text == text


FLAT = {
    "id": "5733",
    "title": "Notre_Dame",
    "context": "Ada slept in Rome.",
    "question": "Where?",
    "answers": {"text": ["Rome", "in Rome"], "answer_start": [13, 10]},
}


def test_lines_as_datasets_writes_them(write, refusal):
    empty = FLAT | {"id": "7", "answers": {"text": [], "answer_start": []}}
    listed = FLAT | {"answers": [{"text": "Rome", "answer_start": 13}]}
    del listed["id"]
    records = [FLAT, empty, listed]
    lines = "".join(f"{json.dumps(first)}\n" for first in records)
    for text in (lines, json.dumps(records), json.dumps(records, indent=1)):
        first, none, other = read(write(text))
        assert (first.id, none.id, other.id) == ("5733", "7", "2")
        assert [[tuple(s) for s in answer] for answer in first.answers] == [
            [(13, "Rome")],
            [(10, "in Rome")],
        ]
        assert none.impossible and not none.answers
        assert [a[0].text for a in other.answers] == ["Rome"]
    wrong = FLAT | {"answers": {"text": ["Rome"], "answer_start": [12]}}
    pair = [json.dumps(FLAT), json.dumps(wrong | {"id": "b"})]
    for text, place in (("\n".join(pair), ":2:"), (f"[{','.join(pair)}]", ": [1]")):
        message = refusal(read, write(text))
        assert message.startswith(f"{place} (id 'b'): answer 'Rome' is not at 12 but")
    uneven = FLAT | {"answers": {"text": ["Rome"], "answer_start": []}}
    message = refusal(read, write(json.dumps(uneven)))
    assert message.startswith(":1: 'answers' has 1 texts but 0 starts")


def test_ids_may_be_numbers_and_impossible_questions_have_an_empty_answer(
    write, refusal
):
    none = question(answer("", -1), id=8, is_impossible=True)
    first, second = read(write(document(question(answer("Ada", 0), id=7), none)))
    assert (first.id, second.id, second.impossible) == ("7", "8", True)
    blank = {"answers": {"text": [""], "answer_start": [-1]}, "is_impossible": True}
    (other,) = read(write(json.dumps(FLAT | blank)))
    assert other.impossible and not other.answers
    twice = document(question(answer("Ada", 0), id=7), question(id="7"))
    assert "(id '7'): the id comes a second time" in refusal(read, write(twice))
    marked = json.dumps(FLAT | {"is_impossible": True})
    assert "is impossible but has answers" in refusal(read, write(marked))


def test_predicted_answers_take_the_place_of_gold(write):
    source, listed = SquadFiles(dir="."), [{"text": "Rome", "answer_start": 13}]
    asked = document(question(answer("Ada", 0), id=7))
    lines = f"{json.dumps(FLAT)}\n\n{json.dumps(FLAT | {'answers': listed})}\n"
    (first,) = source.texts(write(asked))
    second, blank, third = source.texts("-", io.BytesIO(lines.encode()))
    assert first.text == f"Who?\t{CONTEXT}" and blank.is_blank
    assert (second.line, third.line) == (1, 3)
    (only,) = source.texts(write(json.dumps([FLAT], indent=1)))
    assert only.fields == FLAT
    place = {"start": 0, "end": 3, "probability": 0.5}
    record = {"id": "1", "question": "x", "answer": "Ada", **place}
    several = {"answers": [{"text": "Ada", **place}]}
    refused = {"answer": "", "start": None}
    in_columns = {"text": ["Ada"], "answer_start": [0]}
    for text, prediction, expected in [
        (first, record, {"id": 7, "answers": in_columns}),
        (second, record, {"id": "5733", "title": "Notre_Dame", "answers": in_columns}),
        (second, several, {"answers": in_columns}),
        (second, refused, {"answers": {"text": [], "answer_start": []}}),
        (third, record, {"answers": [{"text": "Ada", "answer_start": 0}]}),
    ]:
        written = json.loads(source.write(text, prediction))
        assert written == {**text.fields, **expected}
