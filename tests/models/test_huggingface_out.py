"""Exported folders in PyTorch, and errors."""

import json

import jax
import numpy as np
import pytest

from dicejax.errors import InputError
from dicejax.models import huggingface
from dicejax.models.heads import AnswerHead, SequenceHead, StartEndHead, TokenHead
from dicejax.models.network import Network

from .small import batch_for, drawn, encoder_of, inputs_of, network_of

HEADS = {
    "ForTokenClassification": TokenHead(classes=3),
    "ForQuestionAnswering": StartEndHead(form="positions"),
    "ForSequenceClassification": SequenceHead(classes=3),
}


SETTINGS = {
    "bert": {"max_position_embeddings": 16},
    "deberta": {"max_position_embeddings": 16, "position_buckets": 6},
    "modernbert": {"max_position_embeddings": 16, "local_attention": 6},
    "mpnet": {"max_position_embeddings": 18},
    "xlnet": {},
}
SIZES = {"heads": 2, "vocab": 30, "initializer_range": 0.3}
ENCODERS = {
    kind: encoder_of(kind, 12, 20, **SIZES, **settings)
    for kind, settings in SETTINGS.items()
}


@pytest.fixture(params=[*ENCODERS])
def encoder(request):
    return ENCODERS[request.param]


def some_batch(encoder):
    """Return rows of one example each, padded where PyTorch has it."""
    padded = "left" if encoder.model_type == "xlnet" else "right"
    return batch_for(encoder, (12, 9, 4, 1), padded)


def compute(torch, model, encoder, batch, masked=True, **more):
    """Return PyTorch's output for a batch."""
    with torch.no_grad():
        return model.eval()(**inputs_of(torch, encoder, batch, masked), **more)


def write(folder, encoder, head, **options):
    """Write a network with one head; return it, its parameters and its class."""
    network = network_of(encoder, head)
    params = drawn(network)
    return network, params, huggingface.write(folder, network, params, **options)


def assert_read(folder, network, params, labels=None):
    """Check that all is read."""
    weights = huggingface.read_weights(folder, network, labels)
    assert (weights.new_heads, weights.notes) == ((), ())
    jax.tree.map(np.testing.assert_array_equal, weights.params, params)


def open_in_torch(auto, folder):
    import transformers

    return getattr(transformers, auto).from_pretrained(folder)


@pytest.mark.parametrize("task", HEADS)
def test_a_network_opens_in_pytorch_with_the_same_logits(
    torch, encoder, task, tmp_path
):
    labels = None if task == "ForQuestionAnswering" else ("none", "first", "second")
    network, params, name = write(tmp_path / "out", encoder, HEADS[task], labels=labels)
    batch = some_batch(encoder)
    ours = network.apply(params, batch)
    model = open_in_torch("AutoModel" + task, tmp_path / "out")
    assert type(model).__name__ == name
    if labels:
        assert tuple(model.config.id2label.values()) == labels
    theirs = compute(torch, model, encoder, batch)
    real = batch["segment_ids"] > 0
    real = slice(None) if task == "ForSequenceClassification" else real
    names = {"tags": "logits", "start": "start_logits", "end": "end_logits"}
    for name, mine in ours.items():
        expected = theirs[names[name]].numpy()[real]
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(mine[real], expected, atol=1e-4)


def test_several_labels_open_in_pytorch_with_the_same_probabilities(
    torch, encoder, tmp_path
):
    head, names = SequenceHead(classes=3, multi_label=True), ("art", "money", "sport")
    network, params, _ = write(tmp_path / "out", encoder, head, labels=names)
    batch = some_batch(encoder)
    ours = jax.nn.sigmoid(network.apply(params, batch)["tags"])
    model = open_in_torch("AutoModelForSequenceClassification", tmp_path / "out")
    assert model.config.problem_type == "multi_label_classification"
    assert model.config.id2label == dict(enumerate(names))
    gold = torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]])
    theirs = compute(torch, model, encoder, batch, labels=gold)
    expected = torch.sigmoid(theirs.logits).numpy()
    assert np.ptp(expected) > 0.02
    np.testing.assert_allclose(ours, expected, atol=1e-4)
    # Its own loss, which problem_type chooses, is the mean binary cross-entropy.
    entropy = -np.where(gold.numpy() == 1, np.log(expected), np.log1p(-expected)).mean()
    assert float(theirs.loss) == pytest.approx(entropy, abs=1e-5)
    model.save_pretrained(tmp_path / "theirs")
    assert_read(tmp_path / "theirs", network, params)


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_head_of_another_problem_is_new_and_said_to_be(
    encoder, multi_label, tmp_path
):
    heads = [SequenceHead(classes=2, multi_label=kind) for kind in (False, True)]
    folder = tmp_path / "out"
    network, params, _ = write(folder, encoder, heads[multi_label])
    assert_read(folder, network, params)
    networks = [network_of(encoder, head) for head in heads]
    other = huggingface.read_weights(folder, networks[not multi_label])
    kinds = ["single_label_classification", "multi_label_classification"]
    (note,) = other.notes
    assert other.new_heads == ("tags",) and other.params["heads"] == {}
    assert f"problem_type is '{kinds[multi_label]}'" in note
    assert f"the task's is '{kinds[not multi_label]}'" in note
    # Most folders do not say it: the head is taken if it has the shape.
    content = json.loads((folder / "config.json").read_text())
    del content["problem_type"]
    (folder / "config.json").write_text(json.dumps(content))
    for network in networks:
        assert huggingface.read_weights(folder, network).new_heads == ()


@pytest.mark.parametrize("head", [TokenHead, SequenceHead])
def test_a_head_of_other_labels_is_new_and_said_to_be(encoder, head, tmp_path):
    """The same labels in another order too: weights would be those of others."""
    out, labels = tmp_path / "out", ["bad", "good"]
    network, params, _ = write(out, encoder, head(classes=2), labels=labels)
    for labels in (None, ("bad", "good")):
        assert_read(out, network, params, labels)
    other = huggingface.read_weights(out, network, ("good", "bad"))
    assert other.new_heads == ("tags",)
    (note,) = other.notes
    assert "labels are 'bad', 'good', the data's in this order 'good', 'bad'" in note
    # Names that PyTorch made up mean nothing.
    huggingface.write(tmp_path / "unnamed", network, params)
    taken = huggingface.read_weights(tmp_path / "unnamed", network, ("good", "bad"))
    assert taken.new_heads == ()


@pytest.mark.parametrize("task", HEADS)
def test_a_network_is_read_back_bit_for_bit(encoder, task, tmp_path):
    network, params, _ = write(tmp_path / "out", encoder, HEADS[task])
    assert huggingface.read_config(tmp_path / "out") == encoder
    assert_read(tmp_path / "out", network, params)


def test_an_encoder_alone_opens_as_the_plain_model(torch, encoder, tmp_path):
    network = Network(encoder=encoder, heads=())
    params = network.init(jax.random.key(0))
    name = huggingface.write(tmp_path / "out", network, params)
    model = open_in_torch("AutoModel", tmp_path / "out")
    assert type(model).__name__ == name
    batch = {name: array[:1] for name, array in some_batch(encoder).items()}
    theirs = compute(torch, model, encoder, batch, masked=False).last_hidden_state
    ours = network.hidden_states(params, batch)[-1]
    np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-4)


def test_heads_of_no_pytorch_class_are_refused(encoder, tmp_path):
    heads = [StartEndHead(classes=4, form="softmax")]
    heads += [AnswerHead()] * (encoder.model_type != "xlnet")
    for head in heads:
        message = f"{type(head).__name__}; write the encoder alone"
        with pytest.raises(InputError, match=message):
            write(tmp_path / "out", encoder, head)
    assert not list(tmp_path.iterdir())


def test_xlnet_s_reader_opens_with_its_end_that_sees_the_start(torch, tmp_path):
    encoder = ENCODERS["xlnet"]
    network, params, name = write(tmp_path / "out", encoder, AnswerHead())
    assert name == "XLNetForQuestionAnswering"
    batch = some_batch(encoder)
    ours = network.apply(params, batch)
    padding = torch.tensor(batch["segment_ids"] == 0).float()
    model = open_in_torch(name, tmp_path / "out")
    theirs = compute(torch, model, encoder, batch, p_mask=padding)
    # Of its beam the first: the most probable start, and the end that follows it.
    start = jax.nn.log_softmax(ours["start"]).max(-1)
    np.testing.assert_allclose(
        start, theirs.start_top_log_probs[:, 0].log().numpy(), atol=1e-4
    )
    places = theirs.start_top_index[:, 0].numpy()
    np.testing.assert_array_equal(ours["start"].argmax(-1), places)
    end = jax.nn.log_softmax(ours["end"]).max(-1)
    beam = theirs.end_top_log_probs.reshape(4, 5, -1)[:, :, 0].log().numpy()
    np.testing.assert_allclose(end, beam[:, 0], atol=1e-4)
    np.testing.assert_allclose(ours["impossible"], theirs.cls_logits.numpy(), atol=1e-4)


def test_heads_are_taken_where_they_fit(encoder, tmp_path):
    _, params, _ = write(tmp_path / "out", encoder, TokenHead(classes=3))
    new = Network(
        encoder=encoder,
        heads=(
            ("same", TokenHead(classes=3)),
            ("wider", TokenHead(classes=4)),
            ("other", SequenceHead(classes=3)),
        ),
    )
    weights = huggingface.read_weights(tmp_path / "out", new)
    assert weights.new_heads == ("wider", "other")
    text = "its head has other shapes: 'wider' begins with random weights"
    assert sum(text in note for note in weights.notes) == 1
    fresh = new.init(jax.random.key(1))
    mixed = weights.over(fresh)
    same = jax.tree.map(np.array_equal, mixed["heads"]["same"], params["heads"]["tags"])
    assert all(jax.tree.leaves(same))
    for name in ("wider", "other"):
        assert mixed["heads"][name] is fresh["heads"][name]
    assert mixed["encoder"] is weights.params["encoder"]


def test_a_taken_folder_is_left_alone(encoder, tmp_path):
    head = TokenHead(classes=2)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        write(tmp_path, encoder, head)
    with pytest.raises(ValueError, match="3 labels, but 2 classes"):
        write(tmp_path / "out", encoder, head, labels=("a", "b", "c"))
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty", encoder, head)
    content = json.loads((tmp_path / "empty" / "config.json").read_text())
    assert content["id2label"] == {"0": "LABEL_0", "1": "LABEL_1"}
