"""Spans by tagging: one label per word, on its first word piece."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer

from dicejax.data import tags
from dicejax.data.examples import Sentence, Span
from dicejax.data.tags import Scheme
from dicejax.tasks.spans import SpanTask, flat_spans, gold_warnings
from dicejax.tasks.task import IGNORED, Item, Outputs, Target
from dicejax.tasks.tokens import HEAD, TokenTask, encode_words, word_labels


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tagging(TokenTask, SpanTask):
    """Named entities, or any flat spans of words, as a tag per word.

    Args:
      scheme: the tags the network predicts, whatever scheme the files use.
    """

    scheme: Scheme = "BIO"

    def label_names(self, examples: Iterable[Sentence]) -> tuple[str, ...]:
        """Return every tag of the types that occur, "O" first."""
        types = {span.type for sentence in examples for span in sentence.spans}
        return tuple(tags.label_set(self.scheme, sorted(types)))

    def targets(self, labels: Sequence[str]) -> dict[str, Target]:
        """Each token chooses one tag, "O" where it is in no span."""
        return {HEAD: Target("classes", tuple(labels), has_negative=True)}

    def encode(
        self,
        examples: Sequence[Sentence],
        tokenizer: Tokenizer,
        labels: Sequence[str],
        max_length: int,
    ) -> list[Item]:
        """Encode each sentence as one item; its detail is the words' first pieces.

        Tags cannot say that spans overlap: of such as many as do not are learnt, and
        the others count as missed. A word whose label is not in `labels` is left out of
        the loss.
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
        )

    def decode(
        self,
        example: Sentence,
        items: Sequence[Item],
        outputs: Sequence[Outputs],
        labels: Sequence[str],
    ) -> list[Span]:
        """Turn the tags of one sentence into spans; a word without a piece is O."""
        del example
        ((item,), (output,)) = items, outputs
        words = word_labels(output[HEAD], item.detail, labels, otherwise="O")
        return tags.spans(words, self.scheme)

    def warnings(
        self,
        split: str,
        examples: Sequence[Sentence],
        items: Sequence[Item],
        labels: Sequence[str],
    ) -> list[str]:
        """Say which types training lacks, and how many spans no tag can give."""
        lost = sum(
            bool((item.detail[span.start : span.end] < 0).any())
            for sentence, item in zip(examples, items, strict=True)
            for span in sentence.spans
        )
        types = {tag.partition("-")[2] for tag in labels}
        which = "which tags cannot say"
        return gold_warnings(split, examples, types, lost, overlapping=which)
