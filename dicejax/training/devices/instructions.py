"""What this machine's processor computes by itself, and what has to be imitated."""

from __future__ import annotations

import re
from pathlib import Path

import jax

_LINUX = Path("/proc/cpuinfo")
_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # the last is Arm's


def imitates_bfloat16(cpuinfo: Path = _LINUX) -> bool:
    """Return whether the CPU is known to have no instructions for bfloat16.

    XLA then widens each number before it computes and rounds it after, which costs: on
    an Intel Xeon (Ice Lake) a BERT of 6 layers trained 1.5 times as fast in float32.

    Args:
      cpuinfo: what Linux says of its processors.

    Returns:
      False where the file is missing or lists no instructions: nothing is known.
    """
    try:
        text = cpuinfo.read_text(errors="replace")
    except OSError:
        return False
    lists = re.findall(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return any(_BFLOAT16.isdisjoint(one.split()) for one in lists)


def remark(precision: str) -> str | None:
    """Return what a user should know of a precision on these devices, if anything."""
    on_cpu = jax.default_backend() == "cpu"
    if precision == "bfloat16" and on_cpu and imitates_bfloat16():
        return (
            "this CPU has no instructions for bfloat16, which is slower than float32 "
            "here: --training.precision float32"
        )
    return None
