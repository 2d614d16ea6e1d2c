"""Settings with which a step fits the devices, found by compiling it with them."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Callable, Iterable, Sequence

from dicejax.errors import InputError
from dicejax.mesh import MeshShape, batch_parts
from dicejax.models.settings import Remat
from dicejax.planning.memory import Step
from dicejax.planning.step import StepPlan, amount, plan_step
from dicejax.planning.topologies import Topology
from dicejax.training.setup import Setup

MOST = 24
"""The most settings that `find` compiles the step with: some take over a minute."""
_LARGEST_TENSOR = 8  # parts; more have never been faster for encoders of this size
_GIB = 2**30
Note = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What may make a step fit.

    Attributes:
      data: length of this axis of the mesh.
      fsdp: likewise.
      tensor: likewise.
      micro_batches: of each update.
      remat: what the backward pass recomputes.
    """

    data: int
    fsdp: int = 1
    tensor: int = 1
    micro_batches: int = 1
    remat: Remat = "none"

    def flags(self) -> str:
        """Return them as the command line takes them.

        >>> Settings(4, tensor=2, remat="layer").flags()
        '--mesh.data 4 --mesh.tensor 2 --training.remat layer'
        """
        words = [f"--mesh.data {self.data}"]
        words += [f"--mesh.fsdp {self.fsdp}"] * (self.fsdp > 1)
        words += [f"--mesh.tensor {self.tensor}"] * (self.tensor > 1)
        if self.micro_batches > 1:
            words.append(f"--training.micro_batches {self.micro_batches}")
        if self.remat != "none":
            words.append(f"--training.remat {self.remat}")
        return " ".join(words)

    def of(self, setup: Setup) -> Setup:
        """Return a run's setup with these settings."""
        experiment = setup.experiment
        training = dataclasses.replace(
            experiment.training, micro_batches=self.micro_batches, remat=self.remat
        )
        mesh = MeshShape(data=self.data, fsdp=self.fsdp, tensor=self.tensor)
        return dataclasses.replace(
            setup,
            experiment=dataclasses.replace(experiment, training=training, mesh=mesh),
            network=dataclasses.replace(setup.network, remat=self.remat),
        )


Compiled = Callable[[Settings], StepPlan]


@dataclasses.dataclass(frozen=True)
class Planned:
    """A step's plan, and what would make it fit.

    Attributes:
      step: the plan with the experiment's settings.
      remedy: one line where it does not fit.
      fitting: settings that fit, as flags, with the bytes at their peak.
    """

    step: StepPlan
    remedy: str | None = None
    fitting: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """Plans of several settings.

    Attributes:
      fitting: settings and plans that fit, the fastest bound per row first.
      failing: those that do not.
      left: number of settings that were not tried.
    """

    fitting: tuple[tuple[Settings, StepPlan], ...]
    failing: tuple[tuple[Settings, StepPlan], ...]
    left: int


def plan(setup: Setup, topology: Topology, note: Note) -> Planned:
    """Plan a run's step; where it does not fit, try what would.

    Args:
      setup: the run; weights are not needed.
      topology: the devices.
      note: called with each setting before it is tried.

    Raises:
      InputError: the mesh does not fit.
    """
    mesh = setup.experiment.mesh.make(topology.devices())
    step = plan_step(setup, topology)
    if step.fits:
        return Planned(step)
    now = Settings(**mesh.shape, micro_batches=step.micro_batches, remat=step.remat)
    per_device = step.rows // batch_parts(mesh)
    fitting = fitting_remedies(
        now, per_device, lambda one: plan_step(one.of(setup), topology), note
    )
    return Planned(step, _remedy(step, fitting), fitting)


def fitting_remedies(
    now: Settings, rows: int, compiled: Compiled, note: Note
) -> dict[str, int]:
    """Try remat, fsdp and micro-batches, and where none is enough all of them.

    Args:
      now: settings that do not fit.
      rows: of a batch on each device.
      compiled: plans the step with settings.
      note: called with each setting before it is tried.

    Returns:
      The bytes at the peak of those that fit, by their flags.
    """

    def tried(groups: Iterable[Sequence[Settings]]) -> dict[str, int]:
        found: dict[str, int] = {}
        for group in groups:
            for one in group:
                note(f"does not fit; trying {one.flags()}")
                step = compiled(one)
                if step.fits:
                    found[one.flags()] = step.peak
                    break  # of more micro-batches, say, the fewest are enough
        return found

    single, together = remedies(now, rows)
    return tried(single) or tried([together])


def remedies(now: Settings, rows: int) -> tuple[list[list[Settings]], list[Settings]]:
    """Return settings that take less memory: groups of one change each, and all.

    >>> single, together = remedies(Settings(data=4), rows=2)
    >>> for group in [*single, together]:
    ...     print([one.flags() for one in group])
    ['--mesh.data 4 --training.remat attention', '--mesh.data 4 --training.remat layer']
    ['--mesh.data 1 --mesh.fsdp 4']
    ['--mesh.data 4 --training.micro_batches 2']
    ['--mesh.data 1 --mesh.fsdp 4 --training.micro_batches 2 --training.remat layer']

    Args:
      now: settings that do not fit.
      rows: of a batch on each device.
    """
    sharded = dataclasses.replace(now, data=1, fsdp=now.data * now.fsdp)
    # `rows` are those of all micro-batches.
    counts = [n for n in doubled(1, rows) if n > now.micro_batches]
    micro = [dataclasses.replace(now, micro_batches=count) for count in counts]
    most = max([*counts, now.micro_batches])
    together = dataclasses.replace(sharded, micro_batches=most, remat="layer")
    single = [
        group
        for group in (with_remat(now), [sharded], micro)
        if group and group != [now]
    ]
    known = [now, *(one for group in single for one in group)]
    return single, [] if together in known else [together]


def with_remat(now: Settings) -> list[Settings]:
    """Return settings that recompute more, the cheapest first.

    >>> [one.remat for one in with_remat(Settings(4, remat="attention"))]
    ['layer']
    """
    policies = typing.get_args(Remat)
    more = policies[policies.index(now.remat) + 1 :]
    return [dataclasses.replace(now, remat=policy) for policy in more]


def doubled(first: int, last: int) -> list[int]:
    """Return a number, doubled as long as it divides another.

    >>> doubled(1, 8), doubled(1, 6)
    ([1, 2, 4, 8], [1, 2])
    """
    found = [first]
    while last % (2 * found[-1]) == 0 and 2 * found[-1] <= last:
        found.append(2 * found[-1])
    return found


def _remedy(step: StepPlan, fitting: dict[str, int]) -> str:
    lead = f"does not fit: {amount(step.peak)} of {amount(step.memory)}; "
    if not fitting:
        return lead + (
            "nor do remat, fsdp and micro-batches together: take shorter or fewer rows "
            "(--training.max_length, --training.batch_size) or more devices"
        )
    ways = (f"{flags} ({amount(size)})" for flags, size in fitting.items())
    return lead + "these do: " + "; ".join(ways)


def find(
    setup: Setup, topology: Topology, note: Note, most: int = MOST
) -> SearchResult:
    """Try meshes; where one does not fit, with remat or more micro-batches.

    What fits is not tried with remat or micro-batches, which only take time then.

    Args:
      setup: the run; its mesh, micro-batches and remat do not count.
      topology: the devices.
      note: called with each result.
      most: number of settings to try at most.

    Raises:
      InputError: the batch fits no mesh.
    """
    devices = topology.devices()
    encoder = setup.network.encoder
    heads = getattr(encoder, "num_attention_heads", getattr(encoder, "n_head", 1))
    candidates: list[tuple[Settings, int]] = []
    refused: InputError | None = None
    for one in meshes(len(devices), heads):
        try:
            mesh = one.of(setup).experiment.mesh.make(devices)
            rows = Step.of(one.of(setup), mesh).batch["input_ids"].shape[0]
            candidates.append((one, rows // batch_parts(mesh)))
        except InputError as error:  # the rows do not divide over this mesh
            refused = error
    if refused and not candidates:
        raise refused
    return try_all(
        candidates, lambda one: plan_step(one.of(setup), topology), note, most
    )


def try_all(
    candidates: Iterable[tuple[Settings, int]],
    compiled: Compiled,
    note: Note,
    most: int = MOST,
) -> SearchResult:
    """Try meshes, and those that do not fit with remat and with micro-batches.

    Args:
      candidates: meshes, each with the rows on a device.
      compiled: plans the step with settings.
      note: called with each result.
      most: number of settings to try at most.
    """
    fitting: list[tuple[Settings, StepPlan]] = []
    failing: list[tuple[Settings, StepPlan]] = []
    skipped = 0
    for mesh, rows in candidates:
        for group in _stages(mesh, rows):
            fits = False
            for one in group:
                if len(fitting) + len(failing) == most:
                    skipped += 1
                    continue
                step = compiled(one)
                note(_result(one, step))
                fits = step.fits
                (fitting if fits else failing).append((one, step))
                if fits:
                    break
            if fits and group[0] == mesh:
                break
    fitting.sort(key=lambda pair: _bound_per_row(pair[1]))
    return SearchResult(tuple(fitting), tuple(failing), skipped)


def _stages(mesh: Settings, rows: int) -> list[list[Settings]]:
    """Return groups to try: the mesh itself, and unless it fits all the others."""
    counts = doubled(1, rows)[1:]
    return [
        [mesh],
        with_remat(mesh),
        [dataclasses.replace(mesh, micro_batches=count) for count in counts],
    ]


def meshes(devices: int, heads: int) -> list[Settings]:
    """Return the meshes to try for so many devices.

    Rows are split over all of `data`, all of `fsdp`, or about as much of each; and
    layers over up to eight devices, where these divide the heads.

    >>> [(one.data, one.fsdp, one.tensor) for one in meshes(4, heads=2)]
    [(4, 1, 1), (2, 2, 1), (1, 4, 1), (2, 1, 2), (1, 2, 2)]

    Args:
      devices: their number.
      heads: of the encoder's attention.
    """
    found = []
    for tensor in _divisors(math.gcd(devices, heads)):
        if tensor > _LARGEST_TENSOR:
            break
        rows = devices // tensor
        middle = max(d for d in _divisors(rows) if d * d <= rows)
        for fsdp in sorted({1, middle, rows}):
            found.append(Settings(data=rows // fsdp, fsdp=fsdp, tensor=tensor))
    return found


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def _bound_per_row(step: StepPlan) -> float:
    return (step.bound or math.inf) / step.rows


def _result(one: Settings, step: StepPlan) -> str:
    said = amount(step.peak) + ("" if step.fits else ", does not fit")
    if step.fits and step.bound:
        said += f", {1e3 * step.bound:,.1f} ms"
    return f"{one.flags()}: {said}"


def table(found: SearchResult) -> str:
    """Format the settings that fit as lines, and how many were tried."""
    lines = []
    if found.fitting:
        lines.append(
            f"{'ms at least':>11}  {'rows':>6}  {'GiB':>7}  {'MB sent':>9}  settings"
        )
    for one, step in found.fitting:
        sent = sum(sums["wire"] for sums in (step.collectives or {}).values())
        lines.append(
            f"{1e3 * (step.bound or 0):11,.2f}  {step.rows:6}  "
            f"{step.peak / _GIB:7,.2f}  {sent / 1e6:9,.1f}  {one.flags()}"
        )
    tried = len(found.fitting) + len(found.failing)
    total = f"{len(found.fitting)} of {tried} settings tried fit"
    lines.append(total + (f"; {found.left} were not tried" if found.left else ""))
    return "\n".join(lines)


def to_json(found: Planned | SearchResult) -> str:
    """Write plans as one JSON object."""
    if isinstance(found, Planned):
        values = dataclasses.asdict(found.step)
        return json.dumps(values | {"remedy": found.remedy, "fitting": found.fitting})
    tried = {"fitting": _rows(found.fitting), "failing": _rows(found.failing)}
    return json.dumps(tried | {"not_tried": found.left})


def _rows(pairs: Sequence[tuple[Settings, StepPlan]]) -> list[dict[str, object]]:
    return [dataclasses.asdict(step) | {"flags": one.flags()} for one, step in pairs]
