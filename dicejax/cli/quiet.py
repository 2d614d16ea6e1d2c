"""Silence library logs that the user can do nothing about."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from typing import Any

from absl import logging as absl_logging


def quieten() -> None:
    """Silence the loggers of orbax, asyncio and tensorstore.

    When a checkpoint cannot be written, orbax logs a traceback for each of its threads,
    asyncio one for each array after the first, and tensorstore one for each whose event
    loop is gone: hundreds of lines around the one that says what to do.
    """
    absl_logging.set_verbosity(absl_logging.FATAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    sys.unraisablehook = _unless_loop_is_closed
    _silence_slow_compiles()


def _silence_slow_compiles() -> None:
    """Silence XLA's "Very slow compile?", an error log that only its level turns off.

    Call it before JAX is imported. With an accelerator the logs stay: there an error of
    XLA may name the cause. So do those of several processes, which `lost` reads.
    """
    accelerators = ("jax_plugins", "libtpu")
    if any(importlib.util.find_spec(name) for name in accelerators):
        return
    if any(word.startswith("--processes") for word in sys.argv):
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def _unless_loop_is_closed(what: Any) -> None:
    """Show errors that nobody can catch, except those of tensorstore's callbacks."""
    if str(what.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(what)
