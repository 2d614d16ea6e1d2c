"""Verdicts on scores from elsewhere, read from a CSV file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Literal

import numpy as np
from etils import epath

from dicejax.errors import InputError, quote
from dicejax.formats import separated
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


Row = dict[str, Any]
"""A row by column: its line, its seed if it has one, its score, and costs that it has.

Without columns for data, example and group these are of the file, and empty.
"""


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
    by_run: dict[tuple[str, str, int | None], dict[str, Row]] = {}
    for row in _rows(path, scale):
        run = by_run.setdefault((row[DATA], row["loss"], row["seed"]), {})
        if (first := run.setdefault(row[EXAMPLE], row)) is not row:
            raise _refused(path, row, f"repeats line {first['line']}", "keep one")
    if not by_run:
        want = f"{COLUMNS[0]},{COLUMNS[1]},{COLUMNS[2]}"
        raise InputError(f"{path}: holds no scores; write a row of {want} for each run")
    if unit is None:
        _require_points(path, (x for run in by_run.values() for x in run.values()))
    by_data: dict[str, list[ScoredRun]] = {}
    firsts: dict[str, dict[str, Row]] = {}
    for (data, loss, seed), run in by_run.items():
        first = firsts.setdefault(data, run)
        missing = [f"no example {quote(name)}" for name in first if name not in run]
        more = [f"example {quote(name)}" for name in run if name not in first]
        if missing or more:
            row, like = next(iter(run.values())), next(iter(first.values()))
            flaw = f"{loss} seed {seed} has {[*missing, *more][0]}, unlike "
            flaw += f"{like['loss']} seed {like['seed']}"
            remedy = f"give all runs of {data} the same examples"
            raise _refused(path, row, flaw, remedy)
        for row, like in ((run[name], first[name]) for name in first):
            if row[GROUP] != like[GROUP]:
                flaw = f"group is {quote(row[GROUP])}, on line {like['line']} "
                raise _refused(path, row, f"{flaw}{quote(like[GROUP])}")
        of_examples = [x[GROUP] for x in first.values()]
        names, groups = np.unique(of_examples, return_inverse=True)
        if len(names) == 1 and names[0]:
            raise InputError(
                f"{path}: all examples of {data} are of group {quote(str(names[0]))}; "
                "name two groups or more, or leave the column out"
            )
        scores = np.array([run[name]["score"] / scale for name in first])
        source: Source = "example scores"
        if len(scores) == 1:
            scores, source = np.repeat(scores, 2), "run scores"
        shares = np.stack([scores, np.ones_like(scores)], -1)[:, None]
        result: dict[str, Any] = {"primary_metric": "score"}
        result["test"] = {"score": float(scores.mean())}
        for cost in COSTS:
            if amounts := [x[cost] for x in run.values() if cost in x]:
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
            fault = f"{path}: {run.loss} has a seed in some lines and none in others"
            raise InputError(f"{fault}; give all of its lines a seed, or none")
    seeds = sorted({run.seed for run in seeded}) or [*range(MIN_SEEDS)]
    repeated = [dataclasses.replace(x, seed=n) for x in unseeded for n in seeds]
    return sorted([*seeded, *repeated], key=lambda run: (run.loss, run.seed))


def _require_points(path: str, rows: Iterable[Row]) -> None:
    """Raise an InputError where scores look like fractions, or some of them do.

    That is where all of a loss lie in (0, 1], or one of them times 100 lies among the
    others; a lower one may be of a run that failed.
    """
    by_loss: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        by_loss.setdefault(row[DATA], {}).setdefault(row["loss"], []).append(row)
    remedy = "give all in one unit, or name it: --unit points"
    for data, of_data in by_loss.items():
        for loss, of_loss in of_data.items():
            large = [row["score"] for row in of_loss if row["score"] > 1]
            for row in of_loss if large else ():
                points = 100 * row["score"]
                if points <= 100 and 0.8 * min(large) < points < 1.25 * max(large):
                    flaw = f"a score of {loss} is {row['score']:g}, others up to "
                    flaw += f"{max(large):g}, which looks like mixed units"
                    raise _refused(path, row, flaw, remedy)
        best = [max(of_loss, key=itemgetter("score")) for of_loss in of_data.values()]
        small = [x for x in best if 0 < x["score"] <= 1]  # 0 is 0 in any unit
        large = [x for x in best if x["score"] > 1]
        if small and large:
            low, high = small[0], large[0]
            flaw = f"all scores of {low['loss']} on {data} are at most 1, those of "
            flaw += f"{high['loss']} go up to {high['score']:g} (line {high['line']}), "
            raise _refused(path, low, f"{flaw}which looks like mixed units", remedy)
        if small:
            raise InputError(
                f"{path}: all scores on {data} are at most 1, which looks like "
                "fractions; add --unit fraction or multiply by 100 (--unit points "
                "takes them as they are)"
            )


def _rows(path: str, largest: float) -> Iterator[Row]:
    """Yield the rows of a file, each value checked."""
    table = separated.rows(path)
    first, names = separated.header(table)
    columns = (DATA, *COLUMNS, EXAMPLE, GROUP, *COSTS)
    missing = [name for name in COLUMNS if name not in names]
    repeated = [name for name in columns if names.count(name) > 1]
    if missing or repeated:
        flaw = f"has no column {missing[0]}" if missing else f"repeats {repeated[0]}"
        want = f"name the columns {', '.join(COLUMNS)}, and perhaps {DATA}, {EXAMPLE}"
        flaw = f"{flaw}, but {', '.join(names)}"
        raise InputError.at(path, first, flaw, want)
    only = epath.Path(path).name.partition(".")[0]  # data where no column names it
    kind = "fraction from 0 to 1" if largest == 1 else _POINTS
    for number, fields in table:
        row: Row = {"line": number, DATA: only, EXAMPLE: "", GROUP: ""}
        if len(fields) != len(names):
            flaw = f"has {len(fields)} fields where the header has {len(names)}"
            raise _refused(path, row, flaw)
        row |= {
            name: text.strip()
            for name, text in zip(names, fields, strict=True)
            if name in columns and (name not in COSTS or text.strip())
        }
        for name in (DATA, "loss", GROUP):
            if not row[name] and name in names:
                raise _refused(path, row, f"names no {name}", "add it")
        # Not `int` and `float` alone, which read 7_5 and the digits of other scripts.
        is_seeded = row["seed"] not in UNSEEDED
        if is_seeded and not re.fullmatch(r"[+-]?[0-9]+", row["seed"]):
            flaw = f"seed {quote(row['seed'])} is not a whole number"
            raise _refused(path, row, flaw)
        score = row["score"]
        if not (_NUMBER.fullmatch(score) and 0 <= float(score) <= largest):
            raise _refused(path, row, f"score {quote(score)} is not a {kind}")
        row |= {
            "seed": int(row["seed"]) if is_seeded else None,
            "score": float(score),
            GROUP: row[GROUP] if row[EXAMPLE] else "",
        }
        for name in COSTS:
            text = row.get(name, "0")
            if not (_NUMBER.fullmatch(text) and float(text) >= 0):
                raise _refused(path, row, f"{name} {quote(text)} is no amount")
        yield row | {name: float(row[name]) for name in COSTS if name in row}


def _refused(path: str, row: Row, flaw: str, remedy: str = "correct it") -> InputError:
    return InputError.at(path, row["line"], flaw, remedy)
