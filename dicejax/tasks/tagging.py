"""One class for each word, on its first piece; spans by tagging."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from tokenizers import Tokenizer

from dicejax.data import tags, tokenize
from dicejax.data.examples import Sentence
from dicejax.data.pack import BatchLayout
from dicejax.data.tags import Scheme
from dicejax.models.heads import TokenHead
from dicejax.tasks import windows
from dicejax.tasks.spans import Sentences, SpanTask, flat_spans, gold_warnings
from dicejax.tasks.task import (
    IGNORED,
    Item,
    Items,
    Labels,
    Outputs,
    Predicted,
    Scored,
    Target,
)

HEAD = "tags"
_CHANCE = "probability"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenTask(windows.WindowTask):
    """One class for each word, on its first piece.

    A text longer than `max_length` is cut into windows that overlap; each word is
    trained and predicted in the one that shows most of its surroundings.

    The words before and after a sentence are read as context, as many as the row has
    room for, the nearest: they have no label, so neither loss nor score.

    Args:
      stride: overlap of neighbouring windows in pieces, at most half of a window.
    """

    reads_context: ClassVar[bool] = True

    def heads(self, labels: Labels) -> tuple[tuple[str, TokenHead], ...]:
        """Return a head with logits of all classes for each token."""
        return ((HEAD, TokenHead(classes=len(labels))),)

    def targets(self, labels: Labels) -> dict[str, Target]:
        """Return one class per token."""
        return {HEAD: Target("classes", tuple(labels))}

    def layout(self, tokenizer: Tokenizer) -> BatchLayout:
        """Return the layout of an item's arrays."""
        pad = tokenize.pad_id(tokenizer)
        return BatchLayout(
            tokens={"input_ids": pad, "token_type_ids": 0, HEAD: IGNORED}
        )

    def reduce_logits(self, outputs, batch) -> Predicted:
        """Return the most probable class of each token, and its probability."""
        logits = outputs[HEAD]
        chance = jnp.max(jax.nn.softmax(logits.astype(jnp.float32), axis=-1), axis=-1)
        return Predicted(tokens={HEAD: best_class(logits), _CHANCE: chance})


def encode_words(
    sentences: Sequence[Sequence[str]],
    numbers: Iterable[Sequence[int]],
    tokenizer: Tokenizer,
    max_length: int,
    overlap: int,
    around: Iterable[tuple[Sequence[str], Sequence[str]]] | None = None,
) -> list[Item]:
    """Encode sentences with a label number per word, which its first piece gets.

    Args:
      sentences: the words of each.
      numbers: the labels of each; `IGNORED` is left out of the loss.
      tokenizer: tokenizer for words.
      max_length: pieces per item, the special ones included.
      overlap: overlap of the windows of a longer sentence, in pieces.
      around: words before and after each that are read as context; None: none.

    Returns:
      An item per sentence, or per window of it. Its detail is, for each word, the place
      of its first piece, -1 where another window decides it or it has no piece.

    Raises:
      InputError: `max_length` leaves no room.
    """
    items = []
    sides = [((), ())] * len(sentences) if around is None else list(around)
    given = [
        [*before, *words, *after]
        for words, (before, after) in zip(sentences, sides, strict=True)
    ]
    encoded = tokenize.encode(tokenizer, given, every_word=True)
    for example, (words, gold, pieces) in enumerate(
        zip(sentences, numbers, encoded, strict=True)
    ):
        first = len(sides[example][0])
        end = first + len(words)
        if len(given[example]) > len(words):
            pieces = pieces.around(first, end, max_length)
        first_pieces = pieces.first_pieces(len(given[example]))[first:end]
        for part in windows.of_text(pieces, max_length, overlap):
            seen = (first_pieces >= 0) & part.decided[first_pieces]
            places = np.where(seen, first_pieces + part.shift, -1)
            targets = np.full(len(part.encoded), IGNORED, np.int32)
            targets[places[seen]] = np.asarray(gold, np.int32)[seen]
            arrays = {
                "input_ids": part.encoded.ids,
                "token_type_ids": part.encoded.token_types,
                HEAD: targets,
            }
            items.append(Item(arrays, example, places))
    return items


def best_class(logits: Array) -> Array:
    """Return the most probable class, int32 `[...]` of logits `[..., C]`."""
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)


def word_labels(
    items: Items, outputs: Sequence[Outputs], labels: Labels, *, otherwise: str
) -> Scored:
    """Return word labels, each of the window that decides it.

    The probability of a word without a piece is None.

    Args:
      items: of one sentence; see `encode_words`.
      outputs: the class of each token and its probability.
      labels: names of the classes.
      otherwise: label of a word without a piece.
    """
    found = [otherwise] * len(items[0].detail)
    chances: list[float | None] = [None] * len(found)
    for item, output in zip(items, outputs, strict=True):
        words = np.flatnonzero(item.detail >= 0)
        places = item.detail[words]
        numbers, chance = (output[n][places].tolist() for n in (HEAD, _CHANCE))
        for word, number, one in zip(words.tolist(), numbers, chance, strict=True):
            found[word], chances[word] = labels[number], one
    return Scored(found, chances)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tagging(TokenTask, SpanTask):
    """Named entities, or any flat spans of words, as a tag per word.

    Args:
      stride: see `TokenTask`.
      scheme: tag scheme of the network, whatever the files use.
    """

    scheme: Scheme = "BIO"

    def label_names(self, examples: Iterable[Sentence]) -> tuple[str, ...]:
        """Return every tag of the types that occur, "O" first."""
        types = {span.type for sentence in examples for span in sentence.spans}
        return tuple(tags.label_set(self.scheme, sorted(types)))

    def targets(self, labels: Labels) -> dict[str, Target]:
        """Return one tag per token, "O" outside spans."""
        return {HEAD: Target("classes", tuple(labels), has_negative=True)}

    def encode(
        self, examples: Sentences, tokenizer: Tokenizer, labels: Labels, max_length: int
    ) -> list[Item]:
        """Encode sentences; see `encode_words`.

        As many spans as do not overlap are trained; the others count as missed. Unknown
        labels are left out of the loss.
        """

        def numbers(sentence: Sentence) -> list[int]:
            kept = flat_spans(sentence.spans)
            gold = tags.encode(kept, len(sentence.words), self.scheme)
            return [index.get(tag, IGNORED) for tag in gold]

        index = {label: number for number, label in enumerate(labels)}
        return encode_words(
            [sentence.words for sentence in examples],
            map(numbers, examples),
            tokenizer,
            max_length,
            self.stride,
            [(sentence.before, sentence.after) for sentence in examples],
        )

    def decode(
        self,
        example: Sentence,
        items: Items,
        outputs: Sequence[Outputs],
        labels: Labels,
    ) -> Scored:
        """Turn the tags of one sentence into spans; a word without a piece is O.

        The probability of a span is the product of those of its words' tags.
        """
        words = word_labels(items, outputs, labels, otherwise="O")
        chances = words.probabilities
        spans = tags.spans(words, self.scheme)
        of_spans = [
            math.prod(one for one in chances[span.start : span.end] if one is not None)
            for span in spans
        ]
        return Scored(spans, of_spans, chances)

    def warnings(
        self, split: str, examples: Sentences, items: Items, labels: Labels
    ) -> list[str]:
        """Warn of types that train lacks, and of spans that tags cannot express."""
        types = {tag.partition("-")[2] for tag in labels}
        which = "which tags cannot express"
        said = gold_warnings(split, examples, types, 0, items, overlapping=which)
        return [*said, *windows.remark(split, examples, items)]
