"""The analysed gradient is that of the step, on any devices; kinds of pieces."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tokenizers import Tokenizer, models

from dicejax.data import tokenize
from dicejax.mesh import MeshShape
from dicejax.objectives import CrossEntropy, SelfAdjustingDice, SoftF1, WeightedSum
from dicejax.optimizers import AdamW
from dicejax.tasks import Tagging, Target
from dicejax.training.accumulation import loss_and_gradient
from dicejax.training.gradients.measures import Groups, counts_of, no_counts
from dicejax.training.gradients.probe import (
    KINDS,
    Output,
    kinds_of,
    measure_gradients,
    measure_step_gradients,
)
from dicejax.training.sharding import global_batch, replicate, shardings, to_host
from dicejax.training.state import TrainState
from dicejax.training.step import train_step

from .. import worker
from ..making import batch, network

TARGET = Target("classes", ("O", "B-PER", "I-PER", "B-LOC"), has_negative=True)
OUTPUT = Output("tags", Groups.of_target(TARGET), of_tokens=True)
OBJECTIVE = SelfAdjustingDice(output="tags", alpha=0.5)
PIECES = np.array([1] * 4 + [2] * 12 + [3] * 8, np.int32)
# Devices, and the parts that the forward pass is cut into.
WAYS = {
    "plain": ({"data": 1}, 1),
    "parts": ({"data": 1}, 4),
    "data": ({"data": 4}, 1),
    "mixed": ({"data": 1, "fsdp": 2, "tensor": 2}, 2),
}
NOTHING = {"tags": no_counts(4)}
PRIMARY = SoftF1(output="tags", average="micro", exclude_class=0, smooth=0.0)


def state():
    params = network().init(jax.random.key(0))
    created = TrainState.create(params, AdamW(), total_steps=9, rng=jax.random.key(1))
    return dataclasses.replace(created, step=jnp.asarray(3, jnp.int32))


def measured(objective, rng=None, rows=None, **options):
    """Return the measurements, and the settings, parameters and batch of the step."""
    settings = {"network": network(), "task": Tagging(), "rng": rng}
    rows = batch() if rows is None else rows
    params = jax.jit(network().init)(jax.random.key(0))

    @jax.jit
    def compute(params, rows, pieces):
        former = NOTHING, pieces, (OUTPUT,)
        return measure_gradients(
            params, rows, objective, *former, **settings, **options
        )["tags"]

    return compute(params, rows, PIECES), settings, params, rows


@pytest.mark.parametrize("parts", [1, 4])
def test_the_heads_get_what_the_step_gives_them(parts):
    options = {"micro_batches": parts, "keep_head_gradients": True}
    result, settings, params, rows = measured(OBJECTIVE, jax.random.key(5), **options)

    @jax.jit
    def step(params):
        return loss_and_gradient(params, rows, OBJECTIVE, **settings).gradients

    pair = result.head_gradients["loss"], step(params)["heads"]
    for ours, theirs in zip(*map(jax.tree.leaves, pair), strict=True):
        assert jnp.abs(theirs).max() > 1e-4
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-7)


def test_weights_of_examples_are_in_the_gradient():
    plain, *_ = measured(OBJECTIVE)
    rows = batch()
    real = rows["segment_ids"] > 0
    rows |= {
        "token_weights": np.where(real, 3.0, 0.0).astype(np.float32),
        "sequence_weights": np.ones((len(real), 2), np.float32),
    }
    heavy, *_ = measured(OBJECTIVE, rows=rows)
    norm = 3 * plain.measures.gradient_norm
    np.testing.assert_allclose(heavy.measures.gradient_norm, norm, rtol=1e-5)
    np.testing.assert_allclose(heavy.cosine["micro"], plain.cosine["micro"], rtol=1e-5)


def test_soft_f1_agrees_with_itself_and_its_opposite_does_not():
    against = WeightedSum(parts=(PRIMARY,), weights=(-2.0,))
    for objective, expected in ((PRIMARY, 1.0), (against, -1.0)):
        result, *_ = measured(objective)
        assert result.cosine["micro"] == pytest.approx(expected, abs=1e-5)
        assert result.cosine_heads["micro"] == pytest.approx(expected, abs=1e-5)
        assert 0.1 < abs(result.cosine["macro"]) < 1 - 1e-4
    other, *_ = measured(CrossEntropy(output="tags"))
    assert 0 < other.cosine["micro"] < 0.99


def test_numbers_are_those_of_the_logits_that_were_computed():
    result, settings, params, rows = measured(CrossEntropy(output="tags"))
    logits = settings["network"].apply(params, rows)["tags"]
    seen = rows["tags"] >= 0
    p = jax.nn.softmax(logits)[seen]
    norm = jnp.linalg.norm(p - jnp.eye(4)[rows["tags"][seen]], axis=-1).sum()
    counts = counts_of(logits, rows["tags"], OUTPUT.groups)
    for ours, theirs in (
        (result.measures.gradient_norm.sum(), norm),
        (result.measures.count.sum(), seen.sum()),
        (result.counts.predicted, counts.predicted),
        (result.counts.predicted, p.sum(axis=0)),
        (result.kinds["gradient_norm"].sum(), norm),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    real = rows["segment_ids"] > 0
    pieces = PIECES[rows["input_ids"]][real]
    places = [np.sum(~real)] + [np.sum(pieces == kind) for kind in (1, 2, 3)]
    assert result.kinds["places"].tolist() == places
    assert result.kinds["gradient_norm"][0] == 0  # of padding


def test_former_batches_fade():
    begun, inputs = state(), (batch(), OBJECTIVE)
    settings = {"network": network(), "task": Tagging()}
    options = settings | {"outputs": (OUTPUT,)}
    pieces = jnp.asarray(PIECES)
    first = measure_step_gradients(begun, *inputs, NOTHING, pieces, **options)["tags"]
    counts = {"tags": first.counts}
    second = measure_step_gradients(begun, *inputs, counts, pieces, **options)["tags"]
    for name in ("actual", "intersection"):
        once, twice = getattr(first.counts, name), getattr(second.counts, name)
        np.testing.assert_allclose(twice, 1.9 * once, rtol=1e-6)
    # The same batch twice: counts in the same proportion, the same F1 and direction.
    for name in ("soft_f1", "cosine"):
        once, twice = (getattr(x, name)["micro"] for x in (first, second))
        assert twice != 0
        np.testing.assert_allclose(twice, once, rtol=0.05)
    # It gives nothing up: the step can still take the state.
    train_step(begun, *inputs, optimizer=AdamW(), **settings)


SPECIAL, START, CONTINUATION = "special", "word start", "continuation"


def kinds(tokenizer, pieces):
    numbers = kinds_of(tokenizer)
    assert len(numbers) == tokenizer.get_vocab_size()
    return [KINDS[numbers[tokenizer.token_to_id(piece)]] for piece in pieces]


def test_wordpiece_marks_continuations(minilm):
    pieces = ["[CLS]", "[PAD]", "run", "##ning", "##s", "#", "1"]
    expected = [SPECIAL] * 2 + [START] + [CONTINUATION] * 2 + [START] * 2
    assert kinds(tokenize.read(minilm), pieces) == expected


@pytest.mark.parametrize("mark", ["▁", "Ġ", ""])
def test_other_vocabularies_mark_starts_of_words_or_have_starts_alone(mark):
    words = [f"{mark}the", f"{mark}a", "ing", "s"]
    pieces = ["<s>", *words, *filter(None, [mark])]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<s>"))
    tokenizer.add_special_tokens(["<s>"])
    expected = [SPECIAL] + [START] * 2 + [CONTINUATION if mark else START] * 2
    assert kinds(tokenizer, ["<s>", *words]) == expected


def measure_all_ways():
    """Return every number of the measurements, on each mesh."""
    results = {}
    for way, (shape, micro_batches) in WAYS.items():
        used = int(np.prod(list(shape.values())))
        mesh = MeshShape(**shape).make(jax.devices()[:used])
        begun = state()
        result = measure_step_gradients(
            jax.device_put(begun, shardings(begun, mesh)),
            global_batch(batch(), mesh),
            *(replicate(value, mesh) for value in (OBJECTIVE, NOTHING, PIECES)),
            network=network(),
            task=Tagging(),
            outputs=(OUTPUT,),
            micro_batches=micro_batches,
            mesh=mesh,
        )
        for path, leaf in jax.tree_util.tree_leaves_with_path(to_host(result, mesh)):
            results[f"{way}:{jax.tree_util.keystr(path)}"] = leaf
    return results


@pytest.mark.exhaustive
@pytest.mark.slow
def test_devices_and_parts_change_nothing(tmp_path):
    results = worker.call(measure_all_ways, folder=tmp_path, devices=4)
    plain = [name for name in results if name.startswith("plain:")]
    assert len(plain) > 15
    for name in plain:
        for way in WAYS:
            ours = results[name.replace("plain:", f"{way}:", 1)]
            np.testing.assert_allclose(
                ours, results[name], rtol=2e-4, atol=1e-6, err_msg=f"{way} {name}"
            )
