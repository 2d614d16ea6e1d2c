"""The record of a comparison, `comparison.json`: pages and tables are drawn from it."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import html
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import cattrs
import numpy as np
import rich.table
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from cattrs.strategies import configure_union_passthrough
from etils import epath

from dicejax.errors import InputError
from dicejax.io import json_text
from dicejax.io.html_table import html_table
from dicejax.study.compare.advice import headline, versus_controls
from dicejax.study.compare.failures import Failures
from dicejax.study.compare.jobs import ScoredRun
from dicejax.study.compare.statistics import Row, interval_of
from dicejax.study.compare.table import mean_and_spread, remarks, table, warnings_of
from dicejax.study.compare.testing import MARGIN, Contrast, Look
from dicejax.study.sentences import counted
from dicejax.study.significance import CrossedDifference, Verdict

FILE = "comparison.json"
VERSION = 1
T = TypeVar("T")
KEPT = (
    "primary_metric",
    "test",
    "checksums",
    "control",
    "cut",
    "devices",
    "device_kind",
    "examples",
    "parameters",
    "price",
    "seconds",
    "steps",
    "tokens_per_s",
    "unseeded",
    "versions",
)
"""What the record has of `result.json`."""
INFINITE = "infinite"
LARGEST = 1 << 30
"""Bytes of the largest array that is read."""


@dataclasses.dataclass(frozen=True)
class Quoted:
    """Test examples whose answers change, by number, from 1 on.

    Attributes:
      checksum: that of the test set that they are from.
      texts: text and gold answer of each.
      predicted: what most seeds of a loss predict for each, by loss.
    """

    checksum: str | int | None = None
    texts: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    predicted: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Result of a comparison, and its record.

    Attributes:
      rows: one per loss, the baseline first; empty after tuning alone, or while runs
        are left to other shards.
      margin: differences within it do not matter in practice, as a fraction.
      looks: seeds of each loss at each look at the results.
      tuning: contents of `tuning.json`; None without tuning.
      command: what reads scores from elsewhere again.
      quoted: test examples whose answers change.
      unfinished: number of runs, or after tuning alone of trials, left to other shards.
      report: path of the HTML page; None without rows.
      ended: why `until` added no further seeds, and how much they would tell.
    """

    name: str
    rows: tuple[Row, ...] = ()
    margin: float = MARGIN
    looks: tuple[Look, ...] = ()
    tuning: Mapping[str, Any] | None = None
    command: str = ""
    quoted: Quoted = Quoted()
    # Of this machine, and not in the record.
    folder: str = ""
    unfinished: int = 0
    report: str | None = None
    ended: str | None = None

    def __repr__(self) -> str:
        if not self.rows:
            left = f"{self.unfinished} unfinished, " if self.unfinished else ""
            tuned = ", ".join(self.tuning["losses"]) if self.tuning else "none"
            return f"Comparison({self.name}: {left}tuned: {tuned})"
        losses = ", ".join(row.loss for row in self.rows)
        seeds = max(len(row.runs) for row in self.rows)
        verdict = self.verdict.split("\n")[0]
        runs = counted(seeds, "seed")
        return f"Comparison({self.name}: {losses}; {runs}; {verdict})"

    def _repr_html_(self) -> str:
        """Return the verdict and a table of all losses, for a notebook."""
        metric = self.primary_metric
        if metric is None:
            return f"<p>{html.escape(repr(self))}</p>"
        first, *more = self.verdict.split("\n")
        texts = [f"<p><b>{html.escape(first)}</b></p>"]
        texts += [f"<p>{html.escape(line)}</p>" for line in more]
        cells = [["", self.rows[0].metric, "verdict"]]
        for row in self.rows:
            verdict = row.against.verdict.sentence if row.against else "baseline"
            scores = mean_and_spread(row.scores(metric))
            cells.append([row.loss, scores, verdict])
        return "".join([*texts, html_table(cells)])

    @property
    def primary_metric(self) -> str | None:
        """Name of the score that losses are compared by; None without rows."""
        return self.rows[0].results[0]["primary_metric"] if self.rows else None

    @property
    def verdict(self) -> str:
        """The advice in lines, of which the first is the shortest."""
        return headline(self.rows, self.margin)

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Verdicts on all losses but the baseline."""
        return {row.loss: row.against.verdict for row in self.rows if row.against}

    def table(self, width: int | None = None) -> rich.table.Table:
        """Return the scores as a table that fits a width in characters."""
        return table(self.rows, self.name, width)

    def lines(self) -> list[str]:
        """Return verdicts and failed runs as lines of text."""
        lines, rows = [], self.rows
        if rows:
            lines += [*self.verdict.split("\n"), ""]
            lines += [f"warning: {warning}" for warning in warnings_of(rows)]
            over = f"({interval_of(rows)}):"
            lines.append(f"{rows[0].metric} vs. {rows[0].name} {over}")
            lines += [f"  {line}" for line in remarks(rows)]
            best, differences = versus_controls(rows)
            lines += [f"  {best} vs. {k}: {text}" for k, text in differences.items()]
        return [*lines, self.ended] if self.ended else lines

    def placed(self) -> Comparison:
        """Return it with folders of runs relative to its own: both can be moved."""
        folder = epath.Path(self.folder)

        def place(run: ScoredRun) -> ScoredRun:
            path = epath.Path(run.folder)
            if run.source != "run" or not path.is_relative_to(folder):
                return run
            return dataclasses.replace(run, folder=str(path.relative_to(folder)))

        rows = (
            dataclasses.replace(row, runs=tuple(map(place, row.runs)))
            for row in self.rows
        )
        return dataclasses.replace(self, rows=tuple(rows))

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values; `read` returns it from its file."""
        content = {"version": VERSION, **_converter().unstructure(self.placed())}
        if self.rows:
            result = self.rows[0].results[0]
            content |= {
                "baseline": self.rows[0].loss,
                "primary_metric": self.primary_metric,
                "verdict": self.verdict,
                "warnings": warnings_of(self.rows),
            }
            if result.get("checksums"):
                content["checksums"] = result["checksums"]
        if self.rows and self.rows[0].source == "run scores":
            for row in content["losses"].values():
                contrasts = row["against_baseline"], *row["against_controls"].values()
                for crossed in (x["crossed"] for x in contrasts if x):
                    if crossed:  # the two examples are one score
                        crossed["sentences"] = None
        arrays: dict[str, Any] = {}
        return {**_with_references(content, arrays), "arrays": arrays}


def read(folder: str) -> Comparison:
    """Read the record of a comparison from its folder.

    Raises:
      InputError: there is none, it is damaged, or an earlier version wrote it.
    """
    file = epath.Path(folder) / FILE
    if not file.exists():
        raise InputError(f"{file}: missing; run dicejax report on the runs first")
    content = json_text.read(file)
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise InputError(
            f"{file}: is not a record of this version; run dicejax report on its runs, "
            "or with --scores on its file of scores, which writes it anew"
        )
    with _named(file, "write it anew"):
        content = _with_arrays(content, content.get("arrays"))
        comparison = _converter().structure(content, Comparison)
    if not comparison.rows or not comparison.rows[0].results:
        raise InputError(f"{file}: is damaged: has no finished run; write it anew")
    return dataclasses.replace(comparison, folder=folder)


def earlier(folder: str) -> tuple[tuple[Look, ...], Quoted]:
    """Return the looks and quoted texts of the record of any version, if there is one.

    Raises:
      InputError: it is damaged.
    """
    file = epath.Path(folder) / FILE
    content: Any = json_text.read(file) if file.exists() else {}
    with _named(file, "correct it"):
        looks = _converter().structure(content.get("looks", []), tuple[Look, ...])
        return looks, _converter().structure(content.get("changed", {}), Quoted)


@contextlib.contextmanager
def _named(file: epath.Path, remedy: str) -> Iterator[None]:
    """Name a file whose content has other types."""
    try:
        yield
    except Exception as error:  # cattrs groups the errors of all fields
        reasons = "; ".join(cattrs.transform_error(error))
        raise InputError(f"{file}: is damaged: {reasons}; {remedy}") from error


@functools.cache
def _converter() -> cattrs.Converter:
    """Convert the classes of the record; arrays pass as they are."""
    converter = cattrs.Converter()
    configure_union_passthrough(str | int | float | None, converter)
    converter.register_unstructure_hook(np.ndarray, lambda array: array)
    converter.register_structure_hook(np.ndarray, _array)

    def change(cls: type[T], derived: Sequence[str] = (), /, **changes: Any) -> None:
        """Rename or omit fields; derived ones are for those who read the JSON."""
        unstructure = make_dict_unstructure_fn(cls, converter, **changes)

        def with_derived(value: T) -> dict[str, Any]:
            more = {name: getattr(value, name) for name in derived}
            return unstructure(value) | more

        converter.register_unstructure_hook(cls, with_derived)
        structure = make_dict_structure_fn(cls, converter, **changes)
        converter.register_structure_hook(cls, structure)

    omitted = override(omit=True)
    result = override(
        unstruct_hook=lambda x: {k: x[k] for k in KEPT if k in x} or None,
        struct_hook=lambda value, _: value or {},
    )
    two = override(struct_hook=lambda x, _: 2 if x is None else x)
    change(CrossedDifference, ("low", "high", "p_value"), sentences=two)
    change(Failures, ("limit",), seeds=override(unstruct_hook=sorted))
    seeds = override(unstruct_hook=_finite, struct_hook=lambda x, _: _infinite(x))
    change(Contrast, ("mean",), seeds_needed=seeds)
    change(ScoredRun, result=result, experiment=omitted, moved=omitted)
    plain = converter.get_unstructure_hook(ScoredRun)
    structured = converter.get_structure_hook(ScoredRun)

    def run_of(content: Mapping[str, Any], cls: type) -> ScoredRun:
        result = content["result"]
        whole = None if result is None else {**result, "test": content["test"]}
        return structured({**content, "result": whole}, cls)

    def content_of(run: ScoredRun) -> dict[str, Any]:
        content = plain(run)
        result = content["result"] or {}
        return {**content, "test": result.pop("test", None)}

    converter.register_unstructure_hook(ScoredRun, content_of)
    converter.register_structure_hook(ScoredRun, run_of)
    names = {"against": "against_baseline", "versus": "against_controls"}
    change(Row, **{name: override(rename=new) for name, new in names.items()})
    plain_row = converter.get_unstructure_hook(Row)

    def content_of_row(row: Row) -> dict[str, Any]:
        content = plain_row(row)
        first = {"loss": content.pop("loss"), "runs": content.pop("runs")}
        return {**first, "summary": _summary(row), **content}

    converter.register_unstructure_hook(Row, content_of_row)
    rows = override(
        rename="losses",
        unstruct_hook=lambda rows: {x.loss: converter.unstructure(x) for x in rows},
        struct_hook=lambda losses, _: tuple(
            converter.structure(x, Row) for x in losses.values()
        ),
    )
    of_machine = ("folder", "unfinished", "report", "ended")
    quoted = override(rename="changed")
    change(Comparison, **dict.fromkeys(of_machine, omitted), rows=rows, quoted=quoted)
    return converter


def _summary(row: Row) -> dict[str, Any]:
    """Return the scores of the finished runs of a loss, for those who read the JSON."""
    scores = [run.score for run in row.finished]
    return {
        "n": len(scores),
        "mean": row.mean,
        "sd": row.sd,
        "median": float(np.median(scores)) if scores else None,
        "min": min(scores, default=None),
        "max": max(scores, default=None),
        "diverged": row.count("diverged"),
    }


def _array(value: Any, _: type) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise ValueError("not an array")
    return value


def _finite(seeds: Sequence[float | None] | None) -> Sequence[Any] | None:
    return seeds and [INFINITE if x == math.inf else x for x in seeds]


def _infinite(seeds: Sequence[Any] | None) -> Sequence[Any] | None:
    return seeds and tuple(math.inf if x == INFINITE else x for x in seeds)


def _with_references(value: Any, arrays: dict[str, Any]) -> Any:
    """Return plain values in which a number stands for each array; equal ones share it.

    The arrays are added to a dictionary by their numbers.
    """
    if isinstance(value, Mapping):
        return {k: _with_references(x, arrays) for k, x in value.items()}
    if isinstance(value, list | tuple):
        return [_with_references(x, arrays) for x in value]
    if not isinstance(value, np.ndarray):
        return value
    packed = _packed(value)
    number = next((n for n, other in arrays.items() if other == packed), None)
    number = f"{len(arrays)}" if number is None else number
    arrays[number] = packed
    return {"array": number}


def _packed(array: np.ndarray) -> dict[str, Any]:
    """Return an array as text: shape, types, and its bytes, deflated, in base 64.

    Counts take as few bytes as they need; texts are a list in JSON.
    """
    if array.dtype.kind == "U":
        stored, raw = "json", json.dumps(array.tolist()).encode()
    else:
        most = array.max(initial=0)
        with np.errstate(invalid="ignore"):  # then it is not the same
            small = array.astype(np.min_scalar_type(int(most) if most < 2**32 else 0))
        small = small if np.array_equal(small, array) else array
        stored, raw = small.dtype.str, small.tobytes()
    return {
        "shape": list(array.shape),
        "type": "U" if array.dtype.kind == "U" else array.dtype.str,
        "stored": stored,
        "zlib": base64.b64encode(zlib.compress(raw)).decode(),
    }


def _unpacked(packed: Mapping[str, Any]) -> np.ndarray:
    """Return the array of a text, a ValueError if its size is not that of its shape."""
    is_text = packed["stored"] == "json"
    kind = np.dtype("U" if is_text else packed["stored"])
    size = LARGEST if is_text else kind.itemsize * math.prod(packed["shape"])
    inflated = zlib.decompressobj()
    raw = inflated.decompress(base64.b64decode(packed["zlib"]), min(size, LARGEST) + 1)
    if len(raw) > size or not (is_text or len(raw) == size):
        raise ValueError("an array is not of its size")
    if is_text:
        return np.array(json.loads(raw), str)
    return np.frombuffer(raw, kind).reshape(packed["shape"]).astype(packed["type"])


def _with_arrays(content: Mapping[str, Any], packed: Any) -> dict[str, Any]:
    """Put the arrays of a record where numbers stand for them."""
    arrays = {number: _unpacked(array) for number, array in packed.items()}

    def put(value: Any) -> Any:
        if isinstance(value, dict):
            if value.keys() == {"array"}:
                return arrays[value["array"]]
            return {k: put(x) for k, x in value.items()}
        return [put(x) for x in value] if isinstance(value, list) else value

    return put({k: x for k, x in content.items() if k != "arrays"})
