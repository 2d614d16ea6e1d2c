"""What is tried where a step does not fit, and in what order results are listed."""

import json

import pytest

from dicejax.planning import search
from dicejax.planning.search import Settings
from dicejax.planning.step import StepPlan, bytes_needed, lines

GIB = 2**30


def compiler(peak, milliseconds=lambda one: 1.0, memory=16 * GIB):
    """Return a compiler that goes by formulas, and the settings it is given."""
    tried = []

    def compiled(one):
        tried.append(one)
        size = int(peak(one))
        fits = size <= memory
        return StepPlan(
            topology="v5e:2x2",
            devices=4,
            device_kind="TPU v5 lite",
            mesh={"data": one.data, "fsdp": one.fsdp, "tensor": one.tensor},
            micro_batches=one.micro_batches,
            remat=one.remat,
            rows=16,
            max_length=64,
            peak=size,
            memory=memory,
            fits=fits,
            parameters=GIB,
            optimizer=2 * GIB,
            batch=1,
            temporary=size - 3 * GIB,
            compile_seconds=1.0,
            flops=1e12 if fits else None,
            bytes_moved=1e9 if fits else None,
            collectives={"all-reduce": {"count": 1, "bytes": 2e6, "wire": 3e6}},
            seconds={"arithmetic": milliseconds(one) / 1e3} if fits else None,
            utilisation={"bound": 0.5} if fits else None,
        )

    return compiled, tried


def activations(one):
    """10 GiB of a state that fsdp divides, 20 of activations that the others do."""
    kept = {"none": 1.0, "attention": 0.7, "layer": 0.1}[one.remat]
    return (10 / one.fsdp + 20 * kept / one.micro_batches) * GIB


def remedied(peak, now=Settings(data=4), rows=4):  # noqa: B008
    compiled, tried = compiler(peak)
    said = []
    found = search.fitting_remedies(now, rows, compiled, said.append)
    assert len(said) == len(tried)
    return found, tuple(tried), compiled(now)


def test_remat_fsdp_and_micro_batches_are_tried_each():
    found, tried, _ = remedied(activations)
    assert tried == (
        Settings(4, remat="attention"),
        Settings(4, remat="layer"),
        Settings(1, fsdp=4),
        Settings(4, micro_batches=2),
        Settings(4, micro_batches=4),
    )
    assert found == {
        "--mesh.data 4 --training.remat layer": 12 * GIB,
        "--mesh.data 4 --training.micro_batches 4": 15 * GIB,
    }


def test_where_none_is_enough_all_are_tried_together():
    found, tried, _ = remedied(lambda one: 2 * activations(one) - 5 * GIB)
    assert len(tried) == 6
    assert [*found] == [
        "--mesh.data 1 --mesh.fsdp 4 --training.micro_batches 4 --training.remat layer"
    ]


def test_the_remedy_is_one_line():
    found, _, step = remedied(activations)
    line = search._remedy(step, found)
    assert line.startswith(
        "does not fit: 30.00 GiB of 16.00 GiB; these do: --mesh.data 4 "
        "--training.remat layer (12.00 GiB); --mesh.data 4 --training.micro_batches 4 "
        "(15.00"
    )
    nothing, _, step = remedied(lambda one: 20 * GIB)
    line = search._remedy(step, nothing)
    assert nothing == {} and "\n" not in line
    assert "more devices" in line


def test_what_is_in_use_already_is_not_tried_again():
    now = Settings(1, fsdp=4, micro_batches=2, remat="layer")
    assert search.remedies(now, rows=2) == ([], [])
    _, tried, _ = remedied(
        lambda one: 99 * GIB, Settings(data=4, remat="layer"), rows=1
    )
    assert tried == (Settings(1, fsdp=4, remat="layer"),)


def test_what_fits_is_not_tried_with_more():
    compiled, tried = compiler(lambda one: GIB, lambda one: one.tensor)
    meshes = [(one, 4) for one in search.meshes(4, heads=4)]
    found = search.try_all(meshes, compiled, lambda text: None)
    assert tried == [one for one, _ in meshes]
    assert [one.tensor for one, _ in found.fitting] == [1, 1, 1, 2, 2, 4]
    assert (found.failing, found.left) == ((), 0)


def test_the_fastest_that_fits_comes_first():
    def slower(one):
        return 10 * one.micro_batches + 5 * (one.remat != "none") + one.fsdp

    compiled, _ = compiler(activations, slower)
    said = []
    found = search.try_all(
        [(Settings(4), 4), (Settings(1, 4), 4)], compiled, said.append
    )
    assert [one.flags() for one, _ in found.fitting] == [
        "--mesh.data 4 --training.remat layer",
        "--mesh.data 1 --mesh.fsdp 4 --training.remat layer",
        "--mesh.data 1 --mesh.fsdp 4 --training.micro_batches 2",
        "--mesh.data 4 --training.micro_batches 4",
    ]
    assert len(said) == 9 and said[0].endswith("30.00 GiB, does not fit")
    table = search.table(found).splitlines()
    assert table[1].split()[:4] == ["16.00", "16", "12.00", "3.0"]
    assert table[-1] == "4 of 9 settings tried fit"
    values = json.loads(search.to_json(found))
    assert values["fitting"][0]["peak"] == 12 * GIB
    assert len(values["failing"]) == 5


def test_the_number_of_settings_tried_is_limited():
    compiled, tried = compiler(activations)
    found = search.try_all(
        [(Settings(4), 4), (Settings(2), 4)], compiled, print, most=3
    )
    assert len(tried) == 3
    assert found.left == 7
    assert search.table(found).endswith("1 of 3 settings tried fit; 7 were not tried")


def test_a_plan_is_shown_with_what_the_devices_have():
    compiled, _ = compiler(lambda one: 4 * GIB)
    shown = dict(lines(compiled(Settings(2, tensor=2, remat="layer"))))
    assert shown["mesh"] == "data 2 x fsdp 1 x tensor 2, 1 micro-batch, remat layer"
    assert shown["at the peak"].startswith("4.00 GiB of 16.00 GiB")
    assert shown["all-reduce"] == "2.0 MB, 1 in a step"
    assert shown["utilisation"] == "at most 50.0%"


def test_json_has_the_peak_in_bytes():
    compiled, _ = compiler(lambda one: 4 * GIB)
    values = json.loads(search.to_json(search.Planned(compiled(Settings(4)))))
    assert values["peak"] == 4 * GIB
    assert (values["remedy"], values["fitting"]) == (None, {})


@pytest.mark.parametrize(
    "message, size",
    [
        ("... HLO temporaries (800.00G) exceeds available HBM (15.75G).", 800 * GIB),
        ("Ran out of memory in memory space hbm. Used 97.21G of 15.75G hbm.", None),
    ],
)
def test_the_compiler_says_how_much_a_step_needs(message, size):
    assert bytes_needed(message) == (size or int(97.21 * GIB))
