"""Huge pages for the large buffers of a training step on the CPU."""

from __future__ import annotations

import os
import platform
import sys

_TUNABLES = "GLIBC_TUNABLES"
_HUGE = "glibc.malloc.hugetlb=1"


def use_huge_pages() -> None:
    """Start this program again with glibc asking Linux for transparent huge pages.

    XLA takes the buffers of each step from malloc anew. With pages of 4 KiB the kernel
    clears hundreds of thousands of them per step, which took a third of the time of a
    training step on the CPU; with pages of 2 MiB that share all but vanishes. glibc
    reads its settings only at start, hence the second start, before anything is
    imported that takes long. Does nothing where glibc is not the C library, where
    GLIBC_TUNABLES already decides on it, or where DICEJAX_HUGE_PAGES is 0.
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
