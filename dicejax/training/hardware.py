"""Peak speeds of devices as specified, and CPUs without bfloat16."""

from __future__ import annotations

import re
from pathlib import Path

import jax

_TPU = "https://cloud.google.com/tpu/docs/"
_NVIDIA = "NVIDIA's data sheet of the "

# TFLOP/s of one JAX device, source, and the kinds it holds for. NVIDIA states many
# figures with sparsity: these are the half of them. Where a TPU chip has two cores that
# JAX shows as two devices (v2, v3, 7x), this is half a chip.
_PEAKS = (
    (46 / 2, "jax/_src/pallas/mosaic/tpu_info.py", "TPU v2"),
    (123 / 2, _TPU + "v3", "TPU v3"),
    (275, _TPU + "v4", "TPU v4"),
    (197, _TPU + "v5e", "TPU v5 lite, TPU v5e"),
    (459, _TPU + "v5p", "TPU v5, TPU v5p"),
    (918, _TPU + "v6e", "TPU v6 lite, TPU v6e"),
    (2307 / 2, _TPU + "tpu7x", "TPU7x"),
    (2250, _NVIDIA + "HGX B200", "NVIDIA B200"),
    (2500, _NVIDIA + "GB200 NVL72", "NVIDIA GB200"),
    (989.5, _NVIDIA + "H200", "NVIDIA H200"),
    (835.5, _NVIDIA + "H200", "NVIDIA H200 NVL"),
    (989.5, _NVIDIA + "GH200", "NVIDIA GH200 480GB, NVIDIA GH200 120GB"),
    (989.5, _NVIDIA + "H100", "NVIDIA H100 80GB HBM3"),
    (835.5, _NVIDIA + "H100", "NVIDIA H100 NVL"),
    (756.5, _NVIDIA + "H100", "NVIDIA H100 PCIe"),
    (312, _NVIDIA + "A100", "NVIDIA A100-SXM4-40GB, NVIDIA A100-SXM4-80GB"),
    (312, _NVIDIA + "A100", "NVIDIA A100-SXM-80GB, NVIDIA A100-PCIE-40GB"),
    (312, _NVIDIA + "A100", "NVIDIA A100 80GB PCIe, A100-SXM4-40GB"),
    (312, _NVIDIA + "A100", "A100-SXM-80GB, A100-PCIE-40GB"),
    (165, _NVIDIA + "A30", "NVIDIA A30"),
    (149.7, _NVIDIA + "A40", "NVIDIA A40"),
    (125, _NVIDIA + "A10", "NVIDIA A10"),
    # Not the A10's 125: the tensor cores of AWS's A10G add at half the speed.
    (70, _NVIDIA + "A10G for AWS, 2022", "NVIDIA A10G"),
    (362, _NVIDIA + "L40S", "NVIDIA L40S"),
    (121, _NVIDIA + "L4", "NVIDIA L4"),
    (165.2, "NVIDIA's Ada architecture white paper", "NVIDIA GeForce RTX 4090"),
    (71, "NVIDIA's GA102 white paper", "NVIDIA GeForce RTX 3090"),
    # These have no bfloat16: the figures are of float16.
    (65, _NVIDIA + "T4", "Tesla T4, NVIDIA T4"),
    (125, _NVIDIA + "V100", "Tesla V100-SXM2-16GB, Tesla V100-SXM2-32GB"),
    (112, _NVIDIA + "V100", "Tesla V100-PCIE-16GB, Tesla V100-PCIE-32GB"),
    (130, _NVIDIA + "V100", "Tesla V100S-PCIE-32GB"),
)

_BY_KIND = {
    kind: 1e12 * tera for tera, _, kinds in _PEAKS for kind in kinds.split(", ")
}


def peak_flops(device_kind: str) -> float | None:
    """Return the peak floating-point operations per second of a device.

    Dense matrix products in bfloat16, whatever the run computes in; float16 for the T4
    and the V100, which lack bfloat16.

    >>> peak_flops("TPU v4")
    275000000000000.0

    Args:
      device_kind: as `jax.Device.device_kind` has it. A part of a device ("... MIG
        1g.5gb") is not the device.

    Returns:
      Operations per second; None for an unknown kind.
    """
    return _BY_KIND.get(device_kind)


_LINUX = Path("/proc/cpuinfo")
_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # the last is Arm's


def imitates_bfloat16(cpuinfo: Path = _LINUX) -> bool:
    """Return whether the CPU is known to have no instructions for bfloat16.

    XLA then converts each number back and forth: a BERT of 6 layers trained 1.5 times
    as fast in float32 on an Intel Xeon (Ice Lake).

    Linux describes the processors in a file; where that is missing or lists no
    instructions nothing is known.
    """
    try:
        text = cpuinfo.read_text(errors="replace")
    except OSError:
        return False
    lists = re.findall(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return any(_BFLOAT16.isdisjoint(flags.split()) for flags in lists)


def remark(precision: str) -> str | None:
    """Return a warning of a precision that is slow on these devices, if any."""
    on_cpu = jax.default_backend() == "cpu"
    if precision == "bfloat16" and on_cpu and imitates_bfloat16():
        return (
            "this CPU has no instructions for bfloat16, which is slower than float32 "
            "here: --training.precision float32"
        )
    return None
