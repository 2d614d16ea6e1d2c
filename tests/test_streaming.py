"""`dicejax predict` reads, predicts and writes a file a few examples at a time."""

import io
import json
import os
import random
import shutil
import signal
import weakref

import numpy as np
import pytest
from rich.console import Console

from dicejax.cli import predict as predicting
from dicejax.cli import results, run
from dicejax.data.pack import BatchLayout
from dicejax.data.pipeline import Batches
from dicejax.data.plan import packing_plan
from dicejax.errors import InputError
from dicejax.formats import conll
from dicejax.formats.text import Text, Texts
from dicejax.io import files
from dicejax.tasks import Tagging
from dicejax.training import inference, new_texts

from .faults import strace
from .small_project import fails
from .test_cli_predict import write_experiment

DATA = "Ada B-PER\nsaw O\nOslo B-LOC\n\nBo B-PER\nleft O\n\n" * 8
SENTENCES = [
    " ".join(random.Random(n).choices(["Ada", "saw", "Oslo", "x"], k=n % 7 + 1))
    for n in range(23)
]
CONTEXT = 5
FILES = {
    "txt": "".join(f"{line}\n" + "\n" * (len(line) % 3 == 0) for line in SENTENCES),
    "jsonl": "".join(json.dumps({"id": x, "text": x}) + "\n" for x in SENTENCES),
    "csv": "n,text\n" + "".join(f"1,{line}\n" for line in SENTENCES),
    "conll": "".join(
        "-DOCSTART-\n\n" * (n % 5 == 0) + "\n".join(line.split()) + "\n\n"
        for n, line in enumerate(SENTENCES)
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("streamed")
    reads = f"test=None, context={CONTEXT}"
    assert run(write_experiment(root, "ConllFiles", "Tagging", DATA, reads=reads)) == 0
    return str(root / "run")


@pytest.fixture
def predict(folder, tmp_path):
    """Return a function that predicts a file to one of its kind."""

    def predict(ending, content):
        file, out = tmp_path / f"in.{ending}", tmp_path / f"out.{ending}"
        file.write_text(content)
        argv = ["predict", folder, "--format", {"txt": "text"}.get(ending, ending)]
        assert run([*argv, "--file", str(file), "--out", str(out)]) == 0
        return out.read_text()

    return predict


def rounded(text):
    """Return lines, the probabilities in them to five digits."""

    def cut(value):
        if isinstance(value, float):
            return float(f"{value:.5g}")
        if isinstance(value, dict):
            return {name: cut(part) for name, part in value.items()}
        return list(map(cut, value)) if isinstance(value, list) else value

    lines = text.splitlines()
    return [cut(json.loads(x)) if x.startswith("{") else x for x in lines]


@pytest.mark.parametrize("ending", ["txt", "jsonl", "conll"])
def test_predictions_do_not_depend_on_what_is_read_at_once(
    predict, monkeypatch, ending
):
    whole = predict(ending, FILES[ending])
    assert len(rounded(whole)) >= len(SENTENCES)
    monkeypatch.setattr(new_texts, "EXAMPLES", 4)
    few = predict(ending, FILES[ending])
    monkeypatch.setattr(new_texts, "CHARACTERS", 1)  # each text alone
    alone = predict(ending, FILES[ending])
    assert rounded(few) == rounded(whole) == rounded(alone)


def test_tables_have_the_columns_of_all_their_rows(predict, monkeypatch):
    monkeypatch.setattr(new_texts, "EXAMPLES", 4)
    rows = predict("csv", FILES["csv"]).splitlines()
    assert rows[0] == "n,text,prediction,probability"
    assert [row.split(",")[1] for row in rows[1:]] == SENTENCES


def test_few_examples_are_alive_and_none_is_read_long_before_its_result(
    folder, monkeypatch
):
    monkeypatch.setattr(new_texts, "EXAMPLES", 4)
    made, count = [], 200

    def read():
        made.clear()
        for number in range(count):
            text = Text(number + 1, f"Ada saw {number}")
            made.append(weakref.ref(text))
            yield text

    results = inference.predict_texts(folder, Texts(read), path="x")
    for place, (text, record, _) in enumerate(results):
        assert text.text == " ".join(record["words"]) == f"Ada saw {place}"
        # Of a part, and those whose words are behind its last.
        assert len(made) <= place + 4 + CONTEXT
        assert sum(ref() is not None for ref in made) <= 2 * 4 + CONTEXT
    assert place == count - 1


def test_rows_have_the_room_that_a_part_before_took(folder, monkeypatch):
    monkeypatch.setattr(new_texts, "EXAMPLES", 16)
    rooms, decode = [], inference.decode_examples

    def recorded(*args, **settings):
        result = decode(*args, **settings)
        rooms.append((settings["min_sequences"], result.sequences))
        return result

    monkeypatch.setattr(inference, "decode_examples", recorded)
    lines = ["Ada"] * 16 + ["Ada saw Oslo x x"] * 16 + ["x"]
    texts = [Text(number, line) for number, line in enumerate(lines, start=1)]
    assert len(list(inference.predict_texts(folder, texts))) == len(lines)
    (none, room), *others = rooms
    assert none == 0 and room > 1 and others == [(room, room)] * 2


def test_an_evaluation_does_not_depend_on_what_is_predicted_at_once(
    folder, tmp_path, monkeypatch, capsys
):
    outputs = []
    for count in (4096, 5, 1):
        monkeypatch.setattr(new_texts, "EXAMPLES", count)
        out = tmp_path / f"{count}.jsonl"
        argv = ["evaluate", folder, "--split", "train", "--predictions", str(out)]
        assert run([*argv, "--json"]) == 0
        output = capsys.readouterr()
        outputs.append((output.out, output.err, rounded(out.read_text())))
    assert json.loads(outputs[0][0])["step"] and len(outputs[0][2]) == 16
    assert outputs[0] == outputs[1] == outputs[2]


def test_an_evaluation_holds_the_items_of_a_part(folder, monkeypatch):
    monkeypatch.setattr(new_texts, "EXAMPLES", 3)
    items, call = [], inference.Predictor.__call__

    def recorded(self, examples, decoded):
        made, candidates = call(self, examples, decoded)
        items.extend(map(weakref.ref, made))
        assert sum(ref() is not None for ref in items) <= 2 * 3
        return made, candidates

    monkeypatch.setattr(inference.Predictor, "__call__", recorded)
    counts, decoded = [], []
    result = inference.evaluate(
        folder,
        "train",
        by_example=True,
        warn=counts.count,
        begin=counts.append,
        decoded=lambda: decoded.append(len(items)),
    )
    assert counts == [len(decoded)] == [len(items)] == [len(result.examples)] == [16]
    assert decoded[:4] == [0, 0, 0, 3]  # made as the parts before are decoded


def test_batches_have_room_for_as_many_sequences_as_asked():
    examples = [{"input_ids": np.full(n, n), "label": n} for n in (5, 6, 2, 3)]
    layout = BatchLayout(tokens={"input_ids": 0}, sequences={"label": -1})
    plan = packing_plan([5, 6, 2, 3], max_length=8, rows=2)
    for least, room in ((0, 2), (5, 5)):
        batches = Batches(examples, layout=layout, plan=plan, min_sequences=least)
        labels = batches[0].arrays["label"]
        assert labels.shape == (2, room) and labels[:, :2].tolist() == [[5, 3], [6, 2]]
        assert (labels[:, 2:] == -1).all()


@pytest.mark.parametrize("count", [1, 4, 100])
def test_words_around_are_those_of_the_whole_file(count):
    draw, examples, documents = random.Random(count), [], [[]]
    for line in range(60):
        words = tuple(f"{line}.{n}" for n in range(draw.randint(0, 4)))
        is_last = draw.random() < 0.1
        text = Text(line, " ".join(words), after=("-DOCSTART-",) * is_last)
        examples.append((text, Tagging().of_words(words, line) if words else None))
        documents[-1] += [words] * bool(words)
        documents += [[]] * is_last
    expected = []
    for document in documents:
        for place in range(len(document)):
            before, after = sum(document[:place], ()), sum(document[place + 1 :], ())
            expected.append((before[-count:], after[:count]))
    pairs = list(conll.with_context(examples, count, lambda text: bool(text.after)))
    assert [text for text, _ in pairs] == [text for text, _ in examples]
    around = [(x.before, x.after) for _, x in pairs if x is not None]
    assert around == expected and any(before for before, _ in expected)


def test_a_flaw_at_the_end_is_met_before_anything_is_written(
    folder, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(new_texts, "EXAMPLES", 2)
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "a"}\n' * 9 + "{}\n")
    out = tmp_path / "new" / "out.jsonl"
    fails(capsys, ["predict", folder, "--file", str(bad)], f"{bad}:10: ")
    argv = ["predict", folder, "--file", str(bad), "--out", str(out)]
    fails(capsys, argv, f"{bad}:10: ")
    assert not out.parent.exists()


def test_an_error_in_the_midst_leaves_the_file_as_it_was(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("before")

    def lines():
        yield "a"
        assert [path.name for path in tmp_path.glob(".out.txt.*.partial")]
        assert target.read_text() == "before"
        raise InputError("stopped")

    with pytest.raises(InputError, match="stopped"):
        files.write_lines(tmp_path, "out.txt", lines())
    assert [(x.name, x.read_text()) for x in tmp_path.iterdir()] == [
        ("out.txt", "before")
    ]


def test_a_kill_that_can_be_caught_leaves_no_hidden_file_either(tmp_path):
    before = signal.getsignal(signal.SIGTERM)

    def lines():
        yield "a"
        assert len(list(tmp_path.iterdir())) == 1
        os.kill(os.getpid(), signal.SIGTERM)
        yield "b"

    with pytest.raises(SystemExit) as stopped:
        results.write_lines(str(tmp_path / "out.txt"), lines())
    assert stopped.value.code == 128 + signal.SIGTERM
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_display_on_a_terminal_leaves_standard_output_alone(folder, tmp_path, capsys):
    file, display = tmp_path / "in.txt", io.StringIO()
    file.write_text("Ada saw Oslo\n" * 3)
    command = predicting.Predict(run=folder, file=str(file), json=True)
    command(Console(file=display, force_terminal=True))
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["words"] for line in lines] == [["Ada", "saw", "Oslo"]] * 3
    assert "predict" in display.getvalue() and "Ada" not in display.getvalue()


@pytest.mark.skipif(bool(strace.why_not()), reason=f"calls: {strace.why_not()}")
@pytest.mark.parametrize("before", [None, "before"], ids=["new", "there"])
@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_killed_at_any_write_the_file_is_as_before_or_whole(
    folder, tmp_path, monkeypatch, request, command, before
):
    monkeypatch.setattr(new_texts, "EXAMPLES", 4)
    recorded, state = tmp_path / "recorded", tmp_path / "state"
    recorded.mkdir()
    (recorded / "in.txt").write_text(FILES["txt"] * 15)
    out = recorded / "out.jsonl"
    if before is not None:
        out.write_text(before)
    shutil.copytree(recorded, state)
    argv = ["predict", folder, "--file", str(recorded / "in.txt"), "--out", str(out)]
    if command == "evaluate":
        argv = ["evaluate", folder, "--split", "train", "--predictions", str(out)]
    with strace.recording(tmp_path / "calls.log"):
        assert run(argv) == 0
    after, seen = out.read_text(), []
    operations = strace.operations(tmp_path / "calls.log", recorded)
    request.node.user_properties.append(("kills", len(operations)))
    writes = sum(str(operation).startswith("write") for operation in operations)
    assert writes > {"predict": 8, "evaluate": 0}[command]
    with strace.Replay(recorded, state) as replay:
        for operation in operations:
            replay.apply(operation)
            now = state / "out.jsonl"
            seen.append(now.read_text() if now.exists() else None)
    assert set(seen) == {before, after} and seen[-1] == after
