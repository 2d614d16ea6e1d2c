"""Profiles against plain counting, and the warnings of the command."""

import collections
import functools
import io
import itertools
import json
import math

import jax
import numpy as np
import pytest
from rich.console import Console

from dicejax.config import Experiment, PretrainedEncoder, ScratchEncoder, Training
from dicejax.data import tokenize
from dicejax.data.resample import DownSampling
from dicejax.formats import ConllFiles, SquadFiles, TextFiles
from dicejax.losses import class_weights
from dicejax.mesh import MeshShape
from dicejax.objectives import (
    CrossEntropy,
    Dice,
    LinearSchedule,
    SelfAdjustingDice,
    Tversky,
    WeightedSum,
)
from dicejax.study.profile import from_json, profile, to_json
from dicejax.study.profile.imbalance import smooth_by_output
from dicejax.study.profile.measure import measure_lengths, measure_padding
from dicejax.study.profile.report import report
from dicejax.tasks import (
    Classification,
    MultiLabelClassification,
    Tagging,
    Target,
    WordTagging,
)
from dicejax.tasks.question_answering import QuestionAnswering
from dicejax.tasks.two_pointers import TwoPointerNER
from dicejax.training.encoded import load_data
from dicejax.training.setup import prepare

from .. import tiny
from ..data import glue
from .made_runs import write_splits

TRAIN = (
    "Anna B-PER\nlives O\nin O\nNew B-LOC\nYork I-LOC\n\n"
    "Bob B-PER\nsleeps O\n\nNothing O\nhappens O\nhere O\n\n"
)
DEV = "Anna B-PER\nlikes O\nACME B-ORG\n\nMary B-PER\n"


@pytest.fixture
def conll(tmp_path):
    """Return a folder with three files of words and tags."""
    for name, text in {"train": TRAIN * 8, "dev": DEV, "test": TRAIN}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    return tmp_path


def profile_of(data, warn=lambda text: None, rare=20, **settings):
    return profile(Experiment(name="small", data=data, **settings), warn, rare=rare)


def tagging(folder, batch_size=4, **settings):
    """Return the experiment of three CoNLL files."""
    training = Training(max_length=32, batch_size=batch_size, epochs=1, seed=3)
    return {"data": ConllFiles(dir=str(folder)), "training": training} | settings


def by_label(output):
    return {label.label: label.positives for label in output.labels}


def supported(result):
    return {(label.output, label.label): label for label in result.support}


def test_tags_are_those_of_a_plain_count(conll):
    warnings = []
    result = profile_of(**tagging(conll), warn=warnings.append)
    for split in ("train", "dev", "test"):
        text = (conll / f"{split}.txt").read_text()
        gold = collections.Counter(line.split()[1] for line in text.split("\n") if line)
        (tags,) = result.splits[split].outputs
        assert +collections.Counter(by_label(tags)) == gold
        assert (tags.negative, tags.rule) == ("O", "negative class")
        assert tags.negatives == gold["O"]
        assert tags.positives == gold.total() - gold["O"]
        assert tags.ratio == tags.negatives / tags.positives
        for label in tags.labels:
            assert label.negatives == gold.total() - label.positives
            assert label.is_negative == (label.label == "O")
        assert result.splits[split].examples == len(text.strip().split("\n\n"))
        assert any(label.weights for label in tags.labels) == (split == "train")
    assert result.warnings == tuple(warnings) and "'ORG'" in "".join(warnings)
    assert result.rare_labels == tuple(
        label for label in result.support if label.reasons
    )


def test_labels_too_rare_are_reported_by_each_rule(conll):
    result = profile_of(**tagging(conll, objective=Dice(smooth=2.0)), rare=9)
    support = supported(result)
    # 24 sentences in train, 4 of which an update sees.
    assert support["tags", "B-PER"].per_update == pytest.approx(16 * 4 / 24)
    assert support["tags", "B-LOC"].per_update == pytest.approx(8 * 4 / 24)
    assert support["tags", "B-ORG"].dev == 1
    reasons = {"B-PER": (), "B-LOC": ("few", "smooth"), "B-ORG": ("unseen",)}
    reasons |= dict.fromkeys(("I-ORG", "I-PER"), ("absent",))
    for label, expected in reasons.items():
        assert support["tags", label].reasons == expected
    rare = {label.label for label in result.rare_labels}
    assert rare == {"B-LOC", "I-LOC", "I-PER", "B-ORG", "I-ORG"}
    result = profile_of(**tagging(conll, batch_size=2), rare=8)
    assert supported(result)["tags", "B-LOC"].reasons == ()
    result = profile_of(**tagging(conll, batch_size=999), rare=0)
    assert supported(result)["tags", "B-LOC"].per_update == 8
    # Sentences without an entity, a third, are left out.
    result = profile_of(**tagging(conll, sampling=DownSampling(ratio=0.1)))
    assert supported(result)["tags", "B-LOC"].per_update == pytest.approx(8 * 4 / 16)
    assert result.splits["train"].examples == 24


def test_smooth_is_that_of_the_parts_that_count():
    mixed = WeightedSum(
        parts=(Dice(smooth=0.5), LinearSchedule(then=Tversky(smooth=3.0))),
        weights=(1.0, 1.0),
    )
    tags = {"tags": Target("classes", has_negative=True)}
    assert smooth_by_output(mixed.bind(tags)) == {"tags": 3.0}
    two = WeightedSum(parts=(Dice(output="a", smooth=2.0), CrossEntropy(output="b")))
    assert smooth_by_output(two) == {"a": 2.0}
    assert smooth_by_output(SelfAdjustingDice(output="a", over="element")) == {}


def test_weights_are_those_of_the_losses(conll):
    labels = profile_of(**tagging(conll)).splits["train"].outputs[0].labels
    counts = np.array([max(label.positives, 1) for label in labels], float)
    schemes = "log_ratio", "inverse", "inverse_square_root", "effective_number"
    assert labels[0].weights.keys() == set(schemes)
    for scheme in schemes:
        weights = [label.weights[scheme] for label in labels]
        expected = getattr(class_weights, scheme)(counts)
        np.testing.assert_allclose(weights, expected, rtol=1e-4)


ONE, SEVERAL = "negative class", "most and least"
TWO_CLASSES = "no a b c\n" * 6 + "yes d e\n" * 2
THREE = f"{TWO_CLASSES}maybe both of them\n"
O_IN_THE_MIDDLE = "a\tD\nb\tN\nc\tO\nd\tN\n\n"
words = functools.partial(ConllFiles, layout="labels")
label_first = functools.partial(TextFiles, layout="label-first")
NO_O = "a B-X\nb I-X\nc I-X\n"


@pytest.mark.parametrize(
    ("source", "task", "text", "rule", "pair", "ratio"),
    [
        # Two classes have a negative one, three have not.
        (label_first, Classification(), TWO_CLASSES, ONE, ("no", "yes"), 3.0),
        (label_first, Classification(), THREE, SEVERAL, ("no", "maybe"), 6.0),
        # O is a label like others where it is not the first, or never occurs.
        (words, WordTagging(), O_IN_THE_MIDDLE, SEVERAL, ("N", "D"), 2.0),
        (ConllFiles, Tagging(), NO_O, SEVERAL, ("I-X", "B-X"), 2.0),
    ],
)
def test_the_summary_of_single_labels(tmp_path, source, task, text, rule, pair, ratio):
    result = profile_of(source(dir=write_splits(tmp_path, text)), task=task)
    (output,) = result.splits["train"].outputs
    assert (output.rule, output.ratio) == (rule, ratio)
    assert (output.negative, output.positive) == pair
    assert output.labels[0].is_negative == (rule == ONE)
    if source is ConllFiles:
        assert supported(result)["tags", "O"].reasons == ("absent",)


def test_two_pointers_have_two_outputs(conll):
    settings = tagging(conll, task=TwoPointerNER(), objective=Dice())
    result = profile_of(**settings)
    start, end = result.splits["train"].outputs
    assert (start.output, end.output) == ("start", "end")
    assert by_label(start) == by_label(end) == {"O": 56, "LOC": 8, "PER": 16}
    assert result.smooth == {"start": 1e-5, "end": 1e-5}
    assert supported(result)["end", "ORG"].reasons == ("unseen",)


@pytest.mark.parametrize("form", ["positions", "sigmoid"])
@pytest.mark.parametrize("unanswerable", [False, True])
def test_pieces_that_are_no_start_are_counted(tmp_path, form, unanswerable):
    task = QuestionAnswering(form=form, unanswerable=unanswerable)
    (tmp_path / "all").write_text(tiny.squad(None, task))
    data = SquadFiles(dir=str(tmp_path), train="all", dev="all", test=None)
    experiment = Experiment(name="reading", data=data, task=task)
    result = profile(experiment, lambda text: None)
    start, end = result.splits["train"].outputs
    answered = 9 if unanswerable else 12
    assert start.positives == end.positives == answered
    items = load_data(experiment, lambda text: None).items["train"]
    if form == "positions":
        places = sum(map(len, items))
        assert (start.rule, start.sequences) == ("positions", 12)
        assert not any(label.weights for label in start.labels)
    else:
        places = sum(int(item.detail.candidates.sum()) for item in items)
        assert start.rule == "multi-label" and start.sequences is None
    assert start.negatives == places - answered
    assert start.ratio == start.negatives / answered
    assert [label.positives for label in start.labels] == [start.negatives, answered]
    pairs = {(output.output, output.labels[1].label) for output in (start, end)}
    assert set(supported(result)) == pairs
    assert {start.output, end.output} == {"start", "end"}


def test_quantiles_and_bins_are_plain_counts():
    lengths = np.random.default_rng(0).integers(1, 97, 1000).tolist()
    result = measure_lengths(lengths)
    assert result.longest == max(lengths)
    for percent, length in result.quantiles.items():
        assert sum(n <= length for n in lengths) >= percent * 10
        assert sum(n < length for n in lengths) < percent * 10
    assert len(result.bins) == 10 and result.bins[-1]["last"] == result.longest
    for x in result.bins:
        assert x["sequences"] == sum(x["first"] <= n <= x["last"] for n in lengths)
    assert sum(x["sequences"] for x in result.bins) == 1000
    assert measure_lengths([7]).bins[-1] == {"first": 7, "last": 7, "sequences": 1}


def test_padding_is_what_numpy_says():
    lengths = np.random.default_rng(1).integers(3, 40, 203)
    layouts = measure_padding(lengths.tolist(), max_length=48, per_batch=20, seed=5)
    to_row, to_batch, packed = (layout["places"] for layout in layouts.values())
    order = np.arange(203)
    np.random.default_rng((5, 0)).shuffle(order)
    padded = np.append(lengths[order], np.zeros(17, int)).reshape(11, 20)
    assert to_row == 203 * 48
    assert to_batch == (padded.max(1) * (padded > 0).sum(1)).sum()
    assert packed % 48 == 0
    least = math.ceil(lengths.sum() / 48) * 48
    assert least <= packed < 1.1 * least
    for fill in layouts.values():
        assert fill["filled"] == lengths.sum() / fill["places"]
        assert fill["factor"] == fill["places"] / packed


def test_the_padding_of_training_is_that_of_its_batches(conll):
    experiment = Experiment(name="small", **tagging(conll))
    packed = profile_of(**tagging(conll)).splits["train"].padding["packed"]
    mesh = MeshShape().make(jax.devices()[:1])
    batches = prepare(experiment, lambda text: None).batches(mesh)
    rows = [row for step in range(len(batches)) for row in batches[step].rows]
    assert packed["places"] == sum(bool(row) for row in rows) * 32


def test_json_brings_every_number_back(conll):
    result = profile_of(**tagging(conll, objective=Dice()))
    assert from_json(to_json(result)) == result
    content = json.loads(to_json(result))
    assert content["splits"]["train"]["outputs"][0]["negatives"] == 48
    assert content["splits"]["dev"]["lengths"]["quantiles"]["50"] >= 3


def test_a_folder_without_weights_is_enough(conll, model_folder):
    (model_folder / "model.safetensors").unlink()
    tokenizer = tokenize.learn_wordpiece(["a"], vocab_size=7)
    tokenizer.save(str(model_folder / tokenize.FILE))
    encoder = PretrainedEncoder(path=str(model_folder))
    assert profile_of(**tagging(conll, encoder=encoder)).splits["train"].examples == 24


# Labels that occur together


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Return the folder of a corpus, and its label sets by split."""
    folder, random = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    sets = {}
    for split, names in {"train": "abcd", "dev": "ab", "test": "abx"}.items():
        chosen = random.random((40, len(names))) < 0.35
        sets[split] = [list(itertools.compress(names, row)) for row in chosen.tolist()]
        # One text is several windows long, and still one text.
        lines = [
            {"text": "a b c " * (30 if n == 7 else 1), "labels": labels}
            for n, labels in enumerate(sets[split])
        ]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (folder / f"{split}.txt").write_text(text)
    return folder, sets


@pytest.fixture(scope="module")
def result(texts):
    experiment = Experiment(
        name="several",
        data=TextFiles(
            layout="json", multi_label=True, label="labels", dir=str(texts[0])
        ),
        task=MultiLabelClassification(stride=8),
        training=Training(max_length=32, batch_size=4),
    )
    return profile(experiment, lambda text: None)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_sets_and_pairs_are_those_of_a_direct_count(texts, result, split):
    golds = texts[1][split]
    (output,) = result.splits[split].outputs
    sets = output.sets
    assert sets["texts"] == len(golds) == 40
    assert result.splits[split].sequences > 40
    assert sets["cardinality"] == pytest.approx(sum(map(len, golds)) / 40)
    assert sets["most"] == max(map(len, golds))
    assert sets["without"] == sum(not labels for labels in golds) > 0
    assert sets["distinct"] == len(set(map(tuple, golds)))
    counted = {tuple(pair["labels"]): pair for pair in sets["pairs"]}
    for pair in itertools.combinations("abcdx", 2):
        together = sum(set(pair) <= set(labels) for labels in golds)
        assert (pair in counted) == bool(together)
        if together:
            counts = [sum(name in labels for labels in golds) for name in pair]
            assert counted[pair]["together"] == together
            expected = pytest.approx(counts[0] * counts[1] / 40)
            assert counted[pair]["expected"] == expected
    numbers = [pair["together"] for pair in sets["pairs"]]
    assert numbers == sorted(numbers, reverse=True)


def test_labels_that_occur_together_are_printed(result):
    reasons = {label.label: label.reasons for label in result.support}
    assert "unseen" in reasons["x"] and "few" in reasons["a"]
    assert result.splits["train"].outputs[0].rule == "multi-label"
    console = Console(width=100, file=io.StringIO())
    console.print(*report(result, "train"))
    text = console.file.getvalue()
    assert "labels per text on average" in text and "a + b" in text


MRPC = glue.MRPC | {name: f"{name}.tsv" for name in ("train", "dev", "test")}


@pytest.mark.parametrize(
    ("source", "folder", "columns", "task", "expected"),
    [
        (ConllFiles, "conll2003", {}, Tagging(), [4.98, 4.97, 4.72]),
        (TextFiles, "mrpc", MRPC, Classification(), [2.07, 2.16, 1.98]),
    ],
)
def test_ratios_of_published_data(data_folder, source, folder, columns, task, expected):
    """Tests of the readers have the counts that make them up."""
    data = source(dir=str(data_folder / folder), **columns)
    result = profile_of(data, task=task, encoder=ScratchEncoder(vocab_size=2000))
    ratios = [round(split.outputs[0].ratio, 2) for split in result.splits.values()]
    assert ratios == expected
