"""What tasks that choose one class for each word have in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.data.pack import Layout
from dicejax.models.heads import TokenHead
from dicejax.tasks.task import IGNORED, Item, Predicted, Target, Task

HEAD = "tags"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenTask(Task):
    """One class for each word, on its first piece."""

    def heads(self, labels: Sequence[str]) -> tuple[tuple[str, TokenHead], ...]:
        """Return a head with logits of all classes for each token."""
        return ((HEAD, TokenHead(classes=len(labels))),)

    def targets(self, labels: Sequence[str]) -> dict[str, Target]:
        """Each token chooses one class."""
        return {HEAD: Target("classes", tuple(labels))}

    def layout(self, tokenizer: Tokenizer) -> Layout:
        """Return what the arrays of an item are, and what fills a packed row."""
        pad = tokenize.pad_id(tokenizer)
        return Layout(tokens={"input_ids": pad, "token_type_ids": 0, HEAD: IGNORED})

    def predicted(self, outputs, batch) -> Predicted:
        """Take the most probable class of each token."""
        del batch
        return Predicted(tokens={HEAD: best_class(outputs[HEAD])})


def encode_words(
    sentences: Sequence[Sequence[str]],
    numbers: Iterable[Sequence[int]],
    tokenizer: Tokenizer,
    max_length: int,
) -> list[Item]:
    """Encode sentences with a label number per word, which its first piece gets.

    Args:
      sentences: the words of each.
      numbers: the labels of each; `IGNORED` is left out of the loss.
      tokenizer: as `tokenize.read` returns it; where a sentence is cut, the special
        tokens stay where its template puts them.
      max_length: pieces per sentence, the special ones included.

    Returns:
      One item per sentence. Its detail is, for each word, the place of its first
      piece, -1 where the word has none: beyond `max_length`, or nothing but characters
      that the tokenizer drops.
    """
    items = []
    encoded = tokenize.encode(tokenizer, sentences, every_word=True)
    for example, (words, gold, pieces) in enumerate(
        zip(sentences, numbers, encoded, strict=True)
    ):
        pieces = pieces.shortened(max_length)
        first_pieces = pieces.first_pieces(len(words))
        targets = np.full(len(pieces), IGNORED, np.int32)
        seen = first_pieces >= 0
        targets[first_pieces[seen]] = np.asarray(gold, np.int32)[seen]
        arrays = {
            "input_ids": pieces.ids,
            "token_type_ids": pieces.token_types,
            HEAD: targets,
        }
        items.append(Item(arrays, example, first_pieces))
    return items


def best_class(logits: Array) -> Array:
    """The most probable class, int32 `[...]` of logits `[..., C]`."""
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)


def word_labels(
    predicted: np.ndarray,
    first_pieces: np.ndarray,
    labels: Sequence[str],
    *,
    otherwise: str,
) -> list[str]:
    """Return the label of each word, `otherwise` for a word without a piece."""
    numbers = predicted[np.maximum(first_pieces, 0)].tolist()
    return [
        labels[number] if place >= 0 else otherwise
        for number, place in zip(numbers, first_pieces.tolist(), strict=True)
    ]
