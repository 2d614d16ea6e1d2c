"""Profiles against plain counting, and the warnings of the command."""

import collections
import json
import math

import jax
import numpy as np
import pytest

from dicejax.config import Experiment, PretrainedEncoder, ScratchEncoder, Training
from dicejax.data import tokenize
from dicejax.data.resample import DownSampling
from dicejax.data.sources import (
    ConllFiles,
    LabelFirstFiles,
    SquadFiles,
    SyntheticNER,
    TabSeparatedFiles,
    WordLabelFiles,
)
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
from dicejax.tasks import Classification, Tagging, WordTagging
from dicejax.tasks.question_answering import QuestionAnswering
from dicejax.tasks.two_pointers import TwoPointerNER
from dicejax.training.setup import load_data


def told(experiment, **options):
    """Return the profile and its warnings."""
    said = []
    return profile(experiment, said.append, **options), said


def tagging(folder, **settings):
    training = Training(max_length=32, batch_size=4)
    settings = {"training": training} | settings
    return Experiment(name="small", data=ConllFiles(dir=str(folder)), **settings)


def by_label(output):
    return {label.label: label.positives for label in output.labels}


def supported(found):
    return {(one.output, one.label): one for one in found.support}


def test_tags_are_those_of_a_plain_count(conll):
    found, said = told(tagging(conll))
    for split in ("train", "dev", "test"):
        text = (conll / f"{split}.txt").read_text()
        gold = collections.Counter(line.split()[1] for line in text.split("\n") if line)
        (tags,) = found.splits[split].outputs
        counts = {name: n for name, n in by_label(tags).items() if n}
        assert counts == gold
        assert (tags.negative, tags.rule) == ("O", "negative class")
        assert tags.negatives == gold["O"]
        assert tags.positives == gold.total() - gold["O"]
        assert tags.ratio == tags.negatives / tags.positives
        for label in tags.labels:
            assert label.negatives == gold.total() - label.positives
            assert label.is_negative == (label.label == "O")
        assert found.splits[split].examples == len(text.strip().split("\n\n"))
    assert found.warnings == tuple(said) and "'ORG'" in said[0]


def test_labels_too_rare_are_found_and_each_rule_says_so(conll):
    found, _ = told(tagging(conll, objective=Dice(smooth=2.0)), rare=9)
    support = supported(found)
    # 24 sentences in train, 4 of which an update sees.
    assert support["tags", "B-PER"].per_update == pytest.approx(16 * 4 / 24)
    assert support["tags", "B-PER"].reasons == ()
    assert support["tags", "B-LOC"].per_update == pytest.approx(8 * 4 / 24)
    assert support["tags", "B-LOC"].reasons == ("few", "smooth")
    assert support["tags", "B-ORG"].reasons == ("unseen",)
    assert support["tags", "I-ORG"].reasons == ("absent",)
    assert support["tags", "I-PER"].reasons == ("absent",)
    assert support["tags", "B-ORG"].dev == 1
    assert {one.label for one in found.too_rare} == {
        "B-LOC",
        "I-LOC",
        "I-PER",
        "B-ORG",
        "I-ORG",
    }
    small = Training(max_length=32, batch_size=2)
    found, _ = told(tagging(conll, training=small), rare=8)
    assert supported(found)["tags", "B-LOC"].reasons == ("not in every update",)
    large = Training(max_length=32, batch_size=999)
    found, _ = told(tagging(conll, training=large), rare=0)
    assert supported(found)["tags", "B-LOC"].per_update == 8


def test_resampling_changes_what_an_update_expects(conll):
    sampling = DownSampling(ratio=0.1)
    experiment = tagging(conll, sampling=sampling)
    found, _ = told(experiment)
    # Sentences without an entity, a third, are left out.
    assert supported(found)["tags", "B-LOC"].per_update == pytest.approx(8 * 4 / 16)
    assert found.splits["train"].examples == 24


def test_smooth_is_that_of_the_parts_that_count():
    mixed = WeightedSum(
        parts=(Dice(smooth=0.5), LinearSchedule(then=Tversky(smooth=3.0))),
        weights=(1.0, 1.0),
    )
    assert smooth_by_output(mixed.bind_outputs(["tags"])) == {"tags": 3.0}
    two = WeightedSum(parts=(Dice(output="a", smooth=2.0), CrossEntropy(output="b")))
    assert smooth_by_output(two) == {"a": 2.0}
    assert smooth_by_output(SelfAdjustingDice(output="a", over="element")) == {}


def test_the_synthetic_corpus_is_counted_as_it_is():
    data = SyntheticNER(train=300, dev=20, test=20)
    found, _ = told(Experiment(name="made", data=data))
    words = inside = 0
    for sentence in data.load().train:
        words += len(sentence.words)
        inside += sum(span.end - span.start for span in sentence.spans)
    (tags,) = found.splits["train"].outputs
    assert (tags.negatives, tags.positives) == (words - inside, inside)
    assert not any(label.weights for label in found.splits["dev"].outputs[0].labels)
    assert found.too_rare == tuple(one for one in found.support if one.reasons)


def test_weights_are_the_formulas(conll):
    found, _ = told(tagging(conll))
    labels = found.splits["train"].outputs[0].labels
    counts = np.array([max(label.positives, 1) for label in labels], float)
    total = counts.sum()
    roots = counts**-0.5
    effective = (1 - 0.999) / (1 - 0.999**counts)
    wanted = {
        "log_ratio": np.log10((total - counts) / counts + 1),
        "inverse": total / (len(counts) * counts),
        "inverse_square_root": roots * total / (counts * roots).sum(),
        "effective_number": effective * len(counts) / effective.sum(),
    }
    for scheme, values in wanted.items():
        given = [label.weights[scheme] for label in labels]
        np.testing.assert_allclose(given, values, rtol=1e-4)


@pytest.mark.parametrize("extra", ["", "maybe both of them\n"])
def test_two_classes_have_a_negative_one_and_three_have_not(tmp_path, extra):
    lines = "no a b c\n" * 6 + "yes d e\n" * 2 + extra
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.txt").write_text(lines)
    data = LabelFirstFiles(dir=str(tmp_path))
    found, _ = told(Experiment(name="texts", data=data, task=Classification()))
    (label,) = found.splits["train"].outputs
    assert by_label(label)["no"] == 6 and by_label(label)["yes"] == 2
    if extra:
        assert (label.rule, label.ratio) == ("most and least", 6.0)
        assert (label.negative, label.positive) == ("no", "maybe")
        assert not any(one.is_negative for one in label.labels)
    else:
        assert (label.rule, label.ratio) == ("negative class", 3.0)
        assert (label.negative, label.positive) == ("no", "yes")


def test_tab_separated_pairs_are_counted(tmp_path):
    rows = [("1", "a b", "b a"), ("0", "a", "c d"), ("1", "e", "e f")]
    lines = ["\t".join(("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"))]
    lines += ["\t".join((c, "1", "2", first, second)) for c, first, second in rows]
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    data = TabSeparatedFiles(
        dir=str(tmp_path), first="#1 String", second="#2 String", label="Quality"
    )
    found, _ = told(Experiment(name="pairs", data=data, task=Classification()))
    (label,) = found.splits["train"].outputs
    assert by_label(label) == {"0": 1, "1": 2} and label.ratio == 0.5


def test_o_is_a_label_like_others_where_it_is_not_the_first(tmp_path):
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.txt").write_text("a\tD\nb\tN\nc\tO\nd\tN\n\n")
    data = WordLabelFiles(dir=str(tmp_path))
    found, _ = told(Experiment(name="words", data=data, task=WordTagging()))
    (tags,) = found.splits["train"].outputs
    assert (tags.rule, tags.negative, tags.ratio) == ("most and least", "N", 2.0)


def test_an_o_that_never_occurs_is_no_negative_class(tmp_path):
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.txt").write_text("a B-X\nb I-X\nc I-X\n")
    found, _ = told(tagging(tmp_path))
    (tags,) = found.splits["train"].outputs
    assert (tags.rule, tags.negative, tags.positive) == (
        "most and least",
        "I-X",
        "B-X",
    )
    assert supported(found)["tags", "O"].reasons == ("absent",)


def test_two_pointers_have_two_outputs(conll):
    found, _ = told(tagging(conll, task=TwoPointerNER(), objective=Dice()))
    start, end = found.splits["train"].outputs
    assert (start.output, end.output) == ("start", "end")
    assert by_label(start) == by_label(end) == {"O": 56, "LOC": 8, "PER": 16}
    assert found.smooth == {"start": 1.0, "end": 1.0}
    assert supported(found)["end", "ORG"].reasons == ("unseen",)


def squad(folder, unanswerable):
    questions = [
        {"id": "a", "question": "Who?", "answers": [{"text": "Bob", "answer_start": 0}]}
    ]
    if unanswerable:
        questions.append(
            {"id": "b", "question": "Why?", "answers": [], "is_impossible": True}
        )
    paragraph = {"context": "Bob sleeps in Oslo", "qas": questions}
    content = {"version": "v2.0", "data": [{"title": "t", "paragraphs": [paragraph]}]}
    for name in ("train", "dev"):
        (folder / f"{name}.json").write_text(json.dumps(content))
    return SquadFiles(dir=str(folder), dev="dev.json", test=None)


@pytest.mark.parametrize("form", ["positions", "sigmoid"])
@pytest.mark.parametrize("unanswerable", [False, True])
def test_pieces_that_are_no_start_are_counted(tmp_path, form, unanswerable):
    task = QuestionAnswering(form=form, unanswerable=unanswerable)
    data = squad(tmp_path, unanswerable)
    experiment = Experiment(name="reading", data=data, task=task)
    found, _ = told(experiment)
    start, end = found.splits["train"].outputs
    assert start.positives == end.positives == 1
    items = load_data(experiment, lambda text: None).items["train"]
    assert len(items) == 1 + unanswerable
    if form == "positions":
        wanted = sum(map(len, items)) - 1
        assert (start.rule, start.sequences) == ("positions", len(items))
        assert not any(label.weights for label in start.labels)
    else:
        wanted = sum(int(item.detail.candidates.sum()) for item in items) - 1
        assert start.rule == "multi-label" and start.sequences is None
    assert start.negatives == wanted and start.ratio == wanted
    assert [one.positives for one in start.labels] == [wanted, 1]
    assert set(supported(found)) == {
        ("start", start.labels[1].label),
        ("end", end.labels[1].label),
    }


def test_quantiles_and_bins_are_plain_counts():
    lengths = np.random.default_rng(0).integers(1, 97, 1000).tolist()
    found = measure_lengths(lengths)
    assert found.longest == max(lengths)
    for percent, length in found.quantiles.items():
        assert sum(n <= length for n in lengths) >= percent * 10
        assert sum(n < length for n in lengths) < percent * 10
    assert len(found.bins) == 10 and found.bins[-1].last == found.longest
    for one in found.bins:
        wanted = sum(one.first <= n <= one.last for n in lengths)
        assert one.sequences == wanted
    assert sum(one.sequences for one in found.bins) == 1000
    assert measure_lengths([7]).bins[-1] == measure_lengths([7, 7]).bins[-1].__class__(
        7, 7, 1
    )


def test_padding_is_what_numpy_says():
    lengths = np.random.default_rng(1).integers(3, 40, 203)
    found = measure_padding(lengths.tolist(), max_length=48, per_batch=20, seed=5)
    order = np.arange(203)
    np.random.default_rng((5, 0)).shuffle(order)
    padded = np.append(lengths[order], np.zeros(17, int)).reshape(11, 20)
    to_batch = int((padded.max(1) * (padded > 0).sum(1)).sum())
    assert found.to_row.places == 203 * 48
    assert found.to_batch.places == to_batch
    assert found.packed.places % 48 == 0
    least = math.ceil(lengths.sum() / 48) * 48
    assert least <= found.packed.places < 1.1 * least
    for way in (found.to_row, found.to_batch, found.packed):
        assert way.filled == lengths.sum() / way.places
        assert way.factor == way.places / found.packed.places


def test_the_padding_of_training_is_that_of_its_batches(conll):
    from dicejax.training.setup import prepare

    experiment = tagging(conll, training=Training(max_length=32, epochs=1, seed=3))
    found, _ = told(experiment)
    batches = prepare(experiment, lambda text: None).batches(
        MeshShape().make(jax.devices()[:1])
    )
    rows = sum(len(batches[step].rows) for step in range(len(batches)))
    empty = sum(not row for step in range(len(batches)) for row in batches[step].rows)
    assert found.splits["train"].padding.packed.places == (rows - empty) * 32


def test_json_brings_every_number_back(conll):
    found, _ = told(tagging(conll, objective=Dice()))
    assert from_json(to_json(found)) == found
    content = json.loads(to_json(found))
    assert content["splits"]["train"]["outputs"][0]["negatives"] == 48
    assert content["splits"]["dev"]["lengths"]["quantiles"]["50"] >= 3


def test_a_folder_without_weights_is_enough(conll, model_folder):
    (model_folder / "model.safetensors").unlink()
    tokenizer = tokenize.learn_wordpiece(["a"], vocab_size=7)
    tokenizer.save(str(model_folder / tokenize.FILE))
    found, _ = told(tagging(conll, encoder=PretrainedEncoder(path=str(model_folder))))
    assert found.splits["train"].examples == 24


# Real data


def test_conll_2003_has_the_published_counts(data_folder):
    folder = data_folder / "conll2003"
    encoder = ScratchEncoder(vocab_size=2000)
    training = Training(max_length=512)
    data = ConllFiles(dir=str(folder))
    found, _ = told(
        Experiment(
            name="conll", data=data, task=Tagging(), encoder=encoder, training=training
        )
    )
    sizes = {"train": (14_041, 203_621), "dev": (3250, 51_362), "test": (3453, 46_435)}
    ratios = {"train": 4.98, "dev": 4.97, "test": 4.72}
    for split, (sentences, words) in sizes.items():
        (tags,) = found.splits[split].outputs
        assert found.splits[split].examples == sentences
        assert tags.negatives + tags.positives == words
        assert round(tags.ratio, 2) == ratios[split]
    spans = by_label(found.splits["train"].outputs[0])
    entities = {name: spans[f"B-{name}"] for name in ("LOC", "MISC", "ORG", "PER")}
    assert entities == {"LOC": 7140, "MISC": 3438, "ORG": 6321, "PER": 6600}


def test_mrpc_has_the_published_counts(data_folder):
    data = TabSeparatedFiles(
        dir=str(data_folder / "mrpc"),
        first="#1 String",
        second="#2 String",
        label="Quality",
    )
    found, _ = told(Experiment(name="mrpc", data=data, task=Classification()))
    ratios = {"train": 0.48, "dev": 0.46, "test": 0.50}
    for split, wanted in ratios.items():
        (label,) = found.splits[split].outputs
        assert round(label.ratio, 2) == wanted
    (label,) = found.splits["train"].outputs
    assert by_label(label) == {"0": 3668 - 2474, "1": 2474}
