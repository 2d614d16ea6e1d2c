"""The scores of a split, in one form for every task."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from dicejax.errors import quote
from dicejax.io.html_table import html_table
from dicejax.metrics.quotients import f_beta, mean
from dicejax.metrics.spans import SpanScores

FEWEST = 5
"""Examples of a class that its own scores are shown with."""
_F_BETA = re.compile(r"((?:\w+_)?f)(\d+(?:\.\d+)?)(:.*)?", re.DOTALL)


def beta_of(metric: str) -> float | None:
    """Return the beta of a metric that is an F-beta, above 0; None of any other.

    >>> beta_of("f1"), beta_of("f0.5:complaint"), beta_of("macro_f2")
    (1.0, 0.5, 2.0)
    >>> beta_of("accuracy"), beta_of("f0"), beta_of("f2.0")
    (None, None, None)
    """
    parts = _F_BETA.fullmatch(metric)
    # One name for one metric: f2.0 is none.
    is_one = parts and float(parts[2]) > 0 and f"{float(parts[2]):g}" == parts[2]
    return float(parts[2]) if parts and is_one else None


def as_f1(metric: str) -> str:
    """Return the F1 that stands where a metric is an F-beta; any other as it is.

    >>> as_f1("f0.5:complaint"), as_f1("macro_f2"), as_f1("accuracy")
    ('f1:complaint', 'macro_f1', 'accuracy')
    """
    return metric if beta_of(metric) is None else _F_BETA.sub(r"\g<1>1\3", metric)


def class_of(metric: str) -> str | None:
    """Return the class whose F1 or F-beta a metric is; None of a metric of all.

    >>> class_of("f1:complaint"), class_of("f2:complaint"), class_of("f1")
    ('complaint', 'complaint', None)
    """
    beginning, colon, named = as_f1(metric).partition(":")
    return named if colon and beginning == "f1" else None


def heading(name: str, positive: str | None = None) -> str:
    """Return the display name of a score; F1 names the class that is positive.

    >>> heading("f1"), heading("macro_f0.5"), heading("lrap")
    ('F1', 'macro F0.5', 'LRAP')
    >>> heading("f1", "complaint"), heading("f1:complaint"), heading("accuracy", "x")
    ("F1 of 'complaint'", "F1 of 'complaint'", 'accuracy')
    """
    named = class_of(name) or (positive if as_f1(name) == "f1" else None)
    if named is not None:
        return f"F{beta_of(name):g} of {quote(named)}"
    parts = (
        part.upper() if part == "lrap" or beta_of(part) else part
        for part in name.split("_")
    )
    return " ".join(parts)


def primary_name(result: Mapping[str, Any]) -> str:
    """Return the display name of the primary metric of a `result.json`."""
    test = result.get("test") or {}
    return heading(result["primary_metric"], test.get("positive"))


def rarest_of(test: Mapping[str, Any]) -> str | None:
    """Return the rarest class with `FEWEST` examples, as of a `result.json`.

    None where there is but one class, or the scores beside its groups are its own.

    >>> rows = {name: {"f1": 0.5, "recall": 0.5, "support": n} for name, n in
    ...         {"a": 90, "b": 7, "c": 4}.items()}
    >>> rarest_of({"f1": 0.5, "per_type": rows})
    'b'
    >>> rarest_of({"f1": 0.5, "positive": "b", "per_type": rows}) is None
    True
    """
    counts = {
        name: row["support"]
        for name, row in (test.get("per_type") or {}).items()
        if row.get("support") and {"f1", "recall"} <= row.keys()
    }
    enough = [name for name, count in counts.items() if count >= FEWEST]
    if len(counts) < 2 or not enough:
        return None
    rarest = min(enough, key=lambda name: (counts[name], name))
    is_shown = test.get("positive") == rarest or f"f1:{rarest}" in test
    return None if is_shown else rarest


def are_of_texts(test: Mapping[str, Any]) -> bool:
    """Return whether scores, as of a `result.json`, are of texts of one class each.

    Their field `of_texts` says so. Where it is not written those of texts are the ones
    with Matthews' correlation.

    >>> test = {"f1": 0.5, "matthews": 0.1}
    >>> are_of_texts(test), are_of_texts({**test, "of_texts": False})
    (True, False)
    """
    return bool(test.get("of_texts", "matthews" in test))


def unanswered(test: Mapping[str, Any]) -> int:
    """Return the number of questions with an answer if all are answered wrong, or 0.

    Only of data that has questions without an answer too, about which a network that
    answers nothing is right.

    >>> rows = {"answerable": {"support": 5}, "unanswerable": {"support": 6}}
    >>> unanswered({"f1": 6 / 11, "answerable_f1": 0.0, "per_type": rows})
    5
    >>> unanswered({"f1": 7 / 11, "answerable_f1": 0.2, "per_type": rows})
    0
    """
    if test.get("answerable_f1") != 0:
        return 0
    return int(test.get("per_type", {}).get("answerable", {}).get("support", 0))


@dataclasses.dataclass(frozen=True)
class Scores:
    """Named scores of a whole split, and of its parts.

    >>> Scores({"f1": 0.5}, {"PER": {"f1": 1.0, "support": 2}}).to_json()
    {'f1': 0.5, 'per_type': {'PER': {'f1': 1.0, 'support': 2}}}

    Attributes:
      values: shares in [0, 1] (Matthews' correlation: [-1, 1]), the primary one first.
      groups: by type, class or kind of question: its scores, and its `support`.
      positive: the class of which F1, precision, recall and average precision are,
        where there are two.
      of_texts: whether they are of texts of one class each. Of more than two classes
        F1, precision and recall are then unweighted means, and called so.

    >>> groups = {name: {"f1": 0.5} for name in "abc"}
    >>> Scores({"f1": 0.5}, groups, of_texts=True).name("f1")
    'macro F1'
    """

    values: Mapping[str, float]
    groups: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    positive: str | None = None
    of_texts: bool = False

    def name(self, score: str) -> str:
        """Return the display name of a score."""
        if self._are_means and as_f1(score) in ("precision", "recall", "f1"):
            return heading(f"macro_{score}")
        return heading(score, self.positive)

    @property
    def _are_means(self) -> bool:
        """Whether F1, precision and recall are means over the groups."""
        return self.of_texts and len(self.groups) > 2 and self.positive is None

    def leading_with(self, metric: str) -> Scores:
        """Return the scores with the F1 or F-beta that a metric names, first.

        It is made of precision and recall: those of the class's group, 0 without one;
        or those of all; or the mean over the groups. Other metrics change nothing.

        >>> Scores({"f1": 0.5}, {"PER": {"f1": 1.0}}).leading_with("f1:PER").values
        {'f1:PER': 1.0, 'f1': 0.5}
        >>> micro = {"precision": 0.5, "recall": 1.0}
        >>> round(Scores(micro).leading_with("f2").values["f2"], 4)
        0.8333
        """
        beta, named = beta_of(metric), class_of(metric)
        if beta is None or metric in self.values:
            return self
        rest, rows = dict(self.values), list(self.groups.values())
        if named is not None:
            rows = [self.groups.get(named, {})]
            if beta == 1 and named == self.positive:
                rest.pop("f1", None)  # which would say it twice
        elif not self._are_means and not metric.startswith("macro_"):
            average = metric.rpartition("f")[0]  # as "micro_"
            rows = [{x: rest[average + x] for x in ("precision", "recall")}]
        values = [
            row["f1"] if beta == 1 else f_beta(row["precision"], row["recall"], beta)
            for row in rows
            if row
        ]
        return dataclasses.replace(self, values={metric: mean(values), **rest})

    def __str__(self) -> str:
        parts = (f"{self.name(x)} {100 * y:.2f}" for x, y in self.values.items())
        return ", ".join(parts)

    def _repr_html_(self) -> str:
        """Return a table of all and of each group, in percent, for a notebook."""
        rows = self.rows()
        lines = [["", *map(heading, next(iter(rows.values())))]]
        for name, row in rows.items():
            texts = (
                f"{100 * x:.2f}" if isinstance(x, float) else x for x in row.values()
            )
            lines.append([name, *("" if x is None else str(x) for x in texts)])
        return html_table(lines)

    def rows(self) -> dict[str, dict[str, float | None]]:
        """Return the scores of all and of each group, None where one has no such.

        The name of the first row has the positive class, of which F1 is.
        """
        of_class = "" if self.positive is None else f", {quote(self.positive)} positive"
        rows = {f"all{of_class}": self.values, **self.groups}
        names = list(dict.fromkeys(name for row in rows.values() for name in row))
        return {label: {x: row.get(x) for x in names} for label, row in rows.items()}

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries."""
        groups = {name: dict(row) for name, row in self.groups.items()}
        named: dict[str, Any] = {}
        if self.positive is not None:
            named["positive"] = self.positive
        if self.of_texts != are_of_texts(self.values):
            named["of_texts"] = self.of_texts
        return {**self.values, **named, "per_type": groups}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Scores:
        """Return the scores that `to_json` wrote."""
        apart = ("positive", "per_type", "of_texts")
        values = {name: x for name, x in content.items() if name not in apart}
        groups, positive = content.get("per_type", {}), content.get("positive")
        return cls(values, groups, positive, are_of_texts(content))

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
