"""Several processes that train one network: who is first, who waits for whom."""

from __future__ import annotations

import dataclasses

import jax
from jax.experimental import multihost_utils

from dicejax.errors import InputError, first_line


@dataclasses.dataclass(frozen=True, kw_only=True)
class Processes:
    """How this process finds the others that take part in the run.

    Args:
      find: let JAX find them: it knows Slurm, Open MPI, Kubernetes and Cloud TPU.
      coordinator: address of the first process, HOST:PORT, where JAX cannot find it.
      count: how many there are; goes with `coordinator`.
      index: the number of this one, from 0; goes with `coordinator`.
    """

    find: bool = False
    coordinator: str | None = None
    count: int | None = None
    index: int | None = None

    def join(self) -> None:
        """Meet the others, if there are to be any.

        Raises:
          InputError: what was given does not fit together, or they cannot be found.
        """
        explicit = (self.coordinator, self.count, self.index)
        if explicit == (None, None, None) and not self.find:
            return
        if not self.find:
            self._check()
        try:
            jax.distributed.initialize(*explicit)
        except (ValueError, RuntimeError) as error:
            raise InputError(
                f"processes: the others cannot be found: {first_line(error)}; name the"
                " first with --processes.coordinator HOST:PORT --processes.count N "
                "--processes.index I"
            ) from error

    def _check(self) -> None:
        if None in (self.coordinator, self.count, self.index):
            raise InputError(
                "processes: --processes.coordinator HOST:PORT, --processes.count and "
                "--processes.index go together"
            )
        if not 0 <= self.index < self.count:
            raise InputError(
                f"processes: index is {self.index}; want 0 to {self.count - 1}"
            )


def is_main_process() -> bool:
    """Whether this process writes what one process writes for all."""
    return jax.process_index() == 0


def barrier(name: str) -> None:
    """Wait until every process has come to this point."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)
