"""Steps compiled for TPUs and GPUs that are not there, and the memory they take."""

import importlib.util
import json
import sys

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from dicejax.mesh import MeshShape
from dicejax.models.bert import BertConfig
from dicejax.models.heads import TokenHead
from dicejax.models.network import Network
from dicejax.objectives import SelfAdjustingDice
from dicejax.planning import topologies
from dicejax.planning.step import Step, bytes_needed, plan_step
from dicejax.planning.topologies import parse_topology
from dicejax.training.throughput import flops_per_token

from ..small_project import fails
from ..subprocesses import ROOT, python

QUICKSTART = str(ROOT / "experiments/quickstart.py")
CONFIG = BertConfig(
    vocab_size=512,
    hidden_size=128,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=256,
)
SMALL = {
    "--encoder.num_hidden_layers": 1,
    "--encoder.hidden_size": 128,
    "--encoder.intermediate_size": 512,
    "--encoder.num_attention_heads": 2,
}
# Large vs. the compiler and the program's code.
LARGE = {
    "--encoder.hidden_size": 512,
    "--encoder.num_hidden_layers": 4,
    "--encoder.intermediate_size": 2048,
    "--encoder.vocab_size": 20000,
}
tpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason="plan-tpu: pip install -e '.[plan-tpu]'",
)
gpu = pytest.mark.skipif(
    not any(map(importlib.util.find_spec, ["jax_cuda12_plugin", "jax_cuda13_plugin"])),
    reason="plan-gpu: pip install -e '.[plan-gpu]'",
)


def printed(*argv, **flags):
    """Run a program with these flags, and return its output and errors."""
    done = python(*argv, *(word for pair in flags.items() for word in pair))
    return done.stdout, done.stderr


def planned(**flags):
    start = "from dicejax.cli import main; main()"
    output, errors = printed("-c", start, "plan", QUICKSTART, "--json", **flags)
    return json.loads(output), errors


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    for name, value in topologies._LIBTPU.items():
        monkeypatch.setenv(name, value)


@tpu
def test_the_step_does_the_operations_of_its_parameters():
    topology, rows, length, classes = parse_topology("v5e:2x2"), 8, 64, 3
    network = Network(
        encoder=CONFIG,
        heads=(("tags", TokenHead(classes=classes)),),
        precision="bfloat16",
    )
    mesh = MeshShape(data=2, fsdp=2).make(topology.devices())
    step = Step.of_network(network, SelfAdjustingDice(), mesh, rows=rows, length=length)
    plan = plan_step(step, topology)
    # 6 x parameters x tokens, attention and the head, of a fourth of the rows.
    per_token = flops_per_token(CONFIG, [length]) + 6 * CONFIG.hidden_size * classes
    assert plan.flops == per_token * rows * length / 4
    assert plan.fits and plan.peak < plan.memory
    assert plan.peak >= plan.parameters + plan.optimizer + plan.batch
    assert plan.cycles > plan.flops / 2**17  # at 2**17 operations per cycle
    assert set(plan.collectives) >= {"all-reduce", "all-gather"}
    assert 0 < plan.utilisation["cycles"] <= plan.utilisation["bound"] <= 1
    assert max(plan.seconds.values()) == plan.bound
    # Of fsdp's two parts; biases, norms and indivisible dimensions lie on every device.
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    whole = 4 * sum(leaf.size for leaf in jax.tree.leaves(shapes))
    assert 1 / 2 < plan.parameters / whole < 1.05 / 2
    assert plan.optimizer == pytest.approx(2 * plan.parameters, rel=0.01)  # Adam's


@tpu
def test_a_program_that_does_not_fit_says_how_much_it_needs():
    devices = parse_topology("v5e:2x2").devices()
    everywhere = NamedSharding(MeshShape().make(devices), P())
    size = 2**36  # bytes of the argument, and of the result
    large = jax.ShapeDtypeStruct((size // 4,), jnp.float32, sharding=everywhere)
    with pytest.raises(jax.errors.JaxRuntimeError) as error:
        jax.jit(lambda x: x + 1).lower(large).compile()
    assert 2 * size <= bytes_needed(str(error.value)) < 2.1 * size


@tpu
def test_single_chips_and_pairs_of_cores_are_devices():
    for name, count in [("v5e:1x1", 1), ("v4:2x2x1", 4), ("tpu7x:2x2x1", 8)]:
        devices = parse_topology(name).devices()
        assert len(devices) == count
        assert devices[0].device_kind == parse_topology(name).device.kind


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("v5e:2x2", marks=tpu),
        pytest.param("h100:4", marks=[gpu, pytest.mark.exhaustive]),
    ],
)
def test_the_command_prints_json_and_nothing_else(name):
    values, errors = planned(**{"--topology": name, "--mesh.fsdp": 4}, **SMALL)
    cuda = ("Could not find cuda drivers", "before absl::InitializeLog")  # its logs
    assert [x for x in errors.splitlines() if not any(y in x for y in cuda)] == []
    assert values["mesh"] == {"data": 1, "fsdp": 4, "tensor": 1}
    assert values["parameters"] < values["peak"] < values["memory"]
    assert values["collectives"]["all-gather"]["bytes"] > 0
    assert values["remedy"] is None
    assert ("cycles" in values["seconds"]) == (name == "v5e:2x2")
    # 6 x parameters x tokens of the layer's products, and attention; the head is 1%.
    tokens = values["rows"] * values["max_length"] / 4
    product = 128 * values["max_length"]
    layer = 6 * (12 * 128**2 + 2 * product)
    # The TPU's kernel computes the scores again in the backward pass.
    layer += 2 * product if name == "v5e:2x2" else 0
    assert values["flops"] == pytest.approx(tokens * layer, rel=0.02)


@pytest.mark.parametrize(
    "words, message",
    [
        (["--topology", "v5:4x4"], "topology 'v5:4x4' is unknown; known: v4:2x2x1"),
        (["--find"], "plan: --find wants --topology"),
        pytest.param(
            ["--topology", "v5e:2x2", "--mesh.data", "3"],
            "takes 3 devices and there are 4",
            marks=tpu,
        ),
        (
            ["--topology", "v4:2x2x1"],
            "missing: in the checkout: pip install -e '.[plan-tpu]'",
        ),
        (
            ["--topology", "h100:8"],
            "missing: in the checkout: pip install -e '.[plan-gpu]'",
        ),
    ],
)
def test_wrong_words_are_reported_in_one_line(words, message, monkeypatch, capsys):
    if "missing" in message:
        compilers = {
            name: (extra, ["no_such_wheel"])
            for name, (extra, _) in topologies._COMPILERS.items()
        }
        monkeypatch.setattr(topologies, "_COMPILERS", compilers)
    fails(capsys, ["plan", QUICKSTART, *words], message)


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's record")
@pytest.mark.parametrize(
    "flags",
    [{}, {"--mesh.data": 1, "--mesh.fsdp": 4}, {"--training.micro_batches": 4}],
    ids=["plain", "fsdp", "micro-batches"],
)
def test_the_plan_is_what_the_kernel_counts(flags):
    output, _ = printed("benchmarks/memory.py", QUICKSTART, **LARGE, **flags)
    result = json.loads(output.splitlines()[-1])
    assert 0.75 < result["planned / added"] < 1.25, result


@pytest.mark.exhaustive  # by default a mesh of TPUs is compiled for
def test_a_mesh_divides_what_it_should():
    sizes = SMALL | {"--encoder.num_hidden_layers": 2}
    alone, _ = planned(**{"--mesh.data": 1}, **sizes)
    mesh = {"--mesh.data": 2, "--mesh.fsdp": 2, "--mesh.tensor": 2}
    divided, errors = planned(**mesh, **sizes)
    assert divided["mesh"] == {"data": 2, "fsdp": 2, "tensor": 2}
    # Biases and norms lie on every device, and so do indivisible dimensions.
    share = divided["parameters"] / alone["parameters"]
    assert 1 / 4 < share < 1.2 / 4
    # Adam keeps two numbers for each parameter.
    for plan in (alone, divided):
        assert plan["optimizer"] == pytest.approx(2 * plan["parameters"], rel=0.01)
    assert divided["batch"] < alone["batch"]
    assert divided["temporary"] < alone["temporary"] / 2
    assert "rematerialization" not in errors
