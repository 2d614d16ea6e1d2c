"""Flat spans by two pointers: the type that starts, and ends, at each word."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.data.examples import Sentence, Span
from dicejax.data.pack import BatchLayout
from dicejax.errors import InputError
from dicejax.models.heads import TwoPointerHead
from dicejax.tasks import windows
from dicejax.tasks.span_decoding import Candidate, nearest_ends, without_overlaps
from dicejax.tasks.spans import Sentences, SpanTask, flat_spans, gold_warnings
from dicejax.tasks.tagging import best_class
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
from dicejax.tasks.windows import SeenWords

NONE = "O"
"""The class of a word where nothing starts, or nothing ends."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoPointerNER(windows.WindowTask, SpanTask):
    """Flat named entities by the types that start and end at each word.

    Each word has two labels, on its first piece: the type of the span of which it is
    the first word, and of that of which it is the last; "O" where there is none.
    Special pieces and those further inside a word are left out of the loss. Decoding
    pairs a start with the nearest end of its type.

    A sentence longer than `max_length` is cut into windows that overlap. Each word is
    trained and predicted in the one that shows most of its surroundings, and so is each
    span, of those that show all of it.

    Args:
      stride: overlap of neighbouring windows in pieces, at most half of a window.
      teacher: starts given to the end in training: "gold" or "predicted".

    Source: the two-pointer model of
    https://github.com/qingkongzhiqian/NER_loss_compare, which has a loss on special
    pieces too, and lets predicted spans overlap.
    """

    teacher: Literal["gold", "predicted"] = "gold"

    def __post_init__(self):
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

    def layout(self, tokenizer: Tokenizer) -> BatchLayout:
        """Return the layout of an item's arrays."""
        pad = tokenize.pad_id(tokenizer)
        labels = {"start": IGNORED, "end": IGNORED}
        return BatchLayout(tokens={"input_ids": pad, "token_type_ids": 0, **labels})

    def encode(
        self, examples: Sentences, tokenizer: Tokenizer, labels: Labels, max_length: int
    ) -> list[Item]:
        """Encode each sentence, or each window of it; the detail is the words seen.

        As many spans as do not overlap are trained; the others count as missed. Ends of
        unknown types, and of spans that no window holds, are left out of the loss.
        """
        index = {label: number for number, label in enumerate(labels)}
        words, items = [sentence.words for sentence in examples], []
        encoded = tokenize.encode(tokenizer, words, every_word=True)
        for number, sentence in enumerate(examples):
            whole = encoded[number]
            first_pieces = whole.first_pieces(len(sentence.words))
            for part in windows.of_text(whole, max_length, self.stride):
                pieces, seen = part.encoded, part.words(first_pieces)
                gold = _labels(sentence, seen, len(pieces), index)
                arrays = {"input_ids": pieces.ids, "token_type_ids": pieces.token_types}
                items.append(Item(arrays | gold, number, seen))
        return items

    def reduce_logits(
        self, outputs: Mapping[str, Array], batch: Mapping[str, Array]
    ) -> Predicted:
        """Return the most probable class of each token, and its log-probability."""
        tokens = {}
        for name in ("start", "end"):
            log_probabilities = jax.nn.log_softmax(outputs[name], axis=-1)
            tokens[name] = best_class(outputs[name])
            tokens[f"{name}_score"] = jnp.max(log_probabilities, axis=-1)
        return Predicted(tokens=tokens)

    def decode(
        self,
        example: Sentence,
        items: Items,
        outputs: Sequence[Outputs],
        labels: Labels,
    ) -> Scored:
        """Pair each start with the nearest end of its type, at it or behind it.

        Of overlapping spans the most probable pair is kept, of equals the first. The
        probability of a span is the product of those of its start and its end.
        """
        found: list[Candidate] = []
        for item, output in zip(items, outputs, strict=True):
            found += _candidates(item.detail, output, labels)
        kept = without_overlaps(found)
        return Scored([span for span, _ in kept], [math.exp(one) for _, one in kept])

    def warnings(
        self, split: str, examples: Sentences, items: Items, labels: Labels
    ) -> list[str]:
        """Warn of types that train lacks, and of spans that cannot be predicted."""
        held = {
            (item.example, span)
            for item in items
            for span in examples[item.example].spans
            if _is_whole(span, item.detail.first_pieces)
        }
        lost = sum(
            (number, span) not in held
            for number, sentence in enumerate(examples)
            for span in sentence.spans
        )
        which = "of which two pointers keep one"
        said = gold_warnings(split, examples, labels, lost, items, overlapping=which)
        return [*said, *windows.remark(split, examples, items)]


def _candidates(seen: SeenWords, output: Outputs, labels: Labels) -> list[Candidate]:
    """Return the spans of one window that are decided there."""
    words = np.flatnonzero(seen.first_pieces >= 0)
    places = seen.first_pieces[words]
    starts, ends = output["start"][places], output["end"][places]
    found: list[Candidate] = []
    for kind in set(starts[starts > 0].tolist()):
        first, last = nearest_ends(
            np.flatnonzero(starts == kind), np.flatnonzero(ends == kind)
        )
        here = seen.decides(words[first], words[last])
        first, last = first[here], last[here]
        scores = output["start_score"][places[first]].astype(np.float64)
        scores += output["end_score"][places[last]]
        name = labels[kind]
        found += [
            (Span(name, start, end + 1), score)
            for start, end, score in zip(
                words[first].tolist(),
                words[last].tolist(),
                scores.tolist(),
                strict=True,
            )
        ]
    return found


def _labels(
    sentence: Sentence, seen: SeenWords, length: int, index: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """Return the labels `start` and `end` of each piece."""
    spans, first_pieces = flat_spans(sentence.spans), seen.first_pieces
    places = seen.trained_words((span.start, span.end - 1) for span in spans)
    start = np.full(length, IGNORED, np.int32)
    start[places] = 0
    end = start.copy()
    for span in spans:
        whole = _is_whole(span, first_pieces)
        label = index.get(span.type, IGNORED) if whole else IGNORED
        for labels, word in ((start, span.start), (end, span.end - 1)):
            place = first_pieces[word]
            if place >= 0 and labels[place] == 0:  # trained in this window
                labels[place] = label
    return {"start": start, "end": end}


def _is_whole(span: Span, first_pieces: np.ndarray) -> bool:
    """Return whether the first word and the last have a piece."""
    return bool(first_pieces[span.start] >= 0 and first_pieces[span.end - 1] >= 0)
