"""Settings of the process: huge pages, fewer copies, no logs of no use to the user.

All are set before any import that takes long.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
import platform
import sys
from pathlib import Path
from typing import Any

_TUNABLES = "GLIBC_TUNABLES"
_HUGE = ("hugetlb=1",)
# One arena that grows and never shrinks. Each other arena holds 64 MiB at most, and
# larger allocations would be mapped and unmapped each time.
_KEPT = ("arena_max=1", "mmap_max=0", "trim_threshold=1099511627776")
_IN_PLACE = "xla_cpu_copy_insertion_use_region_analysis"
_HAVE_IN_PLACE = ("0.10.", "0.11.", "0.12.")
_ACCELERATORS = ("nvidiactl", "dxg", "kfd", "accel*", "vfio/[0-9]*")  # in Linux's /dev


def use_huge_pages() -> None:
    """Restart this program with glibc asking Linux for transparent huge pages.

    XLA allocates the buffers of each step anew. With pages of 4 KiB the kernel clears
    hundreds of thousands of them per step, a third of the time of a training step on
    the CPU; with pages of 2 MiB up to a fifth. So that it clears them once, glibc keeps
    memory that is freed where JAX computes on the CPU; its threads then share an arena.
    glibc reads its settings only at start. Does nothing where glibc is not the C
    library, GLIBC_TUNABLES already decides, or DICEJAX_HUGE_PAGES is 0.
    """
    tunables = os.environ.get(_TUNABLES, "")
    if (
        sys.platform != "linux"
        or platform.libc_ver()[0] != "glibc"
        or "glibc.malloc.hugetlb" in tunables
        or os.environ.get("DICEJAX_HUGE_PAGES") == "0"
    ):
        return
    settings = _HUGE if _has_accelerator() else _HUGE + _KEPT
    ours = ":".join(f"glibc.malloc.{setting}" for setting in settings)
    # Of two settings of one name glibc takes the last.
    os.environ[_TUNABLES] = f"{ours}:{tunables}" if tunables else ours
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def spare_copies() -> None:
    """Have XLA look closer for arrays that a program for CPUs may overwrite.

    By default a training step copies both moments of AdamW before it overwrites them,
    since the update of the parameters reads them too: a tenth of a step or more.
    XLA_FLAGS that decide it themselves stay, and other versions of jaxlib than those
    that are known to have the flag are left alone: XLA aborts on one that it has not.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    is_known = importlib.metadata.version("jaxlib").startswith(_HAVE_IN_PLACE)
    if is_known and _IN_PLACE not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{_IN_PLACE}=true".strip()


def quieten() -> None:
    """Silence logs of orbax, asyncio, tensorstore and, on a CPU, XLA.

    When a checkpoint cannot be written, orbax logs a traceback for each of its threads,
    asyncio one for each array after the first, and tensorstore one for each whose event
    loop is gone: hundreds of lines around the one that says what to do. XLA logs "Very
    slow compile?" as an error; with an accelerator its errors may name the cause.
    """
    from absl import logging as absl_logging

    absl_logging.set_verbosity(absl_logging.FATAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    sys.unraisablehook = _unless_loop_is_closed
    if any(importlib.util.find_spec(name) for name in ("jax_plugins", "libtpu")):
        if _has_accelerator() or sys.platform != "linux":
            return
        # Only compilers are installed; JAX would look for their devices, and log it.
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def _has_accelerator() -> bool:
    return any(any(Path("/dev").glob(name)) for name in _ACCELERATORS)


def _unless_loop_is_closed(unraisable: Any) -> None:
    """Show errors that nobody can catch, except those of tensorstore's callbacks."""
    if str(unraisable.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(unraisable)
