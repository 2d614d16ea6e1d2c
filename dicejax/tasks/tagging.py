"""Named-entity recognition as tagging: one label per word, on its first word piece."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from tokenizers import Tokenizer

from dicejax.data import tags, tokenize
from dicejax.data.pack import Layout
from dicejax.data.readers.conll import Sentence
from dicejax.data.sources import Scheme
from dicejax.data.tags import Span
from dicejax.metrics import spans as span_metrics
from dicejax.models.heads import TokenHead

HEAD = "tags"
IGNORED = -100


@dataclasses.dataclass(frozen=True)
class TaggedTokens:
    """One sentence, encoded.

    Attributes:
      arrays: `input_ids`, `token_type_ids` and the labels under `HEAD`; int `[n]` each.
      first_pieces: for each word the place of its first piece, -1 where the word has
        none (past the length limit, or nothing but characters the tokenizer drops).
    """

    arrays: dict[str, np.ndarray]
    first_pieces: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tagging:
    """The settings of the task.

    Args:
      scheme: the tags the network predicts, whatever scheme the files use.
    """

    scheme: Scheme = "BIO"

    def label_names(self, sentences: Iterable[Sentence]) -> tuple[str, ...]:
        """Return the labels the network chooses from, "O" first."""
        types = {span.type for sentence in sentences for span in sentence.spans}
        return tuple(tags.label_set(self.scheme, sorted(types)))

    def head(self, labels: Sequence[str]) -> tuple[str, TokenHead]:
        """Return the head this task needs, with its name."""
        return HEAD, TokenHead(classes=len(labels))

    def layout(self, tokenizer: Tokenizer) -> Layout:
        """Return what the arrays of an example are, and what fills a packed row."""
        pad = tokenize.pad_id(tokenizer)
        return Layout(tokens={"input_ids": pad, "token_type_ids": 0, HEAD: IGNORED})

    def encode(
        self,
        sentences: Sequence[Sentence],
        tokenizer: Tokenizer,
        labels: Sequence[str],
        max_length: int,
    ) -> list[TaggedTokens]:
        """Encode sentences for the network.

        A sentence longer than `max_length` pieces is cut; its gold spans are not, so
        what cannot be predicted counts as missed. A word whose gold label is not in
        `labels` is left out of the loss.

        Args:
          sentences: words with their gold spans.
          tokenizer: as `tokenize.read` returns it; where a sentence is cut, the
            special tokens stay where its template puts them.
          labels: as `label_names` returns them.
          max_length: pieces per sentence, the special ones included; must leave room
            for those.
        """
        index = {label: number for number, label in enumerate(labels)}
        encoded = tokenize.encode(tokenizer, [s.words for s in sentences])
        return [
            self._labelled(sentence, pieces.shortened(max_length), index)
            for sentence, pieces in zip(sentences, encoded, strict=True)
        ]

    def _labelled(
        self, sentence: Sentence, encoded: tokenize.Encoded, index: dict[str, int]
    ) -> TaggedTokens:
        first_pieces = encoded.first_pieces(len(sentence.words))
        gold = tags.encode(sentence.spans, len(sentence.words), self.scheme)
        numbers = np.array([index.get(tag, IGNORED) for tag in gold], np.int32)
        targets = np.full(len(encoded), IGNORED, np.int32)
        seen = first_pieces >= 0
        targets[first_pieces[seen]] = numbers[seen]
        arrays = {
            "input_ids": encoded.ids,
            "token_type_ids": encoded.token_types,
            HEAD: targets,
        }
        return TaggedTokens(arrays, first_pieces)

    def decode(
        self, predicted: np.ndarray, first_pieces: np.ndarray, labels: Sequence[str]
    ) -> list[Span]:
        """Turn one sentence's predicted label numbers, one per piece, into spans.

        A word without a piece is taken to be outside any span.
        """
        words = [labels[predicted[p]] if p >= 0 else "O" for p in first_pieces]
        return tags.spans(words, self.scheme)

    def score(
        self, gold: Sequence[Sentence], predicted: Sequence[Sequence[Span]]
    ) -> span_metrics.SpanScores:
        """Span-level precision, recall and F1 in word space, over all gold spans."""
        counts = span_metrics.count([sentence.spans for sentence in gold], predicted)
        return span_metrics.scores(counts)

    def unseen_types(
        self, sentences: Iterable[Sentence], labels: Sequence[str]
    ) -> Counter[str]:
        """Count the spans whose type `labels` do not know; these can only be missed."""
        known = {tag.partition("-")[2] for tag in labels}
        types = (span.type for sentence in sentences for span in sentence.spans)
        return Counter(kind for kind in types if kind not in known)

    def warnings(
        self, split: str, sentences: Iterable[Sentence], labels: Sequence[str]
    ) -> list[str]:
        """Say in a sentence per type what `unseen_types` counts in a split."""
        return [
            f"{split} has {count} {kind!r} span{'s' if count > 1 else ''}, a type "
            "that train never has: scored as missed"
            for kind, count in sorted(self.unseen_types(sentences, labels).items())
        ]
