"""Accelerators that a step can be compiled for without one, as data."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
from jax.experimental import topologies

from dicejax.errors import InputError, first_line, hint, quote
from dicejax.training.throughput import peak_flops

# Read once, when libtpu is loaded. Without them it asks Google Cloud what machine this
# is, logs that it cannot tell, and allows one process of a machine to load it.
_LIBTPU = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-16",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
_COMPILERS = {
    "tpu": ("plan-tpu", ["libtpu"]),
    "cuda": ("plan-gpu", ["jax_cuda13_plugin", "jax_cuda12_plugin"]),
}
_FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"


@dataclasses.dataclass(frozen=True)
class Device:
    """A kind of accelerator, such as `v5e`, on the platform `tpu` or `cuda`.

    Attributes:
      kind: JAX's name of the device, `jax.Device.device_kind`.
      memory: bytes that a program can use; for TPUs the compiler's limit.
      bandwidth: bytes per second between chip and memory.
      wire: bytes per second that it can send, on all links of a TPU or by NVLink.
      clock: cycles per second; for TPUs the peak divided by the operations per cycle.
      dimensions: numbers in a topology's size: 2 for `4x4`, 1 for a count.
      chips: largest number of connected chips.
      options: libtpu's options, or XLA's description of a GPU.
      source: page with these figures.
    """

    name: str
    platform: str
    kind: str
    memory: int
    bandwidth: float
    wire: float
    clock: float
    dimensions: int
    chips: int
    options: Mapping[str, Any]
    source: str

    @property
    def flops(self) -> float:
        """Peak operations per second in bfloat16."""
        peak = peak_flops(self.kind)
        assert peak is not None, self.kind
        return peak

    @property
    def usable(self) -> int:
        """Bytes that the arrays of a step may take.

        On a GPU JAX takes three quarters of the memory, or the share that the
        environment's XLA_PYTHON_CLIENT_MEM_FRACTION names.

        Raises:
          InputError: the environment names no share.
        """
        if self.platform != "cuda":
            return self.memory
        text = os.environ.get(_FRACTION, "0.75")
        try:
            share = float(text)
        except ValueError:
            share = math.nan
        if not 0 < share <= 1:
            raise InputError(
                f"{_FRACTION} is {quote(text)}; want more than 0, at most 1"
            )
        return int(share * self.memory)


_ROWS = json.loads(Path(__file__).with_name("topologies.json").read_text())
DEVICES = {name: Device(name=name, **row) for name, row in _ROWS.items()}


@dataclasses.dataclass(frozen=True)
class Topology:
    """Connected accelerators, by the length of each dimension; GPUs by their number."""

    device: Device
    size: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.device.name}:{'x'.join(map(str, self.size))}"

    def devices(self) -> list[Any]:
        """Return the devices, for which programs can be compiled but not run.

        Raises:
          InputError: the compiler is not installed, or does not know the topology.
        """
        extra, packages = _COMPILERS[self.device.platform]
        if not any(map(importlib.util.find_spec, packages)):
            remedy = f"in the checkout: pip install -e '.[{extra}]'"
            raise InputError(f"the compiler for this topology is missing: {remedy}")
        name, options = str(self), dict(self.device.options)
        if self.device.platform == "cuda":
            name, [count] = "", self.size
            options = {
                "target_config": protobuf_text(options),
                "topology": f"1x1x{count}",  # slices, hosts, devices of a host
            }
        elif any(length % 2 for length in self.size[:2]):  # not of whole hosts
            options["chips_per_host_bounds"] = [1, 1, 1]
        try:
            topology = topologies.get_topology_desc(
                name, self.device.platform, **options
            )
        except (RuntimeError, NotImplementedError) as error:
            raise InputError(f"topology {self}: {first_line(error)}") from error
        return list(topology.devices)


def parse_topology(name: str) -> Topology:
    """Return the topology of a name such as `v5e:4x4` or `h100:8`.

    Raises:
      InputError: the name is not that of a topology.
    """
    kind, _, size = name.partition(":")
    if kind not in DEVICES:
        raise InputError(
            f"topology {quote(name)} is unknown; known: {', '.join(examples())}"
            f"{hint(kind, DEVICES)}"
        )
    device = DEVICES[kind]
    if not re.fullmatch(r"[1-9]\d{0,4}(x[1-9]\d{0,4})*", size):
        raise InputError(f"topology {quote(name)} has no size; {_want(device)}")
    lengths = tuple(map(int, size.split("x")))
    if len(lengths) != device.dimensions:
        raise InputError(f"topology {quote(name)} has the wrong size; {_want(device)}")
    if math.prod(lengths) > device.chips:
        raise InputError(
            f"topology {name} has {math.prod(lengths)} chips; "
            f"at most {device.chips} {kind} are connected"
        )
    return Topology(device, lengths)


def examples() -> list[str]:
    """Return a name of a topology of each kind of device."""
    sizes = {1: "8", 2: "4x4", 3: "2x2x1"}
    return [f"{name}:{sizes[device.dimensions]}" for name, device in DEVICES.items()]


def _want(device: Device) -> str:
    words = {1: "a number of devices", 2: "two lengths", 3: "three lengths"}
    [example] = [name for name in examples() if name.startswith(f"{device.name}:")]
    return f"want {words[device.dimensions]}, as in {example}"


def without_devices() -> None:
    """Let JAX use the CPU alone, before it is used, and quieten the compilers.

    The machine's devices are left alone: a run may be using them.
    """
    os.environ.update(_LIBTPU)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    jax.config.update("jax_platforms", "cpu")


def protobuf_text(fields: Mapping[str, Any]) -> str:
    """Write a message in protobuf's text format."""
    lines = []
    for name, value in fields.items():
        if isinstance(value, Mapping):
            lines.append(f"{name} {{\n{protobuf_text(value)}\n}}")
        else:
            lines.append(f"{name}: {json.dumps(value)}")
    return "\n".join(lines)
