"""Folders and files as `datasets` 5.2 writes them, by pyarrow alone."""

import json

import pyarrow as pa
from pyarrow import parquet

STRING = {"dtype": "string", "_type": "Value"}
INT = {"dtype": "int32", "_type": "Value"}


def several(feature):
    return {"feature": feature, "_type": "List"}


def classes(*names):
    return {"names": list(names), "_type": "ClassLabel"}


def table(rows, features):
    """A table with the features in its metadata."""
    noted = json.dumps({"info": {"features": features}})
    return pa.Table.from_pylist(rows).replace_schema_metadata({"huggingface": noted})


def save_to_disk(folder, rows, features, shards=1):
    """Write what `Dataset.save_to_disk` writes."""
    folder.mkdir(parents=True)
    whole = table(rows, features)
    names = [f"data-{n:05}-of-{shards:05}.arrow" for n in range(shards)]
    for number, name in enumerate(names):
        first, last = (len(rows) * n // shards for n in (number, number + 1))
        with pa.ipc.new_stream(folder / name, whole.schema) as out:
            out.write_table(whole.slice(first, last - first), max_chunksize=7)
    info = {"citation": "", "description": "", "features": features, "license": ""}
    (folder / "dataset_info.json").write_text(json.dumps(info, indent=2))
    state = {"_data_files": [{"filename": name} for name in names], "_split": None}
    (folder / "state.json").write_text(json.dumps(state, indent=2))


def save_splits(folder, splits, features):
    """Write what `DatasetDict.save_to_disk` writes."""
    for name, rows in splits.items():
        save_to_disk(folder / name, rows, features)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))


def to_parquet(path, rows, features):
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table(rows, features), path)


NER = {
    "id": STRING,
    "tokens": several(STRING),
    "ner_tags": several(classes("O", "B-PER", "I-PER")),
}


def sentences(count):
    return [
        {"id": str(n), "tokens": ["Ada", "Berg", "met", "Bo"], "ner_tags": [1, 2, 0, 1]}
        for n in range(count)
    ]


TEXTS = {"sentence": STRING, "label": classes("bad", "good"), "idx": INT}


def reviews(count):
    return [
        {"sentence": f"{['dull', 'fine'][n % 2]} film {n}", "label": n % 2, "idx": n}
        for n in range(count)
    ]


READING = {
    "id": STRING,
    "context": STRING,
    "question": STRING,
    "answers": {"text": several(STRING), "answer_start": several(INT)},
}


def questions(count):
    return [
        {
            "id": f"q{n}",
            "context": f"Ada {n} met Bo.",
            "question": "Whom?",
            "answers": {"text": ["Bo"], "answer_start": [len(f"Ada {n} met ")]},
        }
        for n in range(count)
    ]
