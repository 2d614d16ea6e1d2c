"""Measurements of training, and the warning for CPUs without bfloat16."""

import contextlib
import dataclasses
from unittest.mock import create_autospec

import jax
import jax.numpy as jnp
import pytest

from dicejax import config
from dicejax.models.encoder import EncoderConfig
from dicejax.models.network import Network
from dicejax.training import setup, throughput
from dicejax.training.throughput import (
    Throughput,
    _peak_resident,
    flops_per_token,
    peak_flops,
)

from ..models.small import encoder_of


class Clock:
    now = 100.0

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


@dataclasses.dataclass(frozen=True)
class Device:
    device_kind: str = "TPU v4"
    process_index: int = 0
    peak: int | None = None

    def memory_stats(self):
        return None if self.peak is None else {"peak_bytes_in_use": self.peak}


@pytest.fixture
def clock():
    return Clock()


def test_only_what_is_computed_while_the_clock_runs_is_timed(clock):
    meter = Throughput(clock=clock)
    assert meter.values()["padding_share"] == 0
    clock.advance(60)
    meter.count(700, 1000)  # compiled
    meter.resume()
    for _ in range(4):
        clock.advance(0.5)
        meter.count(900, 1000)
        meter.resume()  # it runs already
    assert meter.values()["tokens_per_s"] == 0  # none is known to be computed
    meter.pause()
    assert meter.values()["tokens_per_s"] == 3600 / 2
    clock.advance(30)  # evaluation
    meter.pause()  # it is paused already
    meter.resume()
    clock.advance(2)
    meter.count(400, 1000)
    assert meter.values()["tokens_per_s"] == 3600 / 2
    meter.pause()
    assert meter.values()["tokens_per_s"] == 4000 / 4
    # All steps count for padding.
    assert meter.values()["padding_share"] == pytest.approx(1 - 4700 / 6000)


def test_waiting_is_a_share_of_the_time_that_is_timed(clock):
    meter = Throughput(clock=clock)
    with meter.waiting():
        clock.advance(50)  # for the first batch, before the clock runs
    meter.resume()
    clock.advance(6)
    with contextlib.suppress(StopIteration), meter.waiting():
        clock.advance(2)
        next(iter(()))  # the end of the data is waited for too
    assert meter.values()["wait_share"] == 0
    meter.pause()
    assert meter.values()["wait_share"] == 2 / 8


def test_a_resumed_run_counts_on(clock):
    def work(meter):
        meter.resume()
        with meter.waiting():
            clock.advance(1)
        clock.advance(3)
        meter.count(80, 100)
        meter.pause()

    whole, first, second = (Throughput(clock=clock) for _ in range(3))
    for meter in (whole, whole, first):
        work(meter)
    state = dict(first.sums)
    assert all(isinstance(value, int | float) for value in state.values())
    work(first)  # steps of a killed run after its checkpoint
    second.sums |= state
    work(second)
    assert second.values() == pytest.approx(
        whole.values() | {"memory_gib": second.values()["memory_gib"]}
    )
    assert second.sums == whole.sums


# Operations


def test_utilisation_is_what_was_needed_over_what_is_possible(clock):
    devices = [Device("TPU v4", n) for n in range(4)]
    meter = Throughput(devices, flops_per_token=6e8, clock=clock)
    meter.resume()
    clock.advance(2)
    meter.count(1_000_000, 1_000_000)
    meter.pause()
    assert meter.values()["mfu"] == pytest.approx(5e5 * 6e8 / (4 * 275e12))


@pytest.mark.parametrize(
    ("kinds", "flops"),
    [((), 1.0), (("TPU v4",), None), (("TPU v4", "cpu"), 1.0), (("TPU v99",), 1.0)],
)
def test_utilisation_is_left_out_where_it_is_not_known(clock, kinds, flops):
    meter = Throughput([*map(Device, kinds)], flops_per_token=flops, clock=clock)
    assert "mfu" not in meter.values()


SIZES = {"heads": 8, "vocab": 100}
BERT = encoder_of("bert", 512, 2048, **SIZES)
ELECTRA = dataclasses.replace(BERT, model_type="electra", embedding_size=128)
XLNET = encoder_of("xlnet", 512, 2048, **SIZES)
DEBERTA = encoder_of("deberta", 512, 2048, embedding_size=128, **SIZES)
MODERNBERT = encoder_of("modernbert", 512, 1024, **SIZES)
MPNET, GTE = (encoder_of(kind, 512, 2048, **SIZES) for kind in ("mpnet", "gte"))
EUROBERT = encoder_of("eurobert", 512, 2048, num_key_value_heads=2, **SIZES)
EVERY = [BERT, ELECTRA, XLNET, DEBERTA, MODERNBERT, MPNET, GTE, EUROBERT]


def test_a_token_meets_those_of_its_window():
    """Beyond 129 tokens, only the first of two layers costs more."""
    more = flops_per_token(MODERNBERT, [1129]) - flops_per_token(MODERNBERT, [129])
    assert more == 3 * 2 * 2 * 1000 * MODERNBERT.width


def flops_by_xla(config, rows, length):
    """Return XLA's operations of one forward pass per token."""
    network = Network(encoder=config, heads=())
    params = jax.eval_shape(network.init, jax.random.key(0))
    names = ("input_ids", "segment_ids", "position_ids", "token_type_ids")
    batch = dict.fromkeys(names, jax.ShapeDtypeStruct((rows, length), jnp.int32))
    compiled = jax.jit(network.hidden_states).lower(params, batch).compile()
    return compiled.cost_analysis()["flops"] / (rows * length)


@pytest.mark.parametrize("length", [16, 64])
@pytest.mark.parametrize("config", EVERY)
def test_xla_counts_as_many_operations(config, length):
    rows = 4
    expected = flops_per_token(config, [length]) / 3
    if config is XLNET:
        # The scores of twice the distances, and the encodings through their kernel.
        expected += config.depth * 2 * config.d_model * length
        expected += config.depth * 2 * config.d_model**2 * 2 * length / (rows * length)
    if config is DEBERTA:
        expected += 2 * config.depth * 2 * config.width * length
        rows_of_table = 2 * length - 1
        expected += (
            2 * config.depth * 2 * config.width**2 * rows_of_table / rows / length
        )
    # Besides the products XLA counts elementwise operations.
    assert 1.0 < flops_by_xla(config, rows, length) / expected < 1.03


def test_an_encoder_that_is_not_known_has_no_formula():
    assert flops_per_token(create_autospec(EncoderConfig, instance=True), [10]) is None


def test_long_sequences_weigh_more():
    assert flops_per_token(BERT, [100] * 7) == flops_per_token(BERT, [100])
    none, single, mean = (flops_per_token(BERT, n) for n in ([], [1], [1, 99]))
    assert (mean - none) / (single - none) == pytest.approx((1 + 99**2) / 100)


# Peaks and memory


@pytest.mark.parametrize(
    ("kind", "flops"),
    [
        ("NVIDIA H200", 989.5e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("TPU v3", 61.5e12),  # half a chip
        ("cpu", None),
        ("", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("NVIDIA A1000", None),
    ],
)
def test_devices_have_their_maker_s_figures_or_none(kind, flops):
    assert peak_flops(kind) == flops


def test_no_device_is_twice_in_the_table():
    kinds = [kind for *_, kinds in throughput._PEAKS for kind in kinds.split(", ")]
    assert len(kinds) == len(set(kinds))


def test_memory_is_the_fullest_device_of_this_process():
    devices = [Device(peak=3 * 2**30), Device(peak=2**30)]
    devices.append(Device("TPU v4", 1, 9 * 2**30))
    assert Throughput(devices).values()["memory_gib"] == 3
    for silent in ((), jax.local_devices(backend="cpu")):  # then the process's
        assert 0.05 < Throughput(silent).values()["memory_gib"] < 1000


def test_the_peak_of_the_process_is_read_from_the_kernel(tmp_path):
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmPeak:\t  9 kB\nVmHWM:\t  2048 kB\n")
    assert _peak_resident(status) == 2 * 2**20
    asked = _peak_resident(tmp_path / "missing")  # of getrusage
    assert 2**20 < asked < 2**40


# bfloat16


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


@pytest.mark.parametrize(
    ("precision", "backend", "imitates"),
    [
        ("bfloat16", "cpu", True),
        ("bfloat16", "cpu", False),
        ("bfloat16", "gpu", True),
        ("bfloat16", "tpu", True),
        ("float32", "cpu", True),
        ("float16", "cpu", True),
    ],
)
def test_only_bfloat16_of_a_cpu_without_instructions_is_remarked_on(
    project, monkeypatch, precision, backend, imitates
):
    monkeypatch.setattr(setup, "imitates_bfloat16", lambda: imitates)
    monkeypatch.setattr(setup.jax, "default_backend", lambda: backend)
    small, notes = config.load("mine.py"), []
    training = dataclasses.replace(small.training, precision=precision)
    setup.prepare(dataclasses.replace(small, training=training), notes.append)
    is_slow = imitates and precision == "bfloat16" and backend == "cpu"
    remarks = [text for text in notes if "--training.precision float32" in text]
    assert len(remarks) == is_slow
