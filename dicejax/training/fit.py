"""The loop over the steps of runs, which can end at any of them and go on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import jax
import numpy as np

from dicejax.data.pipeline import Batches, Packed
from dicejax.errors import Diverged
from dicejax.training.member import Member
from dicejax.training.processes import barrier, is_main_process
from dicejax.training.result import result_of
from dicejax.training.runs.companions import Companions
from dicejax.training.sharding import (
    global_batch,
    replicate,
    rows_here,
    to_host,
)
from dicejax.training.signals import Stopped, StopRequest
from dicejax.training.state import TrainState
from dicejax.training.step import train_step
from dicejax.training.steps.stack import restacked, stacked, train_steps, unstacked

Taken = tuple[Packed, ...]
Fed = Iterator[tuple[Taken, Mapping[str, jax.Array]]]


class _AskedToStop(Exception):
    pass


class Fit:
    """Runs under way: one, or several that one program steps together.

    One that stood at a later step than the others takes its place when they are there.
    One that is over, because it has fewer steps or was given up, keeps its place in the
    program, where it costs what it would have cost had it gone on.

    Args:
      members: the runs, with their places where the program is of several; they differ
        in nothing that a step is compiled for.
      mesh: the devices; one, where the program is of several runs.
      companions: all that the program is of. Places of those that were over before, or
        wait for their step, hold another run meanwhile: the program stays the same.
    """

    def __init__(
        self, members: Sequence[Member], mesh: jax.sharding.Mesh, companions: Companions
    ):
        self.members = tuple(members)
        self._mesh = mesh
        at = {member.place: member for member in members}
        places = range(len(companions.paths))
        self._at_places = [at.get(place, self.members[0]) for place in places]
        self._room = companions.sequences
        self._stop = StopRequest()
        self._waiting: dict[Member, TrainState] = {}
        self._state: TrainState | None = None

    def finish(self, states: list[TrainState]) -> None:
        """Take all steps that are left and score the runs, each when it ends.

        Args:
          states: of the runs; the list is emptied, that they are not there twice.

        Raises:
          Stopped: a signal asked for it; the states are saved.
          InputError: a checkpoint cannot be written.
        """
        self._waiting = dict(zip(self.members, states, strict=True))
        states.clear()
        with self._stop, self._logs_closed():
            while self._waiting:
                begin = min(member.standing.step for member in self._waiting)
                if not self._enter(begin):
                    self._end_here(begin)
                for step, batches in self._steps(begin):
                    if not self._settle(step, batches) or not self._enter(step):
                        self._end_here(step)
            if self._stop.number is not None:  # asked while the last was written
                self._end_here(max(one.standing.step for one in self.members))

    def _enter(self, step: int) -> bool:
        """Put the runs that stand at a step where they belong, and score what is late.

        Returns:
          Whether no stop was asked for.
        """
        entering = [one for one in self._waiting if one.standing.step == step]
        if not entering:
            return True
        states = {one.place: self._waiting.pop(one) for one in entering}
        if self._alone:
            (self._state,) = states.values()
        elif self._state is None:
            first = states[entering[0].place]
            places = range(len(self._at_places))
            at_places = [states.get(place, first) for place in places]
            self._state = stacked(at_places, self._mesh)
            self._waiting = {
                one: to_host(state, self._mesh) for one, state in self._waiting.items()
            }
        else:
            for place, state in states.items():
                state = replicate(state, self._mesh)
                self._state = restacked(self._state, state, np.int32(place))
        late = [one for one in entering if not one.standing.evaluated]
        return self._end_epochs(step, {one: one.batches[step - 1] for one in late})

    def _settle(self, step: int, batches: Taken) -> bool:
        """Do all that is to be done after a step; returns whether to go on."""
        for member in self._going_on:
            if member.is_due(step) or step in member.ends:
                self._collect(member)
        stop = self._stop.after(step)
        due, ending = self._going_on, {}
        for member, batch in zip(self.members, batches, strict=True):
            if member not in due:
                continue
            if step in member.ends:
                ending[member] = batch
            elif member.is_due(step):
                member.write(step, batch)
        stop = stop or not self._end_epochs(step, ending)
        for member in self._going_on:
            if stop or member.is_kept(step):
                self._collect(member)
        for member in self._going_on:
            if stop or member.is_kept(step):
                member.keep(self._state_of(member))
        return not stop

    def _steps(self, begin: int) -> Iterator[tuple[int, Taken]]:
        """Take steps while a run goes on; yield their numbers and the runs' batches."""
        settings = self.members[0].setup.step_settings(self._mesh)
        # On the devices already, so that no step sends anything but its batch.
        objectives = [member.setup.objective() for member in self._at_places]
        if self._alone:
            take, objective = train_step, replicate(objectives[0], self._mesh)
        else:
            take, objective = train_steps, stacked(objectives, self._mesh)
            del settings["mesh"]
        batches = self._fed(begin)
        compiled: set[tuple[int, ...]] = set()
        step = begin
        while self._going_on:
            with contextlib.ExitStack() as waiting:
                for member in self._going_on:
                    waiting.enter_context(member.meter.waiting())
                taken, arrays = next(batches)
            step += 1
            shape = arrays["input_ids"].shape
            is_new = shape not in compiled
            if is_new:  # compiling is not timed
                jax.block_until_ready(self._state.step)
                self._each_meter("pause")
            if self._alone:
                member = self.members[0]
                member.gradients.look(
                    step, self._state, arrays, objective, member.meter
                )
            with jax.transfer_guard("allow" if is_new else "disallow"):
                self._state, metrics = take(self._state, arrays, objective, **settings)
            going_on = self._going_on
            for member, batch in zip(self.members, taken, strict=True):
                if member in going_on:
                    member.meter.count(batch.tokens, batch.places)
                    member.take(step, metrics)
            if is_new:
                compiled.add(shape)
                jax.block_until_ready(metrics)
                self._each_meter("resume")
            yield step, taken

    def _fed(self, begin: int) -> Fed:
        """Yield the batches of the members, and the arrays that the program takes."""
        if self._alone:
            return _fed_alone(self.members[0].batches, begin, self._mesh)
        batches = [one.batches for one in self._at_places]
        fed = _fed_together(batches, self._room, begin, self._mesh)
        return (
            (tuple(taken[member.place] for member in self.members), arrays)
            for taken, arrays in fed
        )

    def _end_epochs(self, step: int, ending: Mapping[Member, Packed]) -> bool:
        """Score dev, and test at the end; returns whether no stop was asked for.

        Args:
          step: at which epochs end.
          ending: the runs whose do, with the batch of the step.
        """
        if self._stop.number is not None:
            return False
        last = [one for one in self._going_on if step == len(one.batches)]
        if not ending and not last:
            return True
        self._each_meter("pause")  # its last step is everyone's: nothing is under way
        try:
            for member, batch in ending.items():
                state = self._state_of(member)
                member.end_epoch(step, batch, state, self._look_for_stop)
            for member in last:
                self._finish(member)
        except _AskedToStop:
            return False
        self._each_meter("resume")
        return True

    def _finish(self, member: Member) -> None:
        """Score the test split and write the result."""
        member.checkpoints.wait()
        state = self._state_of(member)
        result = result_of(member, state, self._mesh, self._look_for_stop)
        if is_main_process():
            member.run.write_result(result)
        barrier("the result is there")
        member.end(result)

    def _collect(self, member: Member) -> None:
        try:
            member.collect()
        except Diverged as error:
            if is_main_process():
                member.run.write_diverged(str(error))
            member.end(error)

    def _end_here(self, step: int) -> None:
        for member in self._going_on:
            member.checkpoints.wait()
        raise Stopped(step, self._stop.number)

    def _look_for_stop(self) -> None:
        if self._stop.number is not None:
            raise _AskedToStop

    def _each_meter(self, what: str) -> None:
        for member in self._going_on:
            getattr(member.meter, what)()

    def _state_of(self, member: Member) -> TrainState:
        if self._alone:
            return self._state
        return unstacked(self._state, np.int32(member.place))

    @property
    def _alone(self) -> bool:
        return len(self._at_places) == 1

    @property
    def _going_on(self) -> list[Member]:
        """Those that are neither over nor still wait for their step."""
        return [
            member
            for member in self.members
            if member.goes_on and member not in self._waiting
        ]

    @contextlib.contextmanager
    def _logs_closed(self) -> Iterator[None]:
        """Close the logs of the runs that are not over when something ends the loop."""
        try:
            yield
        finally:
            for member in self.members:
                if member.goes_on:
                    member.close_logs(failed=True)


def _fed_alone(own: Batches, begin: int, mesh: jax.sharding.Mesh) -> Fed:
    """Yield the batches of one run, and their arrays on the mesh."""
    for batch in own.iterate(begin, rows_here=rows_here(own.rows, mesh)):
        yield (batch,), global_batch(batch.arrays, mesh, own.rows)


def _fed_together(
    batches: Sequence[Batches], room: int, begin: int, mesh: jax.sharding.Mesh
) -> Fed:
    """Yield the batches of each run, and their arrays on a new first axis.

    All have room for as many sequences in a row as any needs. What has come to its end
    gives its last batch again. Runs of one order of data share their batches.
    """
    feeds = {
        one: one.holding(room).iterate(min(begin, len(one) - 1), threads=1)
        for one in dict.fromkeys(batches)
    }
    last: dict[Batches, Packed] = {}
    while True:
        last = {one: next(feed, last.get(one)) for one, feed in feeds.items()}
        taken = tuple(last[one] for one in batches)
        arrays = {
            name: np.stack([batch.arrays[name] for batch in taken])
            for name in taken[0].arrays
        }
        yield taken, replicate(arrays, mesh)
