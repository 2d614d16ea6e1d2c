"""Every loss beside optax's cross entropy, and beside a PyTorch loop over the classes.

Measures the value and the gradient of the mean loss with respect to the logits, jitted,
in three tables: the time on [65536, 32] logits as a multiple of the faster of optax's
two softmax cross entropies; the memory of the compiled function in units of the logits;
the time on [16384, 18] masked logits beside the same loss in PyTorch, once their values
and gradients agree. Rivals are timed right after one another in every round; the ratio
is the median over rounds. Exits with 1 if a loss breaks its limit.

usage:    python benchmarks/losses.py [--only NAME ...] [--rounds N] [--json FILE]
needs:    pip install -e ".[parity]" for the part against PyTorch, left out without it
measured: see benchmarks/README.md
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dicejax import losses

try:
    import torch
    import torch_losses
except ModuleNotFoundError:
    torch = torch_losses = None

SHAPE = (65536, 32)
PEER_SHAPE = (16384, 18)
PEER_TIMES_AS_FAST = 5.0
AGREEMENT = 1e-4  # relative, of the values and of the gradients


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure.

    Args:
      only: parts of the names of the losses to measure; all if none is given.
      rounds: how often each is timed.
      json: a file to write the figures to.
    """

    only: tuple[str, ...] = ()
    rounds: int = 15
    json: Path | None = None


@dataclasses.dataclass(frozen=True)
class Data:
    """Logits and labels of a long tail: class c is 0.8 times as frequent as c - 1."""

    logits: np.ndarray  # [N, C]
    classes: np.ndarray  # [N], class numbers
    outcomes: np.ndarray  # [N, C], 0 or 1
    where: np.ndarray  # [N], an eighth is False

    @classmethod
    def draw(cls, shape: tuple[int, int]) -> Data:
        """Draw with a fixed seed."""
        rng = np.random.default_rng(0)
        frequencies = 0.8 ** np.arange(shape[1])
        frequencies /= frequencies.sum()
        classes = rng.choice(shape[1], shape[0], p=frequencies)
        return cls(
            logits=2 * rng.standard_normal(shape, np.float32),
            classes=classes.astype(np.int32),
            outcomes=(rng.random(shape) < frequencies).astype(np.int32),
            where=rng.random(shape[0]) < 0.875,
        )

    def hyperparameters(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Those that describe the data."""
        known = {
            "class_counts": np.bincount(self.classes, minlength=self.logits.shape[1]),
            "counts_of_outcomes": np.stack(
                [(1 - self.outcomes).sum(0), self.outcomes.sum(0)], axis=-1
            ),
        }
        return {
            name.replace("counts_of_outcomes", "class_counts"): known[name]
            for name in names
        }


@dataclasses.dataclass(frozen=True)
class Case:
    """One loss to measure.

    Args:
      loss: the function of logits, labels and keywords.
      settings: keywords for it.
      of_data: names of further keywords, whose values describe the data.
      outcomes: whether labels are 0 or 1 for each class, not class numbers.
      limit: at most so many times the time of the cross entropy; None: only shown,
        here and beside PyTorch.
      looped: whether PyTorch code for it loops over classes, as `torch_losses` does.
    """

    loss: Callable[..., jax.Array]
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    of_data: tuple[str, ...] = ()
    outcomes: bool = False
    limit: float | None = 2.0
    looped: bool = False

    @property
    def name(self) -> str:
        """The function, and the settings that are not its defaults."""
        words = (f"{key}={value}" for key, value in self.settings.items())
        return " ".join([self.loss.__name__, *words])

    def labels(self, data: Data) -> np.ndarray:
        """Labels of the kind the loss takes."""
        return data.outcomes if self.outcomes else data.classes


def ghm(logits, labels, **settings):
    """The first step of `losses.ghm`, without its new state."""
    state = losses.ghm_state(bins=10)
    return losses.ghm(logits, labels, state, **settings)[0]


def ghm_regression(logits, labels, **settings):
    """The first step of `losses.ghm_regression` towards the 0 and 1 of the labels."""
    state, targets = losses.ghm_state(bins=10), labels.astype(logits.dtype)
    return losses.ghm_regression(logits, targets, state, **settings)[0]


def mined_cross_entropy(logits, labels):
    """Cross entropy of all but class 0 and of the hardest of class 0."""
    entropies = losses.cross_entropy(logits, labels)
    scores = jax.lax.stop_gradient(entropies)
    return jnp.where(losses.hard_negative_mask(scores, labels > 0), entropies, 0)


OF_BATCH = {"squared": False}
OF_ELEMENTS = {"axis": ()}
AS_WRITTEN = {"axis": (), "form": "gold", "squared": False}

CASES = (
    Case(losses.cross_entropy),
    Case(losses.cross_entropy, {"label_smoothing": 0.1}),
    Case(losses.poly),
    Case(losses.majority_or_minority),
    Case(losses.focal),
    Case(losses.logit_adjusted, of_data=("class_counts",)),
    Case(losses.ldam, of_data=("class_counts",)),
    Case(losses.vs, of_data=("class_counts",)),
    Case(losses.self_adjusting_dice, AS_WRITTEN),
    Case(losses.self_adjusting_dice, OF_BATCH, limit=4.0, looped=True),
    Case(losses.self_adjusting_dice, OF_ELEMENTS, limit=4.0, looped=True),
    Case(losses.dice, looped=True),
    Case(losses.dice, {"squared": True}, looped=True),
    Case(losses.log_cosh_dice, looped=True),
    Case(losses.generalized_dice, looped=True),
    Case(losses.dice_semimetric, {"variant": "dml1"}, looped=True),
    Case(losses.dice_semimetric, {"variant": "dml2"}, looped=True),
    Case(losses.tversky, {"alpha": 0.3, "beta": 0.7}, looped=True),
    Case(losses.focal_tversky, {"alpha": 0.3, "beta": 0.7}, looped=True),
    Case(losses.jaccard, looped=True),
    Case(losses.soft_f1, looped=True),
    # The sum of a pointwise and a count-based loss.
    Case(losses.unified_focal, limit=4.0, looped=True),
    Case(losses.lovasz_softmax, limit=None, looped=True),
    Case(ghm),
    Case(mined_cross_entropy, limit=None),
    Case(losses.focal, {"multi_label": True}, outcomes=True, limit=4.0, looped=True),
    Case(losses.asymmetric, outcomes=True, limit=4.0, looped=True),
    Case(losses.zlpr, outcomes=True),
    Case(
        losses.distribution_balanced,
        of_data=("counts_of_outcomes",),
        outcomes=True,
        looped=True,
    ),
    Case(losses.sigmoid_f1, outcomes=True, looped=True),
    # A histogram of every entry.
    Case(ghm, {"multi_label": True}, outcomes=True, limit=None, looped=True),
    Case(ghm_regression, outcomes=True, limit=None),
)


def one_hot_cross_entropy(logits, labels):
    """Cross entropy of probabilities, made of the class numbers."""
    targets = jax.nn.one_hot(labels, logits.shape[-1])
    return optax.softmax_cross_entropy(logits, targets)


RIVALS = {
    "optax, integer labels": optax.softmax_cross_entropy_with_integer_labels,
    "optax, one-hot labels": one_hot_cross_entropy,
}


def compiled(loss: Callable, *arguments: Any) -> tuple[Any, Callable]:
    """Compile value and gradient of the mean; return that and a call of it."""

    def mean(logits, *rest):
        return loss(logits, *rest).mean()

    arguments = jax.device_put(arguments)
    step = jax.jit(jax.value_and_grad(mean))
    program = step.lower(*arguments).compile()
    return program, lambda: jax.block_until_ready(step(*arguments))


def milliseconds(call: Callable[[], Any], warm_for: float = 0.02) -> float:
    """Time ten calls after some to get warm; milliseconds of one.

    A rival's threads spin for some milliseconds after its last call and would hold a
    core: they have gone to sleep when the time begins.
    """
    start = time.perf_counter()
    while time.perf_counter() - start < warm_for:
        call()
    start = time.perf_counter()
    for _ in range(10):
        call()
    return (time.perf_counter() - start) / 10 * 1e3


def in_turn(
    groups: dict[str, dict[str, Callable[[], Any]]], rounds: int, title: str
) -> dict[str, dict[str, list[float]]]:
    """Time the calls of each group right after one another, in every round."""
    times = {name: {rival: [] for rival in calls} for name, calls in groups.items()}
    for turn in track(range(rounds), description=title, transient=True):
        for name, calls in groups.items():
            # To and fro: what the one before leaves behind is each one's in turn.
            for rival in list(calls)[:: 1 if turn % 2 else -1]:
                times[name][rival].append(milliseconds(calls[rival]))
    return times


def ratio(ours: list[float], theirs: list[float]) -> float:
    """The median over rounds of the ratio within a round."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def against_optax(cases: list[Case], rounds: int) -> list[dict[str, Any]]:
    """Time and memory of every case beside the cross entropies."""
    data = Data.draw(SHAPE)
    unit = data.logits.nbytes
    rivals, calls, memory = {}, {}, {}
    for name, loss in RIVALS.items():
        memory[name], rivals[name] = compiled(loss, data.logits, data.classes)
    for case in track(cases, description="compiling", transient=True):
        loss = functools.partial(
            case.loss, **case.settings, **data.hyperparameters(case.of_data)
        )
        memory[case.name], call = compiled(loss, data.logits, case.labels(data))
        calls[case.name] = {case.name: call, **rivals}

    times = in_turn(calls, rounds, "beside optax")
    everything = {
        name: [time for group in times.values() for time in group[name]]
        for name in rivals
    }
    faster = min(rivals, key=lambda name: statistics.median(everything[name]))
    limits = {case.name: case.limit for case in cases}
    rows = []
    for name, program in memory.items():
        mine = everything.get(name) or times[name][name]
        beside = everything[faster] if name in rivals else times[name][faster]
        used = program.memory_analysis()
        working = used.temp_size_in_bytes + used.output_size_in_bytes
        rows.append(
            {
                "name": name,
                "median_ms": statistics.median(mine),
                "min_ms": min(mine),
                "ratio": ratio(mine, beside),
                "limit": limits.get(name),
                "temporaries": used.temp_size_in_bytes / unit,
                "outputs": used.output_size_in_bytes / unit,
                "temporaries_and_outputs": working / unit,
                "with_arguments": (working + used.argument_size_in_bytes) / unit,
            }
        )
    return rows


def torch_call(case: Case, data: Data, keywords: dict[str, Any]) -> Callable:
    """A call of the loss in PyTorch that returns its value and gradient."""
    loss = getattr(torch_losses, case.loss.__name__)
    logits = torch.tensor(data.logits, requires_grad=True)
    labels = torch.tensor(case.labels(data))
    labels = labels.float() if case.outcomes else labels.long()
    mask = torch.tensor(data.where).float()

    def call():
        logits.grad = None
        value = loss(logits, labels, mask, **keywords)
        value.backward()
        return value.item(), logits.grad.numpy()

    return call


def check_agreement(name: str, ours: tuple, theirs: tuple) -> None:
    """Raise SystemExit unless values and gradients are the same."""
    for kind, mine, other in zip(("value", "gradient"), ours, theirs, strict=True):
        mine, other = np.asarray(mine), np.asarray(other)
        error = np.linalg.norm(mine - other) / np.linalg.norm(other)
        if not error <= AGREEMENT:
            raise SystemExit(f"{name}: the {kind} is not PyTorch's: {error:.1e} off")


def against_torch(cases: list[Case], rounds: int) -> list[dict[str, Any]]:
    """Time of the looped cases beside PyTorch, all with the same mask."""
    data, groups = Data.draw(PEER_SHAPE), {}
    limits = {case.name: case.limit for case in cases}
    for case in track(cases, description="comparing", transient=True):
        keywords = case.settings | data.hyperparameters(case.of_data)

        def masked(logits, labels, where, loss=case.loss, keywords=keywords):
            return loss(logits, labels, where=where, **keywords)

        _, call = compiled(masked, data.logits, case.labels(data), data.where)
        theirs = torch_call(case, data, keywords)
        check_agreement(case.name, call(), theirs())
        groups[case.name] = {"ours": call, "torch": theirs}
    rows = []
    for name, times in in_turn(groups, rounds, "beside PyTorch").items():
        row = {"name": name}
        for side, taken in times.items():
            row[f"{side}_median_ms"] = statistics.median(taken)
            row[f"{side}_min_ms"] = min(taken)
        # PyTorch's threads wait for one another, on a busy machine long: both count.
        row["times_as_fast"] = ratio(times["torch"], times["ours"])
        row["by_minima"] = row["torch_min_ms"] / row["ours_min_ms"]
        wanted = None if limits[name] is None else PEER_TIMES_AS_FAST
        rows.append(row | {"wanted": wanted})
    return rows


def show(console: Console, title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows of figures as a table."""
    if not rows:
        return
    table = Table(title=title, title_justify="left", box=None)
    for key in rows[0]:
        heading = key.replace("_", " ")
        table.add_column(heading, justify="left" if key == "name" else "right")
    for row in rows:
        cells = ("-" if cell is None else cell for cell in row.values())
        cells = (f"{cell:.2f}" if isinstance(cell, float) else cell for cell in cells)
        table.add_row(*cells)
    console.print(table, "")


def main() -> None:
    """Measure, print, and say which limits are broken."""
    settings = tyro.cli(Settings, description=__doc__)
    console = Console()
    cases = [
        case
        for case in CASES
        if not settings.only or any(word in case.name for word in settings.only)
    ]
    if not cases:
        raise SystemExit(f"no loss has {' or '.join(settings.only)} in its name")

    console.print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    rows = against_optax(cases, settings.rounds)
    memory = ("temporaries", "outputs", "temporaries_and_outputs", "with_arguments")
    shown = [{k: v for k, v in row.items() if k not in memory} for row in rows]
    show(console, f"Time on {SHAPE} logits, beside the faster of optax's", shown)
    shown = [{"name": row["name"]} | {k: row[k] for k in memory} for row in rows]
    show(console, f"Memory on {SHAPE} logits, in units of the logits", shown)
    broken = [
        f"{row['name']}: {row['ratio']:.2f}, not {row['limit']} times the cross entropy"
        for row in rows
        if row["limit"] is not None and row["ratio"] > row["limit"]
    ]

    peers = []
    if torch is None:
        console.print("torch is not installed: the part against PyTorch is left out")
    else:
        looped = [case for case in cases if case.looped]
        peers = against_torch(looped, settings.rounds)
        threads = f"PyTorch on {torch.get_num_threads()} threads"
        show(console, f"Time on {PEER_SHAPE} masked logits, {threads}", peers)
    for row in peers:
        slowest = min(row["times_as_fast"], row["by_minima"])
        if row["wanted"] is not None and slowest < row["wanted"]:
            wanted = f"not {row['wanted']} times as fast as PyTorch"
            broken.append(f"{row['name']}: {slowest:.2f}, {wanted}")
    if settings.json:
        figures = {"optax": rows, "torch": peers, "broken": broken}
        settings.json.write_text(json.dumps(figures, indent=1) + "\n")
    for line in broken:
        console.print(f"limit broken: {line}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
