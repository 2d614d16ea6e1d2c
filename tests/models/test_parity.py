"""BERT-like encoders vs. PyTorch: hidden states, logits, gradients, dropout."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest

from dicejax.models import huggingface

# Before the import below, which would leave half a module behind without it.
pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")

from .peers import (
    HEADS,
    batch_for,
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

FAMILIES = {
    "bert": {},
    "roberta": {},
    "xlm-roberta": {},
    "electra-narrow": {"embedding_size": 14},
    "electra-full": {"embedding_size": 24},
}
# Every query meets the same key bias, which a softmax does not see.
UNMOVED = ("attention.self.key.bias",)


BY_DEFAULT = {("bert", task) for task in HEADS} | {
    ("roberta", "SequenceClassification"),
    ("electra-narrow", "TokenClassification"),
}


@pytest.mark.parametrize(
    ("family", "task"),
    [
        pytest.param(
            *pair, marks=[] if pair in BY_DEFAULT else [pytest.mark.exhaustive]
        )
        for pair in itertools.product(FAMILIES, HEADS)
    ],
)
def test_families_equal_pytorch(family, task):
    model_type = family.removesuffix("-narrow").removesuffix("-full")
    depth = 2 if task == "TokenClassification" else 1
    settings = {"num_hidden_layers": depth, **FAMILIES[family]}
    both = pair(configured(model_type, **settings), task)
    batch = batch_for(both)
    compare(compute_ours(both, batch), compute_theirs(both, batch), UNMOVED)


@pytest.mark.parametrize(
    "settings",
    [
        # One layer, all layers written out, a loop; widths of no power of two.
        {"num_hidden_layers": 1, "hidden_size": 21, "intermediate_size": 13},
        pytest.param(
            {"num_hidden_layers": 5, "hidden_size": 15, "num_attention_heads": 5},
            marks=pytest.mark.exhaustive,  # two layers are above
        ),
        {"num_hidden_layers": 7, "hidden_size": 14, "num_attention_heads": 2},
        *(
            pytest.param(
                {"num_hidden_layers": 1, "hidden_act": name},
                marks=pytest.mark.exhaustive,
            )
            for name in ("gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh")
        ),
        {"num_hidden_layers": 1, "layer_norm_eps": 0.1, "type_vocab_size": 3},
    ],
    ids=str,
)
def test_settings_of_bert_equal_pytorch(settings):
    both = pair(configured("bert", **settings), "TokenClassification")
    batch = batch_for(both)
    compare(compute_ours(both, batch), compute_theirs(both, batch), UNMOVED)


def test_rows_without_padding_equal_pytorch():
    both = pair(configured("bert"), "TokenClassification")
    batch = batch_for(both, padded="none")
    wanted = compute_theirs(both, batch, masked=False)
    compare(compute_ours(both, batch), wanted, UNMOVED)


def test_real_weights_equal_pytorch(minilm):
    task = "TokenClassification"
    torch.manual_seed(0)
    model = transformers.AutoModelForTokenClassification.from_pretrained(
        minilm, num_labels=HEADS[task].classes
    ).eval()
    both = with_our_network(model, task)
    direct = huggingface.read_weights(
        minilm, dataclasses.replace(both.network, heads=())
    )
    jax.tree.map(
        np.testing.assert_array_equal,
        both.params["encoder"],
        direct.params["encoder"],
    )
    batch = batch_for(both, lengths=(64, 17, 1))
    ours = compute_ours(both, batch)
    assert len(ours.states) == 7
    compare(ours, compute_theirs(both, batch), UNMOVED)


@pytest.mark.parametrize(
    ("family", "tolerance"),
    # PyTorch encodes XLNet's positions, and DeBERTa's scale, in float32 all the same.
    [
        ("bert", 1e-12),
        pytest.param("electra", 1e-12, marks=pytest.mark.exhaustive),
        ("xlnet", 1e-5),
        ("deberta-v2", 1e-6),
    ],
)
def test_float64_is_float64_throughout(family, tolerance):
    both = pair(configured(family), "TokenClassification")
    batch = batch_for(both)
    with torch.no_grad():
        wanted = logits_of(both.model.double()(**theirs(both, batch))).numpy()
    network = dataclasses.replace(both.network, precision="float64")
    both = dataclasses.replace(both, network=network)
    with jax.enable_x64(True):
        got = np.asarray(our_logits(both, both.params, batch))
    assert got.dtype == np.float64
    real = batch["segment_ids"] > 0
    np.testing.assert_allclose(got[real], wanted[real], atol=tolerance, rtol=tolerance)
