"""The page of a review: the first examples, and those of each class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dicejax.data.source import text_of
from dicejax.study.report.document import Lines, Section
from dicejax.study.review.held_out import HeldOut, split_counts
from dicejax.study.review.ranking import Doubt
from dicejax.study.sentences import counted, paragraphs, sentences
from dicejax.tasks.described import text_and_gold

OF_CLASS = 10
"""Examples of each class on the page."""
COPIES = 3
"""Copies of a text with other labels that are named."""
Copies = Mapping[Any, Sequence[tuple[str, str]]]


def document(
    name: str,
    held_out: HeldOut,
    first: Sequence[Doubt],
    by_class: Mapping[str, Sequence[Doubt]],
    copied: Copies,
    *,
    statement: Sequence[str],
    to_do: Sequence[str],
) -> dict[str, Any]:
    """Return the page of the first examples, whose statement its heading is."""
    texts = sentences("review")
    every = sum(x.contradicting == x.judges for x in first)
    lead = texts.foremost(all=every, first=len(first))
    sections = [Section("next", "What to do", to_do)]
    if first:
        caption = "The most consistently contradicted first"
        tables = {caption: _lines(first, copied)}
        sections.insert(0, Section("first", "Check first", tables=tables))
    for number, (label, some) in enumerate(by_class.items()):
        tables = {f"The first of {label}": _lines(some, copied)}
        sections.append(Section(f"class-{number}", f"Class {label}", tables=tables))
    counts = split_counts(held_out.splits)
    limits = paragraphs(texts.limits(has_dev="dev" in counts))
    return {
        "title": f"{name}: labels to check",
        "heading": "What to check",
        "context": {
            "examples": ", ".join(f"{n:,} of {split}" for split, n in counts.items()),
            "models": counted(len(held_out.models), "model"),
            "task": type(held_out.task).__name__,
        },
        "verdict": "\n".join([*statement, lead]),
        "warnings": limits,
        "sections": sections,
        "folded": [x.key for x in sections if x.key[:5] == "class"],
    }


def _lines(doubts: Iterable[Doubt], copied: Copies) -> Lines:
    lines = []
    for doubt in doubts:
        cells = cells_of(doubt)
        where = f"{cells['split']}, line {cells['line']}"
        others = [
            f"{gold} ({place})"
            for gold, place in copied.get(text_of(doubt.example), ())
            if gold != cells["gold"]
        ]
        more = f" and {len(others) - COPIES} more" if len(others) > COPIES else ""
        lines.append(
            {
                "rank": f"{doubt.rank}",
                "text": cells["text"],
                "gold": cells["gold"],
                "models say": cells["models"],
                "kind": cells["kind"],
                "against gold": f"{doubt.contradicting} of {doubt.judges}",
                "copies say": "; ".join(others[:COPIES]) + more,
                "where": where,
            }
        )
    if not any(line["copies say"] for line in lines):
        lines = [{k: x for k, x in line.items() if k != "copies say"} for line in lines]
    return lines


def cells_of(doubt: Doubt) -> dict[str, Any]:
    """Return an example as cells of a table or of a list."""
    split, number = doubt.key
    text, gold = text_and_gold(doubt.example)
    return {
        "split": split,
        "number": number,
        "line": doubt.example.line,
        "text": text,
        "gold": gold,
        "models": text_and_gold(doubt.proposed)[1],
        "kind": ", ".join(doubt.kinds),
    }
