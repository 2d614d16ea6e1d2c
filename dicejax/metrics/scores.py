"""The scores of a split, in one form for every task."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping, Sized
from typing import Any

from dicejax.io.html_table import html_table
from dicejax.metrics.spans import SpanScores


def heading(name: str) -> str:
    """Return the display name of a score.

    >>> heading("f1"), heading("macro_f1"), heading("lrap")
    ('F1', 'macro F1', 'LRAP')
    """
    capital = {"f1", "lrap"}
    parts = (part.upper() if part in capital else part for part in name.split("_"))
    return " ".join(parts)


def name_in(score: str, values: Container[str], groups: Sized) -> str:
    """Return the display name of a score among others of a split with groups.

    F1 of more than two classes of texts is their unweighted mean, and called so.

    >>> name_in("f1", {"f1": 0.5, "matthews": 0.1}, ["a", "b", "c"])
    'macro F1'
    """
    of_classes = "matthews" in values and len(groups) > 2
    if of_classes and score in ("precision", "recall", "f1"):
        return heading(f"macro_{score}")
    return heading(score)


@dataclasses.dataclass(frozen=True)
class Scores:
    """Named scores of a whole split, and of its parts.

    >>> Scores({"f1": 0.5}, {"PER": {"f1": 1.0, "support": 2}}).to_json()
    {'f1': 0.5, 'per_type': {'PER': {'f1': 1.0, 'support': 2}}}

    Attributes:
      values: shares in [0, 1] (Matthews' correlation: [-1, 1]), the primary one first.
      groups: by type, class or kind of question: its scores, and its `support`.
    """

    values: Mapping[str, float]
    groups: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)

    def name(self, score: str) -> str:
        """Return the display name of a score."""
        return name_in(score, self.values, self.groups)

    def __str__(self) -> str:
        parts = (f"{self.name(x)} {100 * y:.2f}" for x, y in self.values.items())
        return ", ".join(parts)

    def _repr_html_(self) -> str:
        """Return a table of all and of each group, in percent, for a notebook."""
        rows = self.rows()
        lines = [["", *map(heading, rows["all"])]]
        for name, row in rows.items():
            texts = (
                f"{100 * x:.2f}" if isinstance(x, float) else x for x in row.values()
            )
            lines.append([name, *("" if x is None else str(x) for x in texts)])
        return html_table(lines)

    def rows(self) -> dict[str, dict[str, float | None]]:
        """Return the scores of all and of each group, None where one has no such."""
        rows = {"all": self.values, **self.groups}
        names = list(dict.fromkeys(name for row in rows.values() for name in row))
        return {label: {x: row.get(x) for x in names} for label, row in rows.items()}

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries."""
        groups = {name: dict(row) for name, row in self.groups.items()}
        return {**self.values, "per_type": groups}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Scores:
        """Return the scores that `to_json` wrote."""
        values = {name: x for name, x in content.items() if name != "per_type"}
        return cls(values, content.get("per_type", {}))

    @classmethod
    def of_spans(cls, scores: SpanScores) -> Scores:
        """Return micro precision, recall and F1, macro F1, and each type's."""
        return cls(
            {
                "precision": scores.precision,
                "recall": scores.recall,
                "f1": scores.f1,
                "macro_f1": scores.macro.f1,
            },
            {name: dataclasses.asdict(row) for name, row in scores.per_type.items()},
        )
