"""Warnings for CPUs without bfloat16."""

import dataclasses

import pytest

from dicejax import config
from dicejax.training import setup, throughput

ICE_LAKE = "processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_vnni\n\n"
ZEN_4 = "processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_bf16\n\n"
NEOVERSE = "processor\t: 0\nFeatures\t: fp asimd i8mm bf16\n\n"
CORTEX = "processor\t: 0\nFeatures\t: fp asimd crc32\n\n"


@pytest.mark.parametrize(
    ("text", "imitates"),
    [
        (ICE_LAKE + ICE_LAKE, True),
        (ZEN_4 + ZEN_4, False),
        (NEOVERSE, False),
        (CORTEX, True),
        (NEOVERSE + CORTEX, True),  # fast and slow cores on one chip
        ("processor\t: 0\nmodel name\t: bf16\n", False),
        (None, False),
    ],
)
def test_instructions_are_read_from_the_list_of_the_processor(tmp_path, text, imitates):
    if text:
        (tmp_path / "cpuinfo").write_text(text)
    assert throughput.imitates_bfloat16(tmp_path / "cpuinfo") is imitates


@pytest.mark.parametrize("backend", ["cpu", "gpu", "tpu"])
@pytest.mark.parametrize("imitates", [True, False])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_only_bfloat16_of_a_cpu_without_instructions_is_remarked_on(
    project, monkeypatch, backend, imitates, precision
):
    monkeypatch.setattr(setup, "imitates_bfloat16", lambda: imitates)
    monkeypatch.setattr(setup.jax, "default_backend", lambda: backend)
    small, notes = config.load("mine.py"), []
    training = dataclasses.replace(small.training, precision=precision)
    setup.prepare(dataclasses.replace(small, training=training), notes.append)
    is_slow = imitates and precision == "bfloat16" and backend == "cpu"
    remarks = [text for text in notes if "--training.precision float32" in text]
    assert len(remarks) == is_slow
