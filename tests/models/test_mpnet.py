"""MPNet: buckets of distances, checkpoints of pretraining, the released weights."""

import json

import jax
import numpy as np
import pytest

from dicejax.data import tokenize
from dicejax.data.pack import BatchLayout, fill, pack
from dicejax.models import huggingface
from dicejax.models.mpnet import relative_buckets
from dicejax.models.network import Network

# Before the import below, which would leave half a module behind without it.
pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")

from .peers import (
    HEADS,
    compare,
    compute_ours,
    compute_theirs,
    configured,
    drawn,
    torch,
    transformers,
    with_our_network,
)

TASK = "TokenClassification"
LAYOUT = BatchLayout(tokens={"input_ids": 1, "token_type_ids": 0})
ROWS, LENGTH = 4, 384


def test_every_distance_has_pytorchs_bucket():
    """Buckets begin at whole numbers, so the last bit of a logarithm decides."""
    encoder = transformers.models.mpnet.modeling_mpnet.MPNetEncoder
    distances = np.arange(-3000, 3001)
    expected = encoder.relative_position_bucket(torch.tensor(-distances))
    np.testing.assert_array_equal(relative_buckets(distances), expected.numpy())


def test_a_pretrained_model_is_read_without_its_head(tmp_path):
    model = drawn(transformers.MPNetForMaskedLM(configured("mpnet")), seed=0)
    model.save_pretrained(tmp_path / "pretrained")
    model.mpnet.save_pretrained(tmp_path / "plain")
    pretrained, plain = (
        huggingface.read_weights(
            folder, Network(encoder=huggingface.read_config(folder), heads=())
        )
        for folder in (tmp_path / "pretrained", tmp_path / "plain")
    )
    jax.tree.map(np.testing.assert_array_equal, pretrained.params, plain.params)
    bias = model.mpnet.encoder.relative_attention_bias.weight.detach().numpy()
    ours = plain.params["encoder"]["embeddings"]["relative_bias"]
    np.testing.assert_array_equal(ours, bias)


def real_texts(data_folder):
    """Return 960 sentences of news and 40 paragraphs, which reach every bucket."""
    blocks = (data_folder / "conll2003" / "test.txt").read_text("utf-8").split("\n\n")
    columns = [[line.split()[0] for line in b.splitlines() if line] for b in blocks]
    sentences = [" ".join(words) for words in columns if words[:1] != ["-DOCSTART-"]]
    squad = json.loads((data_folder / "squad_v1.1" / "dev.json").read_text("utf-8"))
    paragraphs = [
        p["context"] for article in squad["data"] for p in article["paragraphs"]
    ]
    return [*filter(None, sentences)][:960] + paragraphs[::50][:40]


@pytest.mark.exhaustive
def test_the_released_weights_equal_pytorch_on_1000_texts(mpnet, data_folder):
    """Ids, hidden states of all layers from packed rows, gradients of 12 sentences."""
    texts = real_texts(data_folder)
    assert len(texts) == 1000
    auto = transformers.AutoTokenizer.from_pretrained(mpnet)
    encoded = tokenize.encode_texts(tokenize.read(mpnet, words=False), texts)
    assert [e.ids.tolist() for e in encoded] == auto(texts)["input_ids"]
    examples = [{"input_ids": e.ids, "token_type_ids": e.token_types} for e in encoded]
    examples = [{n: a[:LENGTH] for n, a in e.items()} for e in examples]
    # Ascending, so that texts of a row are about as long and PyTorch pads little.
    examples.sort(key=lambda e: len(e["input_ids"]))
    torch.manual_seed(0)
    model = transformers.AutoModelForTokenClassification.from_pretrained(
        mpnet, num_labels=HEADS[TASK].classes
    ).eval()
    both = with_our_network(model, TASK)
    # Optimised, unlike other tests: it runs often.
    options = {"xla_backend_optimization_level": 3}
    states_of = jax.jit(both.network.hidden_states, compiler_options=options)
    rows = pack([len(e["input_ids"]) for e in examples], LENGTH)
    worst, tokens = 0.0, 0
    for start in range(0, len(rows), ROWS):
        some = rows[start : start + ROWS]
        packed = [[examples[i] for i in row] for row in some]
        packed += [[]] * (ROWS - len(some))
        states = np.asarray(states_of(both.params, fill(packed, LENGTH, LAYOUT)))
        for place, row in enumerate(some):
            expected = alone(model, [examples[i]["input_ids"] for i in row])
            first = 0
            for number, i in enumerate(row):
                size = len(examples[i]["input_ids"])
                ours = states[:, place, first : first + size]
                difference = np.abs(ours - expected[:, number, :size])
                worst, tokens = max(worst, difference.max()), tokens + size
                first += size
    print(f"{tokens} tokens, all layers within {worst:.2g}")
    assert worst < 1e-4
    batch = fill([[e] for e in examples[400:412]], 64, LAYOUT)
    compare(batch, compute_ours(both, batch), compute_theirs(both, batch), ("k.bias",))


def alone(model, texts):
    """Return PyTorch's hidden states of texts as rows of one text each."""
    width = max(map(len, texts))
    ids = np.stack([np.pad(t, (0, width - len(t)), constant_values=1) for t in texts])
    ids = torch.tensor(ids)
    with torch.no_grad():
        output = model(ids, attention_mask=ids != 1, output_hidden_states=True)
    return np.stack([state.numpy() for state in output.hidden_states])
