"""What would fill the memory or the screen ends in one line that names its limit."""

import csv
import dataclasses
import gzip
import io
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from rich.console import Console
from tokenizers import Regex, Tokenizer, models, normalizers

from dicejax.cli import run
from dicejax.data import tokenize
from dicejax.data.tokenize.steps import check_sizes
from dicejax.errors import Flaw, InputError
from dicejax.formats import SquadFiles, containers, separated, tables
from dicejax.formats.records import Skipped
from dicejax.io import files, json_text, limits
from dicejax.study.profile import report
from dicejax.tasks.remarks import unseen_labels

from .commands import called

ROOT = Path(__file__).parents[2]


def lower(monkeypatch, name, most):
    """Make a limit small enough for a test."""
    limit = dataclasses.replace(getattr(limits, name), most=most)
    monkeypatch.setattr(limits, name, limit)


def last_error(argv, capsys) -> str:
    """Return the last line of a command that refuses its input."""
    ended = called(argv, capsys)
    assert (ended.status, ended.problem) == (2, "")
    return ended.errors.splitlines()[-1]


def refused(read, *arguments) -> tuple[str, int]:
    """Return the error of a reader, and the most bytes of memory that it took."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught:
            list(read(*arguments))
        return str(caught.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_documentation_lists_every_limit():
    listed = (ROOT / "docs" / "security.md").read_text()
    for limit in vars(limits).values():
        if isinstance(limit, limits.Limit):
            assert f"| {limit.most:,} " in listed, limit
    assert "| 200 times its size, at least 1,073,741,824 bytes" in listed
    assert limits.unpacked(1).most == 1 << 30
    assert limits.unpacked(10_000_000).most == 2_000_000_000


# Archives


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * (1 << 25),
        b'{"text": "' + b"a" * (1 << 25) + b'", "label": 1}\n',
        b"a O\n\n" * (1 << 15),
        b"[" + b"{}," * (1 << 15) + b"1]",
    ],
    ids=["zeros", "long line", "short lines", "values"],
)
def test_an_archive_is_refused_before_it_is_unpacked(tmp_path, monkeypatch, content):
    monkeypatch.setattr(limits, "_SMALL", 1 << 20)
    path = tmp_path / "data.jsonl.gz"
    path.write_bytes(gzip.compress(content))
    expected = f"{path}: more than {limits.unpacked(path.stat().st_size).most:,} bytes"
    for read in (containers.records, files.lines, files.read_bytes):
        message, peak = refused(read, path)
        assert message.startswith(expected)
        assert "; unpack it" in message
        assert peak < 1 << 21


def test_an_archive_below_the_limit_is_read_whole(tmp_path):
    lines = [f"line {number}" for number in range(100_000)]
    path = tmp_path / "data.txt.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert [text for _, text in files.lines(path)] == lines


def test_a_line_ends_at_its_limit(tmp_path, monkeypatch):
    lower(monkeypatch, "LINE", 1 << 20)
    path = tmp_path / "data.txt"
    path.write_bytes(b"short\n" + b"a" * (1 << 25))
    message, peak = refused(files.lines, path)
    assert message == (
        f"{path}: more than 1,048,576 bytes in a line; break it, or name another file"
    )
    assert peak < 1 << 22


# Tables


def arrow(path, table, compression=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    opened = pa.ipc.new_file if path.name == "file.arrow" else pa.ipc.new_stream
    with opened(path, table.schema, options=options) as out:
        out.write_table(table)


REPEATED = pa.DictionaryArray.from_arrays(
    pa.array([0] * 5000, pa.int32()), ["x" * 2000]
)
ROWS = 100_000
BOMBS = {
    "nulls.arrow": (pa.table({"text": pa.nulls(ROWS)}), None),
    "file.arrow": (pa.table({"text": pa.nulls(ROWS)}), None),
    "packed.arrow": (pa.table({"text": ["a" * (1 << 22)]}), "zstd"),
    "repeated.arrow": (pa.table({"text": REPEATED}), None),
    "lists.arrow": (pa.table({"text": [[None] * ROWS]}), None),
    "nulls.parquet": (pa.table({"text": pa.nulls(ROWS)}), None),
    "repeated.parquet": (pa.table({"text": REPEATED.dictionary_decode()}), None),
    "packed.parquet": (pa.table({"text": ["a" * (1 << 22)]}), None),
    "lists.parquet": (pa.table({"text": [[0] * ROWS]}), None),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_table_is_refused_before_its_rows_are_made(tmp_path, monkeypatch, name):
    monkeypatch.setattr(limits, "_SMALL", 1 << 20)
    path, (table, compression) = tmp_path / name, BOMBS[name]
    if path.suffix == ".arrow":
        arrow(path, table, compression)
    else:
        parquet.write_table(table, path, compression="zstd")
    assert path.stat().st_size < 1 << 15
    message, peak = refused(tables.records, path)
    assert message.startswith(f"{path}: more than ")
    assert "bytes of memory in" in message
    assert peak < 1 << 21


@pytest.mark.parametrize("name", ["x.arrow", "file.arrow", "x.parquet"])
def test_a_table_in_parts_is_read_whole(tmp_path, name):
    column = pa.array([f"text {number % 7}" for number in range(2500)])
    table = pa.table({"text": column, "coded": column.dictionary_encode()})
    if name == "x.parquet":
        parquet.write_table(table, tmp_path / name)
    else:
        arrow(tmp_path / name, table, "lz4")
    rows = [record.content() for record in tables.records(tmp_path / name)]
    assert rows == table.to_pylist()


# Texts, fields, values, labels


def test_sizes_of_texts_words_and_fields(tmp_path, monkeypatch):
    tokenizer = tokenize.learn_wordpiece(["a", "b"], 40)
    for name, most in {"WORDS": 3, "WORD": 4, "TEXT": 5, "NODES": 2}.items():
        lower(monkeypatch, name, most)
    with pytest.raises(InputError, match="text 2, 'a b a b': more than 3 words in a"):
        tokenize.encode(tokenizer, [["a"], ["a", "b"] * 2])
    with pytest.raises(InputError, match="word 2, 'bbbbb': more than 4 characters in"):
        tokenize.encode(tokenizer, [["a", "bbbbb"]])
    with pytest.raises(InputError, match="text 1, 'bbbbbb': more than 5 characters"):
        tokenize.encode_texts(tokenizer, ["bbbbbb"])
    with pytest.raises(Flaw, match="more than 2 commas in a JSON document"):
        json_text.parse("[1, 2, 3, 4]")
    lower(monkeypatch, "COLUMNS", 2)
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,2\n1,2,3\n")
    for quoted in (True, False):
        with pytest.raises(InputError, match=r"data\.csv:3: more than 2 columns; name"):
            list(separated.rows(path, quoted=quoted))


def test_a_context_with_many_questions(tmp_path, monkeypatch):
    asked = {"question": "who", "answers": [{"text": "Ada", "answer_start": 0}]}
    texts = {"Ada left": 3, "Ada": 2}
    paragraphs = [
        {"context": x, "qas": [{"id": f"{x} {n}", **asked} for n in range(count)]}
        for x, count in texts.items()
    ]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    assert len(SquadFiles.read_file(path)) == 5
    lower(monkeypatch, "CONTEXT", 23)
    flaw = "more than 23 characters of context, which each of its questions reads anew"
    message, _ = refused(SquadFiles.read_file, path)
    do = "divide it, or ask fewer"
    assert message == f"{path}: data[0].paragraphs[0]: {flaw}; {do}"
    skipped = Skipped()
    assert len(SquadFiles.read_file(path, on_error=skipped)) == 2
    assert skipped.count == 1
    assert len(list(SquadFiles(dir="").texts(path))) == 5


def test_a_field_is_as_long_as_a_document_may_be(tmp_path, monkeypatch):
    path = tmp_path / "data.csv"
    path.write_text(f'text\n"{"a b" * 100_000}"\n')
    assert [len(row[0]) for _, row in separated.rows(path)] == [4, 300_000]
    before = csv.field_size_limit(1000)
    try:
        with pytest.raises(InputError, match=r":2: more than 1,000 characters in a f"):
            list(separated.rows(path))
    finally:
        csv.field_size_limit(before)


def test_tables_of_labels_fit_a_screen():
    counts = {f"label {number:06d}": 1 for number in range(100_000)}
    warnings = unseen_labels("dev", counts, ["label 000000"], "word{s} of {label}")
    assert len(warnings) == 21
    assert warnings[0] == "dev has 1 word of 'label 000001'"
    assert warnings[-1] == "dev has 99979 more labels that train lacks"
    rows = ([f"{name}{'x' * 5000}", "1"] for name in counts)
    screen = io.StringIO()
    table = report._table("labels", ["label"], ["count"], rows)
    Console(width=120, file=screen).print(table)
    text = screen.getvalue()
    assert "... 99,940 more" in text
    assert "label 099999" in text
    assert len(text.splitlines()) < 70
    assert len(text) < 10_000


def test_training_refuses_too_many_labels(tmp_path, monkeypatch, capsys, experiment):
    lower(monkeypatch, "LABELS", 2)
    (tmp_path / "x.txt").write_text("a B-X\nb B-Y\n\n" * 9)
    small = experiment(tmp_path, "x.txt", source="ConllFiles", task="Tagging")
    line = "dicejax: train: more than 2 labels; is it the right column?"
    assert last_error(["profile", small], capsys) == line


# Model folders


@pytest.mark.parametrize(
    ("normalizer", "message"),
    [
        (
            [normalizers.Replace(a, b * 300) for a, b in ("ab", "bc", "cd", "de")],
            "more than 50 characters in the place of one",
        ),
        ([normalizers.Replace(Regex("(?=a)"), "a")] * 6, "more than 50 characters"),
        ([normalizers.Replace(Regex("x*"), "aaaa")] * 3, "more than 50 characters"),
        ([normalizers.Prepend("a" * 60)], "more than 50 characters"),
        ([normalizers.Lowercase()] * 101, "more than 100 steps"),
    ],
)
def test_a_tokenizer_whose_normalizers_multiply(tmp_path, normalizer, message):
    vocabulary = {"[UNK]": 0, "a": 1}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence(normalizer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match=f"its normalizer has {message}"):
        tokenize.read(tmp_path)


def test_normalizers_of_published_tokenizers_are_used():
    steps = [
        normalizers.Replace(" ", "▁"),
        normalizers.Prepend("▁"),
        normalizers.Replace("``", '"'),
        normalizers.Replace(Regex(" {2,}"), " "),
        normalizers.Replace(Regex(r"\p{Mn}+"), ""),
        normalizers.Replace(Regex("[[:space:]]"), " "),
    ]
    chain = normalizers.Sequence([*steps * 4, normalizers.NFKC()][:20])
    check_sizes({"normalizer": json.loads(chain.__getstate__())})


@pytest.mark.parametrize("sizes", [{"num_hidden_layers": 10**9}, {"vocab_size": 10**9}])
def test_plan_refuses_what_no_machine_holds(tmp_path, capsys, experiment, sizes):
    config = {"model_type": "bert", "hidden_size": 512, "vocab_size": 20}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 2, **sizes}
    config |= {"intermediate_size": 8, "max_position_embeddings": 64}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    (tmp_path / "x.txt").write_text("a B-X\na O\n\n" * 9)
    encoder = f"PretrainedEncoder(path={str(tmp_path)!r})"
    kinds = {"source": "ConllFiles", "task": "Tagging", "encoder": encoder}
    small = experiment(tmp_path, "x.txt", **kinds)
    assert "config.json: its parameters take " in last_error(["plan", small], capsys)


# Output


def ended(program, redirection) -> tuple[int, str]:
    """Return status and errors of Python whose output is redirected."""
    command = f'exec "{sys.executable}" -c "$0" --version {redirection}'
    done = subprocess.run(
        ["/bin/sh", "-c", command, program], cwd=ROOT, capture_output=True, text=True
    )
    return done.returncode, done.stderr


MAIN = "from dicejax import cli; cli.main()"
# A command that prints more than is buffered, and one that ends before.
LONG = "from dicejax import cli; cli.run = lambda argv: print('x' * 10**6) or 0; "
LONG += "cli.main()"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("program", [MAIN, LONG])
def test_output_that_is_full_is_one_line(program):
    assert ended(program, ">/dev/full") == (
        2,
        "dicejax: output cannot be written: No space left on device; make room\n",
    )


def test_output_that_is_closed_is_one_line():
    closed = "dicejax: standard output is closed; open it: > FILE\n"
    assert ended(MAIN, ">&-") == (2, closed)
    assert ended(MAIN, "2>&-") == (0, "")


def test_profile_of_many_labels_prints_little(tmp_path, capsys, experiment):
    tags = "".join(f"a B-L{number}\nb O\n\n" for number in range(300))
    (tmp_path / "x.txt").write_text(tags)
    small = experiment(tmp_path, "x.txt", source="ConllFiles", task="Tagging")
    assert run(["profile", small]) == 0
    assert len(capsys.readouterr().out) < 40_000
