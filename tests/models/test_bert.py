"""The encoder: against PyTorch, packed against unpacked, remat against plain."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.data.pack import fill, pack
from dicejax.models import huggingface
from dicejax.models.bert import BertConfig
from dicejax.models.heads import TokenHead
from dicejax.models.network import Network

PADDING = {"input_ids": 0, "token_type_ids": 0}


def network_of(config, **kwargs):
    return Network(encoder=config, heads=(("tags", TokenHead(classes=5)),), **kwargs)


def sentences(config, lengths, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {
            "input_ids": rng.integers(1, config.vocab_size, n),
            "token_type_ids": rng.integers(0, config.type_vocab_size, n),
        }
        for n in lengths
    ]


def wakened(params):
    """Larger matrices than initial ones, in which attention hardly matters."""
    return jax.tree_util.tree_map_with_path(
        lambda path, x: 8 * x if path[-1].key in ("kernel", "table") else x, params
    )


def test_hidden_states_equal_pytorch_on_real_weights(minilm):
    torch = pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")
    transformers = pytest.importorskip("transformers")
    config = huggingface.read_config(minilm)
    network = network_of(config)
    params = network.init(jax.random.key(0))
    params["encoder"] = huggingface.read_encoder(minilm, config)
    examples = sentences(config, [64, 17, 1])
    batch = fill([[e] for e in examples], 64, PADDING)
    ours = network.hidden_states(params, batch)
    model = transformers.AutoModel.from_pretrained(minilm).eval()
    with torch.no_grad():
        theirs = model(
            torch.tensor(batch["input_ids"]),
            attention_mask=torch.tensor(batch["segment_ids"]),
            token_type_ids=torch.tensor(batch["token_type_ids"]),
            output_hidden_states=True,
        ).hidden_states
    real = batch["segment_ids"] > 0
    assert len(ours) == len(theirs) == 7
    for state, wanted in zip(ours, theirs, strict=True):
        difference = np.abs(np.asarray(state) - wanted.numpy())[real]
        assert difference.max() < 1e-4
        assert difference.mean() < 1e-5


def test_packed_and_unpacked_logits_agree(small_bert):
    network = network_of(small_bert)
    params = network.init(jax.random.key(1))
    params = wakened(params)
    examples = sentences(small_bert, [1, 16, 3, 7, 5, 2, 15, 11])
    rows = pack([len(e["input_ids"]) for e in examples], 16)
    assert max(map(len, rows)) > 1
    packed = network.apply(
        params, fill([[examples[i] for i in r] for r in rows], 16, PADDING)
    )
    alone = network.apply(params, fill([[e] for e in examples], 16, PADDING))
    for row, items in enumerate(rows):
        start = 0
        for item in items:
            n = len(examples[item]["input_ids"])
            np.testing.assert_allclose(
                packed["tags"][row, start : start + n],
                alone["tags"][item, :n],
                atol=1e-5,
            )
            start += n


def test_segments_do_not_see_each_other(small_bert):
    network = network_of(small_bert)
    params = wakened(network.init(jax.random.key(1)))
    first, second, other = sentences(small_bert, [6, 5, 5])
    one = network.apply(params, fill([[first, second]], 16, PADDING))["tags"]
    two = network.apply(params, fill([[first, other]], 16, PADDING))["tags"]
    np.testing.assert_array_equal(one[0, :6], two[0, :6])
    assert np.abs(one[0, 6:11] - two[0, 6:11]).max() > 1e-3


def test_remat_changes_memory_not_values(small_bert):
    batch = fill([sentences(small_bert, [9, 6])], 16, PADDING)
    plain = network_of(small_bert)
    params = plain.init(jax.random.key(0))

    def gradient(network):
        def loss(p):
            return (network.apply(p, batch, jax.random.key(5))["tags"] ** 2).sum()

        return jax.jit(jax.grad(loss))(params)

    for a, b in zip(
        jax.tree.leaves(gradient(plain)),
        jax.tree.leaves(gradient(network_of(small_bert, remat=True))),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-5)


def test_dropout_needs_a_key_and_follows_it(small_bert):
    network = network_of(small_bert)
    params = network.init(jax.random.key(0))
    batch = fill([sentences(small_bert, [9])], 16, PADDING)
    logits = [
        np.asarray(network.apply(params, batch, key)["tags"])
        for key in (None, None, jax.random.key(0), jax.random.key(0), jax.random.key(1))
    ]
    np.testing.assert_array_equal(logits[0], logits[1])
    np.testing.assert_array_equal(logits[2], logits[3])
    assert np.abs(logits[2] - logits[0]).max() > 1e-4
    assert np.abs(logits[2] - logits[4]).max() > 1e-4


def test_bfloat16_stays_near_float32(small_bert):
    batch = fill([sentences(small_bert, [9, 7])], 16, PADDING)
    exact = network_of(small_bert)
    params = exact.init(jax.random.key(0))
    params = wakened(params)
    rough = network_of(small_bert, precision="bfloat16")
    a = exact.hidden_states(params, batch)
    b = rough.hidden_states(params, batch)
    assert b.dtype == jnp.bfloat16
    assert rough.apply(params, batch)["tags"].dtype == jnp.float32
    # Eight bits of mantissa through three layers of unit-variance activations.
    assert np.abs(np.asarray(a) - np.asarray(b, np.float32)).mean() < 0.02


def test_a_deeper_model_unrolls_no_further():
    config = BertConfig(
        vocab_size=9,
        hidden_size=4,
        num_hidden_layers=24,
        num_attention_heads=2,
        intermediate_size=8,
    )
    network = network_of(config)
    params = jax.eval_shape(network.init, jax.random.key(0))
    ids = jax.ShapeDtypeStruct((1, 8), jnp.int32)
    batch = dict.fromkeys(("input_ids", "segment_ids", "position_ids"), ids)
    batch["token_type_ids"] = ids
    text = str(jax.make_jaxpr(network.apply)(params, batch))
    # 6 projections in each of 6 layers, one head: 24 layers written out would be 145.
    assert text.count("name=matmul") + text.count("custom_vjp_call") <= 2 * 37


def test_impossible_architectures_are_refused():
    with pytest.raises(ValueError, match="hidden_size 10 is not a multiple of"):
        BertConfig(vocab_size=9, hidden_size=10, num_attention_heads=4)
    with pytest.raises(ValueError, match="hidden_act 'tanh' is unknown"):
        BertConfig(vocab_size=9, hidden_act="tanh")
