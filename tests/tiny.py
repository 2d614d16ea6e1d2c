"""Tiny data sets in every format that an experiment may name."""

import dataclasses
import json
from pathlib import Path

from cluener_files import CluenerFiles

from dicejax import formats
from dicejax.data import source as sources
from dicejax.data import tags
from dicejax.data.synthetic import SyntheticNER
from dicejax.data.synthetic_labels import SyntheticLabels
from dicejax.tasks import MachineReading, Task

SENTENCES = 12
TYPES = ("PER", "LOC")


def fitting(source: sources.Source, task: Task, folder: Path) -> sources.Source:
    """Return the same source with tiny files of its format."""
    if isinstance(source, SyntheticNER):
        return SyntheticNER(train=24, dev=4, test=4, o_per_entity=5.0)
    if isinstance(source, SyntheticLabels):
        return SyntheticLabels(train=24, dev=4, test=4, labels=3)
    text = WRITERS[type(source)](source, task)
    names = {source.train, source.dev, source.test} - {None}
    for name in names:
        (folder / name).write_text(text, encoding="utf-8")
    return dataclasses.replace(source, dir=str(folder), dev_share=0.3)


def conll(source, task):
    if source.layout != "tags":
        return {"labels": tagged, "conllu": conllu}[source.layout](source, task)
    scheme, types = source.scheme or "BIO", TYPES
    if isinstance(task, MachineReading):
        types = tuple(kind for kind, _ in task.queries)
    lines = []
    for number in range(SENTENCES):
        words = [f"w{number % 3}", "met", "Ada", "King", "here", "a", "b"]
        kind = types[number % len(types)]
        spans = [tags.Span(kind, 2, 4), tags.Span(types[0], 5, 6)]
        pairs = zip(words, tags.encode(spans, len(words), scheme), strict=True)
        lines += [f"{word}\t{tag}" for word, tag in pairs] + [""]
    return "\n".join(lines) + "\n"


def tagged(source, task):
    rows = [[f"w{n % 3} NOUN", "met VERB", "Ada PROPN", ""] for n in range(SENTENCES)]
    return "\n".join(line for row in rows for line in row) + "\n"


def conllu(source, task):
    lines = []
    for _ in range(SENTENCES):
        for place, (word, label) in enumerate([("我", "PRON"), ("喜欢", "VERB")], 1):
            fields = [str(place), word, "_", label, label, *"_____"]
            lines.append("\t".join(fields))
        lines.append("")
    return "\n".join(lines) + "\n"


def cluener(source, task):
    kinds = ["address", "name"]
    lines = [
        {"text": "他去台湾", "label": {kinds[n % 2]: {"台湾": [[2, 3]]}}}
        for n in range(SENTENCES)
    ]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def squad(source, task):
    questions = []
    for number in range(SENTENCES):
        context = f"Ada {number} slept in London for a night of rest."
        answer = {"text": "London", "answer_start": context.index("London")}
        asked = {"id": str(number), "question": "Where did Ada sleep?"}
        asked |= {"answers": [answer]}
        if task.unanswerable and number % 4 == 3:
            asked |= {"answers": [], "is_impossible": True}
        questions.append({"context": context, "qas": [asked]})
    return json.dumps({"data": [{"paragraphs": questions}]})


def texts(source, task):
    if source.layout == "label-first":
        return label_first(source, task)
    if source.first == "#1 String":
        head = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        row = "{label}\t1\t2\tIs it {word} ?\tHow {word} is it ?\n"
    else:
        head, row = "", "{label}\tIs it {word} ?\tHow {word} is it ?\t{number}\n"
    return head + "".join(
        row.format(label=int(n % 3 == 0), word=["easy", "big"][n % 2], number=n)
        for n in range(SENTENCES)
    )


def label_first(source, task):
    classes = 3 if getattr(task, "positive", None) is None else 2
    return "".join(f"{n % classes} it is {n}\n" for n in range(SENTENCES))


WRITERS = {
    formats.ConllFiles: conll,
    CluenerFiles: cluener,
    formats.SquadFiles: squad,
    formats.TextFiles: texts,
}
