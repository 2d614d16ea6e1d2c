"""Train seeds where they tell most, until each loss is decided or time is up."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from dicejax.errors import InputError, quote
from dicejax.study import significance
from dicejax.study.compare import jobs
from dicejax.study.compare.jobs import Job
from dicejax.study.compare.record import Comparison
from dicejax.study.compare.statistics import Row, rivals_of
from dicejax.study.compare.table import remedy
from dicejax.study.compare.testing import LEVEL
from dicejax.study.sentences import sentences

LOOKS = (3, 5, 8, 12, 18, 27, 40, 60, 90)
"""Numbers of seeds after which results are looked at."""
FUTILE = 0.2
"""A loss whose interval at this level is below 0 stops: it can only lose power."""
# Verdicts that hold over all looks; a loss that has failed cannot become better.
DECIDED = (
    "better",
    "worse",
    "practically equal",
    "identical predictions",
    "unstable",
    "nothing learnt",
)
_UNITS = {"h": 3600, "m": 60, "s": 1}


def seconds_of(duration: str) -> float:
    """Return the seconds of a duration, an InputError if it is written otherwise.

    >>> seconds_of("1h30m"), seconds_of("45s")
    (5400.0, 45.0)
    """
    if not re.fullmatch(r"(\d+(\.\d+)?[hms])+", duration):
        raise InputError(f"--budget is {quote(duration)}; want 2h, 90m or 1h30m")
    parts = re.findall(r"([\d.]+)([hms])", duration)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not seconds:
        raise InputError("--budget is 0; want some time, as 90m")
    return seconds


def train_until_decided(
    jobs_of: Callable[[int], list[Job]],
    train: Callable[[list[Job]], None],
    evaluate: Callable[[list[Job]], Comparison],
    *,
    least: int,
    budget: float | None,
    say: Callable[[str], None],
    unfinished: Callable[[list[Job]], int] = jobs.unfinished,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Comparison, str]:
    """Train round after round of seeds for the losses that are not settled.

    The first round has the least seeds and runs whatever the budget, in seconds. A
    control never keeps a comparison going. The baseline has as many seeds as its
    longest rival: more would need unpaired tests, whose error rates do not hold where
    spreads differ. Returned are the last comparison, and why it ended, in a sentence.
    """
    since, a_run, seeds = clock(), 0.0, least
    comparison = Comparison(name="")
    waiting: list[Row] = []  # none before the first round
    settled: dict[str, int] = {}  # seeds of each loss that needs no more
    texts = sentences("until")
    for seeds in [least, *(look for look in LOOKS if look > least)]:
        runs = jobs_of(seeds)
        first = runs[0].seed
        runs = [r for r in runs if r.seed - first < settled.get(r.loss, seeds)]
        count, began = unfinished(runs), clock()
        is_late = budget is not None and began - since + count * a_run > budget
        if waiting and is_late:
            return comparison, _outlook(waiting, a_run)
        train(runs)
        if count:
            a_run = (clock() - began) / count
        comparison = evaluate(runs)
        rows = comparison.rows
        for row in rows:
            crossed = row.against.crossed if row.against else None
            is_hopeless = crossed and crossed.mean + crossed.half(FUTILE) < 0
            if is_hopeless or row.outcome in DECIDED:
                settled.setdefault(row.loss, seeds)
        failed = rows[0].failures if rows[0].failures.seeds else None
        if all(row.failures.has_learnt_nothing for row in rows):
            failed = None
        if failed is not None or {x.outcome for x in rows[1:]} == {"nothing learnt"}:
            return comparison, texts.no_help(rows[0], failed, remedy(rows))
        waiting = [row for row in rivals_of(rows) if row.loss not in settled]
        if not waiting:
            rising = [row.loss for row in rows if row.rise > comparison.margin]
            return comparison, texts.decided(rising)
        say(texts.waiting(seeds, [row.loss for row in waiting]))
    return comparison, texts.last_look(seeds)


def _outlook(waiting: Sequence[Row], a_run: float) -> str:
    """Say that the budget is spent, and which differences a further hour would show."""
    a_seed = a_run * (1 + len(waiting)) or None
    more = 0 if a_seed is None else int(3600 / a_seed)
    detectable = {}  # now, and an hour later
    for row in waiting if more else ():
        if row.against and (crossed := row.against.crossed):
            seeds = crossed.seeds + more
            looks, share = [crossed.seeds, seeds], LEVEL / len(waiting)
            level = significance.nominal_level(looks, share)
            later = significance.detectable(crossed, level, seeds=seeds)
            detectable[row.loss] = row.against.detectable, later
    losses = [row.loss for row in waiting]
    return sentences("until").spent(losses, a_seed, more, detectable)
