"""Bad input ends in one short line, and text of the data is shown as text."""

import ast
import gzip
import io
import json
import random
import unicodedata

import hypothesis
import markdown_it
import pytest
from etils import epath
from hypothesis import strategies as st
from rich.console import Console
from word_replacement import SynonymPairs

from dicejax.cli import run
from dicejax.errors import InputError, quote, visible
from dicejax.formats import ConllFiles, SquadFiles, TextFiles, texts
from dicejax.init import starter
from dicejax.io import files, json_text
from dicejax.objectives import CrossEntropy, Focal
from dicejax.study import compare as comparison
from dicejax.study import report
from dicejax.study.compare.table import table
from dicejax.study.report.document import plain
from dicejax.training.progress import TrainingProgress

from ..formats.test_files import CLUENER, MRC, READERS, SQUAD, bert_mrc, cluener
from ..small_project import fails
from ..study.made_runs import made
from .mutations import PLACES, mutate

LONGEST = 2000
# What str.splitlines takes for the end of a line, and a file does not.
WITHIN = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
ESCAPE = "\x1b[31m\x9b2J\u202e"
MARKUP = "[/] [red]"


def refused(read, path) -> str:
    """Return the message for a path: one short line that begins with it."""
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(visible(str(path)))
    assert is_shown_as_is(message) and len(message) <= LONGEST
    return message


def is_shown_as_is(text: str) -> bool:
    """Whether nothing in a line moves the cursor or turns the direction of text."""
    turns = {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"}
    return not any(
        unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs")
        or unicodedata.bidirectional(character) in turns
        for character in text
    )


# Lines


@hypothesis.given(
    st.lists(st.text("aé漢 \t" + WITHIN), min_size=1), st.sampled_from(["\n", "\r\n"])
)
@hypothesis.settings(max_examples=100, deadline=None)
def test_newlines_alone_end_lines(content, end):
    text = end.join(content)
    written = io.BytesIO(text.encode())
    ends = text.replace("\r\n", "\n").split("\n")
    if not ends[-1]:
        del ends[-1]
    if not ends or ("\n" not in text and text.count("\r") > 1):
        with pytest.raises(InputError):
            list(files.lines("given", stream=written))
    else:
        expected = list(enumerate(ends, 1))
        assert list(files.lines("given", stream=written)) == expected


def test_lines_are_numbered_alike_beyond_the_first_block(tmp_path):
    path = tmp_path / "long.txt"
    content = [f"{n} {'é' * (n % 50)}" for n in range(20_000)]
    path.write_bytes("\r\n".join(content).encode())
    assert [line for _, line in files.lines(path)] == content
    content[15_000] += "?"
    broken = "\n".join(content).encode().replace(b"?", b"\xff")
    path.write_bytes(broken)
    expected = f"{path}:15001: byte {broken.index(0xFF)} (0xff) is not UTF-8"
    assert refused(lambda path: list(files.lines(path)), path).startswith(expected)


def test_predictions_and_training_data_end_lines_alike(tmp_path):
    path = tmp_path / "texts.txt"
    text = f"one{WITHIN}two"
    path.write_bytes(f"1 {text}\r\n0 three\n".encode())
    lines = [text.text for text in texts.read(path, "text")]
    assert lines == [f"1 {text}", "0 three"]
    assert TextFiles.read_file(path, layout="label-first")[0].first == text
    path.write_bytes(f"one{WITHIN}\ttwo\r\n".encode())
    assert SynonymPairs(path=str(path)).load()("two")


def test_carriage_returns_instead_of_newlines_are_refused(tmp_path):
    path = tmp_path / "old.txt"
    path.write_bytes(b"Ada B-PER\rslept O\r\rParis B-LOC\r")
    assert "carriage return alone; convert" in refused(ConllFiles.read_file, path)


# Files


def write(content):
    return lambda path: path.write_bytes(content)


PACKED = gzip.compress(b"1 a text\n" * 9)
CHANGED = PACKED[:-6] + bytes([PACKED[-6] ^ 1]) + PACKED[-5:]
# By kind of damage: what makes it, and the message.
DAMAGE = {
    "cut": (write(PACKED[:-9]), "cannot be read: Compressed file ended"),
    "another sum": (write(CHANGED), "cannot be read: CRC check failed"),
    "no archive": (write(b"1 a text\n"), "cannot be read: Not a gzipped file"),
    "Latin-1": (
        write(gzip.compress("1 Zürich\n".encode("latin-1"))),
        "byte 3 (0xfc) is not UTF-8; convert",
    ),
    "link to itself": (PLACES["link to itself"], "cannot be read: Too many levels of"),
    "link to nothing": (PLACES["link to nothing"], "no such file"),
    "pipe": (PLACES["pipe"], "is a pipe or a device; name a regular"),
    "device": (PLACES["link to a device"], "is a pipe or a device; name a regular"),
    "folder": (PLACES["folder"], "is a folder; name a file in it"),
    "missing": (PLACES["missing"], "no such file"),
}
OPENERS = {
    "predict": lambda path: list(texts.read(path, "text")),
    "synonyms": lambda path: SynonymPairs(path=str(path)).load(),
    "json": json_text.read,
    "bytes": files.read_bytes,
    **{name: read for name, (read, _) in READERS.items()},
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("opener", OPENERS)
def test_whatever_is_no_text_file_is_refused_by_all_that_read_text(
    tmp_path, damage, opener
):
    path, (make, message) = tmp_path / "texts.gz", DAMAGE[damage]
    make(path)
    if (damage, opener) != ("Latin-1", "bytes"):
        assert message in refused(OPENERS[opener], path)


@pytest.mark.parametrize("opener", OPENERS)
def test_paths_that_no_file_can_have_are_refused(tmp_path, opener):
    file = tmp_path / "file"
    file.write_text("1 text")
    below = refused(OPENERS[opener], file / "below")
    assert "Not a directory" in below
    assert "name too long" in refused(OPENERS[opener], tmp_path / ("x" * 300))
    refused(OPENERS[opener], tmp_path / "nul\0")
    refused(OPENERS[opener], tmp_path / "half\ud800")
    refused(OPENERS[opener], tmp_path / f"new\nline{ESCAPE}")


def test_predict_refuses_arguments_that_are_no_text(capsys):
    fails(capsys, ["predict", "no-run", "Zur\udcfcck"], "text 1: ", "surrogate")
    fails(capsys, ["predict", "no-run", "good", " "], "text 2: is blank")


def test_init_refuses_folders_that_cannot_be(tmp_path, capsys):
    (tmp_path / "file").write_text("text")
    PLACES["link to itself"](tmp_path / "loop")
    for name in ("file", "loop", "file/below", "x" * 300):
        folder = epath.Path(tmp_path / name)
        with pytest.raises(InputError, match="cannot be written to: "):
            files.write_together(folder, {"a": "b"})
        if name != "x" * 300:
            data = ["--data", str(tmp_path / "file")]
            fails(capsys, ["init", "ner", str(folder), *data], "made a folder: ")
    assert {path.name for path in tmp_path.iterdir()} == {"file", "loop"}


# JSON


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("9" * 5000, "too large"),
        ("-" + "9" * 5000, "too large"),
        ("NaN", "number NaN is too large or not finite"),
        ("-Infinity", "not finite"),
        ("1e999", "number 1e999 is too large or not finite"),
        ("[" * 100_000, "too deep"),
        ('{"a": 1, "a": 2}', "'a' twice"),
        ('"\\ud800"', ""),
        ("null", ""),
        ("[{}]", ""),
        ("9" * 4300, ""),
        ('"' + "x" * 1_000_000, ""),
    ],
)
@pytest.mark.parametrize(
    ("read", "content"),
    [
        (SquadFiles.read_file, SQUAD.replace('"answer_start": 0', '"answer_start": %')),
        (SquadFiles.read_file, SQUAD.replace('"question": "Wer?"', '"question": %')),
        (bert_mrc.read, MRC.replace('"qas_id": "0.1"', '"qas_id": %')),
        (bert_mrc.read, MRC.replace('"0;0"', "%")),
        (cluener.read, CLUENER.replace("[1, 2]", "[1, %]")),
        (cluener.read, CLUENER.replace('"Zürich"', "%")),
    ],
)
def test_json_values_out_of_range_are_one_line(tmp_path, read, content, value, message):
    assert "%" in content
    path = tmp_path / "data.json"
    path.write_text(content.replace("%", value), encoding="utf-8")
    assert message in refused(read, path)


def test_a_number_that_is_refused_has_its_line(tmp_path):
    path = tmp_path / "data.json"
    path.write_text('{\n"NaN": "1e999 NaN",\n"b": [1.5e3,\nNaN]}')
    assert refused(json_text.read, path).startswith(f"{path}:4: number NaN is")


def test_a_place_of_5000_digits_is_a_malformed_place(tmp_path):
    path = tmp_path / "data.json"
    path.write_text(MRC.replace("0;0", f"0;{'9' * 5000}"), encoding="utf-8")
    message = refused(bert_mrc.read, path)
    assert "'span_position' holds '0;999" in message and len(message) < 300


# Messages


def test_what_is_shown_of_input_is_short_and_visible():
    assert quote("short") == repr("short")
    for value in ("x" * 10**6, ["x" * 10**4] * 10**4, {"k" * 999: 1}, 10**4000, ESCAPE):
        assert len(quote(value)) <= 80 and is_shown_as_is(quote(value))
    for text in (ESCAPE, WITHIN, "\x7f\u2066\ud800"):
        assert is_shown_as_is(visible(text))
        quoted = json.dumps(text, ensure_ascii=False)
        assert json.loads(visible(quoted)) == text


@pytest.mark.parametrize(
    ("count", "least"),
    [(60, 20), pytest.param(1000, 300, marks=pytest.mark.exhaustive)],
)
@pytest.mark.parametrize("reader", READERS)
def test_mutated_files_end_in_one_line(tmp_path, reader, count, least):
    (read, content), refusals = READERS[reader], 0
    for seed in range(count):
        path, rng = tmp_path / f"{seed}.txt", random.Random(seed)
        path.write_text(content, encoding="utf-8")
        for _ in range(rng.randint(1, 4)):
            if path.is_file():
                mutate(path, rng)
        try:
            read(path)
        except InputError:
            # A message repeats little of a file, however long its lines are.
            assert len(refused(read, path)) < len(str(path)) + 400
            refusals += 1
    assert refusals > least


# Terminal, HTML, Markdown


def test_labels_reach_the_terminal_as_text(project, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("train.txt", "dev.txt", "test.txt"):
        file = project / "data" / name
        text = file.read_text().replace("PER", f"{ESCAPE}{MARKUP}".replace(" ", ""))
        file.write_text(text, encoding="utf-8")
    assert run(["profile", "mine.py"]) == 0
    captured = capsys.readouterr()
    assert is_shown_as_is((captured.out + captured.err).replace("\n", " "))
    assert "[/][red]" in captured.out
    assert run(["profile", "mine.py", "--json"]) == 0
    captured = capsys.readouterr()
    assert is_shown_as_is(captured.out.replace("\n", " "))
    labels = [row["label"] for row in json.loads(captured.out)["support"]]
    assert any(ESCAPE in label for label in labels)
    assert run(["init", "ner", "found", "--data", "data"]) == 0
    assert is_shown_as_is(capsys.readouterr().out.replace("\n", " "))
    written = (project / "found" / "experiment.py").read_text(encoding="utf-8")
    assert is_shown_as_is(written.replace("\n", " "))


def test_names_of_runs_are_no_markup_of_the_terminal(tmp_path):
    name = ESCAPE + MARKUP
    out = io.StringIO()
    console = Console(file=out, width=200)
    with TrainingProgress(console) as progress:
        progress.begin(name, steps=3)
        progress.note(name)
    jobs = made(tmp_path, (CrossEntropy(),), 1)
    rows = comparison.evaluate_runs(jobs, str(tmp_path)).rows
    console.print(table(rows, title=name))
    assert is_shown_as_is(out.getvalue().replace("\n", " "))
    assert out.getvalue().count(MARKUP) >= 2


def test_control_characters_reach_no_report(tmp_path):
    name = f"B-{ESCAPE}<script>"
    jobs = made(
        tmp_path / "runs", (CrossEntropy(), Focal()), 2,
        labels=("O", name), types=(name,),
    )  # fmt: skip
    report.write(comparison.evaluate_runs(jobs, str(tmp_path)))
    for file in ("report.html", "report.md"):
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert is_shown_as_is(text.replace("\n", " ").replace("\t", " "))
        assert "\\x1b[31m" in text.replace("\\\\", "\\").replace("\\[", "[")
        assert "<script" not in text


@hypothesis.given(st.text("ab1 <>&|*_`~[]()#!+-=.\\\n\x1b\u202e$:/'\"", max_size=24))
@hypothesis.example("---")
@hypothesis.example("a ##")
@hypothesis.example("1. a")
@hypothesis.example("1)")
@hypothesis.example("-")
@hypothesis.example("===")
@hypothesis.example("a|b\\|c")
@hypothesis.settings(max_examples=300, deadline=None)
def test_a_markdown_renderer_shows_names_as_text(name):
    expected = " ".join(visible(name, keep="\n").split())
    hypothesis.assume(expected)
    markdown = markdown_it.MarkdownIt("commonmark").enable("table")
    page = f"# {plain(name)}\n\n{plain(name)}\n\n- {plain(name)}\n\n"
    page += f"| a | b |\n| --- | --- |\n| {plain(name)} | x |\n"
    shown_texts, kinds = [], []
    for token in markdown.parse(page):
        kinds.append(token.type)
        for part in token.children or ():
            assert part.type in ("text", "text_special")
        if token.type == "inline":
            shown_texts.append("".join(part.content for part in token.children))
    assert shown_texts == [*[expected] * 3, "a", "b", expected, "x"]
    assert kinds.count("list_item_open") == 1 and "hr" not in kinds


def test_settings_of_a_new_experiment_keep_their_lines():
    text = f"a{ESCAPE}\n{WITHIN}"
    written = starter._python(text)
    assert ast.literal_eval(written) == text and is_shown_as_is(written)
    assert is_shown_as_is(starter._comment(text))
