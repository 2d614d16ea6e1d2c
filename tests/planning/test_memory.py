"""Planned memory is the memory used."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUICKSTART = str(ROOT / "experiments/quickstart.py")
# Large vs. the compiler and the program's code.
LARGE = {
    "--encoder.hidden_size": 512,
    "--encoder.num_hidden_layers": 4,
    "--encoder.intermediate_size": 2048,
    "--encoder.vocab_size": 20000,
}


def printed(*argv, **flags):
    """Run a program with the quickstart, and parse its JSON output."""
    words = [str(word) for pair in flags.items() for word in pair]
    done = subprocess.run(
        [sys.executable, *argv, *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def planned(**flags):
    start = "from dicejax.cli import main; main()"
    return printed("-c", start, "plan", QUICKSTART, "--json", **flags)


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's record")
@pytest.mark.parametrize(
    "flags",
    [{}, {"--mesh.data": 1, "--mesh.fsdp": 4}, {"--training.micro_batches": 4}],
    ids=["plain", "fsdp", "micro-batches"],
)
def test_the_plan_is_what_the_kernel_counts(flags):
    result, _ = printed("benchmarks/memory.py", QUICKSTART, **LARGE, **flags)
    assert 0.75 < result["planned / added"] < 1.25, result


@pytest.mark.exhaustive  # by default test_compiled.py compiles for a mesh of TPUs
def test_a_mesh_divides_what_it_should():
    sizes = {"--encoder.hidden_size": 128, "--encoder.intermediate_size": 512}
    sizes["--encoder.num_hidden_layers"] = 2
    alone, _ = planned(**{"--mesh.data": 1}, **sizes)
    mesh = {"--mesh.data": 2, "--mesh.fsdp": 2, "--mesh.tensor": 2}
    divided, stderr = planned(**mesh, **sizes)
    assert divided["mesh"] == {"data": 2, "fsdp": 2, "tensor": 2}
    # Biases and norms lie on every device, and so do indivisible dimensions.
    share = divided["parameters"] / alone["parameters"]
    assert 1 / 4 < share < 1.2 / 4
    # Adam keeps two numbers for each parameter.
    for each in (alone, divided):
        assert each["optimizer"] == pytest.approx(2 * each["parameters"], rel=0.01)
    assert divided["batch"] < alone["batch"]
    assert divided["temporary"] < alone["temporary"] / 2
    assert "rematerialization" not in stderr
