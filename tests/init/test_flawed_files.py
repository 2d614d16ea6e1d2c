"""What `init` says of 274 files: each format with each flaw that it can have.

The table is in `flawed_files.txt`; the files are made by `flawed_files.py`.
"""

import dataclasses
import re
from pathlib import Path

import pytest

from dicejax.cli import run
from dicejax.data.examples import LabelledText, ReadingExample, Sentence, TaggedWords
from dicejax.errors import InputError
from dicejax.formats import audit, recognise
from dicejax.formats.kinds import Kind

from .flawed_files import FORMATS, WHOLE, cases, examples, write

TABLE = Path(__file__).with_name("flawed_files.txt")


def outcome(path: Path, kind: Kind) -> tuple[str, list]:
    """Return what `init` says of a file, and the examples that it reads."""
    try:
        source = recognise.source_of(kind, str(path))
        whole = dataclasses.replace(source, dev=source.train, test=source.train)
        result = whole.load().train
        name = getattr(source, "layout", type(source).__name__)
        name += " without quotes" * (not getattr(source, "quoted", True))
        message = "; ".join([name, *audit.remarks({"train": result})])
    except InputError as error:
        return str(error).replace(str(path), "FILE"), []
    return message, list(result)


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
    result = []
    for number, e in enumerate(examples()):
        at_place = number == place and flaw not in WHOLE
        gold = [(label, start, end) for label, start, end in e.spans]
        kind = FORMATS[name][0]
        if kind == "classification":
            gold = e.label
        elif kind == "pos":
            gold = ["X" if tag == "O" else "PROPN" for tag in e.tags()]
        elif kind == "qa":
            _, start, end = e.spans[-1]
            gold = {" ".join(e.words[start:end])}
            if at_place and flaw == "overlapping spans":
                gold |= {next(iter(gold))[:-1]}
        result.append((e.words, gold))
    return result


def test_init_says_of_each_file_what_the_table_has(tmp_path):
    lines, silently_wrong = [], []
    for name, flaw, place in cases():
        kind, ending, _, _ = FORMATS[name]
        path = tmp_path / f"data.{ending}"
        write(path, name, flaw, place)
        message, result = outcome(path, kind)
        lines.append(f"{name} | {flaw} | {place} | {message}")
        is_silent = result and re.fullmatch(r"\w+", message)
        if is_silent and list(map(content, result)) != intended(name, flaw, place):
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
    for number, (format_, flaw, place, message) in enumerate(rows):
        if name not in (format_, "all"):
            continue
        kind, ending, _, _ = FORMATS[format_]
        path = tmp_path / f"data.{ending}"
        write(path, format_, flaw, int(place))
        argv = ["init", kind, str(tmp_path / str(number)), "--data", str(path)]
        status = run(argv)
        errors = capsys.readouterr().err
        if re.match(r"\w+(;|$)", message):
            assert status == 0, (flaw, errors)
            for remark in message.split("; ")[1:]:
                assert f"note: {remark}" in errors
        else:
            assert status == 2, (flaw, message)
            assert message.replace("FILE", str(path)) in errors


def test_examples_that_are_skipped_are_counted(tmp_path, capsys):
    path = tmp_path / "data.csv"
    write(path, "csv", "empty text", 7)
    argv = ["init", "classification", str(tmp_path / "m"), "--data", str(path)]
    assert run([*argv, "--on_error", "skip"]) == 0
    assert "1 left out:" in capsys.readouterr().err
    assert 'on_error="skip"' in (tmp_path / "m/experiment.py").read_text()
