"""Throughput of training: tokens per second, padding, waiting, utilisation, memory.

For that the peak speeds of devices as specified, and the CPUs without bfloat16.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import resource
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh

import dicejax
from dicejax.mesh import Device
from dicejax.models.bert import PostNormConfig
from dicejax.models.deberta import DebertaConfig
from dicejax.models.encoder import EncoderConfig
from dicejax.models.modernbert import ModernBertConfig
from dicejax.models.xlnet import XLNetConfig

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


class Throughput:
    """Throughput of training, with a clock paused for compilation and evaluation.

    Devices work asynchronously. Counts therefore enter the figures at the next `pause`,
    before which the host must have waited for the last step. The clock is paused at the
    beginning. The devices are those that share the batches counted.

    `sums` are tokens and places of all steps; of the time for which the clock ran the
    seconds, those in which the host waited for a batch, and the tokens.
    """

    def __init__(
        self,
        devices: Sequence[Device] = (),
        *,
        flops_per_token: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ):
        self._devices = tuple(devices)
        self._flops_per_token = flops_per_token
        self._clock = clock
        names = ("seconds", "waiting", "timed_tokens", "tokens", "places")
        self.sums: dict[str, float] = dict.fromkeys(names, 0.0)
        self._since: float | None = None
        # Since the clock runs; added to the sums at the next pause.
        self._tokens, self._waiting = 0, 0.0

    def count(self, tokens: int, places: int) -> None:
        """Count a step: the real tokens and all places of its batch."""
        self.sums["tokens"] += tokens
        self.sums["places"] += places
        if self._since is not None:
            self._tokens += tokens

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Time the wait for the next batch on the host; devices may still be busy."""
        start = self._clock()
        try:
            yield
        finally:
            if self._since is not None:
                self._waiting += self._clock() - start

    def pause(self) -> None:
        """Stop the clock; all counted steps have been computed."""
        if self._since is None:
            return
        self.sums["seconds"] += self._clock() - self._since
        self.sums["waiting"] += self._waiting
        self.sums["timed_tokens"] += self._tokens
        self._since, self._waiting, self._tokens = None, 0.0, 0

    def resume(self) -> None:
        """Let the clock run."""
        if self._since is None:
            self._since = self._clock()

    @property
    def seconds(self) -> float:
        """Time that all counted steps take at the measured rate."""
        sums = self.sums
        share = sums["tokens"] / sums["timed_tokens"] if sums["timed_tokens"] else 0.0
        return sums["seconds"] * share

    def values(self) -> dict[str, float]:
        """Return the figures from the beginning to the last `pause`.

        Returns:
          `tokens_per_s`: real tokens per second, of all devices together.
          `padding_share`: share of the places that held no token, in all steps.
          `wait_share`: share of the time in which the host waited for a batch.
          `mfu`: model FLOPs utilisation, the operations that the tokens needed as a
          share of those that the devices reach at best; only where both are known.
          `memory_gib`: the most that was in use at once in any of this process's
          devices, or in the process where they do not report it.
        """
        sums = self.sums
        seconds, places = sums["seconds"], sums["places"]
        rate = sums["timed_tokens"] / seconds if seconds else 0.0
        values = {
            "tokens_per_s": rate,
            "padding_share": 1 - sums["tokens"] / places if places else 0.0,
            "wait_share": sums["waiting"] / seconds if seconds else 0.0,
        }
        speeds = [peak_flops(device.device_kind) for device in self._devices]
        reached = [speed for speed in speeds if speed is not None]
        if (
            self._flops_per_token is not None
            and reached
            and len(reached) == len(speeds)
        ):
            values["mfu"] = rate * self._flops_per_token / sum(reached)
        local = [d for d in self._devices if d.process_index == jax.process_index()]
        stats = [device.memory_stats() or {} for device in local]
        peaks = [s["peak_bytes_in_use"] for s in stats if "peak_bytes_in_use" in s]
        memory = max(peaks) if peaks else _peak_resident()
        return values | {"memory_gib": memory / 2**30}


def _peak_resident(status: Path = Path("/proc/self/status")) -> float:
    """Return the most bytes of this process that were in memory at once."""
    # Linux's getrusage also counts the program before exec: it comes second.
    with contextlib.suppress(OSError):  # another system, or too many open files
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024.0 * int(line.split()[1])
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(largest) * (1 if sys.platform == "darwin" else 1024)


def flops_per_token(config: EncoderConfig, lengths: Sequence[int]) -> float | None:
    r"""Return the mean floating-point operations that training on a token needs.

    Counted are the matrix products, each multiplication and each addition, as in
    Chowdhery et al., 2022 (PaLM, https://arxiv.org/abs/2204.02311), appendix B. One
    token passes through each layer's kernels, of 4 D^2 + 2 D F entries (query, key,
    value, output, and the two of the feed-forward part), and attends to the n tokens of
    its sequence; in the mean over tokens n is :math:`\sum_i n_i^2 / \sum_i n_i`:

    .. math::
       \text{forward} = L \, (2 (4 D^2 + 2 D F) + 2 a D n), \quad
       \text{training} = 3 \cdot \text{forward},

    with `a` products of D entries for each pair of tokens: 2 in BERT, of query and key
    and of weight and value; 3 in XLNet, whose queries meet the encoding of the distance
    too; 4 in DeBERTa, whose keys meet it as well. The backward pass has two products
    for each of the forward pass. ELECTRA's projection of narrower embeddings, E by D,
    is counted. Gated feed-forward parts (ModernBERT, GTE, Nomic BERT, EuroBERT) have
    3 D F entries; keys and values of fewer heads, EuroBERT's, have fewer. Where
    ModernBERT has windows a token attends to at most theirs.

    Not counted: padding and attention across sentences of a row; recomputation
    (`remat`); scores of positions beyond the n distances that a token needs, and the
    projection of the distances' encodings, once a batch; embedding tables, which
    are looked up; heads, normalisation, softmax, activations, loss and optimizer.

    >>> from dicejax.models.bert import BertConfig
    >>> flops_per_token(BertConfig(vocab_size=28996), [128]) / 1e6
    523.763712

    Args:
      config: the encoder; of one whose formula is not known the result is None.
      lengths: number of tokens of each sequence, as packed, not of the rows.
    """
    counts = np.asarray(lengths, np.float64)
    length = float((counts**2).sum() / max(counts.sum(), 1.0))
    width = keys = config.width
    match config:
        case PostNormConfig():
            keys = config.key_width
            # A gate is a third kernel, a half more than the others'.
            inner, products = (1 + config.is_gated / 2) * config.intermediate_size, 2
            if isinstance(config, DebertaConfig):
                products += len(config.terms)
            projection = config.is_projected * config.embedding_width * config.width
        case XLNetConfig():
            inner, products, projection = config.d_inner, 3, 0
        case ModernBertConfig():
            inner, products, projection = 1.5 * config.intermediate_size, 2, 0
        case _:
            return None
    kernels = config.depth * 2 * width * (width + keys + inner) + projection
    read = config.depth * length
    if isinstance(config, ModernBertConfig):
        near = min(length, 2 * config.window + 1)
        read = sum(length if full else near for full in config.full_layers)
    attention = products * width * read
    return 3 * 2.0 * (kernels + attention)


def peak_flops(device_kind: str) -> float | None:
    """Return the peak floating-point operations per second of a device.

    Dense matrix products in bfloat16, whatever the run computes in; float16 for the T4
    and the V100, which lack bfloat16.

    >>> peak_flops("TPU v4")
    275000000000000.0

    Returns:
      None for an unknown `jax.Device.device_kind`, also of a part of a device ("... MIG
      1g.5gb").
    """
    return _BY_KIND.get(device_kind)


def machine_of(mesh: Mesh) -> dict[str, str]:
    """Return what the order and rounding of sums depend on (docs/limits.md)."""
    device = mesh.devices.flat[0]
    machine = {
        "devices": f"{mesh.size} x {device.device_kind}",
        "jax": jax.__version__,
    }
    if device.platform == "cpu" and sys.platform == "linux":
        lists = re.findall(_INSTRUCTIONS, _LINUX.read_text(errors="replace"), re.M)
        machine["cores"] = str(len(os.sched_getaffinity(0)))
        machine["instructions"] = f"{zlib.crc32(' '.join(lists[:1]).encode()):x}"
    return machine


def versions() -> dict[str, str]:
    """Return the versions of the libraries that numbers depend on, by name."""
    names = ("jax", "jaxlib", "flax", "optax")
    libraries = {name: metadata.version(name) for name in names}
    python = {"python": platform.python_version()}
    return {"dicejax": dicejax.__version__, **libraries, **python}


_INSTRUCTIONS = r"^(?:flags|Features)\s*:(.*)$"
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
    lists = re.findall(_INSTRUCTIONS, text, re.MULTILINE)
    return any(_BFLOAT16.isdisjoint(flags.split()) for flags in lists)
