"""Progress of runs: bars, and lines above them that say what is trained."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import rich.progress
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from dicejax.config import (
    AnyEncoder,
    Experiment,
    PretrainedEncoder,
    ScratchEncoder,
)
from dicejax.errors import visible
from dicejax.io.terminal import literal
from dicejax.objectives import name_of
from dicejax.training.candidate import candidate_of

# In a window of fewer columns the bar is short, and of the times only the one left is
# shown: all of a line fits 80 columns.
NARROW = 112


class TrainingProgress(rich.progress.Progress):
    """A progress bar with loss, dev score, tokens per second and time left.

    Use as a context manager; several runs may share one, each with its own line. It is
    on standard error by default; a quiet one, of other processes, prints nothing.
    """

    def __init__(self, console: Console | None = None, *, quiet: bool = False):
        console = Console(quiet=True) if quiet else console or Console(stderr=True)
        self._narrow = narrow = console.width < NARROW
        more = [] if narrow else [TimeElapsedColumn(), TextColumn("left")]
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=7 if narrow else 12),
            MofNCompleteColumn(),
            # Wraps where there is no room for all of it.
            TextColumn("{task.fields[status]}", table_column=Column(no_wrap=False)),
            *more,
            TimeRemainingColumn(),
            console=console,
            disable=quiet,
        )
        self._notes: set[str] = set()

    def begin(
        self, name: str, steps: int, status: str = "compiling", step: int = 0
    ) -> TaskID:
        """Add a line for a run of `steps` updates that begins or resumes at a step.

        A long name loses its middle: lines above the bars have it whole.
        """
        width = 14 if self._narrow else 24
        if len(name) > width:
            half = (width - 1) // 2
            name = f"{name[:half]}…{name[half + 1 - width :]}"
        return self.add_task(visible(name), total=steps, completed=step, status=status)

    def show(
        self,
        task: TaskID,
        step: int,
        record: Mapping[str, Any],
        score: float | None,
        metric: str,
    ) -> None:
        """Show the record of a step in metrics.jsonl, and the last dev score in [0, 1].

        The metric has the name that is displayed.

        Skipped steps are shown if there are any, the share of time spent waiting for
        batches above 5 %.
        """
        percent = "   -  " if score is None else f"{100 * score:6.2f}"
        dev = "" if self._narrow else "dev "
        status = (
            f"loss {record['loss']:.4f}  {dev}{metric} {percent}  "
            f"{record['tokens_per_s']:,.0f} tokens/s"
        )
        if record["wait_share"] > 0.05:
            status += f"  waits {100 * record['wait_share']:.0f} %"
        if record["skipped"]:
            status += f"  {record['skipped']} skipped"
        self.update(task, completed=step, status=status)

    def say(self, text: str, *, once: bool = False) -> None:
        """Print a line above the bars; `once` where several runs share it."""
        if once:
            if text in self._notes:
                return
            self._notes.add(text)
        self.console.print(literal(text), soft_wrap=True)  # the terminal wraps

    def note(self, text: str) -> None:
        """Print a remark once."""
        self.say(f"note: {text}", once=True)


Progress = TrainingProgress | bool | None
"""A display, whether there is to be one, or None: where somebody looks."""


@contextlib.contextmanager
def progress_of(choice: Progress) -> Iterator[TrainingProgress]:
    """Yield a display of progress; by default it is quiet where nobody looks.

    Terminals and notebooks show it; notebooks without ipywidgets print lines
    and no bars. A display that is on already stays on.
    """
    if isinstance(choice, TrainingProgress):
        with contextlib.nullcontext() if choice.live.is_started else choice:
            yield choice
        return
    console = Console(stderr=True)
    if choice is None:
        choice = console.is_terminal or console.is_jupyter
    if console.is_jupyter and importlib.util.find_spec("ipywidgets") is None:
        console = Console(file=sys.stdout, force_jupyter=False, force_terminal=False)
    with TrainingProgress(console, quiet=not choice) as display:
        yield display


def time_left(seconds: float, runs: int) -> str:
    """Say how long further runs take if each takes as many seconds as the first.

    >>> time_left(65.0, 11)
    'about 12 minutes for the other 11 runs'
    >>> time_left(900.0, 11), time_left(5.0, 1)
    ('about 2.8 hours for the other 11 runs', 'about 1 minute for the other run')
    """
    minutes = math.ceil(seconds * runs / 60)
    time = f"{minutes} minute{'s' * (minutes > 1)}"
    if minutes >= 100:
        time = f"{minutes / 60:.1f} hours"
    return f"about {time} for the other {f'{runs} runs' if runs > 1 else 'run'}"


def encoder_name(encoder: AnyEncoder, parameters: int | None = None) -> str:
    """Return the name of an encoder, and its number of parameters if that is known.

    >>> from dicejax.config import PretrainedEncoder
    >>> encoder_name(PretrainedEncoder(path="models/bert-base-cased"), 108_310_272)
    'models/bert-base-cased, 108.3 million parameters'
    >>> encoder_name(ScratchEncoder(num_hidden_layers=2, hidden_size=64), 9000)
    'BERT from random weights, 2 layers, 64 wide, 9,000 parameters'
    """
    if isinstance(encoder, PretrainedEncoder):
        name = "/".join(encoder.path.rstrip("/").split("/")[-2:])
    elif isinstance(encoder, ScratchEncoder):
        layers = encoder.num_hidden_layers
        name = (
            f"BERT from random weights, {layers} layer{'s' * (layers != 1)}, "
            f"{encoder.hidden_size} wide"
        )
    else:
        name = type(encoder).__name__
    if parameters is None:
        return name
    return f"{name}, {format_count(parameters, ' million')} parameters"


def settings_line(experiment: Experiment) -> str:
    """Return the settings of a run, those that matter most.

    >>> from dicejax.data.synthetic import SyntheticNER
    >>> experiment = Experiment(name="mine", data=SyntheticNER())
    >>> settings_line(experiment)  # doctest: +ELLIPSIS
    'mine: ce, Tagging, BERT from random weights, 2 layers, 128 wide; 3 epochs, ...'
    """
    training, optimizer = experiment.training, experiment.optimizer
    rule, price = experiment.task.threshold_rule, ""
    if rule is not None and (constraint := rule.constraint) is not None:
        price = f"; {constraint} by dev: delta {constraint.delta:g}"
        if training.epochs > 1:  # of which dev chooses one
            share = constraint.delta / training.epochs
            price += f" / {training.epochs} epochs = {share:.2g}"
        price += ", which no choice of the best seed by dev scores is part of"
    return (
        f"{experiment.name}: {name_of(candidate_of(experiment))}, "
        f"{type(experiment.task).__name__}, {encoder_name(experiment.encoder)}; "
        f"{training.epochs} epochs, batches of {training.batch_size}, "
        f"{type(optimizer).__name__} {optimizer.learning_rate:g}, seed {training.seed}"
        f"{price}"
    )


def format_count(parameters: int, million: str = "M") -> str:
    """Return a number of parameters, in millions from 100,000 on.

    >>> format_count(108_310_272), format_count(9000)
    ('108.3M', '9,000')
    """
    return (
        f"{parameters / 1e6:.1f}{million}" if parameters >= 1e5 else f"{parameters:,}"
    )
