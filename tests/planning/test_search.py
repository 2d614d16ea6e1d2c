"""Settings that are tried where a step does not fit, and the order of results."""

import json

from dicejax.planning import search
from dicejax.planning.search import Settings
from dicejax.planning.step import StepPlan, lines

GIB = 2**30


def compiler(peak, milliseconds=lambda settings: 1.0, memory=16 * GIB):
    """Return a compiler that goes by formulas, and the settings it compiled."""
    tried = []

    def compile_settings(settings):
        tried.append(settings)
        size = int(peak(settings))
        fits = size <= memory
        results = {
            "flops": 1e12,
            "bytes_moved": 1e9,
            "seconds": {"arithmetic": milliseconds(settings) / 1e3},
            "utilisation": {"bound": 0.5},
        }
        return StepPlan(
            topology="v5e:2x2",
            devices=4,
            device_kind="TPU v5 lite",
            mesh={axis: getattr(settings, axis) for axis in ("data", "fsdp", "tensor")},
            micro_batches=settings.micro_batches,
            remat=settings.remat,
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
            collectives={"all-reduce": {"count": 1, "bytes": 2e6, "wire": 3e6}},
            **(results if fits else {}),
        )

    return compile_settings, tried


def activations(settings):
    """10 GiB of a state that fsdp divides, 20 of activations that the others do."""
    share = {"none": 1.0, "attention": 0.7, "layer": 0.1}[settings.remat]
    return (10 / settings.fsdp + 20 * share / settings.micro_batches) * GIB


def remedied(peak, now=Settings(data=4), rows=4):  # noqa: B008
    compile_settings, tried = compiler(peak)
    notes = []
    fitting = search.fitting_remedies(now, rows, compile_settings, notes.append)
    assert len(notes) == len(tried)
    return fitting, tuple(tried), search.remedy_line(compile_settings(now), fitting)


def test_remat_fsdp_and_micro_batches_are_tried_each():
    fitting, tried, line = remedied(activations)
    assert tried == (
        Settings(4, remat="attention"),
        Settings(4, remat="layer"),
        Settings(1, fsdp=4),
        Settings(4, micro_batches=2),
        Settings(4, micro_batches=4),
    )
    assert fitting == {
        "--mesh.data 4 --training.remat layer": 12 * GIB,
        "--mesh.data 4 --training.micro_batches 4": 15 * GIB,
    }
    assert line.startswith(
        "does not fit: 30.00 GiB of 16.00 GiB; these do: --mesh.data 4 "
        "--training.remat layer (12.00 GiB); --mesh.data 4 --training.micro_batches 4 "
        "(15.00"
    )


def test_where_none_is_enough_all_are_tried_together():
    fitting, tried, _ = remedied(lambda settings: 2 * activations(settings) - 5 * GIB)
    assert len(tried) == 6
    assert [*fitting] == [
        "--mesh.data 1 --mesh.fsdp 4 --training.micro_batches 4 --training.remat layer"
    ]
    nothing, _, line = remedied(lambda settings: 20 * GIB)
    assert nothing == {} and "\n" not in line and "more devices" in line


def test_settings_in_use_are_not_tried_again():
    now = Settings(1, fsdp=4, micro_batches=2, remat="layer")
    assert search.remedies(now, rows=2) == ([], [])
    now = Settings(data=4, remat="layer")
    _, tried, _ = remedied(lambda settings: 99 * GIB, now, rows=1)
    assert tried == (Settings(1, fsdp=4, remat="layer"),)


def test_meshes_that_fit_are_not_tried_with_more():
    compile_settings, tried = compiler(lambda x: GIB, lambda settings: settings.tensor)
    meshes = [(mesh, 4) for mesh in search.meshes(4, heads=4)]
    result = search.try_all(meshes, compile_settings, lambda text: None)
    assert tried == [mesh for mesh, _ in meshes]
    assert [settings.tensor for settings, _ in result.fitting] == [1, 1, 1, 2, 2, 4]
    assert (result.failing, result.left) == ((), 0)


def test_the_fastest_that_fits_comes_first():
    def slower(x):
        return 10 * x.micro_batches + 5 * (x.remat != "none") + x.fsdp

    compile_settings, _ = compiler(activations, slower)
    notes, meshes = [], [(Settings(4), 4), (Settings(1, 4), 4)]
    result = search.try_all(meshes, compile_settings, notes.append)
    assert [settings.flags() for settings, _ in result.fitting] == [
        "--mesh.data 4 --training.remat layer",
        "--mesh.data 1 --mesh.fsdp 4 --training.remat layer",
        "--mesh.data 1 --mesh.fsdp 4 --training.micro_batches 2",
        "--mesh.data 4 --training.micro_batches 4",
    ]
    assert len(notes) == 9 and notes[0].endswith("30.00 GiB, does not fit")
    table = result.table().splitlines()
    assert table[1].split()[:4] == ["16.00", "16", "12.00", "3.0"]
    assert table[-1] == "4 of 9 settings tried fit"
    values = json.loads(result.to_json())
    assert values["fitting"][0]["peak"] == 12 * GIB
    assert len(values["failing"]) == 5
    few = search.try_all(meshes, compile_settings, notes.append, most=3)
    assert (len(notes), few.left) == (9 + 3, 7)
    assert few.table().endswith("1 of 3 settings tried fit; 7 were not tried")


def test_a_plan_is_printed_as_lines_or_as_json():
    compile_settings, _ = compiler(lambda settings: 4 * GIB)
    plan = compile_settings(Settings(2, tensor=2, remat="layer"))
    values = dict(lines(plan))
    assert values["mesh"] == "data 2 x fsdp 1 x tensor 2, 1 micro-batch, remat layer"
    assert values["at the peak"].startswith("4.00 GiB of 16.00 GiB")
    assert values["all-reduce"] == "2.0 MB, 1 in a step"
    assert values["utilisation"] == "at most 50.0%"
    values = json.loads(search.StepWithRemedy(plan).to_json())
    assert values["peak"] == 4 * GIB
    assert (values["remedy"], values["fitting"]) == (None, {})
