"""Where an encoder begins: with the weights of a folder, or with random ones."""

from __future__ import annotations

import dataclasses
from typing import get_args

from dicejax.models.encoder import Pooling
from dicejax.models.settings import Rate, Size, check_choice, check_fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainedEncoder:
    """An encoder read from a Hugging Face model folder.

    Args:
      path: the folder (config.json, model.safetensors, tokenizer files) or a hub id.
      revision: branch, tag or commit of a hub id; None is its main branch.
      hidden_dropout_prob: overrides the folder's dropout of hidden states.
      attention_probs_dropout_prob: overrides the folder's dropout of attention weights.
      pooling: what represents a text: the state of its first or last piece, or the mean
        or maximum of all, of which one that is not the architecture's own form goes
        without its pooler. "auto": as `1_Pooling/config.json` of the folder says,
        without it the own form.
    """

    path: str
    revision: str | None = None
    hidden_dropout_prob: float | None = None
    attention_probs_dropout_prob: float | None = None
    pooling: Pooling = "auto"

    def __post_init__(self) -> None:
        check_choice("pooling", self.pooling, get_args(Pooling))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScratchEncoder:
    """A BERT trained from random weights, with a vocabulary learned from the data.

    Args:
      vocab_size: upper bound on the word pieces learned from the training words.
      hidden_size: width of the hidden states.
      num_hidden_layers: depth.
      num_attention_heads: attention heads; divides the width.
      intermediate_size: width inside the feed-forward blocks.
      dropout: rate for hidden states and attention weights.
      pooling: what represents a text; "auto" is the first piece's state, through a
        dense layer, and so is "first".
    """

    vocab_size: Size = 8000
    hidden_size: Size = 128
    num_hidden_layers: Size = 2
    num_attention_heads: Size = 4
    intermediate_size: Size = 512
    dropout: Rate = 0.1
    pooling: Pooling = "auto"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of "
                f"num_attention_heads {self.num_attention_heads}"
            )
