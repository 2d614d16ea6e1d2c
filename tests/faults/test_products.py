"""Small files whose sizes multiply are refused in one line, within 2 GB of addresses.

All are read by one process with a limit: what fills the memory there ends in an abort
of Rust or C++, which no test of this process could survive.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dicejax.cli import run
from dicejax.data import tokenize
from dicejax.io import files

from ..data import made
from .commands import tiny

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, resource, sys, traceback
from pathlib import Path
import jax
import dicejax
from dicejax import cli
from dicejax.cli import run
from dicejax.data import tokenize
from dicejax.models.heads import TokenHead

first, *folders = sys.argv[1:]
run(["predict", first, "a b"])  # imports everything, and compiles
heads = {"tags": TokenHead(classes=3)}
dicejax.from_pretrained(Path(folders[0]).parent / "sound", heads)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), -1))
for folder in folders:
    print(f"CASE {Path(folder).name}", flush=True)
    try:
        if (Path(folder) / "experiment.json").exists():
            status = run(["evaluate", folder])
            status = status and run(["predict", folder, "a b"])
            print(f"STATUS {status}", flush=True)
        else:
            dicejax.from_pretrained(folder, heads)
            print("READ", flush=True)
    except dicejax.errors.InputError as error:
        print(f"dicejax: {error}", flush=True)
    except BaseException:
        print("TRACEBACK " + traceback.format_exc()[-600:], flush=True)
"""
MANY = 10**9
SEP = {"SpecialToken": {"id": "[SEP]", "type_id": 0}}
TEXT = {"Sequence": {"id": "A", "type_id": 0}}


def template(content, single, ids=(3, 1), name="[SEP]"):
    """Put another template into a tokenizer."""
    entry = {"id": "[SEP]", "ids": [ids[0]] * ids[1], "tokens": [name] * ids[1]}
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [TEXT, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"[SEP]": entry},
    }


def steps(part, kind, inner, count):
    def change(content):
        content[part] = {"type": "Sequence", kind: [inner] * count}

    return change


def padding(strategy, multiple=None):
    def change(content):
        content["padding"] = {
            "strategy": strategy,
            "direction": "Right",
            "pad_to_multiple_of": multiple,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        }

    return change


def replace(pattern, text):
    return {"type": "Replace", "pattern": pattern, "content": text}


def nested(content):
    step = SEQUENCE = {"type": "Sequence", "normalizers": [{"type": "NFC"}]}
    for _ in range(300):
        step = {"type": "Sequence", "normalizers": [step, SEQUENCE]}
    content["normalizer"] = step


def unigram(length, count):
    """Put a model of so many long pieces into a tokenizer."""

    def change(content):
        pieces = [
            [chr(97 + n % 26) + f"{n}".rjust(length, "a"), -1.0] for n in range(count)
        ]
        vocabulary = [["<unk>", 0.0], *pieces]
        content["model"] = {"type": "Unigram", "unk_id": 0, "vocab": vocabulary}

    return change


def of_model(**values):
    return lambda content: content["model"].update(values)


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
BYTES |= {"use_regex": False}
# Changes of `tokenizer.json`, and what is said; "" where the file is read.
TOKENIZERS = {
    "parts times ids": (
        lambda c: template(c, [SEP] * 100_000, (3, 500)),
        "its post_processor has more than 200 special pieces",
    ),
    "one part of many ids": (
        lambda c: template(c, [TEXT, SEP], (3, 10**6)),
        "more than 200 special pieces",
    ),
    "many parts": (lambda c: template(c, [TEXT, *[SEP] * 10**5]), "special pieces"),
    "the text many times": (
        lambda c: template(c, [TEXT] * 10**5),
        "its post_processor has a text twice",
    ),
    "names of special pieces": (
        lambda c: template(c, [TEXT, SEP], (3, 1), "x" * 10**6),
        "more than 1,000 characters in a piece",
    ),
    "templates in a chain": (
        lambda c: c.update(
            post_processor={
                "type": "Sequence",
                "processors": [c["post_processor"]] * 101,
            }
        ),
        "more than 100 steps",
    ),
    "byte-level normalizers": (
        steps("normalizer", "normalizers", {"type": "ByteLevel"}, 40),
        "its normalizer has more than 50 characters in the place of one",
    ),
    "byte-level words": (
        steps("pre_tokenizer", "pretokenizers", BYTES, 40),
        "its pre_tokenizer has more than 50 characters in the place of one",
    ),
    "replacements in a chain": (
        steps("normalizer", "normalizers", replace({"String": "a"}, "aa"), 60),
        "more than 50 characters",
    ),
    "a long replacement": (
        steps("normalizer", "normalizers", replace({"Regex": "."}, "a" * 10**6), 1),
        "more than 50 characters",
    ),
    "many splits": (
        steps("pre_tokenizer", "pretokenizers", {"type": "Whitespace"}, 10**5),
        "its pre_tokenizer has more than 100 steps",
    ),
    "many decoders": (
        steps("decoder", "decoders", {"type": "Fuse"}, 10**5),
        "its decoder has more than 100 steps",
    ),
    "nested steps": (nested, "tokenizer"),
    "a fixed length": (padding({"Fixed": MANY}), ""),
    "a multiple": (padding("BatchLongest", MANY), ""),
    "windows that overlap": (
        lambda c: c.update(
            truncation={
                "direction": "Right",
                "max_length": MANY,
                "strategy": "LongestFirst",
                "stride": MANY - 1,
            }
        ),
        "",
    ),
    "a deep tree of pieces": (
        unigram(10**6, 1),
        "more than 1,000 characters in a piece",
    ),
    "a large tree of pieces": (
        unigram(900, 8000),
        "more than 5,000,000 characters in all pieces",
    ),
    "the unknown piece": (
        of_model(unk_token="[UNK]" * 10**6),
        "more than 1,000 characters in a piece",
    ),
    "a prefix of pieces": (
        of_model(continuing_subword_prefix="#" * 10**6),
        "more than 1,000 characters in a piece",
    ),
    "ids far apart": (
        lambda c: c["model"]["vocab"].update(far=2**32 - 1),
        "do not belong together",
    ),
    "many added pieces": (
        lambda c: c["added_tokens"].extend(
            {**c["added_tokens"][0], "id": 100 + n, "content": f"<{n}>"}
            for n in range(30_000)
        ),
        "do not belong together",
    ),
}
# Changes of `config.json`.
CONFIGS = {
    "layers": ({"num_hidden_layers": 10**6}, "wants 1000000 layers"),
    "width": ({"hidden_size": 2**24, "intermediate_size": 2**24}, " GB"),
    "places": ({"max_position_embeddings": 2**30}, "config.json"),
    "kinds of text": ({"type_vocab_size": 2**30}, "config.json"),
    "vocabulary": ({"vocab_size": 2**30}, "config.json"),
    "heads": ({"num_attention_heads": 2**30}, "config.json"),
    "labels of another": (
        {
            "id2label": {str(n): str(n) for n in range(10**5)},
            "architectures": ["BertForTokenClassification"],
        },
        "",
    ),
}
# Changes of files of a run: what `evaluate` says.
RUNS = {
    "made-up sentences": (
        "experiment.json",
        lambda c: c["data"].update(test=10**12),
        "test is 1,000,000,000,000, more than 3,000,000 made-up",
    ),
    "made-up words": (
        "experiment.json",
        lambda c: c["data"].update(common_words=10**12),
        "common_words is 1,000,000,000,000, more than 3,000,000 made-up",
    ),
    "layers of a run": (
        "encoder.json",
        lambda c: c.update(num_hidden_layers=10**9),
        " GB",
    ),
    "labels of a run": (
        "labels.json",
        lambda c: c.extend(f"B-X{n}" for n in range(300_000)),
        "does not fit the experiment",
    ),
    "template of a run": (
        "tokenizer.json",
        lambda c: template(c, [SEP] * 100_000, (3, 500)),
        "more than 200 special pieces",
    ),
    "length of a run": (
        "tokenizer.json",
        padding({"Fixed": MANY}),
        "",
    ),
}


@pytest.mark.slow
def test_small_files_fill_no_memory(model_folder, tmp_path):
    made.pieces("wordpiece", model_folder)
    content = json.loads(tokenize.read(model_folder).to_str())
    weights = load_file(model_folder / "model.safetensors")
    table = weights["embeddings.word_embeddings.weight"]
    entries = len(content["model"]["vocab"]) + 100
    sound = tmp_path / "sound"
    shutil.copytree(model_folder, sound)
    (sound / "tokenizer.json").write_text(json.dumps(content))
    config = json.loads((sound / "config.json").read_text()) | {"vocab_size": entries}
    (sound / "config.json").write_text(json.dumps(config))
    weights["embeddings.word_embeddings.weight"] = np.resize(
        table, (entries, table.shape[1])
    )
    save_file(weights, sound / "model.safetensors")
    assert run(tiny(tmp_path / "run")) == 0
    expected = {}
    for name, (change, message) in TOKENIZERS.items():
        shutil.copytree(sound, tmp_path / name)
        other = json.loads(json.dumps(content))
        change(other)
        (tmp_path / name / "tokenizer.json").write_text(json.dumps(other))
        expected[name] = message
    for name, (change, message) in CONFIGS.items():
        shutil.copytree(sound, tmp_path / name)
        (tmp_path / name / "config.json").write_text(json.dumps(config | change))
        expected[name] = message
    for name, (file, change, message) in RUNS.items():
        shutil.copytree(tmp_path / "run", tmp_path / name)
        other = json.loads((tmp_path / name / file).read_text())
        change(other)
        files.write_checked(tmp_path / name, file, json.dumps(other))
        expected[name] = message
    assert len(expected) >= 30
    sizes = [f.stat().st_size for x in expected for f in (tmp_path / x).iterdir()]
    assert max(sizes) < 20_000_000
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "run")]
    done = subprocess.run(
        [*words, *(str(tmp_path / name) for name in expected)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
    )
    _, *cases = (done.stdout + "\n").split("CASE ")
    said = {each.split("\n")[0]: each.split("\n", 1)[1] for each in cases}
    problems = []
    for name, message in expected.items():
        text = said.get(name, "the process had ended")
        lines = [line for line in text.splitlines() if "dicejax: " in line]
        good = message and lines and all(message in line for line in lines)
        good = good or (not message and not lines)
        if not good or "TRACEBACK" in text or max(map(len, lines), default=0) > 2100:
            problems.append(f"{name}: {text[-700:]}")
        print(f"{name}: {(lines or ['read'])[0][-160:]}")
    assert done.returncode == 0 and not problems, "\n".join(
        [*problems, done.stdout[-1500:]]
    )
