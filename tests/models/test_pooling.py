"""What represents a text vs. PyTorch and its peers, and folders that say it."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.data import tokenize
from dicejax.data.pack import fill, pack
from dicejax.errors import InputError
from dicejax.models import huggingface
from dicejax.models.encoder import SequenceSummary
from dicejax.models.heads import SequenceHead, TokenHead
from dicejax.models.heads.sequences import summary_state
from dicejax.models.network import Network
from dicejax.tasks import Classification
from dicejax.training.export import open_in_torch

from .small import batch_for, drawn, encoder_of, hidden_states, network_of

PLACES = ("first", "last", "mean", "max")
SEGMENTS = np.array([[0, 1, 1, 1, 2, 2, 0], [1, 2, 2, 2, 3, 3, 3]], np.int32)
ENDS = [[2, 1, 0], [0, 2, 2]]
SUMMED = np.array([[1, 4, -1], [0, 1, 4]], np.int32)


def by_torch(torch, hidden, segments, position):
    """Return the state of each segment, as PyTorch computes it from its tokens."""
    states = []
    for row, ids in zip(hidden, segments, strict=True):
        for segment in range(1, ids.max() + 1):
            own = row[torch.tensor(np.flatnonzero(ids == segment))]
            each = {"first": own[0], "last": own[-1], "mean": own.mean(0)}
            states.append(each.get(position, own.max(0).values))
    return torch.stack(states)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("position", PLACES)
@pytest.mark.parametrize("named", [True, False])
def test_states_of_packed_texts_and_their_gradient_are_pytorchs(torch, position, named):
    settings = SequenceSummary(position=position, named=named)
    hidden = np.array(hidden_states((2, 7, 5)))
    hidden[0, 2] = hidden[0, 3]  # of equal ones the first has the gradient
    batch = {"segment_ids": jnp.array(SEGMENTS)}
    places = SUMMED if position != "last" else SUMMED + np.array(ENDS)
    batch["summary_positions"] = jnp.array(places)
    there = np.array([[True, True, False], [True, True, True]])
    slopes = np.random.default_rng(3).normal(size=(5, 5))

    def total(hidden):
        states = summary_state(hidden, batch, settings)[there]
        return (states * slopes).sum(), states

    (_, ours), gradient = jax.value_and_grad(total, has_aux=True)(jnp.array(hidden))
    leaf = torch.tensor(hidden, requires_grad=True)
    theirs = by_torch(torch, leaf, SEGMENTS, position)
    (theirs * torch.tensor(slopes)).sum().backward()
    np.testing.assert_allclose(ours, theirs.detach().numpy(), 0, 1e-14)
    np.testing.assert_allclose(gradient, leaf.grad.numpy(), 0, 1e-14)


@pytest.mark.parametrize("position", PLACES)
def test_absent_texts_have_finite_states_and_gradients(position):
    settings = SequenceSummary(position=position, named=False)
    batch = {name: jnp.zeros((2, 3), jnp.int32) for name in ("segment_ids",)}
    batch["summary_positions"] = jnp.full((2, 2), -1)
    hidden = hidden_states((2, 3, 4))
    value, gradient = jax.value_and_grad(
        lambda h: summary_state(h, batch, settings).sum()
    )(hidden)
    assert np.isfinite(value) and np.isfinite(gradient).all()


def test_a_pooled_text_goes_without_the_pooler():
    config = encoder_of("bert", 8, 8, heads=2, depth=1, hidden_dropout_prob=0.25)
    shapes = {}
    for pooling in ("auto", *PLACES):
        network = network_of(dataclasses.replace(config, pooling=pooling), SEQUENCE)
        shapes[pooling] = set(
            jax.eval_shape(network.init, jax.random.key(0))["heads"]["tags"]
        )
        rate = network.text_summary.dropout_after
        assert rate == 0.25
    assert shapes.pop("auto") == shapes.pop("first") == {"summary", "dense"}
    assert [*shapes.values()] == [{"dense"}] * 3
    assert network_of(config, TokenHead(classes=2)).text_summary is None


SEQUENCE = SequenceHead(classes=3)
MODES = {
    "first": ({"pooling_mode_cls_token": True}, {"pooling_mode": "cls"}),
    "mean": ({"pooling_mode_mean_tokens": True}, {"pooling_mode": ["mean"]}),
    "max": ({"pooling_mode_max_tokens": True}, {"pooling_mode": "max"}),
    "last": ({"pooling_mode_lasttoken": True}, {"pooling_mode": "lasttoken"}),
}


def folder_with(folder, pooling=None, modules=None):
    """Return a folder of sentence-transformers; its weights are never read."""
    config = encoder_of("bert", 8, 8, heads=2)
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config.to_json()))
    if pooling is not None:
        (folder / "1_Pooling").mkdir()
        text = pooling if isinstance(pooling, str) else json.dumps(pooling)
        (folder / "1_Pooling/config.json").write_text(text)
    if modules is not None:
        listed = [
            {"idx": n, "name": str(n), "path": path, "type": kind}
            for n, (kind, path) in enumerate(modules)
        ]
        (folder / "modules.json").write_text(json.dumps(listed))
    return folder


@pytest.mark.parametrize("place", MODES)
def test_a_folder_says_how_it_pools_in_either_form(place, tmp_path):
    for number, content in enumerate(MODES[place]):
        others = {"pooling_mode_mean_sqrt_len_tokens": False, "include_prompt": True}
        folder = folder_with(tmp_path / str(number), content | others)
        encoder = huggingface.read_config(folder)
        assert encoder.pooling == place
        assert encoder.is_pooled == (place != "first")
        # It may lie elsewhere, with other modules behind it; what is set goes first.
        (folder / "1_Pooling").rename(folder / "pool")
        kinds = ("Transformer", ""), ("Pooling", "pool"), ("Normalize", "2_Normalize")
        folder_with(folder, None, [(f"a.b.{kind}", path) for kind, path in kinds])
        assert huggingface.read_config(folder).pooling == place
        assert huggingface.read_config(folder, "max").pooling == "max"


def test_without_such_files_an_encoder_has_its_own_form(tmp_path):
    assert huggingface.read_config(folder_with(tmp_path / "a")).pooling == "auto"
    modules = [("a.Transformer", ""), ("a.SpladePooling", "1_SpladePooling")]
    folder = folder_with(tmp_path / "b", None, modules)
    assert huggingface.read_config(folder).pooling == "auto"
    # A key of config.json is none of ours.
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(content | {"pooling": "mean"}))
    assert huggingface.read_config(folder).pooling == "auto"


TRANSFORMER = ("s.models.Transformer", "")
MEAN, NO_NAME = {"pooling_mode": "mean"}, "names no class and no folder"
BOTH = {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}
WRONG = [
    (BOTH, None, "pools by ['mean', 'max']"),
    ({"pooling_mode_mean_sqrt_len_tokens": True}, None, "pools by 'mean_sqrt_len'"),
    ({"pooling_mode_weightedmean_tokens": True}, None, "pools by 'weightedmean'"),
    ({"pooling_mode": ["mean", "cls"]}, None, "pools by ['mean', 'cls']"),
    ({"pooling_mode": "x" * 10_000}, None, "pools by 'xxx"),
    ({"pooling_mode": {"mean": 1}}, None, "pools by {'mean': 1}"),
    ({"pooling_mode": [[["mean"]]]}, None, "pools by [['mean']]"),
    ({"pooling_mode_mean_tokens": "yes"}, None, "pooling_mode_mean_tokens is 'yes'"),
    ({"pooling_mode_mean_tokens": False}, None, "pools by []"),
    ({}, None, "pools by []"),
    (MEAN | {"embedding_dimension": 384}, None, "384 wide"),
    ([1], None, "holds no JSON object"),
    ("{", None, "1_Pooling/config.json:1: not JSON"),
    ("[" * 100_000, None, "nested too deeply"),
    (None, [TRANSFORMER, ("s.Pooling", "1_Pooling")], "1_Pooling/config.json"),
    (None, [TRANSFORMER, ("s.Pooling", "../../etc")], NO_NAME),
    (None, [TRANSFORMER, ("s.Pooling", "/etc")], NO_NAME),
    (None, [TRANSFORMER, ("s.Pooling", "..")], NO_NAME),
    (None, [TRANSFORMER, (5, "1_Pooling")], NO_NAME),
    (MEAN, [TRANSFORMER, ("s.LSTM", "1"), ("s.Pooling", "1_Pooling")], "'LSTM'"),
    (MEAN, [TRANSFORMER, *2 * [("s.Pooling", "1_Pooling")]], "one Pooling takes"),
]


@pytest.mark.parametrize(("pooling", "modules", "message"), WRONG)
def test_other_pooling_is_one_line_whose_advice_works(
    pooling, modules, message, tmp_path
):
    folder = folder_with(tmp_path / "model", pooling, modules)
    with pytest.raises(InputError) as caught:
        huggingface.read_config(folder)
    text = str(caught.value)
    assert message in text and "\n" not in text and len(text) < 400
    assert huggingface.read_config(folder, "mean").pooling == "mean"
    names = Network(encoder=huggingface.read_config(folder, "mean"), heads=())
    assert names.text_summary is None


def test_modules_that_are_no_list_are_one_line(tmp_path):
    folder = folder_with(tmp_path / "model")
    for content in ('{"a": 1}', "[5]", '["x"]'):
        (folder / "modules.json").write_text(content)
        with pytest.raises(InputError, match="names no class and no folder"):
            huggingface.read_config(folder)


TEXTS = 60


def texts_of(data_folder):
    lines = (data_folder / "sst2_sentences/dev.txt").read_text().splitlines()
    return [line.split(" ", 1)[1] for line in lines[:TEXTS]]


def means_of(folder, texts):
    """Return the mean state of each text, packed into rows, before any head."""
    tokenizer = tokenize.read(folder, words=False)
    task, length = Classification(), 128
    (kind,) = task.takes
    examples = [kind(text, None, None, str(n), n) for n, text in enumerate(texts)]
    items = task.encode(examples, tokenizer, ("a", "b"), length)
    assert len(items) == len(texts)
    encoder = huggingface.read_config(folder)
    network = Network(encoder=encoder, heads=())
    params = huggingface.read_weights(folder, network).params
    rows = pack([len(item) for item in items], length)
    assert max(map(len, rows)) > 2
    arrays = [[items[place].arrays for place in row] for row in rows]
    batch = fill(arrays, length, task.layout(tokenizer))
    states = jax.jit(network.hidden_states)(params, batch)[-1]
    pooled = np.array(
        summary_state(states, jax.tree.map(jnp.asarray, batch), encoder.text_summary)
    )
    means = np.zeros((len(texts), encoder.width), np.float32)
    for row, places in enumerate(rows):
        means[list(places)] = pooled[row, : len(places)]
    return encoder, means


REAL = ["minilm", pytest.param("mpnet", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", REAL)
def test_real_encoders_have_the_means_of_sentence_transformers(
    request, name, data_folder, tmp_path
):
    package = pytest.importorskip("sentence_transformers")
    folder = request.getfixturevalue(name)
    texts = texts_of(data_folder)
    encoder, ours = means_of(folder, texts)
    assert encoder.pooling == "mean" and encoder.is_pooled
    model = package.SentenceTransformer(str(folder), device="cpu")
    first, pooling, _ = model  # what follows divides by the norm
    theirs = package.SentenceTransformer(modules=[first, pooling]).encode(texts)
    assert np.abs(ours).max() > 0.3
    np.testing.assert_allclose(ours, theirs, 0, 1e-5)


@pytest.mark.parametrize("kind", ["bert", "xlnet"])
@pytest.mark.parametrize("place", PLACES)
def test_a_pooled_classifier_is_written_and_read_again(torch, kind, place, tmp_path):
    encoder = encoder_of(kind, 12, 20, heads=2, vocab=30, pooling=place)
    network, labels = network_of(encoder, SEQUENCE), ("a", "b", "c")
    params, out = drawn(network), tmp_path / "out"
    opener = huggingface.write(out, network, params, labels=labels)
    is_pooled = place != encoder.summary.position
    assert (opener == "SentenceTransformer") == is_pooled == encoder.is_pooled
    again = dataclasses.replace(network, encoder=huggingface.read_config(out))
    assert again.text_summary == network.text_summary
    read = huggingface.read_weights(out, again, labels)
    assert (read.new_heads, read.notes) == ((), ())
    jax.tree.map(np.testing.assert_array_equal, read.params, params)
    batch = batch_for(encoder, (12, 9, 4, 1), "left" if kind == "xlnet" else "right")
    model, names = open_in_torch(out, opener)
    inputs = {name: torch.tensor(batch[ours]) for name, ours in names.items()}
    expected = model(**inputs).logits.numpy()
    np.testing.assert_allclose(network.apply(params, batch)["tags"], expected, 0, 1e-5)
    if not is_pooled:
        return
    # A head of texts that are read otherwise, or of other classes, is new and said so.
    for other, why in (
        (
            dataclasses.replace(
                again, encoder=dataclasses.replace(encoder, pooling="auto")
            ),
            "its Dense module is not read",
        ),
        (network_of(encoder, SequenceHead(classes=4)), "its Dense module is not read"),
    ):
        read = huggingface.read_weights(out, other)
        assert read.new_heads == ("tags",)
        assert read.notes == (f"{out}: {why}: 'tags' begins with random weights",)
    tagger = network_of(encoder, TokenHead(classes=2))
    assert huggingface.read_weights(out, tagger).notes == ()
    swapped = huggingface.read_weights(out, again, ("b", "a", "c"))
    assert swapped.new_heads == ("tags",) and "in this order" in swapped.notes[0]
    content = json.loads((out / "2_Dense/config.json").read_text())
    del content["activation_function"]  # a tanh
    (out / "2_Dense/config.json").write_text(json.dumps(content))
    assert huggingface.read_weights(out, again, labels).new_heads == ("tags",)
    (out / "2_Dense/config.json").write_text(
        json.dumps(
            content | {"activation_function": "torch.nn.modules.linear.Identity"}
        )
    )
    (out / "2_Dense/model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"2_Dense/model.safetensors: not a readable"):
        huggingface.read_weights(out, again, labels)


def test_a_head_of_transformers_is_not_taken_for_pooled_texts(tmp_path):
    encoder = encoder_of("bert", 12, 20, heads=2, vocab=30)
    network = network_of(encoder, SEQUENCE)
    huggingface.write(tmp_path / "out", network, drawn(network))
    pooled = dataclasses.replace(encoder, pooling="mean")
    read = huggingface.read_weights(tmp_path / "out", network_of(pooled, SEQUENCE))
    assert read.new_heads == ("tags",)
    assert "its head reads texts otherwise: 'tags' begins" in read.notes[0]


def test_an_encoder_alone_keeps_how_it_pools(tmp_path):
    encoder = encoder_of("bert", 12, 20, heads=2, vocab=30, pooling="mean")
    network = Network(encoder=encoder, heads=())
    opener = huggingface.write(tmp_path / "out", network, drawn(network))
    assert opener == "BertModel"
    assert huggingface.read_config(tmp_path / "out") == encoder
    assert not (tmp_path / "out/2_Dense").exists()
    # That of a tagger is transformers' folder.
    tagger = network_of(encoder, TokenHead(classes=2))
    huggingface.write(tmp_path / "tags", tagger, drawn(tagger))
    assert not (tmp_path / "tags/modules.json").exists()
