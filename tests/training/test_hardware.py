"""Warnings for CPUs without bfloat16."""

import dataclasses

import pytest

from dicejax import config
from dicejax.training import hardware
from dicejax.training.setup import prepare

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
    ],
)
def test_instructions_are_read_from_the_list_of_the_processor(tmp_path, text, imitates):
    (tmp_path / "cpuinfo").write_text(text)
    assert hardware.imitates_bfloat16(tmp_path / "cpuinfo") is imitates


def test_without_a_list_nothing_is_known(tmp_path):
    assert not hardware.imitates_bfloat16(tmp_path / "cpuinfo")


@pytest.mark.parametrize("imitates", [True, False])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_only_bfloat16_without_instructions_is_remarked_on(
    monkeypatch, imitates, precision
):
    monkeypatch.setattr(hardware, "imitates_bfloat16", lambda: imitates)
    said = hardware.remark(precision)
    assert (said is not None) == (imitates and precision == "bfloat16")
    if said:
        assert "--training.precision float32" in said


@pytest.mark.parametrize("backend", ["gpu", "tpu"])
def test_accelerators_are_not_remarked_on(monkeypatch, backend):
    monkeypatch.setattr(hardware, "imitates_bfloat16", lambda: True)
    monkeypatch.setattr(hardware.jax, "default_backend", lambda: backend)
    assert hardware.remark("bfloat16") is None


def test_a_run_says_so_before_it_begins(project, monkeypatch):
    monkeypatch.setattr(hardware, "imitates_bfloat16", lambda: True)
    small, said = config.load("mine.py"), []
    for precision in ("float32", "bfloat16"):
        training = dataclasses.replace(small.training, precision=precision)
        prepare(dataclasses.replace(small, training=training), said.append)
    assert [text for text in said if "no instructions" in text] == said[-1:]
