"""Flat spans by two pointers: the type that starts, and ends, at each word."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.data.examples import Sentence, Span
from dicejax.errors import InputError
from dicejax.models.heads import TwoPointerHead
from dicejax.tasks import span_decoding, windows
from dicejax.tasks.span_decoding import Candidate, nearest_ends, without_overlaps
from dicejax.tasks.spans import Sentences, SpanTask, flat_spans
from dicejax.tasks.tagging import best_class
from dicejax.tasks.task import (
    IGNORED,
    Arrays,
    Item,
    Items,
    Labels,
    Outputs,
    Predicted,
    Prediction,
    Target,
    token_arrays,
)

NONE = "O"
"""The class of a word where nothing starts, or nothing ends."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoPointerNER(SpanTask):
    """Flat named entities by the types that start and end at each word.

    Each word has two labels, on its first piece: the type of the span of which it is
    the first word, and of that of which it is the last; "O" where there is none.
    Special pieces and those further inside a word are left out of the loss. Decoding
    pairs a start with the nearest end of its type.

    Args:
      teacher: starts given to the end in training: "gold" or "predicted".

    Source: the two-pointer model of
    https://github.com/qingkongzhiqian/NER_loss_compare, which has a loss on special
    pieces too, and lets predicted spans overlap.
    """

    teacher: Literal["gold", "predicted"] = "gold"

    @property
    def overlapping(self) -> str:
        """Each word starts, or ends, one span."""
        return "of which two pointers keep one"

    def __post_init__(self) -> None:
        super().__post_init__()
        TwoPointerHead(classes=2, teacher=self.teacher)  # checks the settings

    def label_names(self, examples: Iterable[Sentence]) -> tuple[str, ...]:
        """Return "O" and the types that occur, sorted.

        Raises:
          InputError: there is none.
        """
        types = {span.type for sentence in examples for span in sentence.spans}
        if not types:
            raise InputError(
                "train holds no span, so there is no type to learn; name a file with "
                "spans, or the column and the scheme of their tags"
            )
        return (NONE, *sorted(types))

    def heads(self, labels: Labels) -> tuple[tuple[str, TwoPointerHead], ...]:
        """Return a head with logits of all classes for each token, for both ends."""
        return (("spans", TwoPointerHead(classes=len(labels), teacher=self.teacher)),)

    def targets(self, labels: Labels) -> dict[str, Target]:
        """Return one class per token for starts and for ends."""
        target = Target("classes", tuple(labels), has_negative=True)
        return {name: target for name in ("start", "end")}

    def encode(
        self, examples: Sentences, tokenizer: Tokenizer, labels: Labels, max_length: int
    ) -> list[Item]:
        """Encode each sentence, or each window of it; the detail is the `Window`.

        As many spans as do not overlap are trained; the others count as missed. Ends of
        unknown types, and of spans that no window holds, are left out of the loss.
        """
        index = {label: number for number, label in enumerate(labels)}
        words, items = [sentence.words for sentence in examples], []
        encoded = tokenize.encode(tokenizer, words, every_word=True)
        for number, (sentence, whole) in enumerate(zip(examples, encoded, strict=True)):
            first_pieces = whole.first_pieces(len(sentence.words))
            spans = {
                (span.start, span.end - 1): index.get(span.type, IGNORED)
                for span in flat_spans(sentence.spans)
            }
            for pieces, window in windows.cut(
                whole, max_length, self.stride, words=first_pieces
            ):
                gold = span_decoding.labels(spans, window, len(pieces))
                items.append(Item(token_arrays(pieces) | gold, number, window))
        return items

    def reduce_logits(self, outputs: Arrays, batch: Arrays) -> Predicted:
        """Return the most probable class of each token, and its log-probability."""
        tokens = {}
        for name in ("start", "end"):
            log_probabilities = jax.nn.log_softmax(outputs[name], axis=-1)
            tokens[name] = best_class(outputs[name])
            tokens[f"{name}_score"] = jnp.max(log_probabilities, axis=-1)
        return Predicted(tokens=tokens)

    def decode(
        self, example: Sentence, items: Items, outputs: Outputs, labels: Labels
    ) -> Prediction:
        """Pair each start with the nearest end of its type, at it or behind it.

        Of overlapping spans the most probable pair is kept, of equals the first. The
        probability of a span is the product of those of its start and its end.
        """
        candidates: list[Candidate] = []
        for item, output in zip(items, outputs, strict=True):
            words = np.flatnonzero(item.detail.words >= 0)
            places = item.detail.words[words]
            starts, ends = output["start"][places], output["end"][places]
            for kind in set(starts[starts > 0].tolist()):
                first, last = nearest_ends(
                    np.flatnonzero(starts == kind), np.flatnonzero(ends == kind)
                )
                decided = item.detail.decides(words[first], words[last])
                first, last = first[decided], last[decided]
                scores = output["start_score"][places[first]].astype(np.float64)
                scores += output["end_score"][places[last]]
                columns = (x.tolist() for x in (words[first], words[last] + 1, scores))
                name = labels[int(kind)]
                candidates += [
                    (Span(name, start, end), score)
                    for start, end, score in zip(*columns, strict=True)
                ]
        best = without_overlaps(candidates)
        return Prediction(
            [span for span, _ in best], [math.exp(score) for _, score in best]
        )
