"""Malformed files of every reader: the message, and what is read without the flaw."""

from __future__ import annotations

import functools
import json

import pytest

from dicejax.data.examples import ReadingExample
from dicejax.formats import ConllFiles, JsonSentences, SquadFiles, TextFiles, texts
from dicejax.formats.records import Skipped

from ..data import glue
from .test_conllu import FRENCH, row
from .test_squad import CONTEXT, answer, document, question

# Content, the messages, what is left, settings.
NEITHER = "does not belong to any scheme (O, B-TYPE"
CONLL = [
    ("-DOCSTART- -X- O O\n\n", ": holds no sentences;"),
    ("a b c O\na b O\n", ":2: 3 columns where 4 are expected, as in line 1; fix"),
    ("\na O\nb x O\n", ":3: 3 columns where 2 are expected, as in line 2; fix"),
    ("a O\n\nb\n", ":3: 1 column where 2 are expected, as in line 1; fix", "1:a"),
    ("a,O\n", ":1: 1 column, so word and tag would be the same one; name"),
    ("a O\n", ":1: 2 columns, so word and tag would be the", "", {"label_column": 0}),
    ("a O\n", ":1: 2 columns, but the tag is expected in co", "", {"label_column": 3}),
    ("a O\n", ":1: 2 columns, but the word is expected", "", {"word_column": -3}),
    ("\tO\n", ":1: the word is empty;", "", {"separator": "\t"}),
    ("a O\n", ": the separator is empty;", "", {"separator": ""}),
    ("a O\n", ": scheme 'BIOLU' is unknown; name one of IOB1", "", {"scheme": "BIOLU"}),
    ("a O\nb NNP\n", f":2: tag 'NNP' {NEITHER}"),
    ("a O\nb B\n", ":2: tag 'B' names no type (O, B-TYPE"),
    ("a O\nb I-\n", ":2: tag 'I-' names no type (O, B-TYPE, I-", "", {"scheme": "BIO"}),
    ("a O\nb O-X\n", ":2: tag 'O-X' does not belong"),
    (
        *("a B-X\n\nb E-X\n", ":3: tag 'E-X' does not belong to BIO (O, B-TYPE, I-TY"),
        *("1:a", {"scheme": "BIO"}),
    ),
    (
        "a B-X\nb M-X\nc E-X\n\nd O\ne I-X\n\nf I-X\n\ng S-X\n",
        ":6: tag 'I-X' does not belong to BMES (O, B-TYPE, M-TYPE, E-TYPE, S-TYPE); "
        "the file's other tags look like BMES | :8: tag 'I-X' does not belong to BMES",
        "1:a 10:g",
    ),
    (  # a bad row costs its sentence once
        "a O\nb B-X\n\nbad\nworse row here\nc O\n\nd O\n\ne WRONG\n\nf O\ng\n"
        "-DOCSTART- -X-\nh S\n\ni B-Y\n",
        f":4: 1 column | :10: tag 'WRONG' {NEITHER} | :13: 1 column | :15: tag",
        "1:a 8:d 17:i",
    ),
    (
        b"a O\n\xff O\nb O\n\nc O\n\n\xff O\n\nd O\nz\xfc O",
        ":2: byte 4 (0xff) is not UTF-8; | :7: byte 18 (0xff) | :10: byte 28 (0xfc)",
        "5:c",
    ),
    (
        b"a O\nb\n\xff O\n\nc O\n\xff O\nd\n\ne O",
        ":2: 1 column where 2 are expected, as in line 1 | :6: byte 15 (0xff) is not",
        "9:e",
    ),
    ("a O\r\nb O\r\nZürich O\n".encode("latin-1"), ":3: byte 11 (0xfc) is not"),
    ("a O\né".encode()[:-1], ":2: byte 4 (0xc3) is not UTF-8"),
    ((b"a" * 47 + b" O\n") * 4000 + b"\xff O\n", ":4001: byte 200000 (0xff)"),
    (
        "a O\n\n" + "b O\n" * 5001,
        ":3: more than 5,000 words in a sentence; is a bl",
        "1:a",
    ),
    (
        "a PER-B\nb PER-I\n\nc B-PER\n\nd O\n\ne B_PER\n",
        ":4: tag 'B-PER' is not written as the others: TYPE-B; | :8: tag 'B_PER' is",
        "1:a 6:d",
    ),
    (
        'Sentence #,Word,Tag\n1,a,O\n,b,O,x\n2,c,O\n,"d,O\n3,e,O\n',
        ":3: 4 columns where 3 are expected | :5: a quote begins a field and is not cl",
        *("6:e", {"word_column": 1, "separator": ",", "sentence_column": 0}),
    ),
    (
        "Sentence #,POS,Word\n1,N,a\n",
        ":1: the header does not name column 1 as the words; call the column 'word'",
        *("", {"word_column": 1, "separator": ",", "sentence_column": 0}),
    ),
]
WORDS = [
    ("a X\n\nb\n", ":3: 1 column where 2 are expected, as in line 1; fix", "1:a"),
    ("a\n", ":1: 1 column, so word and tag would be the same one; name"),
    ("a b X\nb X\n", ":2: 2 columns where 3 are expected, as in line 1; fix"),
    ("title\n\na X\n", ":1: 1 column", "3:a"),  # sets no number of columns
]
WRONG = f"{row(1, 'a')}\nwrong\n{row(9, 'b')}\n\n"
CONLLU = [
    ("a X\n", ":1: 1 column where CoNLL-U has 10; separate them with one tab"),
    (row(1, "a") + "\tx", ":1: 11 columns where CoNLL-U has 10;"),
    (row(2, "a"), ":1: id 2 where 1 is next; fix the numbering"),
    (f"{row(1, 'a')}\n{row(1, 'b')}", ":2: id 1 where 2 is next;"),
    (row("x", "a"), ":1: id 'x' is not a number, range or empty node; correct"),
    (row("01", "a"), ":1: id '01' is not a number,"),
    (row("1-", "a"), ":1: id '1-' is not a number,"),
    (row(1, ""), ":1: the word is empty;"),
    (row(1, "a", "_"), ":1: the word has no UPOS; add it, or name another"),
    (row(1, "a", ""), ":1: the word has no UPOS;"),
    (row(1, "a"), ":1: the word has no XPOS;", "", {"label_column": "XPOS"}),
    (
        row(1, "a"),
        ": no column 'upos' has labels; name one",
        "",
        {"label_column": "upos"},
    ),
    (row(1, "a"), ": no column 'FEAT' has labels; did", "", {"label_column": "FEAT"}),
    (row(1, "a"), ": no column 'FORM' has labels; ", "", {"label_column": "FORM"}),
    ("# only\n# comments\n", ": holds no sentences;"),
    (f"{WRONG}{FRENCH}\n{WRONG}", ":2: 1 column where | :20: 1 column", "7:Il 16:Oui"),
]
PAIRS = [
    ("1\ta\n", ":1: 2 columns, but the second is expected in column 2; column"),
    ("1 a b 3\n", ":1: 1 column, but the first is expected in column 1;"),
    ("1\ta\tb\t3\n1\ta\tb\n", ":2: 3 columns where 4 are expected, as in lin", "1:a#3"),
    ("1\ta\tb\t3\n1\ta\tb\tc\t4\n", ":2: 5 columns where 4 are expected,", "1:a#3"),
    ("2\ta\tb\t3\n", ":1: label '2' is unknown; name one of 0, 1"),
    ("\ta\tb\t3\n", ":1: label '' is unknown;"),
    ("1\t \tb\t3\n", ":1: the first text is empty; add it, remove the line, or"),
    ("1\ta\t\t3\n", ":1: the second text is empty;"),
]
COLUMNS = [
    ("sentence\tlabel\n\t1\n", ":2: the text is empty;"),
    ("sentences\tlabel\na\t1\n", ":1: the header has no column 'sentence';"),
    ("sentence\tlabel\n", ": holds no texts;"),
    ("sentence label\na 1\n", ":1: the header has no column 'sentence'; did"),
    (  # rows that are left out keep their numbers
        b"sentence\tlabel\na\t1\nb\t2\nc\n\n\xff\t0\n\t\nd\t0\n",
        ":3: label '2' is | :4: 1 column where 2 | :6: byte | :7: the text is empty",
        "2:a 8:d#5",
    ),
]
QUOTED = [  # reading resumes at the line behind a flawed quote
    (
        'text,label\n"one" two,1\nso,1\n"open,1\nfine,0\n"last",0\n',
        ":2: text follows the quote that ends a field; "
        "| :4: text follows the quote that ends a field;",
        "3:so#1 5:fine#3 6:last#4",
    )
]
LABEL_FIRST = [
    ("0 dull\nfine\n", ":2: no text behind the label;", "1:dull"),
    ("0 dull\n3\n", ":2: no text behind the label;", "1:dull"),
    ("0 dull\n3 \n", ":2: no text behind the label;", "1:dull"),
    (b"1 a\n\xff\n1\n0 b\n", ":2: byte 4 (0xff) | :3: no text", "1:a 4:b#3"),
]
PLACE = {"start": 0, "end": 4}
ENTITY = PLACE | {"label": "PER"}
SENTENCES = [
    ('{"tokens": ["a"], ', "not JSON: "),
    ([1], "is a list, not an object"),
    ({"tokens": ["a"]}, "has 'tokens' and no 'ner_tags'"),
    ({"tokens": ["a", "b"], "tags": ["O"]}, "2 tokens but 1 tags"),
    ({"tokens": ["a"], "tags": [0]}, "tags are whole numbers without names"),
    ({"tokens": ["a", 3], "tags": ["O", "O"]}, "tokens[1] is a whole number"),
    ({"tokens": ["a", " "], "tags": ["O", "O"]}, "tokens[1] is blank"),
    ({"tokens": [], "tags": []}, "'tokens' is empty"),
    ({"tokens": ["a"], "tags": ["PER"]}, "tag 'PER'"),
    ({"tokens": ["a"], "tags": ["B-"]}, "tag 'B-' names no type"),
    ({"text": "Anna"}, "has no 'entities'"),
    ({"text": " ", "entities": []}, "the text has no words"),
    ({"text": "Anna", "entities": [PLACE]}, "entities[0] has no 'la"),
    ({"text": "Anna", "entities": [ENTITY | {"end": 9}]}, "entities[0] is at 0 to 9 o"),
    ({"text": "Annabel", "entities": [ENTITY]}, "entities[0] is 'Anna', which cuts"),
    (
        {"text": "Anna", "entities": [ENTITY, ENTITY | {"label": "X"}]},
        "entities 'PER' ('Anna') and 'X' ('Anna') ov",
    ),
    ({"text": "Anna", "entities": [ENTITY | {"start": 0.5}]}, "entities[0] 'start' is"),
    ({"text": "Anna", "label": [[0, 4]]}, "label[0] is a list, but not of start, end"),
    ({"text": "Anna", "label": [PLACE | {"labels": []}]}, "label[0] has 0 labels"),
]
TEXTS = [
    ({"text": "a", "label": 3.5}, "'label' is 3.5, a number and no class"),
    ({"text": "a", "label": True}, "label 'true' is unknown; name one of bad, good"),
    ({"text": "a", "label": 2}, "'label' is 2, but names are given for 0 to 1"),
    ({"text": "a", "label": "god"}, "label 'god' is unknown"),
    ({"text": " ", "label": 1}, "the text is empty; add it, remove the line, or leave"),
    ({"label": 1}, "has no 'text'"),
]
LABELS = [
    ({"text": "a", "labels": "good"}, "'labels' is 'good', not a list; write ["),
    (
        {"text": "a", "labels": ["good", "good"]},
        "'labels' has 'good' twice; remove one",
    ),
    ({"text": "a", "labels": [1, "good"]}, "'labels' has 'good' twice"),
    ({"text": "a", "labels": ["good", " "]}, "'labels[1]' is blank"),
    ({"text": "a", "labels": [""]}, "'labels[0]' is blank"),
    ({"text": "a", "labels": [None]}, "'labels[0]' is null"),
    ({"text": "a", "labels": [0.5]}, "'labels[0]' is 0.5, a number and no class"),
    ({"text": "a", "labels": [True]}, "label 'true' is unknown; name one of bad, good"),
    ({"text": "a", "labels": [2]}, "'labels[0]' is 2, but names are given for 0 to 1"),
    ({"text": "a", "labels": ["god"]}, "label 'god' is unknown"),
    ({"text": "a", "labels": ["a\0b"]}, "'labels[0]' holds a NUL"),
    ({"text": "a", "labels": {"good": 1}}, "'labels' is an object, not a list"),
]


def json_cases(records, **good):
    """Yield files of a good record and a flawed one."""
    for flawed, message in records:
        flawed = flawed if isinstance(flawed, str) else json.dumps(flawed)
        word = good["tokens"][0] if "tokens" in good else good["text"]
        yield f"{json.dumps(good)}\n{flawed}\n", f":2: {message}", f"1:{word}"


SPANNING = [  # the last is the text that is scored although it has no place
    (question(answer("Bob", 7)), "answer 'Bob' is not at 7 but at 8; correct", "?Bob"),
    (question(answer("Eve", 7)), "answer 'Eve' is not at 7 of its context nor", "?Eve"),
    (question(answer("Ada", -1)), "answer 'Ada' is not at -1 but at 0;", "?Ada"),
    (question(answer("Cy", 900)), "answer 'Cy' is not at 900 of its context", "?Cy"),
    (question(answer("Ada", "0")), "'answer_start' is a string, not a whole", "?Ada"),
    (question(answer("Ada", True)), "'answer_start' is true or false, not", "?Ada"),
    (question({"text": "Ada"}), "has no 'answer_start'; add it", "?Ada"),
    (question(answer(" ", 3)), "the text of an answer is empty;", ""),
    (question(answer("", 3)), "the text of an answer is empty;", ""),
    (question(answer("Ada", 0), is_impossible=True), "is impossible but has answ", ""),
    (question(answer("", 3), answer("Ada", 0), is_impossible=True), "is impossib", ""),
    (question(answer("Ada", 0), id=True), "'id' is true or false, not a string", ""),
    (question(answer("Ada", 0), is_impossible="no"), "'is_impossible' is a string", ""),
    (question(answer("Ada", 0), question=None), "'question' is null, not a str", ""),
    (question(answer("Ada", 0), id="q0"), "the id comes a second time;", ""),
    (question(), "has no answer but is not impossible; add one or set is_imposs", ""),
    ({"id": "q1", "question": "Who?"}, "has no 'answers'; add it", ""),
]


def squad_cases():
    good = question(answer("Ada", 0), id="q0")
    for asked, message, lost in SPANNING:
        place = ": data[0].paragraphs[0].qas[1]"
        if isinstance(asked["id"], str):
            place += f" (id {asked['id']!r})"
        place += ": "
        rest = f"q0 q1{lost}" if lost else "q0"
        yield document(good, asked), place + message, rest
    content = document(good)
    content["data"] += [3, {"paragraphs": [{"context": CONTEXT}, "x"]}]
    messages = (
        ": data[1]: is a whole number, not an object; correct it "
        "| : data[2].paragraphs[0]: has no 'qas'; add it "
        "| : data[2].paragraphs[1]: is a string, not an object; correct it"
    )
    yield content, messages, "q0"
    yield [], ": holds no questions; name a file that has some"
    yield 3, ": is a whole number, not an object; correct it"
    yield {"version": 1}, ": has no 'data'; add it"
    yield {"data": []}, ": holds no questions;"


IN_A_LIST = '[{"text": "a", "label": 1}, {"text": "b", "label": 0.5}]'
JSON = {"layout": "json"}
NAMES = JSON | {"names": ["bad", "good"]}
LISTS = NAMES | {"multi_label": True, "label": "labels"}
COMMAS = {"first": "text", "label": "label", "separator": ",", "quoted": True}
READERS = [
    (ConllFiles, {}, CONLL),
    (ConllFiles, {"layout": "labels"}, WORDS),
    (ConllFiles, {"layout": "conllu"}, CONLLU),
    (TextFiles, glue.QQP, PAIRS),
    (TextFiles, glue.SST2, COLUMNS),
    (TextFiles, COMMAS, QUOTED),
    (TextFiles, {"layout": "label-first"}, LABEL_FIRST),
    (JsonSentences, {}, json_cases(SENTENCES, tokens=["Anna"], tags=["B-PER"])),
    (JsonSentences, {}, [("\n\n", ": holds no sentences")]),
    (TextFiles, NAMES, json_cases(TEXTS, text="fine", label=1)),
    (TextFiles, JSON, [(IN_A_LIST, ": [1]: 'label' is 0.5, a number", "1:a")]),
    (TextFiles, JSON, [("\n\n", ": holds no texts")]),
    (TextFiles, LISTS, json_cases(LABELS, text="fine", labels=[1])),
    (SquadFiles, {}, squad_cases()),
]
CASES = [(*reader, *case) for *reader, cases in READERS for case in cases]


def brief(examples):
    """Yield the line, word and id of each example, or its id and lost answers."""
    for number, e in enumerate(examples):
        if isinstance(e, ReadingExample):
            yield f"{e.id}?{'/'.join(e.unlocated)}".removesuffix("?")
        elif hasattr(e, "words"):
            yield f"{e.line}:{e.words[0]}"
        else:
            yield f"{e.line}:{e.first}" + f"#{e.id}" * (e.id != str(number))


@pytest.mark.parametrize("case", CASES)
def test_a_flaw_is_refused_or_left_out(write, refusal, case):
    source, settings, content, messages, rest, more = (*case, "", {})[:6]
    settings, messages = settings | (more or {}), messages.split(" | ")
    path, skipped, read = write(content), Skipped(), source.read_file
    assert refusal(read, path, **settings).startswith(messages[0])
    if not rest:
        refusal(read, path, **settings, on_error=skipped)
        return
    assert " ".join(brief(read(path, **settings, on_error=skipped))) == rest
    for message, start in zip(skipped.messages, messages, strict=True):
        assert message.removeprefix(str(path)).startswith(start)


# What reads a file to predict (a source, or a format that needs none), the content,
# the message, the fields of the source.
conllu = functools.partial(ConllFiles, layout="conllu")
TO_PREDICT = [
    (ConllFiles, "a O\nb\n", ":2: 1 column where 2 are expected, as in line 1;"),
    (
        ConllFiles,
        "a\n",
        ":1: 1 column, but the word is column 1 in",
        {"word_column": 1},
    ),
    (ConllFiles, "a\tO\n\tO\n", ":2: the word is empty;", {"separator": "\t"}),
    (ConllFiles, "\n-DOCSTART- x\n", ": holds no sentences;"),
    (
        ConllFiles,
        "a\n" * 5001,
        ":1: more than 5,000 words in a sentence; is a blank line",
    ),
    (conllu, "Ada\n", ":1: 1 column where CoNLL-U has 10;"),
    (conllu, f"{row(1, 'a')}\n{row(3, 'b')}", ":2: id 3 where 2 is next;"),
    (conllu, "# no words\n", ": holds no sentences;"),
    (SquadFiles, {"question": "a\tb", "context": ""}, ":1: 'question' holds a tab;"),
    (SquadFiles, {"question": "a", "context": 3}, ":1: 'context' is a whole number"),
    (SquadFiles, {"question": "a"}, ":1: has no 'context'"),
    ("jsonl", "plain", ":1: not JSON"),
    ("jsonl", [1], ": [0]: is a whole number, not an object"),
    ("jsonl", {"sentence": "a"}, ":1: has no 'text'"),
    ("jsonl", {"text": 3}, ":1: 'text' is a whole number, not a string"),
    ("jsonl", {"tokens": "a b"}, ":1: 'tokens' is a string, not a list"),
    ("jsonl", {"tokens": ["a", 3]}, ":1: tokens[1] is a whole number"),
    ("jsonl", {"tokens": ["a", " "]}, ":1: tokens[1] is blank"),
    ("jsonl", {"question": "a\tb", "context": "c"}, ":1: 'question' holds a tab"),
    ("jsonl", '{"text": "good"}\n{}\n', ":2: has no 'text'"),
    ("conll", "Anna O\n O\n", ":2: 1 column where 2 are expected"),
    ("conll", "\n \n", ": holds no sentences"),
    ("jsonl", "\n \n", ": holds no text"),
    ("text", "\n \n", ": holds no text"),
]


@pytest.mark.parametrize("case", TO_PREDICT)
def test_a_flaw_of_a_file_to_predict_is_refused(write, refusal, case):
    reader, content, message, fields = (*case, {})[:4]
    path = write(content)
    if isinstance(reader, str):
        read = functools.partial(texts.read, form=reader)
    else:
        read = reader(dir=str(path.parent), train="gone", **fields).texts
    assert refusal(lambda path: list(read(path)), path).startswith(message)
