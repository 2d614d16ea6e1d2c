"""Examples as a text and its gold answer."""

from __future__ import annotations

from typing import Any

from dicejax.data.examples import (
    LabelledText,
    MultiLabelText,
    ReadingExample,
    Sentence,
    SpanQuery,
    TaggedWords,
)
from dicejax.errors import shortened
from dicejax.tasks.answers import gold_texts

LONGEST = 240


def described(example: Any) -> tuple[str, str]:
    """Return an example's text and its gold answer.

    >>> from dicejax.data.tags import Span
    >>> described(Sentence(("Ada", "met", "Bo"), (Span("PER", 0, 1),), 1))
    ('Ada met Bo', 'PER: Ada')
    >>> described(Sentence(("No", "one"), (), 1))
    ('No one', '-')
    """
    if isinstance(example, Sentence):
        spans = (
            f"{span.type}: {' '.join(example.words[span.start : span.end])}"
            for span in example.spans
        )
        text, gold = " ".join(example.words), "; ".join(spans)
    elif isinstance(example, TaggedWords):
        text, gold = " ".join(example.words), " ".join(example.labels)
    elif isinstance(example, LabelledText | MultiLabelText):
        text = " | ".join(part for part in (example.first, example.second) if part)
        one_class = isinstance(example, LabelledText)
        gold = (example.label if one_class else ", ".join(example.labels or ())) or ""
    elif isinstance(example, ReadingExample):
        text = f"{example.question} | {example.context}"
        gold = "; ".join(dict.fromkeys(gold_texts(example)))
    elif isinstance(example, SpanQuery):
        text = f"{example.label}? {' '.join(example.words)}"
        gold = "; ".join(
            " ".join(example.words[span.start : span.end]) for span in example.spans
        )
    else:
        text, gold = "", ""
    return shortened(text, LONGEST), shortened(gold, LONGEST) or "-"
