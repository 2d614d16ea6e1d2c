"""What marks of some examples say of all: how many labels are wrong, and what it costs.

The first examples by rank are marked for certain, and some of the rest, drawn at random
with a known probability. So the share of errors holds whatever the ranks are worth.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from dicejax.errors import InputError, quote
from dicejax.formats import separated
from dicejax.study.review.held_out import HeldOut

MARKS = ("right", "wrong", "neither")
"""Gold is right; gold is wrong and the models are right; both are wrong."""
COLUMNS = ("rank", "probability", "split", "number", "line", "text")
COLUMNS += ("gold", "models", "kind", "mark")


Share = tuple[float, float, float]
"""A share of wrong labels, and the ends of its interval."""


@dataclasses.dataclass(frozen=True)
class Marked:
    """What a person said of the examples of a list.

    Attributes:
      marks: mark by the split of an example and its number there.
      first: how many were marked for certain.
      first_wrong: how many of these have a wrong label.
      drawn: how many were drawn from the rest.
      drawn_wrong: how many of these have a wrong label.
      rest: how many examples these were drawn from.
    """

    marks: Mapping[tuple[str, int], str]
    first: int
    first_wrong: int
    drawn: int
    drawn_wrong: int
    rest: int

    @property
    def of_rest(self) -> Share:
        """Share of wrong labels behind the first."""
        return drawn_share(self.rest, self.drawn, self.drawn_wrong)

    @property
    def of_all(self) -> Share:
        """Share of wrong labels in the set: that of Horvitz and Thompson."""
        total = self.first + self.rest
        value, low, high = (self.first_wrong + x * self.rest for x in self.of_rest)
        return value / total, low / total, high / total


def to_check(examples: int, first: int, seed: int = 0) -> tuple[list[int], list[int]]:
    """Return the ranks to check, from 0: half are the first, half are drawn behind.

    >>> certain, drawn = to_check(1000, 6)
    >>> certain, len(drawn), min(drawn) > 2
    ([0, 1, 2], 3, True)
    """
    if first >= examples:
        return list(range(examples)), []
    certain = first - first // 2
    draw = np.random.default_rng((seed, examples, first))
    drawn = draw.choice(np.arange(certain, examples), first - certain, replace=False)
    return list(range(certain)), sorted(drawn.tolist())


def drawn_share(rest: int, drawn: int, wrong: int, level: float = 0.95) -> Share:
    """Return the share of wrong ones among `rest`, of which some were drawn.

    The interval has all numbers of wrong ones under which neither so few nor so many in
    the draw have a probability of at most (1 - level) / 2. It is exact: it holds the
    share with at least this probability. Source: Clopper and Pearson, Biometrika 26,
    1934, for the hypergeometric distribution.

    >>> [round(x, 3) for x in drawn_share(3_000, 25, 0)]
    [0.0, 0.0, 0.136]
    >>> [round(x, 3) for x in drawn_share(100, 50, 5)]
    [0.1, 0.05, 0.18]
    """
    if not rest:
        return 0.0, 0.0, 0.0
    tail = (1 - level) / 2
    numbers = range(wrong, rest - (drawn - wrong) + 1)

    def is_enough(number: int) -> bool:  # grows with the number
        return bool(stats.hypergeom.sf(wrong - 1, rest, number, drawn) > tail)

    def is_too_many(number: int) -> bool:
        return bool(stats.hypergeom.cdf(wrong, rest, number, drawn) <= tail)

    low = numbers[bisect.bisect_left(numbers, True, key=is_enough)]
    high = numbers[bisect.bisect_left(numbers, True, key=is_too_many) - 1]
    return wrong / drawn, low / rest, high / rest


def lines_to_mark(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of the list, whose last column is to be filled."""
    yield separated.row(COLUMNS)
    for cells in rows:
        yield separated.row(map(separated.as_text, [*cells, ""]))


def read_marks(
    path: str, cells: Mapping[tuple[str, int], Mapping[str, Any]], size: int
) -> Marked:
    """Read a list with its marks.

    Args:
      path: the list that a review wrote, with "right", "wrong" or "neither" in the
        column `mark`.
      cells: cells of each example, by split and number from 1.
      size: how many examples are ranked now.

    Raises:
      InputError: it is no such list, a mark is missing or another word, or the list was
        made of other data or other runs.
    """
    rows = separated.rows(path)
    line, header = separated.header(rows)
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        what, do = f"has no column {missing[0]}", "name the list that review wrote"
        raise InputError.at(path, line, what, do)
    marks: dict[tuple[str, int], str] = {}
    counts = {True: [0, 0], False: [0, 0]}  # certain: how many, how many wrong
    chance = 1.0
    for line, fields in rows:
        row = dict(zip(header, map(separated.from_text, fields), strict=False))
        key, mark, probability = _row(path, line, row)
        known = cells.get(key, {})
        if any(known.get(name) != row.get(name) for name in ("gold", "models")):
            what = f"{key[0]} {key[1]} is not as in these runs and data"
            do = "make the list anew, without --marked"
            raise InputError.at(path, line, what, do)
        if key in marks:
            what = f"{key[0]} {key[1]} is there twice"
            raise InputError.at(path, line, what, "remove one")
        marks[key] = mark
        certain = probability == 1
        chance = chance if certain else probability
        counts[certain][0] += 1
        counts[certain][1] += mark != "right"
    (first, first_wrong), (drawn, drawn_wrong) = counts[True], counts[False]
    rest, what = size - first, ""
    if drawn and abs(chance - drawn / max(rest, 1)) > 1e-6 * chance:
        what = f"has {drawn} drawn examples, whose probability of {chance:g} says "
        what += f"another number of {rest:,}"
    elif not drawn and rest:
        what = f"has no drawn examples, and {rest:,} are not in it"
    if what:
        raise InputError.at(path, None, what, "mark the whole list of these runs")
    return Marked(marks, first, first_wrong, drawn, drawn_wrong, rest)


def _row(
    path: str, line: int, row: Mapping[str, str]
) -> tuple[tuple[str, int], str, float]:
    mark = row.get("mark", "").strip().lower()
    if mark not in MARKS:
        what = f"mark is {quote(mark)}" if mark else "has no mark"
        raise InputError.at(path, line, what, f"write {', '.join(MARKS)} there")
    try:
        probability, number = float(row["probability"]), int(row["number"])
        if not 0 < probability <= 1:
            raise ValueError
    except (KeyError, ValueError):
        what = "has no number of an example, or no probability from 0 to 1"
        do = "leave all columns but mark as they were"
        raise InputError.at(path, line, what, do) from None
    return (row.get("split", ""), number), mark, probability


def mended_scores(
    held_out: HeldOut, mended: Mapping[int, Any], models: int
) -> tuple[float, float]:
    """Return the mean score on test of models, with gold as it is and mended.

    Args:
      held_out: what the models say.
      mended: examples with other gold, by their numbers.
      models: how many models, the first, which are runs that were given.
    """
    places = [n for n, (split, _) in enumerate(held_out.splits) if split == "test"]
    task, labels = held_out.task, held_out.labels
    before = [held_out.examples[n] for n in places]
    after = [mended.get(n, held_out.examples[n]) for n in places]
    scores = []
    for golds in (before, after):
        total = 0.0
        for predictions in held_out.predictions[:models]:
            decided = [predictions[n] for n in places]
            values = task.score(golds, decided, labels).values
            total += values[task.primary_metric]
        scores.append(total / models)
    return scores[0], scores[1]
