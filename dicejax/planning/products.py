"""Operations of matrix products and convolutions in optimised HLO."""

from __future__ import annotations

import functools
import math
import re

import numpy as np

from dicejax.planning.hlo import Computation, Instruction


def product_flops(one: Instruction, computation: Computation) -> float:
    """Return the operations of a matrix product or convolution; 0 for others.

    Args:
      one: the instruction.
      computation: that it is in.
    """
    if one.op == "dot":
        contracted = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", one.attributes)
        left = computation[one.operands[0]].shapes[0].dims
        axes = [int(x) for x in contracted[1].split(",") if x] if contracted else []
        inner = math.prod(left[axis] for axis in axes)
        return 2.0 * math.prod(one.shapes[0].dims) * inner
    if one.op == "convolution":
        return _convolution_flops(one, computation)
    return 0.0


def _convolution_flops(one: Instruction, computation: Computation) -> float:
    """Count the pairs of input and kernel that meet, as products on TPUs are written.

    Batched products are convolutions over the axes of the batch there, padded and
    dilated so that each place meets one other: padding does not count.
    """
    [labels] = re.findall(r"dim_labels=(\w+?)_(\w+?)->(\w+)", one.attributes)
    left = dict(
        zip(labels[0], computation[one.operands[0]].shapes[0].dims, strict=True)
    )
    right = dict(
        zip(labels[1], computation[one.operands[1]].shapes[0].dims, strict=True)
    )
    out = dict(zip(labels[2], one.shapes[0].dims, strict=True))
    window = re.search(r"window=\{([^}]*)\}", one.attributes)
    settings = dict(x.split("=") for x in window[1].split()) if window else {}
    axes = sorted(axis for axis in out if axis.isdigit())
    met = 1
    for place, axis in enumerate(axes):

        def part(key: str, default: str, place: int = place) -> str:
            return settings[key].split("x")[place] if key in settings else default

        met *= pairs_met(
            left[axis],
            right[axis],
            out[axis],
            stride=int(part("stride", "1")),
            padding=int(part("pad", "0_0").split("_")[0]),
            left_dilation=int(part("lhs_dilate", "1")),
            right_dilation=int(part("rhs_dilate", "1")),
        )
    return 2.0 * out["b"] * out["f"] * right["i"] * met


@functools.lru_cache(maxsize=4096)
def pairs_met(
    length: int,
    kernel: int,
    out: int,
    *,
    stride: int = 1,
    padding: int = 0,
    left_dilation: int = 1,
    right_dilation: int = 1,
) -> int:
    """Count the products along one axis of a convolution that are not with padding.

    >>> pairs_met(4, 3, 2), pairs_met(4, 3, 4, padding=1)
    (6, 10)

    Args:
      length: of the input.
      kernel: length of the kernel.
      out: length of the output.
      stride: places of the input between those of the output.
      padding: places before the input.
      left_dilation: distance of the input's entries from one another.
      right_dilation: distance of the kernel's.
    """
    places = np.arange(out)[:, None] * stride + np.arange(kernel) * right_dilation
    places = places - padding
    inside = (places >= 0) & (places <= (length - 1) * left_dilation)
    return int((inside & (places % left_dilation == 0)).sum())
