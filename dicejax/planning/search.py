"""Settings with which a step fits the devices, by compiling it with each of them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import typing
from collections.abc import Callable, Iterable, Sequence

from dicejax.errors import InputError
from dicejax.mesh import Device, MeshShape
from dicejax.models.settings import Remat
from dicejax.planning.step import Step, StepPlan, amount, check_memory, plan_step
from dicejax.planning.topologies import Topology
from dicejax.training.setup import Setup

MOST = 24  # settings that `find` compiles: some take over a minute
_LARGEST_TENSOR = 8  # parts; more have never been faster for encoders of this size
_GIB = 2**30
Note = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that reduce memory: lengths of the mesh axes, micro-batches, remat."""

    data: int
    fsdp: int = 1
    tensor: int = 1
    micro_batches: int = 1
    remat: Remat = "none"

    def flags(self) -> str:
        """Return the settings as flags of the command line."""
        flags = {
            "--mesh.fsdp": (self.fsdp, 1),
            "--mesh.tensor": (self.tensor, 1),
            "--training.micro_batches": (self.micro_batches, 1),
            "--training.remat": (self.remat, "none"),
        }
        words = [f"{flag} {x}" for flag, (x, default) in flags.items() if x != default]
        return " ".join([f"--mesh.data {self.data}", *words])

    def step(self, setup: Setup, devices: list[Device]) -> Step:
        """Return a run's first step with these settings.

        Raises:
          InputError: the batch does not divide over the mesh.
        """
        experiment = setup.experiment
        training = dataclasses.replace(
            experiment.training, micro_batches=self.micro_batches, remat=self.remat
        )
        mesh = MeshShape(data=self.data, fsdp=self.fsdp, tensor=self.tensor)
        changed = dataclasses.replace(
            setup,
            experiment=dataclasses.replace(experiment, training=training, mesh=mesh),
            network=dataclasses.replace(setup.network, remat=self.remat),
        )
        return Step.of_setup(changed, mesh.make(devices))


Compile = Callable[[Settings], StepPlan]
Plans = Sequence[tuple[Settings, StepPlan]]


@dataclasses.dataclass(frozen=True)
class StepWithRemedy:
    """A step's plan; if it does not fit, peaks in bytes by the flags that do."""

    step: StepPlan
    remedy: str | None = None
    fitting: dict[str, int] = dataclasses.field(default_factory=dict)

    def to_json(self) -> str:
        """Return the plan as one JSON object."""
        values = dataclasses.asdict(self)
        return json.dumps(values.pop("step") | values)


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """Plans of several settings, those that fit by their bound per row."""

    fitting: Plans
    failing: Plans
    left: int

    def to_json(self) -> str:
        """Return the plans as one JSON object."""
        plans = {
            name: [dataclasses.asdict(step) | {"flags": x.flags()} for x, step in pairs]
            for name, pairs in (("fitting", self.fitting), ("failing", self.failing))
        }
        return json.dumps(plans | {"not_tried": self.left})

    def table(self) -> str:
        """Format the settings that fit as lines, with the number of those tried."""
        lines = []
        if self.fitting:
            lines.append("ms at least    rows      GiB    MB sent  settings")
        for settings, step in self.fitting:
            sent = sum(sums["wire"] for sums in (step.collectives or {}).values())
            lines.append(
                f"{1e3 * (step.bound or 0):11,.2f}  {step.rows:6}  "
                f"{step.peak / _GIB:7,.2f}  {sent / 1e6:9,.1f}  {settings.flags()}"
            )
        tried = len(self.fitting) + len(self.failing)
        total = f"{len(self.fitting)} of {tried} settings tried fit"
        lines.append(total + (f"; {self.left} were not tried" if self.left else ""))
        return "\n".join(lines)


def plan(setup: Setup, topology: Topology, note: Note) -> StepWithRemedy:
    """Plan a run's step; where it does not fit, try settings that reduce memory.

    Raises:
      InputError: the mesh does not fit the devices, the batch does not divide over the
        mesh, or the compiler refuses the step.
    """
    devices = topology.devices()
    check_memory(setup, topology.device.memory * len(devices))
    first = Step.of_setup(setup, setup.experiment.mesh.make(devices))
    step = plan_step(first, topology)
    if step.fits:
        return StepWithRemedy(step)
    now = Settings(**step.mesh, micro_batches=step.micro_batches, remat=step.remat)
    fitting = fitting_remedies(
        now,
        first.rows_per_device,
        lambda x: plan_step(x.step(setup, devices), topology),
        note,
    )
    return StepWithRemedy(step, remedy_line(step, fitting), fitting)


def fitting_remedies(
    now: Settings, rows: int, compile_settings: Compile, note: Note
) -> dict[str, int]:
    """Try remat, fsdp and micro-batches, and where none is enough all of them.

    Return the peak in bytes of the settings that fit, by their flags. `rows` is the row
    count of a device.
    """
    fitting: dict[str, int] = {}
    single, together = remedies(now, rows)
    for group in [*single, together]:
        if group is together and fitting:
            break
        for settings in group:
            note(f"does not fit; trying {settings.flags()}")
            step = compile_settings(settings)
            if step.fits:
                fitting[settings.flags()] = step.peak
                break  # of more micro-batches, say, the fewest are enough
    return fitting


def remedies(now: Settings, rows: int) -> tuple[list[list[Settings]], list[Settings]]:
    """Return settings that take less memory: groups of one change each, and all."""
    sharded = dataclasses.replace(now, data=1, fsdp=now.data * now.fsdp)
    micro = with_micro_batches(now, rows)
    groups = with_remat(now), [sharded], micro
    single = [group for group in groups if group and group != [now]]
    most = max(settings.micro_batches for settings in [now, *micro])
    together = dataclasses.replace(sharded, micro_batches=most, remat="layer")
    tried = [now, *itertools.chain(*single)]
    return single, [] if together in tried else [together]


def with_remat(now: Settings) -> list[Settings]:
    """Return settings that recompute more, the cheapest first."""
    policies = typing.get_args(Remat)
    more = policies[policies.index(now.remat) + 1 :]
    return [dataclasses.replace(now, remat=policy) for policy in more]


def with_micro_batches(now: Settings, rows: int) -> list[Settings]:
    """Return settings with more micro-batches, powers of two that divide the rows.

    >>> [x.micro_batches for x in with_micro_batches(Settings(4), rows=12)]
    [2, 4]
    """
    powers = (2**k for k in range(1, rows.bit_length()))
    return [
        dataclasses.replace(now, micro_batches=count)
        for count in powers
        if rows % count == 0 and count > now.micro_batches
    ]


def remedy_line(step: StepPlan, fitting: dict[str, int]) -> str:
    """Describe in one line what would make a step fit."""
    lead = f"does not fit: {amount(step.peak)} of {amount(step.memory)}; "
    if not fitting:
        return lead + (
            "nor do remat, fsdp and micro-batches together: take shorter or fewer rows "
            "(--training.max_length, --training.batch_size) or more devices"
        )
    ways = (f"{flags} ({amount(size)})" for flags, size in fitting.items())
    return lead + "these do: " + "; ".join(ways)


def find(setup: Setup, topology: Topology, note: Note) -> SearchResult:
    """Try meshes; where one does not fit, with remat or more micro-batches.

    The run's mesh, micro-batches and remat are ignored.

    Raises:
      InputError: the batch fits no mesh.
    """
    devices = topology.devices()
    check_memory(setup, topology.device.memory * len(devices))
    encoder = setup.network.encoder
    names = ("num_key_value_heads", "num_attention_heads", "n_head")
    heads = next((getattr(encoder, x) for x in names if hasattr(encoder, x)), 1)
    candidates: list[tuple[Settings, int]] = []
    refusal: InputError | None = None
    for settings in meshes(len(devices), heads):
        try:
            step = settings.step(setup, devices)
            candidates.append((settings, step.rows_per_device))
        except InputError as error:  # the rows do not divide over this mesh
            refusal = error
    if refusal and not candidates:
        raise refusal
    return try_all(
        candidates, lambda x: plan_step(x.step(setup, devices), topology), note
    )


def try_all(
    candidates: Iterable[tuple[Settings, int]],
    compile_settings: Compile,
    note: Note,
    most: int = MOST,
) -> SearchResult:
    """Try meshes with their rows per device, with more if they do not fit."""
    fitting: list[tuple[Settings, StepPlan]] = []
    failing: list[tuple[Settings, StepPlan]] = []
    skipped = 0
    for mesh, rows in candidates:
        for group in ([mesh], with_remat(mesh), with_micro_batches(mesh, rows)):
            fits = False
            for settings in group:
                if len(fitting) + len(failing) == most:
                    skipped += 1
                    continue
                step = compile_settings(settings)
                fits = step.fits
                result = amount(step.peak) + ("" if fits else ", does not fit")
                if fits and step.bound:
                    result += f", {1e3 * step.bound:,.1f} ms"
                note(f"{settings.flags()}: {result}")
                (fitting if fits else failing).append((settings, step))
                if fits:
                    break
            if fits and group == [mesh]:
                break  # remat and micro-batches would only take time
    fitting.sort(key=lambda pair: (pair[1].bound or math.inf) / pair[1].rows)
    return SearchResult(tuple(fitting), tuple(failing), skipped)


def meshes(devices: int, heads: int) -> list[Settings]:
    """Return the meshes to try.

    Rows are split over all of `data`, all of `fsdp`, or about as much of each; and
    layers over up to eight devices, where these divide the heads.

    >>> [(x.data, x.fsdp, x.tensor) for x in meshes(4, heads=2)]
    [(4, 1, 1), (2, 2, 1), (1, 4, 1), (2, 1, 2), (1, 2, 2)]
    """
    candidates = []
    for tensor in _divisors(math.gcd(devices, heads)):
        if tensor > _LARGEST_TENSOR:
            break
        rows = devices // tensor
        middle = max(d for d in _divisors(rows) if d * d <= rows)
        for fsdp in sorted({1, middle, rows}):
            candidates.append(Settings(data=rows // fsdp, fsdp=fsdp, tensor=tensor))
    return candidates


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]
