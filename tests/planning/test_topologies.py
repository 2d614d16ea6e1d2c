"""Names of topologies, their figures, and messages about wrong names."""

import math
import re

import pytest

from dicejax.errors import InputError
from dicejax.planning import topologies
from dicejax.planning.topologies import DEVICES, parse_topology, protobuf_text


@pytest.mark.parametrize("name", topologies.examples())
def test_each_example_is_known(name):
    topology = parse_topology(name)
    assert str(topology) == name
    device = topology.device
    assert device.flops > device.bandwidth > device.wire > 0
    assert device.memory > 2**33
    assert device.source
    if device.kind.startswith("TPU"):
        per_cycle = math.log2(device.flops / device.clock)
        assert per_cycle == pytest.approx(round(per_cycle), abs=0.01)


@pytest.mark.parametrize(
    "name, message",
    [
        ("v5:4x4", "topology 'v5:4x4' is unknown; known: v4:2x2x1, v5e:4x4"),
        ("", "is unknown"),
        ("v5e", "has no size; want two lengths, as in v5e:4x4"),
        ("v5e:", "has no size"),
        ("v5e:0x4", "has no size"),
        ("v5e:4x4x4", "has the wrong size; want two lengths"),
        ("v5p:4x4", "want three lengths, as in v5p:2x2x1"),
        ("h100:2x4", "want a number of devices, as in h100:8"),
        ("v5e:32x32", "1024 chips; at most 256 v5e are connected"),
        ("h100:9", "at most 8 h100"),
    ],
)
def test_a_wrong_name_is_refused_in_one_line(name, message):
    with pytest.raises(InputError, match=f"^.*{re.escape(message)}.*$"):
        parse_topology(name)


def test_jax_takes_three_quarters_of_a_gpu_by_default(monkeypatch):
    device = DEVICES["h100"]
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)
    assert device.usable == int(0.75 * device.memory)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", ".9")
    assert device.usable == int(0.9 * device.memory)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "much")
    with pytest.raises(InputError, match="want more than 0"):
        _ = device.usable
    assert DEVICES["v5e"].usable == DEVICES["v5e"].memory


def test_a_description_is_protobuf_text():
    text = protobuf_text(DEVICES["h100"].options)
    assert text.startswith("gpu_device_info {\ncuda_compute_capability {\nmajor: 9\n}")
    assert 'device_description_str: "NVIDIA H100 80GB HBM3"' in text
