"""`import dicejax as dj`: the page's code as printed, functions vs. commands."""

import json
from xml.etree import ElementTree

import jax
import numpy as np
import pytest
from tokenizers import Tokenizer

import dicejax as dj
from dicejax.cli import parse, run

from .documented import blocks, perform
from .losses import oracle

TEXTS = """John Smith flew from London to New York on Friday .
Volkswagen AG said nothing about antidisestablishmentarianism .
Mary Shelley wrote Frankenstein near Geneva , not in Ingolstadt ."""
SENTENCES = [text.split() for text in TEXTS.splitlines()]
TAG_IDS = [
    [1, 2, 0, 0, 5, 0, 5, 6, 0, 7, 0],
    [3, 4, 0, 0, 0, 0, 0],
    [1, 2, 0, 7, 0, 5, 0, 0, 0, 5, 0],
]
(SNIPPET,) = [
    block.text for block in blocks("docs/library.md") if "value_and_grad" in block.text
]


@pytest.mark.slow
def test_the_snippet_fine_tunes_real_weights_as_printed(minilm):
    names = {"FOLDER": str(minilm), "sentences": SENTENCES, "tag_ids": TAG_IDS}
    exec(SNIPPET, names)
    model, params, batch = names["model"], names["params"], names["batch"]
    key, values = jax.random.key(0), []
    logits = model.apply(params, batch, key)["tags"]
    expected = oracle.dice(np.asarray(logits), np.asarray(batch["tags"])).mean()
    opt = names["opt"]
    for _ in range(4):
        params, opt, value = names["step"](params, opt, key)
        values.append(float(value))
    assert values[0] == pytest.approx(expected, abs=1e-5)
    assert values == sorted(values, reverse=True) and values[-1] < 0.99 * values[0]


def test_words_and_labels_are_packed_in_their_places(minilm):
    tokenizer = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    batch = dj.encode(tokenizer, SENTENCES, TAG_IDS, max_length=32)
    batch = {name: np.asarray(array) for name, array in batch.items()}
    assert {array.shape for array in batch.values()} == {(2, 32)}
    labels = []
    for row in range(2):
        segments = batch["segment_ids"][row]
        for segment in range(1, segments.max() + 1):
            ids, tags = (
                batch[n][row][segments == segment] for n in ("input_ids", "tags")
            )
            labels.append(tags[tags >= 0].tolist())
            words = SENTENCES[TAG_IDS.index(labels[-1])]
            assert tokenizer.encode(words, is_pretokenized=True).ids == ids.tolist()
    assert sorted(labels) == sorted(TAG_IDS)
    without = dj.encode(tokenizer, SENTENCES, max_length=32)
    assert without.keys() == batch.keys() - {"tags"}
    for name, array in without.items():
        np.testing.assert_array_equal(array, batch[name])
    with pytest.raises(ValueError, match="sentence 1 has 7 words and 6 labels"):
        dj.encode(tokenizer, SENTENCES, [TAG_IDS[0], TAG_IDS[1][1:], TAG_IDS[2]])


def test_names_of_the_package_are_those_that_it_lists():
    assert all(getattr(dj, name) is not None for name in dj.__all__)
    assert set(dj.__all__) <= set(dir(dj))
    with pytest.raises(AttributeError, match=r"has no attribute 'focale'$"):
        dj.focale  # noqa: B018
    with pytest.raises(AttributeError, match="'trian'; did you mean train"):
        dj.trian  # noqa: B018
    with pytest.raises(AttributeError, match="'dise'; did you mean dice"):
        dj.losses.dise  # noqa: B018


@pytest.mark.slow
def test_functions_return_what_the_commands_write(project, capsys):
    short = ["--training.epochs", "1"]
    experiment = parse(["train", "mine.py", *short]).settings

    result = dj.train(experiment, "ours")
    assert run(["train", "mine.py", "--out", "theirs", *short]) == 0
    content = json.loads((project / "theirs/result.json").read_text())
    assert result.test == content["test"] and result.best_step == content["best_step"]
    capsys.readouterr()

    assert run(["evaluate", "theirs", "--split", "dev", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    scores = dj.evaluate(result, "dev").scores.to_json()
    assert scores == {name: content[name] for name in scores}

    texts = ["Anna saw Oslo today", "Nothing happens here"]
    assert run(["predict", "theirs", *texts, "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert dj.predict(project / "ours", texts) == [json.loads(line) for line in lines]

    losses = ["focal", "dsc:smooth=0.01"]
    compared = dj.compare(experiment, losses, seeds=1, baselines=False, out="a")
    content = json.loads((project / "a/comparison.json").read_text())
    assert compared.report == "a/report.html"
    for row in compared.rows:
        (ours,), (theirs,) = row.runs, content["losses"][row.loss]["runs"]
        assert ours.result["test"] == theirs["test"]
    assert [row.loss for row in compared.rows] == ["ce", "focal", "dsc-smooth=0.01"]
    argv = ["compare", "mine.py", "--losses", *losses, "--seeds", "1", "--out", "a"]
    assert run([*argv, "--no-baselines", *short]) == 0
    assert capsys.readouterr().err.count("used again") == 3  # the very same runs
    assert json.loads((project / "a/comparison.json").read_text()) == content


@pytest.mark.slow
def test_an_experiment_is_named_by_its_file_and_results_show_themselves(
    project, capsys
):
    file = project / "mine.py"
    file.write_text(file.read_text().replace("epochs=12", "epochs=1"))
    result = dj.train("mine.py", project / "ours", progress=True)
    assert "epoch 1  mean loss" in capsys.readouterr().err
    content = json.loads((project / "ours/result.json").read_text())
    f1 = f"{100 * content['test']['f1']:.2f}"
    assert repr(result) == (
        f"Result({project / 'ours'}: test F1 {f1}, 4 updates"
        f"{', nothing learnt' * (content['test']['f1'] == 0)})"
    )
    assert dj.train(file, project / "ours") == result  # it has finished
    assert capsys.readouterr().err == ""  # there is no terminal
    evaluation = dj.evaluate(result)
    assert repr(evaluation).startswith("Evaluation(step 4: precision ")
    assert len(repr(evaluation)) < 120
    for value in (result, evaluation):
        table = ElementTree.fromstring(f"<div>{value._repr_html_()}</div>")
        rows = [[cell.text or "" for cell in row] for row in table.iter("tr")]
        assert [row[0] for row in rows] == ["", "all", "LOC", "PER"]
        column = rows[0].index("F1")
        assert rows[1][column] == f1 and rows[2][-1] == "4"


def test_an_experiment_names_an_encoder_of_its_own(tmp_path, monkeypatch, capsys):
    (page,) = [b for b in blocks("docs/own-encoder.md") if b.title == "window.py"]
    (tmp_path / "window.py").write_text(page.text)
    monkeypatch.chdir(tmp_path)
    words = "dicejax train window.py --out run --encoder.hidden_size 8"
    perform([*words.split(), "--encoder.vocab_size", "90"], page.where)
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert result["steps"] == 9
    record = json.loads((tmp_path / "run/experiment.json").read_text())["encoder"]
    assert record["type"] == "WindowConfig" and record["hidden_size"] == 8
    capsys.readouterr()
    assert run(["evaluate", "run", "--experiment", "window.py", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["f1"] == result["test"]["f1"]
