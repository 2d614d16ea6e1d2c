"""Hugging Face's names of the tensors and classes of each architecture.

A name on the left is a checkpoint's, without the prefix of a task model and without
".weight" and ".bias"; `{n}` is the number of a layer, `{next}` of the one behind it. On
the right is the place in our parameters, where layers are stacked along a leading axis;
or several places, "layers/query+key+value", that share a tensor in equal parts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
from flax.traverse_util import flatten_dict

from dicejax.errors import InputError
from dicejax.models.encoder import EncoderConfig
from dicejax.models.heads import (
    AnswerHead,
    Head,
    SequenceHead,
    StartEndHead,
    TokenHead,
)

_BERT_ENCODER = {
    "embeddings.word_embeddings": "embeddings/word",
    "embeddings.position_embeddings": "embeddings/position",
    "embeddings.token_type_embeddings": "embeddings/token_type",
    "embeddings.LayerNorm": "embeddings/norm",
    "embeddings_project": "embeddings/projection",
    "encoder.layer.{n}.attention.self.query": "layers/query",
    "encoder.layer.{n}.attention.self.key": "layers/key",
    "encoder.layer.{n}.attention.self.value": "layers/value",
    "encoder.layer.{n}.attention.output.dense": "layers/attention_output",
    "encoder.layer.{n}.attention.output.LayerNorm": "layers/attention_norm",
    "encoder.layer.{n}.intermediate.dense": "layers/intermediate",
    "encoder.layer.{n}.output.dense": "layers/output",
    "encoder.layer.{n}.output.LayerNorm": "layers/output_norm",
}
_ERNIE_ENCODER = _BERT_ENCODER | {
    "embeddings.task_type_embeddings": "embeddings/task_type"
}
_MEGATRON_ENCODER = {
    re.sub(r"(attention\.|)output\.LayerNorm", r"\1ln", theirs): ours
    for theirs, ours in _BERT_ENCODER.items()
} | {"encoder.ln": "final_norm"}
_PRENORM_ENCODER = {
    theirs.replace("attention.output.L", "attention.L").replace(
        "}.output.L", "}.intermediate.L"
    ): ours
    for theirs, ours in _BERT_ENCODER.items()
} | {"LayerNorm": "final_norm"}
_ALBERT_LAYER = "encoder.albert_layer_groups.{n}.albert_layers.0."
_ALBERT_ENCODER = {
    **{k: ours for k, ours in _BERT_ENCODER.items() if k.startswith("embeddings.")},
    "encoder.embedding_hidden_mapping_in": "embeddings/projection",
    f"{_ALBERT_LAYER}attention.query": "layers/query",
    f"{_ALBERT_LAYER}attention.key": "layers/key",
    f"{_ALBERT_LAYER}attention.value": "layers/value",
    f"{_ALBERT_LAYER}attention.dense": "layers/attention_output",
    f"{_ALBERT_LAYER}attention.LayerNorm": "layers/attention_norm",
    f"{_ALBERT_LAYER}ffn": "layers/intermediate",
    f"{_ALBERT_LAYER}ffn_output": "layers/output",
    f"{_ALBERT_LAYER}full_layer_layer_norm": "layers/output_norm",
}
_DISTILBERT_ENCODER = {
    "embeddings.word_embeddings": "embeddings/word",
    "embeddings.position_embeddings": "embeddings/position",
    "embeddings.LayerNorm": "embeddings/norm",
    "transformer.layer.{n}.attention.q_lin": "layers/query",
    "transformer.layer.{n}.attention.k_lin": "layers/key",
    "transformer.layer.{n}.attention.v_lin": "layers/value",
    "transformer.layer.{n}.attention.out_lin": "layers/attention_output",
    "transformer.layer.{n}.sa_layer_norm": "layers/attention_norm",
    "transformer.layer.{n}.ffn.lin1": "layers/intermediate",
    "transformer.layer.{n}.ffn.lin2": "layers/output",
    "transformer.layer.{n}.output_layer_norm": "layers/output_norm",
}
_XLNET_ENCODER = {
    "word_embedding": "embeddings/word",
    "mask_emb": "embeddings/mask",
    "layer.{n}.rel_attn.q": "layers/query",
    "layer.{n}.rel_attn.k": "layers/key",
    "layer.{n}.rel_attn.v": "layers/value",
    "layer.{n}.rel_attn.o": "layers/attention_output",
    "layer.{n}.rel_attn.r": "layers/position_key",
    "layer.{n}.rel_attn.r_w_bias": "layers/content_bias",
    "layer.{n}.rel_attn.r_r_bias": "layers/position_bias",
    "layer.{n}.rel_attn.r_s_bias": "layers/segment_bias",
    "layer.{n}.rel_attn.seg_embed": "layers/segment_key",
    "layer.{n}.rel_attn.layer_norm": "layers/attention_norm",
    "layer.{n}.ff.layer_1": "layers/intermediate",
    "layer.{n}.ff.layer_2": "layers/output",
    "layer.{n}.ff.layer_norm": "layers/output_norm",
}
_DEBERTA_ENCODER = {
    **{
        re.sub(r"(self\.(query|key|value))$", r"\1_proj", theirs): ours
        for theirs, ours in _BERT_ENCODER.items()
        if ours != "embeddings/projection"
    },
    "embeddings.embed_proj": "embeddings/projection",
    "encoder.rel_embeddings.weight": "embeddings/relative",
    "encoder.LayerNorm": "embeddings/relative_norm",
    "encoder.layer.{n}.attention.self.pos_key_proj": "layers/position_key",
    "encoder.layer.{n}.attention.self.pos_query_proj": "layers/position_query",
}
_MPNET_ENCODER = {
    **{
        re.sub(r"self\.(.).*", r"attn.\1", theirs)
        .replace("attention.output.dense", "attention.attn.o")
        .replace("attention.output.", "attention."): ours
        for theirs, ours in _BERT_ENCODER.items()
        if ours not in ("embeddings/projection", "embeddings/token_type")
    },
    "encoder.relative_attention_bias.weight": "embeddings/relative_bias",
}
_ROTARY = {
    "embeddings.word_embeddings": "embeddings/word",
    "embeddings.token_type_embeddings": "embeddings/token_type",
    "embeddings.LayerNorm": "embeddings/norm",
    "layers.{n}.self_attn.q_proj": "layers/query",
    "layers.{n}.self_attn.k_proj": "layers/key",
    "layers.{n}.self_attn.v_proj": "layers/value",
    "layers.{n}.self_attn.o_proj": "layers/attention_output",
    "layers.{n}.post_attention_layernorm": "layers/attention_norm",
    "layers.{n}.post_mlp_layernorm": "layers/output_norm",
}
_GATED_ENCODER = _ROTARY | {
    "layers.{n}.mlp.up_proj": "layers/intermediate",
    "layers.{n}.mlp.gate_proj": "layers/gate",
    "layers.{n}.mlp.down_proj": "layers/output",
}
_JINA_ENCODER = _ROTARY | {
    "layers.{n}.mlp.fc1": "layers/intermediate",
    "layers.{n}.mlp.fc2": "layers/output",
}
_EUROBERT_ENCODER = {
    **{k: x for k, x in _GATED_ENCODER.items() if ".self_attn." in k or ".mlp." in k},
    "embed_tokens": "embeddings/word",
    "layers.{n}.input_layernorm": "layers/attention_norm",
    "layers.{n}.post_attention_layernorm": "layers/output_norm",
    "norm": "final_norm",
}
_TABLES = {theirs: ours for theirs, ours in _ROTARY.items() if "word" in ours}
_TABLES |= {"embeddings.token_type_embeddings": "embeddings/token_type"}
# As the models' own code named them, and save_pretrained does again.
_STORED_GTE = _TABLES | {
    "embeddings.LayerNorm": "embeddings/norm",
    "encoder.layer.{n}.attention.qkv_proj": "layers/query+key+value",
    "encoder.layer.{n}.attention.o_proj": "layers/attention_output",
    "encoder.layer.{n}.attn_ln": "layers/attention_norm",
    "encoder.layer.{n}.mlp.up_gate_proj": "layers/intermediate+gate",
    "encoder.layer.{n}.mlp.down_proj": "layers/output",
    "encoder.layer.{n}.mlp_ln": "layers/output_norm",
}
_STORED_NOMIC = _TABLES | {
    "emb_ln": "embeddings/norm",
    "encoder.layers.{n}.attn.Wqkv": "layers/query+key+value",
    "encoder.layers.{n}.attn.out_proj": "layers/attention_output",
    "encoder.layers.{n}.norm1": "layers/attention_norm",
    "encoder.layers.{n}.mlp.fc11": "layers/intermediate",
    "encoder.layers.{n}.mlp.fc12": "layers/gate",
    "encoder.layers.{n}.mlp.fc2": "layers/output",
    "encoder.layers.{n}.norm2": "layers/output_norm",
}
_STORED_JINA = {
    theirs.replace(".attn.", ".mixer.").replace("fc11", "fc1"): ours
    for theirs, ours in _STORED_NOMIC.items()
    if ours != "layers/gate"
}
_POOLED = {"pooler.dense": "summary/dense", "classifier": "dense"}
_MODERNBERT_ENCODER = {
    "embeddings.tok_embeddings": "embeddings/word",
    "embeddings.norm": "embeddings/norm",
    # The first layer has no norm in front of its attention.
    "layers.{next}.attn_norm": "attention_norms",
    "layers.{n}.attn.Wqkv": "layers/query+key+value",
    "layers.{n}.attn.Wo": "layers/attention_output",
    "layers.{n}.mlp_norm": "layers/output_norm",
    "layers.{n}.mlp.Wi": "layers/intermediate+gate",
    "layers.{n}.mlp.Wo": "layers/output",
    "final_norm": "final_norm",
}
_ANSWER = {
    "start_logits.dense": "start",
    "end_logits.dense_0": "end/dense",
    "end_logits.LayerNorm": "end/norm",
    "end_logits.dense_1": "end/out",
    "answer_class.dense_0": "impossible/dense",
    "answer_class.dense_1": "impossible/out",
}
SENTENCES = "SentenceTransformer"
"""The class of sentence-transformers with a classifier on pooled states."""
DENSE = "2_Dense"
"""The module of that classifier, in front of its tensors' names."""
_TWO_LAYERS = {"classifier.dense": "summary/dense", "classifier.out_proj": "dense"}


Tensors = Mapping[str, str]
Heads = Mapping[type[Head], tuple[Tensors, str]]


@dataclasses.dataclass(frozen=True)
class Family:
    """The names of one `model_type`."""

    classes: str  # prefix of the PyTorch classes
    prefix: str  # of the encoder's tensors in a task model
    encoder: Tensors  # those of the encoder
    # The tensors of a head, and the suffix of its class.
    heads: Heads
    pools: bool = False  # whether the pooler's tensors have the encoder's prefix
    # The encoder's tensors as files have them where names begin with "encoder.".
    stored: Mapping[str, str] | None = None

    def encoder_in(self, names: Collection[str]) -> Mapping[str, str]:
        """Return the tensors of the encoder as a file with these names spells them."""
        is_stored = any(name.startswith("encoder.") for name in names)
        return self.stored if self.stored and is_stored else self.encoder

    @property
    def task_classes(self) -> set[str]:
        """The PyTorch classes with any of the heads."""
        return {self.classes + suffix for _, suffix in self.heads.values()}

    def task_class(self, head: Head, encoder: EncoderConfig) -> str | None:
        """Return the PyTorch class with this head, or None."""
        if isinstance(head, StartEndHead) and head.classes != 1:
            return None
        if isinstance(head, SequenceHead) and encoder.is_pooled:
            return SENTENCES
        entry = self.heads.get(type(head))
        return None if entry is None else self.classes + entry[1]

    def tensors(self, head: Head, encoder: EncoderConfig) -> Mapping[str, str]:
        """Return the tensors of a head that has a class."""
        if self.task_class(head, encoder) == SENTENCES:
            return {f"{DENSE}.linear": "dense"}
        return self.heads[type(head)][0]


def _family(
    classes: str,
    prefix: str,
    encoder: Tensors,
    summary: Tensors,
    more: Heads | None = None,
    pools: bool = False,
) -> Family:
    heads: dict[type[Head], tuple[Tensors, str]] = {
        TokenHead: ({"classifier": "dense"}, "ForTokenClassification"),
        StartEndHead: ({"qa_outputs": "dense"}, "ForQuestionAnswering"),
        SequenceHead: (summary, "ForSequenceClassification"),
    }
    return Family(classes, prefix, encoder, heads | dict(more or {}), pools)


def _rotary(
    classes: str,
    prefix: str,
    encoder: Tensors,
    stored: Tensors | None,
    summary: Tensors = _POOLED,
) -> Family:
    family = _family(classes, prefix, encoder, summary, pools=True)
    heads = {head: x for head, x in family.heads.items() if head != StartEndHead}
    return dataclasses.replace(family, heads=heads, stored=stored)


def _behind(ours: str) -> Mapping[str, str]:
    layers = {f"head.{part}": f"{ours}/{part}" for part in ("dense", "norm")}
    return layers | {"classifier": "dense"}


FAMILIES: Mapping[str, Family] = {
    "bert": _family("Bert", "bert.", _BERT_ENCODER, _POOLED, pools=True),
    "roberta": _family("Roberta", "roberta.", _BERT_ENCODER, _TWO_LAYERS),
    "xlm-roberta": _family("XLMRoberta", "roberta.", _BERT_ENCODER, _TWO_LAYERS),
    "camembert": _family("Camembert", "roberta.", _BERT_ENCODER, _TWO_LAYERS),
    "data2vec-text": _family(
        "Data2VecText", "data2vec_text.", _BERT_ENCODER, _TWO_LAYERS
    ),
    "ernie": _family("Ernie", "ernie.", _ERNIE_ENCODER, _POOLED, pools=True),
    "megatron-bert": _family(
        "MegatronBert", "bert.", _MEGATRON_ENCODER, _POOLED, pools=True
    ),
    "roberta-prelayernorm": _family(
        "RobertaPreLayerNorm", "roberta_prelayernorm.", _PRENORM_ENCODER, _TWO_LAYERS
    ),
    "albert": _family(
        "Albert",
        "albert.",
        _ALBERT_ENCODER,
        {"pooler": "summary/dense", "classifier": "dense"},
        pools=True,
    ),
    "distilbert": _family(
        "DistilBert",
        "distilbert.",
        _DISTILBERT_ENCODER,
        {"pre_classifier": "summary/dense", "classifier": "dense"},
    ),
    "gte": _rotary("Gte", "gte.", _GATED_ENCODER, _STORED_GTE),
    "nomic_bert": _rotary("NomicBert", "nomic_bert.", _GATED_ENCODER, _STORED_NOMIC),
    "eurobert": _rotary(
        "EuroBert",
        "model.",
        _EUROBERT_ENCODER,
        None,
        {"dense": "summary/dense", "classifier": "dense"},
    ),
    "jina_embeddings_v3": dataclasses.replace(
        _family("JinaEmbeddingsV3", "roberta.", _JINA_ENCODER, _TWO_LAYERS),
        stored=_STORED_JINA,
    ),
    "electra": _family("Electra", "electra.", _BERT_ENCODER, _TWO_LAYERS),
    "deberta-v2": _family("DebertaV2", "deberta.", _DEBERTA_ENCODER, _POOLED),
    "mpnet": _family("MPNet", "mpnet.", _MPNET_ENCODER, _TWO_LAYERS),
    "xlnet": _family(
        "XLNet",
        "transformer.",
        _XLNET_ENCODER,
        {"sequence_summary.summary": "summary/dense", "logits_proj": "dense"},
        more={
            StartEndHead: ({"qa_outputs": "dense"}, "ForQuestionAnsweringSimple"),
            AnswerHead: (_ANSWER, "ForQuestionAnswering"),
        },
    ),
    "modernbert": _family(
        "ModernBert",
        "model.",
        _MODERNBERT_ENCODER,
        _behind("summary"),
        more={
            TokenHead: (_behind("projection"), "ForTokenClassification"),
            StartEndHead: (_behind("projection"), "ForQuestionAnswering"),
        },
    ),
}


_NEAREST = {
    "albert": "yoso",
    "bert": "bert-generation bros convbert dpr fnet funnel layoutlm layoutlmv2 lxmert "
    "mobilebert prophetnet rembert roc_bert roformer splinter squeezebert tapas "
    "visual_bert",
    "camembert": "flaubert",
    "deberta-v2": "deberta",
    "eurobert": "apertus arcee gemma gemma2 gemma3 gemma3_text helium llama mistral "
    "ministral ministral3 qwen2 qwen3 smollm3",
    "gte": "new",
    "roberta": "bart ibert layoutlmv3 lilt luke markuplm mra mvp",
    "xlm-roberta": "canine layoutxlm mbart mt5 umt5 xlm xlm-roberta-xl xmod",
}
NEAREST = {name: kind for kind, names in _NEAREST.items() for name in names.split()}
"""What comes nearest to a `model_type` that does not load, where it is not ModernBERT:
as for GPT-2, T5, long rows and encoders with rotary positions and windows."""


def family_of(encoder: EncoderConfig) -> Family:
    """Return an encoder's names; an `InputError` if transformers has no such model."""
    if encoder.model_type in FAMILIES:
        return FAMILIES[encoder.model_type]
    raise InputError(
        f"{type(encoder).__name__}: transformers has no model_type "
        f"{encoder.model_type!r}, so there is no folder to read or write; supported: "
        f"{', '.join(map(repr, FAMILIES))}"
    )


# Parts that belong to no encoder and need no mention: other tasks' heads, buffers.
UNUSED = re.compile(
    r"^(pooler|cls|classifier|qa_outputs|lm_head|lm_loss|sequence_summary|logits_proj"
    r"|start_logits|end_logits|answer_class|discriminator_predictions|predictions"
    r"|generator_predictions|generator_lm_head|lm_predictions|mask_predictions|score"
    r"|dropout|head|decoder|dense|pre_classifier|vocab_transform|vocab_layer_norm"
    r"|vocab_projector|sop_classifier)\b|^embeddings\.position_embeddings\b"
    r"|(^|\.)position_ids$|(^|\.)token_type_ids$"
)


@dataclasses.dataclass(frozen=True)
class Leaf:
    """An array of our parameters, and the tensors of a checkpoint that hold it."""

    path: tuple[str, ...]  # keys that lead to it in our parameters
    names: tuple[str, ...]  # of the tensors, without the prefix of a task model
    shape: tuple[int, ...]  # of each tensor
    is_stacked: bool  # whether there is a tensor for each layer
    part: int  # which of the equal parts of a tensor's first axis are ours
    parts: int

    def to_tensors(self, array: np.ndarray) -> list[np.ndarray]:
        """Return this part of each of the tensors."""
        layers = array if self.is_stacked else array[None]
        return [np.ascontiguousarray(self._transpose(layer)) for layer in layers]

    def from_tensors(self, tensors: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return our array."""
        wholes = (np.split(tensors[name], self.parts) for name in self.names)
        layers = [self._transpose(parts[self.part]) for parts in wholes]
        return np.stack(layers) if self.is_stacked else np.ascontiguousarray(layers[0])

    def _transpose(self, array: np.ndarray) -> np.ndarray:
        # PyTorch keeps kernels as [out, in] where we have [in, out].
        return array.T if self.path[-1] == "kernel" else array


def leaves(names: Mapping[str, str], params: Mapping[str, Any]) -> Iterator[Leaf]:
    """Yield the leaves of a `Family` in a nested dict of arrays, or of their shapes.

    A place that it lacks is passed over: an ELECTRA as wide as its embeddings projects
    nothing.
    """
    arrays: dict[tuple[str, ...], Any] = flatten_dict(params)
    for theirs, place in names.items():
        *above, last = place.split("/")
        shared = last.split("+")
        for part, ours in enumerate(shared):
            start = (*above, ours)
            for path, array in arrays.items():
                if path[: len(start)] != start:
                    continue
                # A parameter of a layer has a suffix; a lone one has the whole name.
                leaf = "".join(path[len(start) :])
                name = theirs + {"": "", "bias": ".bias"}.get(leaf, ".weight")
                is_stacked = "{" in name
                depth = array.shape[0] if is_stacked else 1
                shape = array.shape[is_stacked:]
                shape = shape[::-1] if leaf == "kernel" else shape
                yield Leaf(
                    path,
                    tuple(name.format(n=n, next=n + 1) for n in range(depth)),
                    (shape[0] * len(shared), *shape[1:]),
                    is_stacked,
                    part,
                    len(shared),
                )
