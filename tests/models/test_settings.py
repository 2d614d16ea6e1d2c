"""Settings of encoders: what is refused, the longest sequence, rates of dropout."""

import dataclasses

import jax
import numpy as np
import pytest
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES as TAGGING,
)
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

from dicejax.errors import InputError
from dicejax.models.bert import BertConfig
from dicejax.models.deberta import DebertaConfig
from dicejax.models.eurobert import EuroBertConfig
from dicejax.models.huggingface import config_from
from dicejax.models.huggingface.names import FAMILIES, NEAREST
from dicejax.models.xlnet import XLNetConfig

from .small import batch_for, drawn, encoder_of, network_of, quickly

ROPE = {"full_attention": {"rope_type": "yarn"}}
BASE = {
    "bert": {},
    "deberta-v2": DebertaConfig(
        vocab_size=9,
        hidden_size=12,
        num_attention_heads=2,
        max_position_embeddings=16,
        position_buckets=6,
    ).to_json(),
    "xlnet": {"d_model": 12, "n_head": 2},
    "modernbert": {},
}
# Classes of tokenizers that types which load have; "TokenizersBackend" is none.
SHARED = {TOKENIZER_MAPPING_NAMES.get(kind) for kind in FAMILIES}
SHARED -= {None, "TokenizersBackend"}
REFUSED = {
    "bert": [
        (
            {"hidden_size": 10, "num_attention_heads": 4},
            "hidden_size 10 is not a multiple of num_attention_heads 4",
        ),
        ({"hidden_act": "gelu_9"}, "hidden_act is 'gelu_9'; supported: 'gelu', "),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type is 'relative_key'; supported: 'absolute'",
        ),
        ({"is_decoder": True}, "is_decoder is True; supported: False"),
    ],
    "deberta-v2": [
        ({"conv_kernel_size": 3}, "conv_kernel_size is 3; supported: 0"),
        ({"relative_attention": False}, "relative_attention is False; supported: True"),
        ({"pos_att_type": "p2p|c2p"}, "pos_att_type is 'p2p|c2p'; want 'c2p', 'p2c'"),
        ({"norm_rel_ebd": "batch_norm"}, "norm_rel_ebd is 'batch_norm'; supported: "),
        ({"position_buckets": 1}, "position_buckets is 1; want from 2 to 29, for dist"),
        ({"position_buckets": 30}, "position_buckets is 30; want from 2 to 29, for d"),
        ({"max_relative_positions": 4}, "position_buckets is 6; want from 2 to 5"),
        ({"num_attention_heads": 5}, "hidden_size 12 is not a multiple of num_att"),
        ({"pooler_hidden_act": "gelu_9"}, "pooler_hidden_act is 'gelu_9'; supported"),
    ],
    "xlnet": [
        ({"same_length": True}, "same_length is True; supported: False"),
        ({"bi_data": True}, "bi_data is True; supported: False"),
        ({"d_head": 5}, "d_head is 5; supported: d_model / n_head = 6"),
        ({"d_model": 9, "n_head": 3}, "d_model 9 is not a multiple of 2"),
        ({"d_model": 14, "n_head": 4}, "of 2 and of n_head 4"),
        ({"untie_r": False}, "untie_r is False; supported: True"),
        ({"attn_type": "both"}, "attn_type is 'both'; supported: 'bi', 'uni'"),
        ({"summary_type": "attn"}, "summary_type is 'attn'; supported: 'first', 'l"),
        ({"summary_type": "cls_index"}, "summary_type is 'cls_index'; supported: "),
        ({"summary_activation": "gelu_9"}, "summary_activation is 'gelu_9'; support"),
        ({"ff_activation": "gelu_9"}, "ff_activation is 'gelu_9'; supported: 'gelu'"),
    ],
    "modernbert": [
        (
            {"layer_types": ["full_attention"]},
            "layer_types is ['full_attention']; want 22 times 'full",
        ),
        ({"layer_types": ["causal"] * 22}, "or 'sliding_attention'"),
        ({"hidden_size": 36}, "hidden_size 36 is not a multiple of twice num_att"),
        ({"hidden_activation": "gelu_9"}, "hidden_activation is 'gelu_9'; supported"),
        ({"classifier_pooling": "last"}, "classifier_pooling is 'last'; supported"),
        ({"rope_scaling": {"factor": 2.0}}, "supported: null"),
        ({"rope_parameters": [1]}, "want an object"),
        ({"rope_parameters": ROPE}, "full_attention; supported: rope_type 'default'"),
    ],
    "mpnet": [
        ({"relative_attention_num_buckets": 64}, "num_buckets is 64; supported: 32"),
        ({"pad_token_id": 0}, "pad_token_id is 0; supported: 1"),
        ({"embedding_size": 128}, "embedding_size is 128; supported: None"),
        ({"max_position_embeddings": 2}, "pad_token_id 1 leaves no positions of max"),
    ],
    "nomic_bert": [
        ({"n_embd": 768}, "n_embd is 768, for code of the model's own folder; suppor"),
        ({"head_dim": 32}, "head_dim is 32; supported: hidden_size / num_attention_h"),
        ({"hidden_size": 36}, "hidden_size 36 is not a multiple of twice num_attenti"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "{'rope_type': 'yarn'}; supporte"),
    ],
    "jina_embeddings_v3": [
        ({"lora_adaptations": ["retrieval"]}, "lora_adaptations is")
    ],
    "distilbert": [
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps is 1e-05; supported: 1e-12"),
        ({"dim": 10, "n_heads": 4}, "hidden_size 10 is not a multiple of num_att"),
    ],
    "eurobert": [
        ({"num_key_value_heads": 5}, "heads 12 is not a multiple of num_key_value_he"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0; want a whole number "),
        ({"head_dim": 32}, "head_dim is 32; supported: hidden_size / num_attention_h"),
        ({"rope_scaling": {"factor": 2.0}}, "rope_scaling is {'factor': 2.0}, for cod"),
        ({"clf_pooling": "mean"}, "clf_pooling is 'mean', for code of the model's ow"),
        ({"classifier_pooling": "last"}, "classifier_pooling is 'last'; supported: 'b"),
        ({"hidden_dropout_prob": 0.1}, "hidden_dropout_prob is 0.1; want a number fro"),
        ({"pad_token_id": None}, "pad_token_id is None; want a whole number from 0"),
    ],
    "albert": [
        ({"num_hidden_groups": 2}, "num_hidden_groups is 2; supported: 1"),
        ({"inner_group_num": 2}, "inner_group_num is 2; supported: 1"),
    ],
    **{
        name: [
            ({}, f"model_type is '{name}'; nearest to it is '{nearest}'; supported: ")
        ]
        for name, nearest in (
            *(
                ("gpt2", "modernbert"),
                ("t5", "modernbert"),
                ("longformer", "modernbert"),
            ),
            *(
                ("deberta", "deberta-v2"),
                ("rembert", "bert"),
                ("flaubert", "camembert"),
            ),
            *(("xmod", "xlm-roberta"), ("new", "gte"), ("llama", "eurobert")),
        )
    },
}


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [(kind, *case) for kind, cases in REFUSED.items() for case in cases],
)
def test_what_is_not_followed_is_refused_by_name(kind, settings, message):
    """In one line; of another type with the nearest that loads."""
    content = {"model_type": kind, "vocab_size": 9} | BASE.get(kind, {}) | settings
    with pytest.raises(InputError) as caught:
        config_from(content)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_every_other_type_of_transformers_is_refused_with_one_that_loads():
    others = CONFIG_MAPPING_NAMES.keys() - FAMILIES.keys()
    assert len(others) > 200 and CONFIG_MAPPING_NAMES.keys() > FAMILIES.keys()
    assert NEAREST.keys() - {"new"} <= others  # of the code in GTE's folders
    for kind in others:
        with pytest.raises(InputError) as caught:
            config_from({"model_type": kind, "vocab_size": 9}, "config.json")
        start, nearest, rest = str(caught.value).split("; ", 2)
        assert start == f"config.json: model_type is {kind!r}"
        nearest = nearest.removeprefix("nearest to it is ").strip("'")
        assert nearest in FAMILIES
        assert rest.startswith("supported: ") and "\n" not in rest
        # One vocabulary fits both, but the nearest to long rows has long ones.
        shared = TOKENIZER_MAPPING_NAMES.get(kind)
        if kind in TAGGING and shared in SHARED and kind != "longformer":
            assert TOKENIZER_MAPPING_NAMES[nearest] == shared, kind


def test_a_type_has_the_class_that_transformers_has():
    for kind, family in FAMILIES.items():
        assert TAGGING[kind] == f"{family.classes}ForTokenClassification"


@pytest.mark.parametrize("cls", [BertConfig, DebertaConfig, XLNetConfig])
def test_a_model_type_is_of_its_class(cls):
    with pytest.raises(ValueError, match="model_type is 'gpt2'; supported: '"):
        cls(vocab_size=9, model_type="gpt2")


@pytest.mark.parametrize(
    ("model_type", "longest"),
    [
        *(("bert", 12), ("electra", 12)),
        *(("roberta", 10), ("xlm-roberta", 10), ("mpnet", 10), ("camembert", 10)),
    ],
)
def test_the_longest_sequence_leaves_out_positions_that_no_token_takes(
    model_type, longest
):
    settings = {"max_position_embeddings": 12, "pad_token_id": 1}
    sizes = {"vocab": 9, "depth": 1, "heads": 2}
    kind = "mpnet" if model_type == "mpnet" else "bert"
    config = encoder_of(kind, 8, 8, model_type=model_type, **sizes, **settings)
    assert config.max_length == longest
    network = network_of(config)
    params = drawn(network)
    batch = batch_for(config, (longest,))

    def total(table):
        params["encoder"]["embeddings"]["position"]["table"] = table
        return (network.apply(params, batch)["tags"] ** 3).sum()

    table = params["encoder"]["embeddings"]["position"]["table"]
    used = np.abs(quickly(jax.grad(total))(table)).max(-1) > 0
    assert used.tolist() == [False] * (12 - longest) + [True] * longest


def test_rates_of_dropout_are_changed_by_themselves_where_there_are_two():
    config = BertConfig(vocab_size=9)
    assert config.with_dropout(None, None) == config
    changed = config.with_dropout(0.3, None)
    assert changed.hidden_dropout_prob == changed.head_dropout == 0.3
    assert changed.attention_probs_dropout_prob == 0.1
    assert config.with_dropout(None, 0.0).attention_probs_dropout_prob == 0.0
    config = XLNetConfig(vocab_size=9)
    assert config.with_dropout(None, None) == config
    assert config.with_dropout(0.3, None).dropout == 0.3
    assert config.with_dropout(None, 0.3).dropout == 0.3
    assert config.with_dropout(0.0, 0.0) == dataclasses.replace(config, dropout=0.0)
    config = EuroBertConfig(vocab_size=9).with_dropout(0.0, 0.3)
    assert config.attention_probs_dropout_prob == 0.3
    with pytest.raises(ValueError, match="no dropout of hidden states; leave it out"):
        config.with_dropout(0.1, None)
    config = XLNetConfig(vocab_size=9)
    with pytest.raises(ValueError, match="XLNet has one rate for both"):
        config.with_dropout(0.3, 0.1)
