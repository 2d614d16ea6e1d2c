"""Encoders vs. PyTorch: hidden states, logits and gradients, of every setting."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest

from dicejax.models import huggingface
from dicejax.models.bert import ROBERTA_LIKE
from dicejax.models.deberta import DebertaConfig, relative_rows

# Before the import below, which would leave half a module behind without it.
pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")

from .peers import (
    HEADS,
    compare,
    compute_ours,
    compute_theirs,
    configured,
    logits_of,
    our_logits,
    pair,
    theirs,
    torch,
    transformers,
    with_our_network,
)
from .small import batch_for

TOKENS, SEQUENCES = "TokenClassification", "SequenceClassification"
READING = "QuestionAnswering"
EXHAUSTIVE = pytest.mark.exhaustive
# Every query meets the same key bias, which a softmax does not see.
KEY_BIAS = ("attention.self.key.bias", "attention.key.bias", "k_lin.bias")
# What pretraining puts in place of a word.
MASK = ("mask_emb",)
ACTIVATIONS = ("gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh")
ONE = {"num_hidden_layers": 1}
TWO = {"num_hidden_layers": 2}


def check(
    model_type,
    settings,
    task=TOKENS,
    unmoved=(),
    masked=True,
    types=True,
    within=1e-4,
    **shape,
):
    """Compare a model with drawn weights, on a batch of a shape."""
    both = pair(configured(model_type, **settings), task)
    batch = batch_for(both.network.encoder, **shape)
    batch["token_type_ids"] *= types
    expected = compute_theirs(both, batch, masked)
    compare(batch, compute_ours(both, batch), expected, unmoved, within)


def case(settings, *, exhaustive=False, **options):
    words = [f"{name}={value}" for name, value in {**settings, **options}.items()]
    marks = [EXHAUSTIVE] * exhaustive
    return pytest.param(settings, options, marks=marks, id=" ".join(words))


PLAIN = ("bert", "ernie", "megatron-bert", "distilbert", "roberta-prelayernorm")
TYPES = {name: {} for name in (*PLAIN, *ROBERTA_LIKE)}
# Heads of an even width.
TYPES |= {name: {"hidden_size": 18} for name in ("gte", "nomic_bert", "eurobert")}
TYPES |= {
    "jina_embeddings_v3": {"hidden_size": 18},
    "albert": {"embedding_size": 14},
    "electra-narrow": {"embedding_size": 14},
    "electra-full": {"embedding_size": 21},
}
DEPTHS = {TOKENS: 2, SEQUENCES: 1, READING: 1}
BY_DEFAULT = {("bert", task) for task in HEADS} | {
    ("roberta", SEQUENCES),
    ("electra-narrow", TOKENS),
    ("ernie", TOKENS),
    ("megatron-bert", TOKENS),
    ("roberta-prelayernorm", TOKENS),
    ("albert", TOKENS),
    ("albert", SEQUENCES),
    ("distilbert", TOKENS),
    ("distilbert", SEQUENCES),
    ("gte", TOKENS),
    ("nomic_bert", TOKENS),
    ("eurobert", TOKENS),
    ("eurobert", SEQUENCES),
    ("jina_embeddings_v3", SEQUENCES),
}
# transformers has no class of them.
ABSENT = {(name, READING) for name in ("gte", "nomic_bert", "eurobert")}


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        pytest.param(*both, marks=[EXHAUSTIVE] * (both not in BY_DEFAULT))
        for both in itertools.product(TYPES, HEADS)
        if both not in ABSENT
    ],
)
def test_types_equal_pytorch(kind, task):
    model_type = kind.removesuffix("-narrow").removesuffix("-full")
    sizes = {"num_hidden_layers": DEPTHS[task], "hidden_size": 21}
    inner = {"hidden_dim" if kind == "distilbert" else "intermediate_size": 13}
    settings = sizes | inner | TYPES[kind]
    check(model_type, settings, task, KEY_BIAS, within=1e-5)


# One layer, all layers written out; widths of no power of two. By default a loop, with
# several other settings at once.
SHAPES = [
    case(
        {"num_hidden_layers": 5, "hidden_size": 15, "num_attention_heads": 5},
        exhaustive=True,
    ),
    case(ONE | {"hidden_size": 14, "num_attention_heads": 2}, exhaustive=True),
]
LOOP = {"num_hidden_layers": 7, "hidden_size": 21, "layer_norm_eps": 0.1}
V2 = {
    "share_att_key": False,
    "position_biased_input": True,
    "norm_rel_ebd": "none",
    "position_buckets": -1,
    "type_vocab_size": 2,
}
# What adds the same to all scores of a query, a softmax does not see.
TERMS = {
    "c2p": ("key_proj.bias", "encoder.LayerNorm.bias"),
    "p2c": (),
    "p2c|c2p": ("pos_key_proj.bias",),
}
# Beyond the 24 positions, the buckets, or the table itself.
LONG = {"lengths": (41, 23, 1, 12)}
ODD = {"d_model": 14, "n_head": 2, "d_inner": 13, "layer_norm_eps": 0.1}
MODERN = {"num_hidden_layers": 7, "hidden_size": 12, "num_attention_heads": 2}
MODERN |= {"local_attention": 5, "norm_eps": 0.1, "hidden_activation": "silu"}
BIASES = ("classifier_bias", "attention_bias", "mlp_bias", "norm_bias")
# Settings of each model, and options of `check`. Heads that read and classify are here
# by default where a setting is of them: logits of each head in each family are compared
# in test_huggingface_out.py, gradients of each head in BERT above.
CASES = {
    "bert": [
        *SHAPES,
        *(case(ONE | {"hidden_act": name}, exhaustive=True) for name in ACTIVATIONS),
        case(LOOP | {"type_vocab_size": 3}),
        case({}, padded="none", masked=False, exhaustive=True),
    ],
    # A loop over layers; as wide as its embeddings it projects them all the same.
    "albert": [case({"num_hidden_layers": 7, "embedding_size": 24})],
    "deberta-v2": [
        case(TWO, exhaustive=True),
        case(TWO, padded="left"),
        case(LOOP | {"type_vocab_size": 3, "embedding_size": 14}),
        case(ONE, task=READING, exhaustive=True),
        case(ONE, task=READING, padded="left", exhaustive=True),
        # PyTorch's summary is that of a row's first column: padding is behind.
        case(ONE, task=SEQUENCES, exhaustive=True),
        *SHAPES,
        case(ONE | {"layer_norm_eps": 0.1, "hidden_act": "relu"}, exhaustive=True),
        case(ONE | {"position_biased_input": True}, exhaustive=True),
        case(ONE | {"norm_rel_ebd": "none"}, exhaustive=True),
        case(ONE | {"position_buckets": 8, "max_relative_positions": 12}, **LONG),
        case(ONE | {"position_buckets": -1, "max_relative_positions": 6}, **LONG),
        *(
            case(ONE | more, exhaustive=True, **LONG)
            for more in (
                {"position_buckets": 7, "max_position_embeddings": 31},
                {"position_buckets": 32, "max_relative_positions": 64},
                {"position_buckets": -1},
            )
        ),
        *(
            case(
                ONE | {"pos_att_type": terms, "share_att_key": shared},
                unmoved=unmoved,
                exhaustive=shared or terms == "p2c|c2p",  # V2 has both
            )
            for terms, unmoved in TERMS.items()
            for shared in (False, True)
        ),
        case(
            ONE | {"pos_att_type": None, "norm_rel_ebd": "none"},
            unmoved=("self.key_proj.bias", "rel_embeddings.weight"),
            exhaustive=True,
        ),
        case(ONE | V2, task=SEQUENCES, unmoved=("pos_key_proj.bias",)),
    ],
    "xlnet": [
        # PyTorch's summary is that of a row's last column: padding is in front.
        case({"n_layer": 2}, padded="left", exhaustive=True),
        case({"n_layer": 1}, padded="left", task=READING, exhaustive=True),
        case({"n_layer": 1}, padded="left", task=SEQUENCES, exhaustive=True),
        case({"n_layer": 2}, exhaustive=True),
        case({"n_layer": 1}, task=READING, exhaustive=True),
        # One layer, all layers written out, a loop; odd widths of heads.
        case({"n_layer": 7, "clamp_len": 3} | ODD, padded="left"),
        case(
            {"n_layer": 5, "d_model": 30, "n_head": 6}, padded="left", exhaustive=True
        ),
        case({"n_layer": 1, "clamp_len": 40}, padded="left", exhaustive=True),
        *(
            case({"n_layer": 1, "ff_activation": name}, padded="left", exhaustive=True)
            for name in ACTIVATIONS
        ),
        # With a mask for more than one row PyTorch fails here.
        case({"attn_type": "uni"}, padded="none", masked=False, exhaustive=True),
        case({"attn_type": "uni", "clamp_len": 4}, padded="none", masked=False),
        # Of padded rows PyTorch takes the mean of padding too, and the first column.
        *(
            case({"n_layer": 1, **summary}, task=SEQUENCES, padded="none")
            for summary in (
                {"summary_type": "first", "summary_activation": ""},
                {"summary_type": "mean", "summary_use_proj": False},
                {"summary_activation": "relu"},
            )
        ),
        # All scores of a token gain the same, which a softmax does not see.
        case({}, padded="left", types=False, unmoved=("seg_embed", "r_s_bias")),
    ],
    "modernbert": [
        # One row has no token; its states are finite and nothing depends on them.
        case({"num_hidden_layers": 4}, padded="left", lengths=(17, 9, 0, 5)),
        case(ONE, task=READING, lengths=(17, 9, 0, 5), exhaustive=True),
        # PyTorch takes a row's first column for the summary: padding is behind.
        case(ONE, task=SEQUENCES, lengths=(17, 9, 1, 5), exhaustive=True),
        case(ONE | {"classifier_pooling": "mean"}, task=SEQUENCES, padded="left"),
        # One layer, all written out, a loop; odd widths of heads' halves.
        case(MODERN | dict.fromkeys(BIASES, True)),
        case(
            TWO
            | {
                "layer_types": ["sliding_attention", "full_attention"],
                "rope_parameters": {
                    "full_attention": {"rope_type": "default", "rope_theta": 50.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 7.0},
                },
            }
        ),
        # Windows are computed block by block.
        *(
            case(
                TWO | {"max_position_embeddings": 1024},
                lengths=(1000, 333),
                padded=padded,
                exhaustive=padded == "right",
            )
            for padded in ("left", "right")
        ),
    ],
    "eurobert": [
        # A loop; two heads of keys for six of queries, and biases.
        case(
            {"num_hidden_layers": 7, "num_attention_heads": 6, "num_key_value_heads": 2}
            | {"rms_norm_eps": 0.1, "hidden_act": "gelu", "rope_theta": 50.0}
            | dict.fromkeys(("attention_bias", "mlp_bias"), True),
            padded="left",
            within=1e-5,
        ),
        case(ONE | {"num_key_value_heads": None}, within=1e-5),
        # PyTorch's first state is that of a row's first column: padding is behind.
        case(ONE | {"classifier_pooling": "bos"}, task=SEQUENCES, within=1e-5),
        case(
            ONE | {"classifier_pooling": "mean"},
            task=SEQUENCES,
            padded="left",
            within=1e-5,
        ),
    ],
    "mpnet": [
        case(LOOP | {"hidden_act": "relu"}, padded="left"),
        case(TWO, exhaustive=True),
        case(ONE, task=READING, exhaustive=True),
        # PyTorch's summary is that of a row's first column: padding is behind.
        case(ONE, task=SEQUENCES, exhaustive=True),
        *SHAPES,
        case(ONE, padded="none", masked=False),
        # Beyond the last bucket.
        case(ONE | {"max_position_embeddings": 152}, lengths=(150, 41, 1)),
    ],
}
UNMOVED = {
    "bert": KEY_BIAS,
    "albert": KEY_BIAS,
    "xlnet": MASK,
    "mpnet": ("attn.k.bias",),
}


@pytest.mark.parametrize(
    ("model_type", "settings", "options"),
    [
        pytest.param(name, *each.values, marks=each.marks, id=f"{name} {each.id}")
        for name, cases in CASES.items()
        for each in cases
    ],
)
def test_settings_equal_pytorch(model_type, settings, options):
    unmoved = UNMOVED.get(model_type, ()) + options.get("unmoved", ())
    check(model_type, settings, **options | {"unmoved": unmoved})


def test_real_weights_equal_pytorch(minilm):
    torch.manual_seed(0)
    model = transformers.AutoModelForTokenClassification.from_pretrained(
        minilm, num_labels=HEADS[TOKENS].classes
    ).eval()
    both = with_our_network(model, TOKENS)
    network = dataclasses.replace(both.network, heads=())
    direct = huggingface.read_weights(minilm, network).params["encoder"]
    jax.tree.map(np.testing.assert_array_equal, both.params["encoder"], direct)
    batch = batch_for(both.network.encoder, lengths=(64, 17, 1))
    ours = compute_ours(both, batch)
    assert len(ours[0]) == 7
    compare(batch, ours, compute_theirs(both, batch), KEY_BIAS)


@pytest.mark.parametrize(
    ("family", "padded", "tolerance"),
    # PyTorch encodes XLNet's positions, DeBERTa's scale and ModernBERT's angles in
    # float32 all the same, and in float64 makes NaN of windows without a token.
    [
        ("bert", "right", 1e-12),
        pytest.param("electra", "right", 1e-12, marks=EXHAUSTIVE),
        ("xlnet", "right", 1e-5),
        ("deberta-v2", "right", 1e-6),
        ("modernbert", "none", 1e-5),
        ("mpnet", "right", 1e-12),
    ],
)
def test_float64_is_float64_throughout(family, padded, tolerance):
    both = pair(configured(family), TOKENS)
    batch = batch_for(both.network.encoder, padded=padded)
    with torch.no_grad():
        expected = logits_of(both.model.double()(**theirs(both, batch))).numpy()
    network = dataclasses.replace(both.network, precision="float64")
    both = dataclasses.replace(both, network=network)
    with jax.enable_x64(True):
        got = np.asarray(our_logits(both, both.params, batch))
    assert got.dtype == np.float64
    real = batch["segment_ids"] > 0
    np.testing.assert_allclose(
        got[real], expected[real], atol=tolerance, rtol=tolerance
    )


def test_rows_of_padding_alone_are_finite_in_deberta():
    both = pair(configured("deberta-v2", **ONE), TOKENS)
    batch = batch_for(both.network.encoder, lengths=(16, 0, 5))
    compare(batch, compute_ours(both, batch), compute_theirs(both, batch))
    states = both.network.hidden_states(both.params, batch)
    assert np.isfinite(states).all()
    # Embeddings of padding are zero, as there.
    assert np.abs(states[0][batch["segment_ids"] == 0]).max() == 0


def test_every_distance_has_pytorchs_row():
    """Buckets begin at whole numbers, so the last bit of a logarithm decides."""
    deberta = transformers.models.deberta_v2.modeling_deberta_v2
    distances = np.arange(-3000, 3001)
    for buckets, most in itertools.product(
        [2, 3, 5, 8, 12, 31, 32, 64, 100, 256, 320, 512], [24, 33, 128, 512, 1024, 2048]
    ):
        if most - 1 <= buckets // 2:
            continue
        config = DebertaConfig(
            vocab_size=9, position_buckets=buckets, max_relative_positions=most
        )
        places = torch.tensor(distances)
        expected = deberta.make_log_bucket_position(places, buckets, most).to(
            torch.long
        )
        expected = (expected + buckets).clamp(0, 2 * buckets - 1)
        got = relative_rows(distances, config)
        np.testing.assert_array_equal(got, expected.numpy(), f"{buckets}, {most}")
