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
from dicejax.study.review.listing import cells_of
from dicejax.study.review.ranking import Doubt

MARKS = ("right", "wrong", "neither")
"""Gold is right; gold is wrong and the models are right; both are wrong."""
_PLACE = ("rank", "probability", "split", "number", "line", "text")
COLUMNS = (*_PLACE, "gold", "models", "kind", "mark")


Key = tuple[str, int]
"""The split of an example, and its number there from 1."""
Share = tuple[float, float, float]
"""A share of wrong labels, and the ends of its interval."""


def wrong_shares(marked: Sequence[Doubt], size: int) -> tuple[Share, Share]:
    """Return the shares of wrong labels by marks: in all, and behind the first.

    That of all is Horvitz and Thompson's.

    Args:
      marked: examples that are marked for certain, or were drawn from the others.
      size: how many examples there are.
    """
    certain, drawn = (
        [x.mark != "right" for x in marked if (x.chance == 1) is is_certain]
        for is_certain in (True, False)
    )
    rest = size - len(certain)
    of_rest = drawn_share(rest, len(drawn), sum(drawn))
    value, low, high = ((sum(certain) + share * rest) / size for share in of_rest)
    return (value, low, high), of_rest


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


def drawn_share(rest: int, drawn: int, wrong: int) -> Share:
    """Return the share of wrong ones among `rest`, of which some were drawn.

    The interval has all numbers of wrong ones under which neither so few nor so many in
    the draw have a probability of at most 2.5 %. It is exact: it holds the share with
    at least 95 %. Source: Clopper and Pearson, Biometrika 26,
    1934, for the hypergeometric distribution.

    >>> [round(x, 3) for x in drawn_share(3_000, 25, 0)]
    [0.0, 0.0, 0.136]
    >>> [round(x, 3) for x in drawn_share(100, 50, 5)]
    [0.1, 0.05, 0.18]
    """
    if not rest:
        return 0.0, 0.0, 0.0
    tail = (1 - 0.95) / 2
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


def read_marks(path: str, every: Sequence[Doubt]) -> list[Doubt]:
    """Read a list with its marks, and return what was marked.

    Args:
      path: the list that a review wrote, with "right", "wrong" or "neither" in the
        column `mark`.
      every: all examples that are ranked now.

    Raises:
      InputError: it is no such list, a mark is missing or another word, or the list was
        made of other data or other runs.
    """
    rows = separated.rows(path)
    line, header = separated.header(rows)
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        fault, remedy = f"has no column {missing[0]}", "name the list that review wrote"
        raise InputError.at(path, line, fault, remedy)
    by_key, marked = {doubt.key: doubt for doubt in every}, dict[Key, Doubt]()
    for line, fields in rows:
        row = dict(zip(header, map(separated.from_text, fields), strict=False))
        key, mark, chance = _row(path, line, row)
        cells = cells_of(by_key[key]) if key in by_key else {}
        if any(cells.get(name) != row.get(name) for name in ("gold", "models")):
            fault = f"{key[0]} {key[1]} is not as in these runs and data"
            remedy = "make the list anew, without --marked"
            raise InputError.at(path, line, fault, remedy)
        if key in marked:
            fault = f"{key[0]} {key[1]} is there twice"
            raise InputError.at(path, line, fault, "remove one")
        marked[key] = dataclasses.replace(by_key[key], mark=mark, chance=chance)
    chances, fault = [x.chance for x in marked.values() if x.chance < 1], ""
    drawn, rest = len(chances), len(every) - len(marked) + len(chances)
    if drawn and abs(chances[-1] - drawn / max(rest, 1)) > 1e-6 * chances[-1]:
        fault = f"has {drawn} drawn examples, whose probability of {chances[-1]:g} "
        fault += f"says another number of {rest:,}"
    elif not drawn and rest:
        fault = f"has no drawn examples, and {rest:,} are not in it"
    if fault:
        raise InputError.at(path, None, fault, "mark the whole list of these runs")
    return list(marked.values())


def _row(path: str, line: int, row: Mapping[str, str]) -> tuple[Key, str, float]:
    mark = row.get("mark", "").strip().lower()
    if mark not in MARKS:
        fault = f"mark is {quote(mark)}" if mark else "has no mark"
        raise InputError.at(path, line, fault, f"write {', '.join(MARKS)} there")
    try:
        probability, number = float(row["probability"]), int(row["number"])
        if not 0 < probability <= 1:
            raise ValueError
    except (KeyError, ValueError):
        fault = "has no number of an example, or no probability from 0 to 1"
        remedy = "leave all columns but mark as they were"
        raise InputError.at(path, line, fault, remedy) from None
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
