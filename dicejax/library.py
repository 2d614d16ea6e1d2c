"""The package from Python: encoders of Hugging Face folders, and packed batches."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.data.pack import fill, pack
from dicejax.models import huggingface
from dicejax.models.encoder import Pooling
from dicejax.models.heads import Head
from dicejax.models.network import Network, Params
from dicejax.tasks import Tagging
from dicejax.tasks.task import IGNORED
from dicejax.tasks.word_items import encode_words
from dicejax.training.inference import Folder


def from_pretrained(
    folder: Folder,
    heads: Mapping[str, Head],
    *,
    revision: str | None = None,
    pooling: Pooling = "auto",
    seed: int = 0,
) -> tuple[Network, Params, Tokenizer]:
    """Read an encoder and its tokenizer, and put heads on it.

    Args:
      folder: Hugging Face model folder, or hub id.
      heads: heads by the names of their logits. Those with weights in the folder are
        read, the others initialized at random; a warning says so where the folder has
        one of the same kind that does not fit.
      revision: branch, tag or commit of a hub id.
      pooling: what represents a text for a `SequenceHead`; "auto": as
        `1_Pooling/config.json` of the folder says, or else the architecture's own form.
      seed: seed of the initialized heads.

    Returns:
      The model, whose `apply(params, batch, key)` computes a dict of logits; its
      parameters, a nested dict; and the tokenizer, for words.

    Raises:
      InputError: the folder cannot be used.
    """
    path = huggingface.locate(os.fspath(folder), revision)
    encoder = huggingface.read_config(path, pooling)
    model = Network(encoder=encoder, heads=tuple(heads.items()))
    tokenizer = tokenize.read(path)
    for text in tokenize.check_fits(tokenizer, model.encoder.vocab_size, path):
        warnings.warn(text, stacklevel=2)
    weights = huggingface.read_weights(path, model)
    for text in weights.notes:
        warnings.warn(text, stacklevel=2)
    draw = jax.jit(lambda key: model.init(key).get("heads", {}))
    params = weights.over({"heads": draw(jax.random.key(seed))})
    return model, jax.tree.map(jnp.asarray, params), tokenizer


def encode(
    tokenizer: Tokenizer,
    sentences: Sequence[Sequence[str]],
    tag_ids: Sequence[Sequence[int]] | None = None,
    *,
    max_length: int = 128,
) -> dict[str, jax.Array]:
    """Encode words, and their labels if there are any, as one batch of packed rows.

    Args:
      tokenizer: tokenizer from `from_pretrained`.
      sentences: words of each sentence.
      tag_ids: label of each word, assigned to its first piece; -100 is masked. None:
        there are no labels.
      max_length: tokens of a row, which holds several sentences; a longer one is cut
        into windows that overlap.

    Returns:
      int32 arrays `[B, T]`: `input_ids`, `token_type_ids`, `segment_ids`,
      `position_ids`, and the labels, if any, as `tags`, -100 where there is none.

    Raises:
      ValueError: a sentence has another number of labels than words.
    """
    labels = tag_ids
    if labels is None:
        labels = [[IGNORED] * len(words) for words in sentences]
    for number, (words, gold) in enumerate(zip(sentences, labels, strict=True)):
        if len(words) != len(gold):
            raise ValueError(
                f"sentence {number} has {len(words)} words and {len(gold)} labels"
            )
    task = Tagging()
    items = encode_words(sentences, labels, tokenizer, max_length, task.stride)
    rows = pack([len(item) for item in items], max_length)
    arrays = [[items[place].arrays for place in row] for row in rows]
    batch = fill(arrays, max_length, task.layout(tokenizer))
    if tag_ids is None:
        del batch["tags"]
    return jax.tree.map(jnp.asarray, batch)
