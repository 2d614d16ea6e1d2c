"""Reading comprehension in the JSON of SQuAD: v1.1, v2.0, and Quoref."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, ClassVar

from dicejax.data.examples import AnswerSpan, ReadingExample
from dicejax.errors import Flaw, quote
from dicejax.formats import audit, containers, tables
from dicejax.formats.records import (
    Fields,
    FileRecord,
    OnError,
    Skipped,
    fields_of,
    read_examples,
    report,
    texts_of,
)
from dicejax.formats.source import FileSource, Form, Noted
from dicejax.formats.text import Text
from dicejax.io import files, json_text, limits

_FIELDS = {"question", "context", "answers", "is_impossible", "title"}
# How far from its offset an answer is looked for, in characters.
_REACH = 20


def example(
    context: str,
    asked: object,
    several_spans: bool = False,
    repairs: list[Flaw] | None = None,
    flaws: list[Flaw] | None = None,
) -> ReadingExample:
    """Read one question from its context and its JSON object.

    `repairs` takes a note of each answer that was moved, None moves none; `flaws` takes
    one of each answer without a place or a text, None raises it.

    Raises:
      Flaw: something is missing or wrong.
    """
    id_ = _id(asked)
    question = json_text.field(asked, "question", str)
    impossible = json_text.field(asked, "is_impossible", bool, False)
    records = json_text.field(asked, "answers", list)
    if impossible:  # some tools write an empty answer there
        records = [x for x in records if not isinstance(x, dict) or x.get("text") != ""]
    if impossible and records:
        raise Flaw("is impossible but has answers", "correct one or the other")
    spans: list[AnswerSpan] = []
    unlocated: list[str] = []
    for record in records:
        try:
            spans.append(_span(context, record, repairs))
        except Flaw as flaw:
            if flaws is None:
                raise
            flaws.append(flaw)
            text = record.get("text") if isinstance(record, dict) else None
            unlocated += [text] if isinstance(text, str) and text.strip() else []
    if several_spans and unlocated:  # a part of an answer is another answer
        unlocated = [*(span.text for span in spans), *unlocated]
        spans = []
    if not impossible and not (spans or unlocated):
        if flaws:  # why there is none
            raise flaws[0]
        remedy = "add one or set is_impossible"
        raise Flaw("has no answer but is not impossible", remedy)
    groups = [[span] for span in spans]
    if several_spans:
        groups = [sorted(spans)] if spans else []
    answers = tuple(map(tuple, groups))
    return ReadingExample(id_, question, context, answers, impossible, tuple(unlocated))


def is_flat(path: files.Path) -> bool:
    """Return whether a file has a question per line or row, or a list of them."""
    if tables.is_table(path):
        return True
    first = containers.first_line(path).lstrip()
    if first.startswith("["):
        return True
    try:
        record = json_text.value_of(json_text.parse(first), dict)
        return not {"context", "question"}.isdisjoint(record)
    except Flaw:  # the first of several lines, or damaged
        return False


def to_predict(path: files.Path, stream: files.Stream = None) -> Iterator[FileRecord]:
    """Yield records, blank lines too; of SQuAD's document the questions without gold.

    These have an id, the question and its context.
    """
    if stream is not None or is_flat(path):
        yield from containers.records(path, stream=stream, blanks=True)
        return

    def without_gold(pair: tuple[str, Any]) -> Fields:
        context, asked = pair
        text = json_text.field(asked, "question", str)
        id_ = {"id": asked["id"]} if "id" in asked else {}
        return id_ | {"question": text, "context": context}

    # Few are predicted at a time, so a context may have any number of questions.
    records = _of_document(path, is_limited=False)
    for number, record in enumerate(records, start=1):
        yield record.map(without_gold)._replace(number=number)


def with_answers(document: Any, records: Iterator[Mapping[str, Any]]) -> Any:
    """Return SQuAD's document with the answers of its questions' objects, in order."""
    made = copy.deepcopy(document)
    for paragraph in (p for a in made["data"] for p in a["paragraphs"]):
        for asked, record in zip(paragraph["qas"], records, strict=False):
            answers = answers_of(dict(record))
            places = {
                (x.get("text"), x.get("answer_start")) for x in asked.get("answers", ())
            }
            if places != {(x["text"], x["answer_start"]) for x in answers}:
                asked["answers"] = answers
            if "is_impossible" in asked:
                asked["is_impossible"] = not answers
    return made


def answers_of(fields: Mapping[str, Any]) -> list[Any]:
    """Return the answers of a question, which may be in columns, as a list."""
    if not isinstance(fields.get("answers"), dict):
        return json_text.field(fields, "answers", list)
    names = ("text", "answer_start")
    columns = [json_text.field(fields["answers"], name, list) for name in names]
    if len(columns[0]) != len(columns[1]):
        lengths = f"{len(columns[0])} texts but {len(columns[1])} starts"
        raise Flaw(f"'answers' has {lengths}", "correct the line")
    return [dict(zip(names, pair, strict=True)) for pair in zip(*columns, strict=True)]


def _of_records(path: files.Path, on_error: OnError | None) -> Iterator[FileRecord]:
    """Yield the context and JSON object of each question as `datasets` has them."""
    for row, record in enumerate(containers.records(path, on_error)):

        def asked(content: object, row: int = row) -> tuple[str, Fields]:
            fields = fields_of(content)
            context = json_text.field(fields, "context", str)
            answers = answers_of(fields)
            impossible = fields.get("is_impossible") or not answers
            changed = {"answers": answers, "is_impossible": impossible}
            return context, {"id": str(row), **fields, **changed}

        record = record.map(asked)
        if not isinstance(record.value, Flaw):
            record = record._replace(where=_where(record.where, record.value[1]))
        yield record


def _of_document(path: files.Path, *, is_limited: bool = True) -> Iterator[FileRecord]:
    """Yield the context and JSON object of each question of SQuAD's document."""
    with json_text.flaws_at(path):
        articles = json_text.field(json_text.read(path), "data", list)
    for a, article in enumerate(articles):
        where = f"data[{a}]"
        try:
            paragraphs = json_text.field(article, "paragraphs", list)
        except Flaw as flaw:
            yield FileRecord(flaw, a, path, where=where)
            continue
        for p, paragraph in enumerate(paragraphs):
            where = f"data[{a}].paragraphs[{p}]"
            try:
                context = json_text.field(paragraph, "context", str)
                questions = json_text.field(paragraph, "qas", list)
                if is_limited:
                    limits.CONTEXT.check(len(context) * len(questions))
            except Flaw as flaw:
                yield FileRecord(flaw, p, path, where=where)
                continue
            for q, asked in enumerate(questions):
                place = _where(f"{where}.qas[{q}]", asked)
                yield FileRecord((context, asked), q, path, where=place)


def _where(place: str, asked: object) -> str:
    try:
        return f"{place} (id {quote(_id(asked))})".lstrip()
    except Flaw:
        return place


def _id(asked: object) -> str:
    """Return the id of a question, a string or a whole number."""
    fields = json_text.value_of(asked, dict)
    is_number = type(fields.get("id")) is int
    return str(fields["id"]) if is_number else json_text.field(fields, "id", str)


def question(record: FileRecord) -> Text:
    """Return a question and its context to predict, between them a tab."""
    fields = record.fields()
    if "question" not in fields and "text" in fields:  # with a tab between them
        text = json_text.field(fields, "text", str)
        return Text(record.number, text, fields=fields)
    names = ("question", "context")
    asked, context = (json_text.field(fields, name, str) for name in names)
    if "\t" in asked:
        raise Flaw("'question' holds a tab", "replace it")
    return Text(record.number, f"{asked}\t{context}", None, fields)


def _span(context: str, record: object, repairs: list[Flaw] | None) -> AnswerSpan:
    answer = json_text.field(record, "text", str)
    start = json_text.field(record, "answer_start", int)
    if not answer.strip():
        raise Flaw("the text of an answer is empty", "remove it or set is_impossible")
    if start >= 0 and context.startswith(answer, start):
        return AnswerSpan(start, answer)
    fault = f"answer {quote(answer)} is not at {quote(start)}"
    near = range(max(0, start - _REACH), start + _REACH + 1)
    places = [place for place in near if context.startswith(answer, place)]
    places.sort(key=lambda place: abs(place - start))
    distances = [abs(place - start) for place in places]
    if not places or distances.count(distances[0]) > 1:  # absent or ambiguous
        remedy = "correct answer_start, which counts characters from 0"
        raise Flaw(f"{fault} of its context nor near it", remedy)
    if repairs is None:
        remedy = "correct it, or move such answers with --data.repair (init: --repair)"
        raise Flaw(f"{fault} but at {places[0]}", remedy)
    repairs.append(Flaw(fault, f"read at {places[0]} instead"))
    return AnswerSpan(places[0], answer)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadFiles(FileSource):
    """Questions and contexts in SQuAD's JSON.

    The file is `{"data": [{"paragraphs": [{"context": ..., "qas": [{"id", "question",
    "answers": [{"text", "answer_start"}], "is_impossible"}]}]}]}`; or JSON lines as
    `datasets` writes them, `{"id", "context", "question", "answers": {"text": [...],
    "answer_start": [...]}}`, impossible without an answer. Offsets count code points.
    Ids may be whole numbers, and impossible questions may have an empty answer.

    An answer must be at its offset; 50 of Quoref's published dev set are not. With
    `on_error="skip"` such an answer stays as a text that predictions are compared with,
    and the question is dropped if it has no other.

    The published test sets are private, so the dev file is the test set, and dev is
    held out of train, all questions of a context together.

    Args:
      several_spans: whether several answers are the spans of one, as in Quoref, or
        different annotators' answers.
      repair: move an answer that is not at its offset to the nearest place that has its
        text, at most 20 characters off; else it is malformed.
    """

    noun: ClassVar[str] = "questions"
    _form: ClassVar[Form] = "jsonl"

    train: str = "train.json"
    dev: str | None = None
    test: str | None = "dev.json"
    several_spans: bool = False
    repair: bool = False

    def read_with_notes(self, path: files.Path, on_error: OnError | None) -> Noted:
        """Read one file; also return a note on answers that were moved."""
        repaired, ids = Skipped(done="repaired", keep=3), set()
        fields: dict[str, Any] = {}

        def make(record: FileRecord, row: int) -> ReadingExample:
            context, asked = record.content()
            id_ = _id(asked)
            if id_ in ids:
                raise Flaw("the id comes a second time", "give each its own")
            repairs: list[Flaw] | None = [] if self.repair else None
            flaws: list[Flaw] | None = None if on_error is None else []
            question = example(context, asked, self.several_spans, repairs, flaws)
            for listener, notes in ((on_error, flaws), (repaired, repairs)):
                for note in notes or ():
                    report(record.error(note), listener)
            ids.add(id_)
            fields.update(asked)
            return question

        rows = _of_records(path, on_error) if is_flat(path) else _of_document(path)
        empty = Flaw("holds no questions", "name a file that has some")
        examples = read_examples(path, rows, make, on_error, empty=empty)
        notes = [str(repaired)] if repaired.count else []
        return examples, [*notes, *audit.unread(fields, _FIELDS, "question")]

    def texts(self, path: files.Path, stream: files.Stream = None) -> Iterator[Text]:
        """Read the questions of a document, of JSON lines or of a table.

        Fields of a document's question are its id, the question and the context.
        """
        return texts_of(to_predict(path, stream), question)

    def fields_with(self, text: Text, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the object of a question with the predicted answers.

        They are columns as `datasets` writes them, or a list where the object has one.
        """
        answers = record.get("answers")
        if answers is None:
            answers = [{**record, "text": record["answer"]}] if record["answer"] else []
        names = {"text": "text", "answer_start": "start"}
        rows = [{name: x[key] for name, key in names.items()} for x in answers]
        written: object = rows
        if not isinstance(text.fields.get("answers"), list):
            written = {name: [row[name] for row in rows] for name in names}
        fields = dict(text.fields)
        if "is_impossible" in fields:
            fields["is_impossible"] = not rows
        return fields | {"answers": written}

    def unit(self, example: ReadingExample) -> Hashable:
        """Keep the questions of a context together."""
        return example.context
