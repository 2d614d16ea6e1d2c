"""Sentences with spans in JSON: words with tags, texts with entities."""

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from dicejax.data import tags
from dicejax.data.examples import Sentence
from dicejax.data.tags import Span, TagForm
from dicejax.errors import Flaw, InputError, quote, truncate
from dicejax.formats import annotations, audit, containers, label_studio
from dicejax.formats.annotations import Annotation
from dicejax.formats.labels import class_of
from dicejax.formats.records import (
    LOOKED_AT,
    Columns,
    Fields,
    FileRecord,
    OnError,
    check_label,
    check_tag,
    did_you_mean,
    document_of,
    read_examples,
    report,
    texts_of,
)
from dicejax.formats.source import FileSource, Form, Noted, first_path
from dicejax.formats.text import Text
from dicejax.formats.words import (
    Align,
    Aligner,
    Entity,
    are_words,
    from_utf16,
    places,
    to_utf16,
)
from dicejax.io import files, json_text

# Fields that may hold words, and their tags; the first that a record has does.
TOKENS = ("tokens", "tokenized_text", "words")
TAGS = ("ner_tags", "tags", "labels", "ner")


_FEW = 20  # entities of which some are single words


class _Record(NamedTuple):
    """A record with its words and their tags or spans, or with its annotation."""

    source: FileRecord
    words: tuple[str, ...] = ()
    labels: list[str] | None = None
    spans: tuple[Span, ...] = ()
    annotation: Annotation | None = None


def _parse(record: FileRecord, names: Sequence[str], named: Columns) -> _Record:
    content = record.fields()
    tokens = tokens_of(content, named)
    if tokens is None and not annotations.has_text(content, named):
        text = next((n for n in TOKENS if isinstance(content.get(n), str)), None)
        if text is not None:
            fault = f"{quote(text)} is text, not a list of words"
            raise Flaw(fault, "write lists of words and tags, or name it with --text")
        listed = truncate(", ".join(map(quote, content)), 240)
        fault = f"has neither 'tokens' nor 'text' but {listed}"
        raise Flaw(fault, "name them with --text and --spans, or rename its fields")
    if tokens is None:
        return _Record(record, annotation=annotations.read(content, named))
    words = tuple(strings(content, tokens))
    if tokens == "tokenized_text":
        return _Record(record, words, spans=_of_gliner(content, len(words)))
    return _Record(record, words, _tags(content, len(words), names))


def tokens_of(record: Mapping[str, object], named: Columns) -> str | None:
    """Return the field of the words; None where a text is read, if there is any."""
    lists = ((n, v) for n in TOKENS if isinstance(v := record.get(n), list))
    # Prodigy's are objects beside the text.
    name = next((n for n, v in lists if not any(isinstance(x, dict) for x in v)), None)
    if name is None or _tags_field(record) is not None:
        return name
    spans = record.get(annotations.spans_field(record, named))
    text = annotations.text_field(record, named)
    # Words may have a `source` beside them, which is no text to read.
    is_text = text in record and (text in (named.text, "text") or bool(spans))
    return None if is_text or label_studio.is_task(record) else name


def _tags_field(record: Mapping[str, object]) -> str | None:
    """Return the field of the tags: a list without lists or objects."""
    for name in TAGS:
        values = record.get(name)
        if isinstance(values, list) and not any(
            isinstance(value, list | dict) for value in values
        ):
            return name
    return "ner" if "tokenized_text" in record and "ner" in record else None


def _used(record: Mapping[str, object], named: Columns) -> set[str]:
    """Return the fields of a record that are read."""
    tokens = tokens_of(record, named)
    if tokens is not None:
        return {tokens, _tags_field(record) or ""}
    places = {annotations.text_field(record, named), "prompt", "tokens"}
    return places | {annotations.spans_field(record, named)}


def _of_gliner(record: Fields, count: int) -> tuple[Span, ...]:
    """Return spans of words whose ends are included."""
    spans = []
    for place, value in enumerate(json_text.field(record, "ner", list)):
        if not isinstance(value, list) or [*map(type, value)] != [int, int, str]:
            fault = f"ner[{place}] is not a list of first, last and label"
            raise Flaw(fault, "correct it")
        first, last, label = value[0], value[1], value[2].strip()
        if not 0 <= first <= last < count:
            fault = f"ner[{place}] is at words {first} to {last} of {count}"
            raise Flaw(fault, "correct it: the last word is included, from 0")
        check_label(label, None)
        spans.append(Span(label, first, last + 1))
    return tuple(dict.fromkeys(spans))


def _count_utf16(annotated: Sequence[Annotation]) -> bool:
    """Make places of UTF-16 units those of characters; return whether they are units.

    They are if what entities say of their text fits then, and does not before.
    """
    if all(map(_fits, annotated)):
        return False
    converted = [a._replace(entities=from_utf16(a.text, a.entities)) for a in annotated]
    if not all(map(_fits, converted)):
        return False
    for before, after in zip(annotated, converted, strict=True):
        before.entities[:] = after.entities
    return True


def _common_remedy(annotated: Sequence[Annotation]) -> str | None:
    """Return what makes all entities of a file whole words, if anything does."""
    remedies = {
        "all ends look inclusive: add 1 to each": lambda text, entities: [
            e._replace(end=e.end + 1) for e in entities
        ],
        "all offsets look like UTF-16 units: count characters, or give each entity its "
        "text, and they are converted": from_utf16,
    }
    for remedy, convert in remedies.items():
        if all(
            are_words(places(a.text), convert(a.text, a.entities)) for a in annotated
        ):
            return remedy
    return None


def _fits(annotation: Annotation) -> bool:
    return all(_is_quoted(annotation.text, e) for e in annotation.entities)


def _is_quoted(text: str, entity: Entity) -> bool:
    part = text[max(entity.start, 0) : max(entity.end, 0)]
    return entity.text is None or entity.text.split() == part.split()


def _sentence(row: _Record, scheme: str, aligner: Aligner) -> Sentence:
    if row.annotation is None:
        words, spans, prompt = row.words, row.spans, ""
        if row.labels is not None:
            for tag in set(row.labels):
                check_tag(tag, scheme)
            spans = tuple(tags.spans(row.labels, scheme))
        spans = aligner.without_overlaps(
            spans, lambda span: " ".join(row.words[span.start : span.end])
        )
    else:
        text, entities, prompt = row.annotation
        for e in entities:
            if not _is_quoted(text, e):
                fault = f"{e.place} is {quote(text[max(e.start, 0) : max(e.end, 0)])}"
                place = f"at {e.start} to {e.end}, but says {quote(e.text or '')}"
                raise Flaw(f"{fault} {place}", "correct its offsets")
        if not (bounds := places(text)):
            raise Flaw("the text has no words", "remove the line")
        words = tuple(text[start:end] for start, end in bounds)
        spans = aligner.spans(text, bounds, entities)
    document = document_of(row.source.value)
    return Sentence(words, spans, row.source.number, prompt=prompt, document=document)


def strings(record: Fields, name: str) -> list[str]:
    """Return a field that lists texts.

    Raises:
      Flaw: it is missing, no such list or empty, or a text is blank.
    """
    values = json_text.field(record, name, list)
    if not values:
        raise Flaw(f"{quote(name)} is empty", "remove the line")
    for place, value in enumerate(values):
        try:
            if not json_text.value_of(value, str).strip():
                raise Flaw("is blank", "remove it")
        except Flaw as flaw:
            raise Flaw(f"{name}[{place}] {flaw.fault}", flaw.remedy) from None
    return values


def text_of_words(number: int, fields: Fields, name: str) -> Text:
    """Return words to predict, of which there may be none."""
    words = tuple(strings(fields, name)) if fields[name] != [] else ()
    return Text(number, " ".join(words), words, fields)


def _tags(record: Fields, count: int, names: Sequence[str]) -> list[str]:
    field = _tags_field(record)
    if field is None:
        raise Flaw(f"has 'tokens' and no {' or '.join(map(quote, TAGS))}", "add it")
    values = json_text.field(record, field, list)
    if len(values) != count:
        raise Flaw(f"{count} tokens but {len(values)} {field}", "correct the line")
    if all(type(value) is int for value in values):
        if not names:
            fault = f"{field} are whole numbers without names"
            remedy = "give their names in their order: --data.names (of init: --names)"
            raise Flaw(fault, remedy)
        return [str(class_of(value, field, names)) for value in values]
    texts = strings(record, field)
    for tag in texts:
        if names and tag not in names:
            raise Flaw(f"tag {quote(tag)} is unknown", did_you_mean(tag, names))
        check_tag(tag, None)
    return texts


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonSentences(FileSource):
    r"""Words with tags or texts with entities, a JSON object per line.

    Words and tags are as in `{"tokens": [...], "ner_tags": [...]}`, in the scheme that
    is detected from the file, or GLiNER's `{"tokenized_text": [...], "ner": [[first,
    last, label]]}`. A text and its entities are in one of the layouts of `annotations`;
    its words are those of `words.places`.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.jsonl"
    >>> _ = path.write_text('{"text": "In New York.", "entities": '
    ...     '[{"start": 3, "end": 11, "label": "LOC"}]}\n')
    >>> [sentence] = JsonSentences.read_file(path)
    >>> sentence.words, [tuple(span) for span in sentence.spans]
    (('In', 'New', 'York', '.'), [('LOC', 1, 3)])

    Args:
      names: names of tags that are whole numbers, from 0.
      text: field of the text; None, as in the following fields, takes a usual name.
      spans: field of the entities.
      start: field of an entity's first character, from 0.
      end: field of the character after its last.
      label: field of its label.
      align: what becomes of an entity that cuts a word, has no words or overlaps one
        before it: "strict" is an error, "expand" takes whole words and keeps the longer
        of two that overlap, "skip" leaves it out and keeps its text.
    """

    noun: ClassVar[str] = "sentences"
    _form: ClassVar[Form] = "jsonl"

    train: str = "train.jsonl"
    dev: str | None = "dev.jsonl"
    test: str | None = "test.jsonl"
    names: tuple[str, ...] = ()
    text: str | None = None
    spans: str | None = None
    start: str | None = None
    end: str | None = None
    label: str | None = None
    align: Align = "strict"

    @property
    def fields(self) -> Columns:
        """The names of fields."""
        parts = {"text": self.text, "label": self.label, "spans": self.spans}
        return Columns(**parts, start=self.start, end=self.end)

    def read_with_notes(self, path: files.Path, on_error: OnError | None) -> Noted:
        """Read one file; also return notes on what was left out or changed."""
        left_out: Counter[str] = Counter()
        fields: dict[str, Any] = {}
        used: set[str] = set()

        def make(record: FileRecord, row: int) -> _Record | None:
            content = record.fields()
            if (reason := annotations.left_out(content)) is not None:
                left_out[reason] += 1
                return None
            if not label_studio.is_task(content):
                fields.update(content)
                used.update(_used(content, self.fields))
            return _parse(record, self.names, self.fields)

        rows = read_examples(path, containers.records(path, on_error), make, on_error)
        notes = annotations.notes(left_out)
        notes += audit.unread(fields, used, "sentence")
        values = [r.source.value for r in rows if isinstance(r.source.value, dict)]
        tasks = list(filter(label_studio.is_task, values))
        more = sum(map(label_studio.has_several, tasks))
        if more:
            notes.append(
                f"{more} with several annotations: the first with regions taken"
            )
        ends = Counter(
            s.end - s.start for r in rows if r.labels is None for s in r.spans
        )
        if ends.total() > _FEW and not ends[1]:
            note = f"none of {ends.total()} entities is a single word"
            notes.append(f"{note}: GLiNER's last word is included")
        annotated = [row.annotation for row in rows if row.annotation is not None]
        if _count_utf16(annotated):
            notes.append("offsets count UTF-16 units: converted to characters")
        scheme = tags.detect_scheme(r.labels for r in rows if r.labels is not None)
        aligner = Aligner(self.align)
        remedy = functools.cache(lambda: _common_remedy(annotated))
        sentences = []
        for row in rows:
            try:
                sentences.append(_sentence(row, scheme, aligner))
            except Flaw as flaw:
                if flaw.fault.endswith(("cuts a word", "no word", " characters")):
                    flaw = Flaw(flaw.fault, remedy() or flaw.remedy)
                report(row.source.error(flaw), on_error)
        has_spans = any(sentence.spans for sentence in sentences)
        if not has_spans and any(map(label_studio.classes, tasks)):
            fault = "has choices and no regions of labels"
            raise InputError.at(path, None, fault, "`init classification` reads them")
        if not sentences:
            fault = ", ".join(["holds no sentences", *annotations.notes(left_out)])
            raise InputError.at(path, None, fault, "name another file")
        return sentences, [*notes, *aligner.notes()]

    def words_of(self, text: str) -> tuple[str, ...]:
        """Divide a text as those of the training files."""
        return tuple(text[start:end] for start, end in places(text))

    def texts(self, path: files.Path, stream: files.Stream = None) -> Iterator[Text]:
        """Read words or texts; gold is not looked at."""
        return texts_of(
            containers.records(path, stream=stream, blanks=True), self._text
        )

    def _text(self, record: FileRecord) -> Text:
        fields = record.fields()
        tokens = tokens_of(fields, self.fields)
        if tokens is None:
            text, prompt = annotations.text_of(fields, self.fields)
            words = self.words_of(text)
            return Text(record.number, text, words, fields, prompt=prompt)
        return text_of_words(record.number, fields, tokens)

    def fields_with(self, text: Text, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record with the predicted entities or tags in place of gold."""
        fields = dict(text.fields)
        predicted = record.get("entities", ())
        tokens = tokens_of(fields, self.fields)
        if tokens == "tokenized_text":
            fields["ner"] = [[e["start"], e["end"] - 1, e["type"]] for e in predicted]
        elif tokens is not None:
            spans = [Span(e["type"], e["start"], e["end"]) for e in predicted]
            name = _tags_field(fields) or TAGS[0]
            form = self._written
            made = tags.encode(spans, len(text.words or ()), form.scheme)
            gold: Sequence[Any] = fields.get(name, ())
            are_numbers = bool(self.names and gold) and type(gold[0]) is int
            if are_numbers:
                gold = [self.names[number] for number in gold]
            is_list = isinstance(gold, list) and len(gold) == len(made)
            if not (is_list and form.are_alike(gold, made)):
                numbers = {tag: n for n, tag in enumerate(self.names) if are_numbers}
                fields[name] = [numbers.get(tag, tag) for tag in made]
        else:
            entities = [
                Entity(start, end, e["type"], "", text.text[start:end])
                for e in predicted
                for start, end in [(e["start_char"], e["end_char"])]
            ]
            if self._in_utf16 and not label_studio.is_task(fields):
                entities = to_utf16(text.text, entities)
            fields = annotations.write(fields, self.fields, entities)
        return fields

    @functools.cached_property
    def _in_utf16(self) -> bool:
        """Whether offsets of the training file count UTF-16 units."""
        path = first_path(self.dir, self.train)
        try:
            rows = (record.fields() for record in containers.records(path))
            texts = (annotations.read(row, self.fields) for row in rows)
            return _count_utf16(
                [a for a in texts if max(a.text, default="") > "\uffff"]
            )
        except (Flaw, InputError):
            return False

    @functools.cached_property
    def _written(self) -> TagForm:
        """How the tags of the training file are written."""
        if self.names:
            return TagForm.detect([self.names])
        try:
            path = first_path(self.dir, self.train)
            some = itertools.islice(containers.records(path), LOOKED_AT)
            gold = [x[n] for x in (r.fields() for r in some) if (n := _tags_field(x))]
            return TagForm.detect(gold)
        except (Flaw, InputError, ValueError, TypeError):
            return TagForm("BIO")
