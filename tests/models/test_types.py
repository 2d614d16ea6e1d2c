"""Each `model_type`: packing, segments, export, the library, a mesh of 8 devices."""

import dataclasses
import signal

import jax
import numpy as np
import pytest

# Before the imports below, which would leave half a module behind without it.
pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")

import dicejax as dj
from dicejax import mesh
from dicejax.cli import run
from dicejax.data import tokenize
from dicejax.data.pack import BatchLayout, fill, pack
from dicejax.data.synthetic import SyntheticNER
from dicejax.models import huggingface
from dicejax.models.heads import TokenHead
from dicejax.models.huggingface.names import FAMILIES
from dicejax.training import sharding

from ..training import commands, worker
from .peers import configured, logits_of, our_logits, pair, theirs, torch, transformers
from .small import batch_for, has_token_types, quickly

LAYOUT = BatchLayout(tokens={"input_ids": 0, "token_type_ids": 0})
LENGTH = 12
# Each kind of embeddings and of layers that the tests of kinds do not have.
ON_A_MESH = ("roberta-prelayernorm", "gte", "eurobert")
# Those whose modules the tests of kinds do not have.
BY_DEFAULT = ("albert", "distilbert", "ernie", "megatron-bert", "roberta-prelayernorm")
BY_DEFAULT += ("gte", "nomic_bert", "jina_embeddings_v3", "eurobert")

EXPERIMENT = """
from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.data.synthetic import SyntheticNER


def get_config():
    return Experiment(
        name="tags",
        data=SyntheticNER(train=40, dev=8, test=8),
        encoder=PretrainedEncoder(path="."),
        training=Training(epochs=2, batch_size=10, max_length=20, log_every=1),
    )
"""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.exhaustive] * (name not in BY_DEFAULT))
        for name in FAMILIES
    ],
)
def both(request):
    return made(request.param)


def made(name, layers=2):
    """Return a model of PyTorch and ours."""
    depth = {"n_layer" if name == "xlnet" else "num_hidden_layers": layers}
    return pair(configured(name, **depth), "TokenClassification")


def sentences(encoder, lengths, seed=0):
    rng = np.random.default_rng(seed)
    types = 1 + has_token_types(encoder)
    return [
        {
            "input_ids": rng.integers(7, encoder.vocab_size, n),
            "token_type_ids": rng.integers(0, types, n),
        }
        for n in lengths
    ]


def test_packed_rows_give_what_single_rows_give(both):
    lengths = (12, 5, 4, 3, 7, 2, 1)
    examples, rows = sentences(both.network.encoder, lengths), pack(lengths, LENGTH)
    assert len(rows) < len(examples)
    apply = quickly(lambda batch: our_logits(both, both.params, batch))
    packed = apply(fill([[examples[i] for i in row] for row in rows], LENGTH, LAYOUT))
    alone = apply(fill([[example] for example in examples], LENGTH, LAYOUT))
    for row, logits in zip(rows, packed, strict=True):
        start = 0
        for item in row:
            end = start + lengths[item]
            expected = alone[item, : lengths[item]]
            np.testing.assert_allclose(logits[start:end], expected, atol=1e-5)
            start = end


def test_segments_do_not_see_each_other(both):
    first, second, other = sentences(both.network.encoder, [6, 5, 5])
    rows = [[first, second], [first, other], [second, first], [other, first]]
    batch = fill(rows, LENGTH, LAYOUT)
    logits = np.asarray(our_logits(both, both.params, batch))
    np.testing.assert_array_equal(logits[0, :6], logits[1, :6])
    np.testing.assert_array_equal(logits[2, 5:11], logits[3, 5:11])
    assert np.abs(logits[0, 6:11] - logits[1, 6:11]).max() > 1e-3


def test_what_is_written_opens_in_pytorch_with_the_same_logits(both, tmp_path):
    """The configuration is read back equal, the weights bit for bit."""
    out, encoder = tmp_path / "out", both.network.encoder
    name = huggingface.write(out, both.network, both.params)
    model = getattr(transformers, name).from_pretrained(out).eval()
    assert type(model) is type(both.model)
    batch = batch_for(encoder, (12, 9, 1), "none" if name[:2] == "XL" else "right")
    with torch.no_grad():
        expected = logits_of(model(**theirs(both, batch))).numpy()
    real = batch["segment_ids"] > 0
    got = np.asarray(our_logits(both, both.params, batch))
    np.testing.assert_allclose(got[real], expected[real], atol=1e-5)
    assert huggingface.read_config(out) == encoder
    weights = huggingface.read_weights(out, both.network)
    jax.tree.map(np.testing.assert_array_equal, weights.params, both.params)


def test_the_library_trains_it(both, tmp_path):
    folder, head = tmp_path / "model", TokenHead(classes=3)
    tokenizer = tokenize.learn_wordpiece(["Ada", "met", "Bo", "in", "Oslo"] * 9, 40)
    encoder = dataclasses.replace(both.network, heads=())
    huggingface.write(folder, encoder, both.params | {"heads": {}}, tokenizer=tokenizer)
    model, params, tokenizer = dj.from_pretrained(folder, {"tags": head})
    jax.tree.map(
        np.testing.assert_array_equal, params["encoder"], both.params["encoder"]
    )
    words, tags = [["Ada", "met", "Bo"], ["Oslo"]], [[1, 0, 1], [2]]
    batch = dj.encode(tokenizer, words, tags, max_length=16)

    @quickly
    def step(params):
        def loss(params):
            logits = model.apply(params, batch, jax.random.key(1))["tags"]
            return dj.losses.cross_entropy(logits, batch["tags"]).mean()

        value, grads = jax.value_and_grad(loss)(params)
        return value, jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)

    first, params = step(params)
    for _ in range(4):
        last, params = step(params)
    assert last < first


def differences_on_a_mesh(names):
    """Return how far the gradients of 8 devices are from those of one, by type."""
    results = {}
    for name in names:
        both = made(name, layers=1)  # all are divided alike
        batch = batch_for(both.network.encoder, (12, 5, 7, 3, 9, 1, 4, 6))

        def loss(params, batch, both=both):
            return (our_logits(both, params, batch, jax.random.key(3)) ** 2).sum()

        expected = quickly(jax.grad(loss))(both.params, batch)
        grid = mesh.MeshShape(data=2, fsdp=2, tensor=2).make()
        with mesh.in_use(grid):
            placed = sharding.put(both.params, grid)
            got = quickly(jax.grad(loss))(placed, sharding.global_batch(batch, grid))
        pairs = zip(*map(jax.tree.leaves, (got, expected)), strict=True)
        furthest = max(float(np.abs(a - np.asarray(b)).max()) for a, b in pairs)
        largest = max(float(np.abs(b).max()) for b in jax.tree.leaves(expected))
        results[name] = np.array([furthest, largest])
    return results


def test_eight_devices_give_the_gradients_of_one(request, tmp_path):
    every = [*FAMILIES] if request.config.getoption("exhaustive") else ON_A_MESH
    results = worker.call(differences_on_a_mesh, every, folder=tmp_path, devices=8)
    assert len(results) == len(every)
    for name, (furthest, largest) in results.items():
        assert furthest < 1e-5 * largest, name


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.exhaustive] * (name != "gte"))
        for name in BY_DEFAULT
    ],
)
def test_a_run_that_was_stopped_ends_as_if_it_had_not(name, tmp_path):
    model, texts = tmp_path / "model", SyntheticNER(train=40, dev=8, test=8).load()
    tokenizer = tokenize.learn_wordpiece([" ".join(e.words) for e in texts.train], 120)
    settings = {"vocab_size": tokenizer.get_vocab_size(), "num_hidden_layers": 1}
    both = pair(configured(name, **settings), "TokenClassification")
    huggingface.write(model, both.network, both.params, tokenizer=tokenizer)
    experiment = tmp_path / "tags.py"
    experiment.write_text(EXPERIMENT)
    argv = ["train", str(experiment), "--encoder.path", str(model)]
    whole, stopped = ([*argv, "--out", str(tmp_path / n)] for n in ("whole", "stopped"))
    assert run(whole) == 0
    commands.stop_at(3, signal.SIGTERM, stopped)
    assert run(stopped) == 0
    commands.same_end(tmp_path / "stopped", tmp_path / "whole")
