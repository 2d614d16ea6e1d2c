"""DistilBERT (Sanh et al., 2019, https://arxiv.org/abs/1910.01108) in flax.nnx.

It is BERT without token types and without a pooler. What attention adds to the states
is not dropped out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from dicejax.models.bert import PostNormConfig
from dicejax.models.encoder import SequenceSummary
from dicejax.models.settings import Rate, Size

_EPSILON = 1e-12


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistilBertConfig(PostNormConfig):
    """The architecture of a DistilBERT, in the words of BERT's `config.json`."""

    model_types: ClassVar[tuple[str, ...]] = ("distilbert",)
    words: ClassVar[Mapping[str, str]] = {
        "dim": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "hidden_dim": "intermediate_size",
        "activation": "hidden_act",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
    }

    model_type: str = "distilbert"
    num_hidden_layers: Size = 6
    seq_classif_dropout: Rate = 0.2
    # PyTorch's code has these whatever the file says.
    embedding_size: Literal[None] = None
    layer_norm_eps: float = _EPSILON

    type_vocab_size = property(lambda self: 1)
    attended_dropout = property(lambda self: 0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer_norm_eps != _EPSILON:
            raise ValueError(
                f"layer_norm_eps is {self.layer_norm_eps}; supported: {_EPSILON}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the content of a `config.json`."""
        content = super().to_json()
        del content["embedding_size"], content["layer_norm_eps"]
        return content

    @property
    def summary(self) -> SequenceSummary:
        """The first token's vector, by a dense layer and a ReLU."""
        rate = self.seq_classif_dropout
        return SequenceSummary(activation="relu", dropout_after=rate)
