"""Tags of a sentence without transitions that the scheme forbids."""

import dataclasses
import itertools
import json
from typing import get_args

import jax.numpy as jnp
import numpy as np
import pytest
from etils import epath
from scipy import special

from dicejax.cli import run
from dicejax.data import tags
from dicejax.data.examples import Sentence
from dicejax.data.tags import Scheme
from dicejax.errors import InputError
from dicejax.tasks import Item, JointTagging, Tagging, WordTagging
from dicejax.tasks.viterbi import best_tags, decoded_by
from dicejax.training.checkpoint import restore_params
from dicejax.training.run_folder import CHECKPOINTS, Run
from dicejax.training.setup import prepare

from ..small_project import write_project

SCHEMES = get_args(Scheme)


def allowed(names, scheme):
    """Return whether tags are what their spans are written as."""
    return tags.encode(tags.spans(names, scheme), len(names), scheme) == list(names)


def best_of_all(scores, labels, scheme):
    """Return the best of all allowed sequences, the first of equals, and its score."""
    sums = {}
    for numbers in itertools.product(range(len(labels)), repeat=len(scores)):
        if allowed([labels[n] for n in numbers], scheme):
            sums[numbers] = scores[np.arange(len(scores)), list(numbers)].sum()
    best = max(sums, key=sums.__getitem__)
    return list(best), sums[best]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_sequences_are_the_best_of_all_that_the_scheme_allows(scheme):
    rng, labels = np.random.default_rng(1), tuple(tags.label_set(scheme, "AB"))
    changed = 0
    for words, draw in itertools.product((0, 1, 2, 3, 4), range(8)):
        scores = rng.normal(size=(words, len(labels))).astype(np.float32) * 3
        numbers = best_tags(scores, labels, scheme)
        expected, _ = best_of_all(scores.astype(float), labels, scheme)
        assert numbers.tolist() == expected
        changed += numbers.tolist() != scores.argmax(axis=1).tolist()
        # Whole numbers have many equal sums.
        scores = np.round(scores) if draw % 2 else scores.clip(-1, 1).round()
        numbers = best_tags(scores, labels, scheme)
        assert allowed([labels[n] for n in numbers], scheme)
        found = scores[np.arange(words), numbers].sum()
        assert found == best_of_all(scores, labels, scheme)[1]
    assert changed > 5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_likeliest_tags_that_are_allowed_stay(scheme):
    labels = tuple(tags.label_set(scheme, "AB"))
    assert not best_tags(np.zeros((3, len(labels))), labels, scheme).any()  # all O
    for numbers in itertools.product(range(len(labels)), repeat=3):
        scores = np.eye(len(labels))[list(numbers)]
        stays = best_tags(scores, labels, scheme).tolist() == list(numbers)
        assert stays == allowed([labels[n] for n in numbers], scheme)


def test_impossible_tags_and_words_without_a_piece_are_never_chosen():
    labels = ("O", "B-A", "I-A")
    scores = np.array([[-np.inf, -np.inf, 0], [np.nan] * 3, [-5, -9, 0], [-5, -9, 0]])
    names = [labels[n] for n in best_tags(scores, labels, "BIO")]
    assert allowed(names, "BIO") and names == ["O", "O", "B-A", "I-A"]


@pytest.mark.parametrize("kind", [Tagging, JointTagging])
def test_a_document_in_windows_is_one_sequence_by_the_logits_as_moved(kind):
    """Against all sequences of its words; their places and windows are drawn."""
    rng, task = np.random.default_rng(2), kind(decoding="viterbi")
    labels = tuple(tags.label_set(task.scheme, ["LOC"]))
    example, shift = Sentence(("x",) * 6, (), 1), rng.normal(size=len(labels))
    for _ in range(10):
        logits = rng.normal(size=(2, 9, len(labels))) * 3 + shift
        places = np.full((2, 6), -1)  # the fifth word has no piece
        places[0, :4], places[1, 5] = rng.permutation(9)[:4], rng.integers(9)
        predicted = task.reduce_logits({"tags": jnp.asarray(logits, "float32")}, {})
        outputs = [predicted.item(row, 0, 0, 9) for row in (0, 1)]
        outputs = [{k: np.asarray(v) for k, v in x.items()} for x in outputs]
        items = [Item({}, 0, row) for row in places]
        prediction = task.decide(task.decode(example, items, outputs, labels))
        scores = np.full((6, len(labels)), -np.inf)
        scores[4, 0] = 0
        for row, word in np.argwhere(places >= 0):
            scores[word] = special.log_softmax(logits[row, places[row, word]])
        numbers, _ = best_of_all(scores, labels, task.scheme)
        expected = tags.spans([labels[n] for n in numbers], task.scheme)
        assert prediction.values == expected
        shares = np.exp(scores[np.arange(6), numbers])
        assert prediction.word_probabilities[4] is None
        by_word = np.delete(prediction.word_probabilities, 4).astype(float)
        np.testing.assert_allclose(by_word, np.delete(shares, 4), rtol=1e-5)


@pytest.mark.slow
def test_all_commands_decode_packed_rows_as_single_ones(tmp_path, capsys):
    """Against all sequences by the logits of each sentence in a row of its own."""
    root = write_project(tmp_path)
    file, out = str(root / "mine.py"), root / "runs"
    argv = ["--losses", "ce", "--seeds", "1", "--training.epochs", "1"]
    argv += ["--optimizer.learning_rate", "1e-3", "--task.decoding", "viterbi"]
    assert run(["compare", file, "--out", str(out), *argv]) == 0
    folder = Run(epath.Path(out) / "ce" / "seed-0")
    experiment, labels = folder.experiment(), folder.labels()
    setup = prepare(experiment, lambda text: None, weights=False)
    mesh, task = experiment.mesh.make(), experiment.task
    _, params = restore_params(folder.path / CHECKPOINTS, setup.network, "best", mesh)
    rng, changed = np.random.default_rng(0), 0
    for shift in [np.zeros(len(labels)), *rng.normal(size=(8, len(labels)))]:
        shifts = [{"tags": np.float32(shift)}]
        result = setup.decode(params, "test", mesh, shifts=shifts)
        for item, candidate in zip(
            setup.data.items["test"], result.candidates[0], strict=True
        ):
            size = len(item)
            alone = {"segment_ids": np.ones(size), "position_ids": np.arange(size)}
            alone = {k: np.int32(v)[None] for k, v in (alone | item.arrays).items()}
            logits = setup.network.apply(params, alone)["tags"][0] + shift
            scores = np.asarray(special.log_softmax(logits, axis=-1))[item.detail]
            numbers, _ = best_of_all(scores, labels, "BIO")
            expected = tags.spans([labels[n] for n in numbers], "BIO")
            assert task.decide(candidate).values == expected
            changed += scores.argmax(axis=1).tolist() != numbers
    assert changed > 5
    capsys.readouterr()
    assert run(["evaluate", str(folder.path), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["f1"] == folder.result()["test"]["f1"]
    assert run(["evaluate", str(folder.path), "--decoding", "greedy", "--json"]) == 0
    greedy = json.loads(capsys.readouterr().out)
    other = dataclasses.replace(experiment, task=Tagging())
    plain = dataclasses.replace(setup, experiment=other)
    (candidates,) = plain.decode(params, "test", mesh).candidates
    assert greedy["f1"] == plain.score(candidates, "test").values["f1"]
    assert run(["predict", str(folder.path), "--json", "New York"]) == 0
    (predicted,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert predicted["words"] == ["New", "York"]
    assert run(["export", str(folder.path), str(tmp_path / "torch")]) == 0
    assert "to decode them by viterbi, as the run does" in capsys.readouterr().out
    config = json.loads((tmp_path / "torch" / "config.json").read_text())
    assert (config["tag_scheme"], config["tag_decoding"]) == ("BIO", "viterbi")


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="decoding is 'beam'; want greedy or viterbi"):
        Tagging(decoding="beam")
    with pytest.raises(ValueError, match=r"marks each word by itself.*leave one out"):
        Tagging(decoding="viterbi", threshold="recall:0.9")
    with pytest.raises(InputError, match="WordTagging has no tags of spans; leave out"):
        decoded_by(WordTagging(), "viterbi")
    with pytest.raises(InputError, match="--decoding: threshold recall"):
        decoded_by(Tagging(threshold="recall:0.9"), "viterbi")
