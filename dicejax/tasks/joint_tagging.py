"""Joint word segmentation and part-of-speech tagging."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from dicejax.data import tags
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.tags import Scheme
from dicejax.metrics import segmentation
from dicejax.metrics.scores import Scores
from dicejax.tasks.spans import Sentences, prompt_field
from dicejax.tasks.tagging import Tagging
from dicejax.tasks.task import Examples, Labels, Prediction, Predictions


@dataclasses.dataclass(frozen=True, kw_only=True)
class JointTagging(Tagging):
    """Joint word segmentation and part-of-speech tagging.

    Each character gets a tag; a word is right where its borders and its label are.
    Words with labels are taken too, and written as characters.
    """

    takes: ClassVar[tuple[type, ...]] = (Sentence, TaggedWords)
    reads_context: ClassVar[bool] = False
    separator: ClassVar[str] = ""
    measures: ClassVar[tuple[str, ...]] = ()

    scheme: Scheme = "BMES"

    def adapt(self, examples: Examples) -> Sequence[Sentence]:
        """Write words with labels as characters with spans."""
        return [
            by_character(example) if isinstance(example, TaggedWords) else example
            for example in super().adapt(examples)
        ]

    def score(
        self, examples: Sentences, predictions: Predictions, labels: Labels = ()
    ) -> Scores:
        """Score words with their labels, words alone, and tags of characters."""
        gold, guesses = (
            [
                tags.encode(spans, len(example.words), self.scheme)
                for example, spans in zip(examples, column, strict=True)
            ]
            for column in ([e.spans for e in examples], [p.values for p in predictions])
        )
        both = segmentation.score(gold, guesses, self.scheme)
        joint = Scores.of_spans(both.joint)
        more = {"words_f1": both.words.f1, "character_accuracy": both.token_accuracy}
        scores = Scores({**joint.values, **more}, joint.groups)
        return scores.leading_with(self.primary_metric)

    def of_words(self, words: Sequence[str], number: int) -> Sentence:
        """Take the words' characters."""
        return Sentence(tuple("".join(words)), (), number)

    def show(
        self, example: Sentence, prediction: Prediction
    ) -> tuple[dict[str, Any], list[str]]:
        """Format each word with its label."""
        record, _ = super().show(example, prediction)
        words = [f"{word['text']}/{word['type']}" for word in record["entities"]]
        prompt = prompt_field(example)
        lines = [*prompt.values(), " ".join(words)]
        return prompt | {"words": record["entities"]}, lines
