"""Verdicts on scores from elsewhere, read from a CSV file."""

from __future__ import annotations

import collections
import csv
import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from etils import epath

from dicejax.errors import InputError, quote
from dicejax.io import files
from dicejax.study.compare.jobs import ScoredRun, Source
from dicejax.study.significance import MIN_SEEDS

DATA = "data"
COLUMNS = ("loss", "seed", "score")
COSTS = ("seconds", "price")
UNSEEDED = ("", "-")
EXAMPLE = "example"
GROUP = "group"
Unit = Literal["points", "fraction"]
_POINTS = "number of points from 0 to 100"
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class _Line(NamedTuple):
    number: int
    data: str
    loss: str
    seed: int | None
    example: str
    group: str
    score: float
    costs: dict[str, float]


def runs_of(path: str, unit: Unit | None = None) -> dict[str, list[ScoredRun]]:
    """Read scores as runs, by data set.

    A row is the score of a run, or with a column `example` that of one test example,
    whose mean is the run's score. Without it a run has two examples of the same score:
    the verdict is about this test set. A column `group` names the document, or whatever
    makes examples alike. Without a column `data` the file is one data set of its name.
    Other columns are ignored but `seconds` and `price`, which are summed over a run. A
    model that another seed would not change has an empty seed, or "-": it is the same
    for all seeds of the others.

    Args:
      path: CSV file.
      unit: points from 0 to 100 or fractions from 0 to 1; None takes points, unless the
        scores look like fractions.

    Raises:
      InputError: a line cannot be used, or without a unit a loss of a data set has no
        score above 1.
    """
    scale = 1 if unit == "fraction" else 100
    by_run: dict[tuple[str, str, int | None], dict[str, _Line]] = {}
    line: _Line | None = None
    for line in _lines(path, scale):
        run = by_run.setdefault((line.data, line.loss, line.seed), {})
        if line.example in run:
            first = run[line.example].number
            raise _refused(path, line.number, f"repeats line {first}", "keep one")
        run[line.example] = line
    if line is None:
        want = f"{COLUMNS[0]},{COLUMNS[1]},{COLUMNS[2]}"
        raise InputError(f"{path}: holds no scores; write a row of {want} for each run")
    if unit is None:
        _require_points(path, (x for run in by_run.values() for x in run.values()))
    by_data: dict[str, list[ScoredRun]] = {}
    firsts: dict[str, dict[str, _Line]] = {}
    for (data, loss, seed), run in by_run.items():
        first = firsts.setdefault(data, run)
        missing = [f"no example {quote(name)}" for name in first if name not in run]
        more = [f"example {quote(name)}" for name in run if name not in first]
        if missing or more:
            line, like = next(iter(run.values())), next(iter(first.values()))
            raise InputError(
                f"{path}, line {line.number}: {loss} seed {seed} has "
                f"{[*missing, *more][0]}, unlike {like.loss} seed {like.seed}; give "
                f"all runs of {data} the same examples"
            )
        for line, like in ((run[name], first[name]) for name in first):
            if line.group != like.group:
                flaw = f"group is {quote(line.group)}, on line {like.number} "
                raise _refused(path, line.number, f"{flaw}{quote(like.group)}")
        of_examples = [x.group for x in first.values()]
        names, groups = np.unique(of_examples, return_inverse=True)
        if len(names) == 1 and names[0]:
            raise InputError(
                f"{path}: all examples of {data} are of group {quote(str(names[0]))}; "
                "name two groups or more, or leave the column out"
            )
        scores = np.array([run[name].score / scale for name in first])
        source: Source = "example scores"
        if len(scores) == 1:
            scores, source = np.repeat(scores, 2), "run scores"
        shares = np.stack([scores, np.ones_like(scores)], -1)[:, None]
        result: dict[str, Any] = {"primary_metric": "score"}
        result["test"] = {"score": float(scores.mean())}
        for cost in COSTS:
            if amounts := [x.costs[cost] for x in run.values() if cost in x.costs]:
                result[cost] = sum(amounts)
        if seed is None:
            result["unseeded"] = True
        scored = ScoredRun(
            loss,
            0 if seed is None else seed,
            path,
            "finished",
            result,
            shares,
            source=source,
            names=np.array([*first], str),
            groups=groups if len(names) > 1 and len(groups) == len(shares) else None,
        )
        by_data.setdefault(data, []).append(scored)
    for data, runs in by_data.items():
        by_data[data] = _for_all_seeds(path, runs)
    return by_data


def _for_all_seeds(path: str, runs: Sequence[ScoredRun]) -> list[ScoredRun]:
    """Return runs with those that are not seeded for each seed of the others."""
    unseeded = [run for run in runs if run.result and run.result.get("unseeded")]
    losses = {run.loss for run in unseeded}
    seeded = [run for run in runs if run.result and "unseeded" not in run.result]
    for run in seeded:
        if run.loss in losses:
            what = f"{path}: {run.loss} has a seed in some lines and none in others"
            raise InputError(f"{what}; give all of its lines a seed, or none")
    seeds = sorted({run.seed for run in seeded}) or [*range(MIN_SEEDS)]
    repeated = [dataclasses.replace(x, seed=n) for x in unseeded for n in seeds]
    return sorted([*seeded, *repeated], key=lambda run: (run.loss, run.seed))


def _require_points(path: str, lines: Iterable[_Line]) -> None:
    """Raise an InputError where scores look like fractions, or some of them do.

    That is where all of a loss lie in (0, 1], or one of them times 100 lies among the
    others; a lower one may be of a run that failed.
    """
    by_loss: dict[str, dict[str, list[_Line]]] = {}
    for line in lines:
        by_loss.setdefault(line.data, {}).setdefault(line.loss, []).append(line)
    for data, of_data in by_loss.items():
        for loss, of_loss in of_data.items():
            large = [line.score for line in of_loss if line.score > 1]
            for x in of_loss if large else ():
                points = 100 * x.score
                if points <= 100 and 0.8 * min(large) < points < 1.25 * max(large):
                    raise InputError(
                        f"{path}, line {x.number}: a score of {loss} is {x.score:g}, "
                        f"others up to {max(large):g}, which looks like mixed units; "
                        "give all in one unit, or name it: --unit points"
                    )
        losses = {
            k: max(of_loss, key=lambda x: x.score) for k, of_loss in of_data.items()
        }
        small = [x for x in losses.values() if 0 < x.score <= 1]  # 0 is 0 in any unit
        large = [x for x in losses.values() if x.score > 1]
        if small and large:
            low, high = small[0], large[0]
            raise InputError(
                f"{path}, line {low.number}: all scores of {low.loss} on {data} are at "
                f"most 1, those of {high.loss} go up to {high.score:g} (line "
                f"{high.number}), which looks like mixed units; give all in one unit, "
                "or name it: --unit points"
            )
        if small:
            raise InputError(
                f"{path}: all scores on {data} are at most 1, which looks like "
                "fractions; add --unit fraction or multiply by 100 (--unit points "
                "takes them as they are)"
            )


def _lines(path: str, largest: float) -> Iterator[_Line]:
    lines = files.lines(path)
    number, header = next(lines)
    names = [name.strip() for name in _cells(path, number, header)]
    count = collections.Counter(names)
    missing = [name for name in COLUMNS if not count[name]]
    repeated = [
        name for name in (DATA, *COLUMNS, EXAMPLE, GROUP, *COSTS) if count[name] > 1
    ]
    if missing or repeated:
        flaw = f"has no column {missing[0]}" if missing else f"repeats {repeated[0]}"
        want = f"name the columns {', '.join(COLUMNS)}, and perhaps {DATA}, {EXAMPLE}"
        raise _refused(path, number, f"{flaw}, but {', '.join(names)}", want)
    only = epath.Path(path).name.partition(".")[0]  # data where no column names it
    for number, text in lines:
        if not text.strip():
            continue
        cells = [cell.strip() for cell in _cells(path, number, text)]
        if len(cells) != len(names):
            flaw = f"has {len(cells)} fields where the header has {len(names)}"
            raise _refused(path, number, flaw)
        row = {DATA: only} | dict(zip(names, cells, strict=True))
        for name in (DATA, "loss", GROUP):
            if not row.get(name, name):
                raise _refused(path, number, f"names no {name}", "add it")
        flaw = f"seed {quote(row['seed'])} is not a whole number"
        is_seeded = row["seed"] not in UNSEEDED
        if is_seeded and not re.fullmatch(r"[+-]?[0-9]+", row["seed"]):
            raise _refused(path, number, flaw)
        seed = int(row["seed"]) if is_seeded else None
        kind = "fraction from 0 to 1" if largest == 1 else _POINTS
        flaw = f"score {quote(row['score'])} is not a {kind}"
        # Not `float` alone, which reads 7_5 and the digits of other scripts.
        if not _NUMBER.fullmatch(row["score"]):
            raise _refused(path, number, flaw)
        score = float(row["score"])
        if not 0 <= score <= largest:
            raise _refused(path, number, flaw)
        example = row.get(EXAMPLE, "")
        group = row.get(GROUP, "") if example else ""
        costs = {}
        for name in COSTS:
            text = row.get(name, "")
            if text and not (_NUMBER.fullmatch(text) and float(text) >= 0):
                raise _refused(path, number, f"{name} {quote(text)} is no amount")
            if text:
                costs[name] = float(text)
        yield _Line(number, row[DATA], row["loss"], seed, example, group, score, costs)


def _cells(path: str, number: int, text: str) -> list[str]:
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        raise _refused(path, number, f"is not a row of CSV ({error})") from None


def _refused(path: str, line: int, flaw: str, remedy: str = "correct it") -> InputError:
    return InputError(f"{path}, line {line}: {flaw}; {remedy}")
