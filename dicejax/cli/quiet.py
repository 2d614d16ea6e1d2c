"""Silence library logs that the user can do nothing about."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import logging
import os
import sys
from pathlib import Path
from typing import Any

from absl import logging as absl_logging

from dicejax.io.terminal import hushed


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
    if any(word.startswith("--processes") for word in sys.argv):
        return
    accelerators = ("jax_plugins", "libtpu")
    if any(importlib.util.find_spec(name) for name in accelerators):
        if sys.platform != "linux" or _accelerators():
            return
        _use_cpu()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def _accelerators(devices: Path = Path("/dev")) -> bool:
    """Return whether Linux has a GPU or TPU that JAX may use."""
    names = ("nvidiactl", "dxg", "kfd", "accel*", "vfio/[0-9]*")
    return any(any(devices.glob(name)) for name in names)


def _use_cpu() -> None:
    """Let JAX use the CPU where only compilers for accelerators are installed.

    It would look for the devices that they are for, and log at length that there are
    none; the CUDA plugin logs it whenever it is loaded.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with hushed():
        importlib.import_module("jax")
        for name in ("jax_plugins.xla_cuda12", "jax_plugins.xla_cuda13"):
            with contextlib.suppress(ImportError, OSError):
                place = getattr(importlib.util.find_spec(name), "origin", None)
                if place is not None:
                    ctypes.CDLL(str(Path(place).with_name("xla_cuda_plugin.so")))


def _unless_loop_is_closed(what: Any) -> None:
    """Show errors that nobody can catch, except those of tensorstore's callbacks."""
    if str(what.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(what)
