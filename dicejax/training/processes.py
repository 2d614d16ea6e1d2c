"""Several processes that train one network."""

from __future__ import annotations

import jax
from jax.experimental import multihost_utils


def is_main_process() -> bool:
    """Return whether this process writes for all."""
    return jax.process_index() == 0


def barrier(name: str) -> None:
    """Wait until every process has reached this point."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)
