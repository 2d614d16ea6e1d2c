"""Parts of train that are held out for dev and test, with a share of every label."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from dicejax.data.examples import groups_of, labels_of
from dicejax.data.source import text_of

Together: TypeAlias = Literal["documents", "equal texts", ""]
MIN_UNITS = 20
"""Documents or texts from which on they stay whole; parts of few lack labels."""


def together(examples: Sequence[Any]) -> Together:
    """Return what stays together where some examples are held out.

    These are documents; or equal texts, whatever their gold; or nothing, where there
    are fewer than `MIN_UNITS` of both.
    """
    groups = groups_of(examples)
    if groups is not None and groups.max() + 1 >= MIN_UNITS:
        return "documents"
    return "equal texts" if len(set(map(text_of, examples))) >= MIN_UNITS else ""


def units_of(examples: Sequence[Any], kind: Together) -> Sequence[Hashable]:
    """Return a key for each example, which those that stay together share."""
    groups = groups_of(examples) if kind == "documents" else None
    if groups is not None:
        return groups.tolist()
    return [*map(text_of, examples)] if kind else range(len(examples))


def stratified(
    examples: Sequence[Any],
    units: Sequence[Hashable],
    share: float,
    random: np.random.Generator,
) -> set[Hashable]:
    """Choose units that hold a share of the examples of each label.

    Iterative stratification in two parts: the units of the rarest label come first, and
    each goes to the part that lacks most of that label, then most examples. Of all
    other labels a unit takes as much as it has.

    Source: Sechidis, Tsoumakas and Vlahavas, "On the stratification of multi-label
    data", ECML PKDD 2011, algorithm 1.

    >>> from dicejax.data.examples import LabelledText
    >>> texts = [LabelledText(x, None, "ab"[x < "c"], x, 1) for x in "abcdefghij"]
    >>> out = stratified(texts, range(10), 0.5, np.random.default_rng(0))
    >>> sorted("ab"[number < 2] for number in out)
    ['a', 'a', 'a', 'a', 'b']

    Returns:
      Keys of units: at least one of them, and not all, where there are two.
    """
    counts: dict[Hashable, Counter[str | None]] = {}
    for example, unit in zip(examples, units, strict=True):
        # None counts examples, and so is the last label.
        counts.setdefault(unit, Counter()).update([None, *set(labels_of(example))])
    left: Counter[str | None] = Counter()  # in units of no part yet
    for count in counts.values():
        left.update(count)
    lacking = [
        {label: part * total for label, total in left.items()}
        for part in (1 - share, share)
    ]
    keys = list(counts)
    waiting = {keys[n]: counts[keys[n]] for n in random.permutation(len(keys))}
    parts: tuple[list[Hashable], list[Hashable]] = [], []
    while waiting:
        some = (label for label, number in left.items() if number)
        rarest = min(some, key=lambda label: (label is None, left[label], label or ""))
        for unit in [unit for unit, count in waiting.items() if rarest in count]:
            train, other = ((lack[rarest], lack[None]) for lack in lacking)
            part = int(other > train)
            parts[part].append(unit)
            count = waiting.pop(unit)
            left.subtract(count)
            for label, number in count.items():
                lacking[part][label] -= number
    for empty, full in itertools.permutations(parts):
        if not empty and len(full) > 1:
            empty.append(full.pop())
    return set(parts[1])


def part_of(text: str) -> tuple[int, int]:
    """Return the number of a part and of all parts, written "I/K".

    >>> part_of("2/5")
    (2, 5)

    Raises:
      ValueError: it is not written so, or there is no such part.
    """
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    part, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= part <= count or count < 2:
        raise ValueError(f"leave_out is {text!r}; want I/K with I from 1 to K, as 2/5")
    return part, count


def fold(
    examples: Sequence[Any], part: int, count: int, random: np.random.Generator
) -> set[Hashable]:
    """Choose the units of one of `count` parts, each with its share of every label.

    Together the parts have every unit once, if the generators begin alike.

    >>> from dicejax.data.examples import LabelledText
    >>> texts = [LabelledText(x, None, "ab"[x < "e"], x, 1) for x in "abcdefghij"]
    >>> parts = [fold(texts, n, 2, np.random.default_rng(0)) for n in (1, 2)]
    >>> sorted(map(len, parts)), sorted(set.union(*parts)) == list(range(10))
    ([5, 5], True)
    """
    units = units_of(examples, together(examples))
    left = list(zip(examples, units, strict=True))
    chosen: set[Hashable] = set()
    for number in range(part):
        left = [pair for pair in left if pair[1] not in chosen]
        if number == count - 1 or not left:
            return {unit for _, unit in left}
        some, keys = zip(*left, strict=True)
        chosen = stratified(some, keys, 1 / (count - number), random)
    return chosen
