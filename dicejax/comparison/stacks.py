"""Which runs of a comparison one program steps together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import jax

from dicejax.config import Experiment
from dicejax.errors import InputError
from dicejax.objectives import CrossEntropy, Objective
from dicejax.training.run_folder import Run
from dicejax.training.runs.companions import Companions, begun_together
from dicejax.training.stack_size import stack_size

if TYPE_CHECKING:
    from dicejax.comparison.jobs import Job

StackSize: TypeAlias = int | Literal["auto", "off"]


def stack_named(text: str) -> StackSize:
    """Read what `--stack` was given.

    >>> stack_named("8"), stack_named("auto")
    (8, 'auto')

    Raises:
      InputError: it is neither a number nor auto or off.
    """
    if text in ("auto", "off"):
        return text
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"--stack is {text!r}; want a number from 1, auto or off")
    return int(text)


def begun_stacks(
    jobs: Sequence[Job], runs: Mapping[str, Run], stack: StackSize
) -> dict[str, Companions]:
    """Return the stacks that runs were begun in and are to go on in, by their folders.

    Args:
      jobs: the runs that are left.
      runs: their folders.
      stack: as in `in_turn`. A stack of more runs than a number given is begun anew.
    """
    if stack == "off" or any(_one_by_one(job.experiment) for job in jobs):
        return {}
    if any(job.experiment.mesh.make().size > 1 for job in jobs):
        return {}
    begun = begun_together({job.folder: runs[job.folder] for job in jobs})
    return {
        folder: companions
        for folder, companions in begun.items()
        if stack == "auto" or len(companions.paths) <= stack
    }


def in_turn(
    jobs: Sequence[Job],
    stack: StackSize,
    begun: Mapping[str, Companions] = MappingProxyType({}),
) -> Iterator[list[Job]]:
    """Yield the runs to train, those together that one program is to step.

    Each time the first run that is left, and with it those it was begun with, or else
    the next of the same program: so runs that are not stacked keep their order.

    Args:
      jobs: the runs.
      stack: how many at most are stepped together; "auto": see
        `training.stack_size`; "off": one.
      begun: the stacks that some are to go on in, by their folders.

    Raises:
      InputError: a number is given and these runs cannot be stacked at all.
    """
    for job in jobs:
        _require_stackable(job.experiment, stack)
    left = [(job, program_of(job.experiment)) for job in jobs]
    sizes: list[tuple[Any, int]] = []
    while left:
        job, program = left[0]
        companions = begun.get(job.folder)
        fitting = [
            one
            for one, its in left
            if its == program and begun.get(one.folder) == companions
        ]
        known = [size for its, size in sizes if its == program]
        if companions is not None:
            known = [len(fitting)]
        elif not known:
            known = [_size(job.experiment, stack, len(fitting))]
            sizes.append((program, known[0]))
        together = fitting[: known[0]]
        left = [(one, its) for one, its in left if one not in together]
        yield together


def program_of(experiment: Experiment) -> Any:
    """Return what runs have in common that one program can step.

    That is all but the seed and the numbers of the objective. In batches of several
    widths, each seed has its own order of them, so there the seed counts too.
    """
    training = experiment.training
    seed = training.seed if training.batching == "buckets" else 0
    # The types by themselves: JAX takes dataclasses of other classes with the same
    # fields for one structure.
    structure = jax.tree.structure(experiment.objective)
    return (
        _types(experiment.objective),
        structure,
        dataclasses.replace(
            experiment,
            objective=CrossEntropy(),
            compared=(),
            training=dataclasses.replace(training, seed=seed),
        ),
    )


def _types(value: Any) -> Any:
    """The class of an objective, and those of its parts."""
    if isinstance(value, tuple):
        return tuple(map(_types, value))
    if not isinstance(value, Objective):
        return None
    parts = (getattr(value, field.name) for field in dataclasses.fields(value))
    return type(value), *map(_types, parts)


def _size(experiment: Experiment, stack: StackSize, there: int) -> int:
    """How many runs of a program are stepped together, of so many that there are."""
    if there == 1 or stack == "off":
        return 1
    if stack != "auto":
        return stack
    return 1 if _one_by_one(experiment) else stack_size(experiment)


def _one_by_one(experiment: Experiment) -> str | None:
    """What of an experiment asks for one run at a time, in words."""
    if experiment.recording.wandb_project is not None:
        return "Weights & Biases (--recording.wandb_project)"
    if experiment.analysis.every:
        return "the analysis of gradients (--analysis.every)"
    return None


def _require_stackable(experiment: Experiment, stack: StackSize) -> None:
    if stack in ("auto", "off", 1):
        return
    if (reason := _one_by_one(experiment)) is not None:
        raise InputError(
            f"--stack {stack}: {reason} takes one run at a time; leave one of them out"
        )
    devices = experiment.mesh.make().size
    if devices > 1:
        raise InputError(
            f"--stack {stack}: a stack is for one device and the mesh has {devices}; "
            "leave --stack out"
        )
