"""A file that was trained on is predicted on, and its predictions are read again.

Files are made and read here without the package; the scores are seqeval's and
scikit-learn's.
"""

import json
import re

import pytest

from dicejax.cli import run

from .writers import json_lines, json_records

metrics = pytest.importorskip(
    "seqeval.metrics", reason="parity: pip install -e '.[parity]'"
)

NAMES, TOWNS = ("Ada", "Bo Li", "Cy"), ("Rome", "São Paulo", "Oslo")
WORD = re.compile(r"\w+|[^\w\s]")


def sentences():
    """Return texts with (start, end, label) of each entity."""
    made = []
    for number in range(24):
        name, town = NAMES[number % 3], TOWNS[number // 3 % 3]
        text = f"({name}), who lives in {town}."
        places = [(name, "PER"), (town, "LOC")]
        spans = [(text.index(n), text.index(n) + len(n), t) for n, t in places]
        made.append((text, spans if number % 4 else spans[:1]))
    return made


def words(text):
    """Return the words of a text with their characters."""
    return [(match[0], *match.span()) for match in WORD.finditer(text)]


def tags(text, spans):
    """Return BIO tags of the words of a text."""
    result = []
    for _, start, end in words(text):
        span = next((s for s in spans if s[0] <= start and end <= s[1]), None)
        prefix = "" if span is None else "B-" if span[0] == start else "I-"
        result.append(f"{prefix}{span[2]}" if span else "O")
    return result


def spans_of(text, row):
    """Return the characters of the entities that BIO tags mark."""
    places = words(text)
    return [
        (places[start][1], places[end][2], kind)
        for kind, start, end in metrics.sequence_labeling.get_entities(row)
    ]


def of_objects(start="start", end="end", label="label"):
    def make(spans):
        return [{start: s, end: e, label: t} for s, e, t in spans]

    def read(values):
        return [(v[start], v[end], v[label]) for v in values]

    return make, read


def layout(text, name, make, read, **fields):
    """Return writer and reader of a record per line with a text and its entities."""

    def write_all(rows):
        return json_lines({text: t, name: make(s), **fields} for t, s in rows)

    return write_all, lambda record: read(record[name])


def label_studio(rows):
    region = {"type": "labels", "from_name": "label", "to_name": "text"}
    tasks = []
    for number, (text, spans) in enumerate(rows):
        values = [
            {"start": s, "end": e, "labels": [t], "text": text[s:e]}
            for s, e, t in spans
        ]
        result = [region | {"value": value} for value in values]
        annotations = [{"result": result}]
        tasks.append({"id": number, "data": {"body": text}, "annotations": annotations})
    return json.dumps(tasks)


def of_label_studio(record):
    values = [region["value"] for region in record["predictions"][0]["result"]]
    text = record["data"]["body"]
    assert all(text[v["start"] : v["end"]] == v["text"] for v in values)
    return [(v["start"], v["end"], v["labels"][0]) for v in values]


def tokens(rows):
    return json_lines(
        {"tokens": [w for w, _, _ in words(t)], "ner_tags": tags(t, s)} for t, s in rows
    )


def gliner(rows):
    records = []
    for text, spans in rows:
        at = metrics.sequence_labeling.get_entities(tags(text, spans))
        named = [[start, end, kind] for kind, start, end in at]
        records.append({"tokenized_text": [w for w, _, _ in words(text)], "ner": named})
    return json_lines(records)


def gliner2(rows):
    records = []
    for text, spans in rows:
        by_label = {}
        for start, end, kind in spans:
            by_label.setdefault(kind, []).append(text[start:end])
        records.append({"input": text, "output": {"entities": by_label}})
    return json_lines(records)


def of_gliner2(record):
    text, entities = record["input"], record["output"]["entities"]
    return [
        (text.index(part), text.index(part) + len(part), kind)
        for kind, parts in entities.items()
        for part in parts
    ]


def nested():
    make, read = of_objects("startOffset", "endOffset")
    return (
        lambda spans: {"annotations": {"entities": make(spans)}},
        lambda value: read(value["annotations"]["entities"]),
    )


# Writer of a file, and reader of the entities of one record of the predictions; the
# text is given where the record has words alone.
ENTITIES = {
    "hugging face": layout("text", "entities", *of_objects()),
    "prodigy": layout("text", "spans", *of_objects(), answer="accept"),
    "spacy": layout("text", "ents", *of_objects()),
    "spacy 2": (
        lambda rows: json_lines([t, {"entities": s}] for t, s in rows),
        lambda record: [tuple(span) for span in record[1]["entities"]],
    ),
    "doccano": layout(
        "text", "label", lambda s: s, lambda values: [tuple(v) for v in values]
    ),
    "doccano objects": layout(
        "text", "entities", *of_objects("start_offset", "end_offset")
    ),
    "ai4privacy": layout("source_text", "privacy_mask", *of_objects()),
    "presidio": layout(
        "full_text",
        "spans",
        *of_objects("start_position", "end_position", "entity_type"),
    ),
    "sagemaker": layout("source", "labels", *nested()),
    "argilla": layout(
        "text",
        "annotation",
        lambda spans: [[t, s, e] for s, e, t in spans],
        lambda values: [(s, e, t) for t, s, e in values],
        tokens=["as", "it", "divides", "texts"],
        status="Validated",
    ),
    "label studio": (label_studio, of_label_studio),
    "prompts": layout("answer", "labels", *of_objects(), prompt="Who\tlives where?"),
    "gliner2": (gliner2, of_gliner2),
    "tokens": (tokens, lambda record, text: spans_of(text, record["ner_tags"])),
    "gliner": (
        gliner,
        lambda record, text: [
            (words(text)[first][1], words(text)[last][2], kind)
            for first, last, kind in record["ner"]
        ],
    ),
}


SMALL = """
--encoder.hidden_size 32 --encoder.num_hidden_layers 1
--encoder.num_attention_heads 2 --encoder.intermediate_size 64
--optimizer.learning_rate 0.01 --data.dev_share 0.05 --data.test_share 0.05
--training.batch_size 2
"""


def train(folder, kind, file, epochs=2):
    """Run init and train a small encoder on a file; an epoch takes a checkpoint."""
    argv = ["init", kind, str(folder / "e"), "--data", str(file)]
    assert run([*argv, "--encoder", "scratch"]) == 0
    argv = ["train", str(folder / "e/experiment.py"), "--out", str(folder / "run")]
    assert run([*argv, *SMALL.split(), "--training.epochs", str(epochs)]) == 0


def evaluated(folder, file, capsys):
    """Return F1 of all examples of a file, as evaluate has it."""
    capsys.readouterr()
    counts = []
    for split in ("train", "dev", "test"):
        argv = ["evaluate", str(folder / "run"), "--split", split, "--json"]
        target = folder / f"{split}.jsonl"
        assert run([*argv, "--predictions", str(target)]) == 0
        counts += map(json.loads, target.read_text().splitlines())
    capsys.readouterr()
    return counts


def check_f1(gold, predicted, rows, **how):
    """Check that seqeval's F1 of tags is that of the rows of evaluate."""
    total = sum(len(r[n]["entities"]) for r in rows for n in ("gold", "predicted"))
    errors = sum(row["errors"] for row in rows)
    f1 = metrics.f1_score(gold, predicted, **how)
    assert 0 < f1 == pytest.approx((total - errors) / total)


@pytest.mark.parametrize("name", ENTITIES)
def test_entities_that_are_written_have_the_score_of_evaluate(tmp_path, capsys, name):
    write, read = ENTITIES[name]
    file = tmp_path / ("data.json" if name == "label studio" else "data.jsonl")
    file.write_text(write(sentences()))
    train(tmp_path, "ner", file)
    out = tmp_path / f"out{file.suffix}"
    argv = ["predict", str(tmp_path / "run"), "--file", str(file), "--out", str(out)]
    assert run([*argv, "--out_format", "same"]) == 0
    content = out.read_text()
    records = json_records(content)
    gold, predicted = [], []
    for (text, spans), record in zip(sentences(), records, strict=True):
        of_words = name in ("tokens", "gliner")
        places = read(record, text) if of_words else read(record)
        gold.append(tags(text, spans))
        predicted.append(tags(text, places))
        assert spans_of(text, predicted[-1]) == sorted(places)  # whole words
    rows = evaluated(tmp_path, file, capsys)
    check_f1(gold, predicted, rows, mode="strict", scheme=None)
