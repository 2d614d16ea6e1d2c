"""What `init` says of 233 files: each format with each flaw that it can have.

The table is in `flawed_files.txt`; the files are made by `flawed_files.py`.
"""

import dataclasses
import re
from pathlib import Path

import pytest

from dicejax.cli import run
from dicejax.data.examples import LabelledText, ReadingExample, Sentence, TaggedWords
from dicejax.errors import InputError
from dicejax.init import formats

from .flawed_files import FORMATS, WHOLE, cases, examples, write

TABLE = Path(__file__).with_name("flawed_files.txt")


def outcome(path: Path, kind: formats.Kind) -> tuple[str, list]:
    """Return what `init` says of a file, and the examples that it reads."""
    try:
        source = formats.source_of(kind, str(path))
        whole = dataclasses.replace(source, dev=source.train, test=source.train)
        found = whole.load().train
        told = "; ".join([type(source).__name__, *formats.remarks(found)])
    except InputError as error:
        return str(error).replace(str(path), "FILE"), []
    return told, list(found)


def content(example) -> tuple:
    """Return the text without white space, and the gold."""
    match example:
        case LabelledText():
            return example.first.split(), example.label
        case Sentence():
            return list(example.words), [tuple(span) for span in example.spans]
        case TaggedWords():
            return list(example.words), list(example.labels)
        case ReadingExample():
            return example.context.split(), {a[0].text for a in example.answers}


def intended(name: str, flaw: str, place: int) -> list[tuple]:
    """Return what the author of a file meant, from the words and spans themselves."""
    found = []
    for number, one in enumerate(examples()):
        here = number == place and flaw not in WHOLE
        gold = [(label, start, end) for label, start, end in one.spans]
        kind = FORMATS[name][0]
        if kind == "classification":
            gold = one.label
        elif kind == "pos":
            gold = ["X" if tag == "O" else "PROPN" for tag in one.tags()]
        elif kind == "qa":
            _, start, end = one.spans[-1]
            gold = {" ".join(one.words[start:end])}
            if here and flaw == "overlapping spans":
                gold |= {next(iter(gold))[:-1]}
        found.append((one.words, gold))
    return found


def test_init_says_of_each_file_what_the_table_has(tmp_path):
    lines, silently_wrong = [], []
    for name, flaw, place in cases():
        kind, ending, _, _ = FORMATS[name]
        path = tmp_path / f"data.{ending}"
        write(path, name, flaw, place)
        told, found = outcome(path, kind)
        lines.append(f"{name} | {flaw} | {place} | {told}")
        is_silent = found and re.fullmatch(r"\w+", told)
        if is_silent and list(map(content, found)) != intended(name, flaw, place):
            silently_wrong.append(lines[-1])
    assert not silently_wrong
    assert lines == TABLE.read_text("utf-8").splitlines()
    assert len(lines) >= 200


@pytest.mark.parametrize(
    "name", ["csv", pytest.param("all", marks=pytest.mark.exhaustive)]
)
def test_the_command_ends_as_the_table_says(tmp_path, capsys, name):
    """Also profiles what was read and writes the experiment."""
    rows = (line.split(" | ", 3) for line in TABLE.read_text("utf-8").splitlines())
    for number, (format_, flaw, place, told) in enumerate(rows):
        if name not in (format_, "all"):
            continue
        kind, ending, _, _ = FORMATS[format_]
        path = tmp_path / f"data.{ending}"
        write(path, format_, flaw, int(place))
        argv = ["init", kind, str(tmp_path / str(number)), "--data", str(path)]
        status = run(argv)
        errors = capsys.readouterr().err
        if re.match(r"\w+(;|$)", told):
            assert status == 0, (flaw, errors)
            for remark in told.split("; ")[1:]:
                assert f"note: {remark}" in errors
        else:
            assert status == 2, (flaw, told)
            assert told.replace("FILE", str(path)) in errors


def test_examples_that_are_skipped_are_counted(tmp_path, capsys):
    path = tmp_path / "data.csv"
    write(path, "csv", "empty text", 7)
    argv = ["init", "classification", str(tmp_path / "m"), "--data", str(path)]
    assert run([*argv, "--on_error", "skip"]) == 0
    assert "1 left out:" in capsys.readouterr().err
    assert 'on_error="skip"' in (tmp_path / "m/experiment.py").read_text()
