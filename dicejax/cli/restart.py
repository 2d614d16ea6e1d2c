"""Restart the command with huge pages for the large buffers of a step on the CPU."""

from __future__ import annotations

import os
import platform
import sys

_TUNABLES = "GLIBC_TUNABLES"
_HUGE = "glibc.malloc.hugetlb=1"


def use_huge_pages() -> None:
    """Restart this program with glibc asking Linux for transparent huge pages.

    XLA allocates the buffers of each step anew. With pages of 4 KiB the kernel clears
    hundreds of thousands of them per step, a third of the time of a training step on
    the CPU; with pages of 2 MiB that cost all but vanishes. glibc reads its settings
    only at start, so call this before any import that takes long. Does nothing where
    glibc is not the C library, GLIBC_TUNABLES already decides, or DICEJAX_HUGE_PAGES
    is 0.
    """
    tunables = os.environ.get(_TUNABLES, "")
    if (
        sys.platform != "linux"
        or platform.libc_ver()[0] != "glibc"
        or "glibc.malloc.hugetlb" in tunables
        or os.environ.get("DICEJAX_HUGE_PAGES") == "0"
    ):
        return
    os.environ[_TUNABLES] = f"{tunables}:{_HUGE}" if tunables else _HUGE
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
