"""Eight devices give what one gives, in float64: under `jit` and inside `shard_map`.

Devices are made before jax starts, so the comparisons run in a process of their own and
the tests read what it found.
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from dicejax.losses import (
    dice,
    ghm,
    ghm_regression,
    ghm_state,
    hard_negative_mask,
)

from .cases import draw
from .every import EVERY, parameters, with_static_settings

pytestmark = pytest.mark.slow  # as a whole

SHAPE = (16, 5)


def is_over_batch(case):
    """Whether the loss has one value, or one for each class."""
    return case.is_set and case.settings.get("axis") is None


# Losses that see the whole batch, even if they return a value per element.
OVER_BATCH = [
    case for case in EVERY if case.function.__name__ == "ghm" or is_over_batch(case)
]
BY_NAME = {case.name: case for case in EVERY}
ONE, TWO = ("data",), ("data", "fsdp")


def mesh_of(names):
    shape = {ONE: (8,), TWO: (4, 2)}[names]
    return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names))


def inputs(case):
    """Logits, labels, where: no two devices have equal counts, and one has none."""
    logits, labels, where = draw(case.form, seed=3, shape=SHAPE)
    where[6:8] = False
    return logits.astype(np.float64), labels, where


def weighed(case, values):
    """A sum in which no two classes weigh the same."""
    classes = values.ndim > (0 if is_over_batch(case) else 2)
    weights = 1.0 + np.arange(values.shape[-1]) if classes else 1.0
    return (values * weights).sum()


def function(case, axis_name=None):
    """A function (logits, parameters, labels, where) -> (sum, losses)."""
    loss = with_static_settings(case).loss
    if axis_name is not None:
        loss = functools.partial(loss, axis_name=axis_name)

    def total(logits, parameters, labels, where):
        values = loss(logits, labels, where=where, **parameters)
        return weighed(case, values), values

    return total


def value_and_grad(total):
    return jax.value_and_grad(total, argnums=(0, 1), has_aux=True)


def axis_names(case, names):
    """What a user says: a name or several; nothing for a loss of elements."""
    if case not in OVER_BATCH:
        return None
    return names if len(names) > 1 else names[0]


def under_jit(case, arguments, names):
    spread = NamedSharding(mesh_of(names), P(names))
    logits, settings, labels, where = arguments
    placed = jax.device_put((logits, labels, where), spread)
    assert len(placed[0].sharding.device_set) == 8
    (_, values), gradients = jax.jit(value_and_grad(function(case)))(
        placed[0], settings, *placed[1:]
    )
    return values, gradients


def inside_shard_map(case, arguments, names):
    """Each device differentiates its own program."""
    axis_name = (
        None if case not in OVER_BATCH else names if len(names) > 1 else names[0]
    )
    whole, part = P(), P(names)

    def device(logits, settings, labels, where):
        both = value_and_grad(function(case, axis_name))
        (_, values), gradients = both(logits, settings, labels, where)
        return values, gradients

    mapped = jax.shard_map(
        device,
        mesh=mesh_of(names),
        in_specs=(part, whole, part, part),
        out_specs=(whole if is_over_batch(case) else part, (part, whole)),
    )
    return jax.jit(mapped)(*arguments)


def outside_shard_map(case, arguments, names):
    """The mapped loss is differentiated as a whole."""
    axis_name = (
        None if case not in OVER_BATCH else names if len(names) > 1 else names[0]
    )
    whole, part = P(), P(names)
    mapped = jax.shard_map(
        lambda *arguments: function(case, axis_name)(*arguments)[1],
        mesh=mesh_of(names),
        in_specs=(part, whole, part, part),
        out_specs=whole if is_over_batch(case) else part,
    )

    def total(*arguments):
        values = mapped(*arguments)
        return weighed(case, values), values

    (_, values), gradients = jax.jit(value_and_grad(total))(*arguments)
    return values, gradients


WAYS = {
    "under_jit": (under_jit, ONE, EVERY),
    "inside_shard_map": (inside_shard_map, ONE, EVERY),
    "outside_shard_map": (outside_shard_map, ONE, OVER_BATCH),
    # Names are handed on alike in all forms.
    "over_two_axes": (
        inside_shard_map,
        TWO,
        list({case.function: case for case in OVER_BATCH}.values()),
    ),
}


def difference(got, want):
    """What is wrong with the first leaf that is, or ''."""
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        try:
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
        except AssertionError as error:
            return str(error)
        if one.dtype not in (np.float64, np.bool_):
            return f"dtype is {one.dtype}"
    return ""


def compared():
    """What differs, '' for nothing, by way and case."""
    found = {way: {} for way in WAYS}
    for case in EVERY:
        logits, labels, where = inputs(case)
        arguments = (logits, parameters(case), labels, where)
        (_, values), gradients = jax.jit(value_and_grad(function(case)))(*arguments)
        for way, (run, names, among) in WAYS.items():
            if case not in among:
                continue
            try:
                found[way][case.name] = difference(
                    run(case, arguments, names), (values, gradients)
                )
            except Exception as error:  # told by the test of this case
                found[way][case.name] = repr(error)
    return found | {"others": others()}


def others():
    """What is called otherwise than a loss: states, and masks."""
    found = {}
    logits, labels, where = inputs(BY_NAME["softmax-cross_entropy"])
    _, state = ghm(logits[:2], labels[:2], ghm_state())
    errors, positives = np.abs(logits[..., 0]), labels == 1

    def compare(name, function, arguments, out_specs, names):
        mapped = jax.shard_map(
            functools.partial(function, axis_name=names if len(names) > 1 else "data"),
            mesh=mesh_of(names),
            in_specs=(P(names),) * len(arguments),
            out_specs=out_specs,
        )
        found[name] = difference(jax.jit(mapped)(*arguments), function(*arguments))

    def harmonised(logits, labels, where, axis_name=None):
        return ghm(logits, labels, state, where=where, axis_name=axis_name)

    def regression(x, y, where, axis_name=None):
        return ghm_regression(x, y, state, where=where, axis_name=axis_name)

    for names in (ONE, TWO):
        specs, axes = (P(names), P()), len(names)
        compare(f"ghm-{axes}", harmonised, (logits, labels, where), specs, names)
        pair = (errors, logits[..., 1], where)
        compare(f"ghm_regression-{axes}", regression, pair, specs, names)
        for tied, scores in enumerate((errors, np.round(errors))):
            for axis in (None, 0):
                mine = functools.partial(
                    hard_negative_mask, axis=axis, negatives_per_positive=1.5
                )
                name = f"mask-{axes}-{axis}-{bool(tied)}"
                compare(name, mine, (scores, positives), P(names), names)
    # What a mean of the devices' own losses gives is something else.
    per_device = jax.shard_map(
        lambda z, y: jax.lax.pmean(dice(z, y), "data"),
        mesh=mesh_of(ONE),
        in_specs=(P("data"), P("data")),
        out_specs=P(),
    )
    gap = np.abs(jax.jit(per_device)(logits, labels) - dice(logits, labels)).min()
    found["mean_of_devices"] = "" if gap > 1e-2 else f"differs by {gap} only"
    return found


@pytest.fixture(scope="module")
def found():
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name],
        capture_output=True,
        text=True,
        timeout=500,
        cwd=root,
        env=os.environ
        | {
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_X64": "1",
            "JAX_NUM_CPU_DEVICES": "8",
            # Compiled in half the time, which is all that this process does.
            "XLA_FLAGS": "--xla_backend_optimization_level=0",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("way", "name"),
    [
        pytest.param(way, case.name, id=f"{way}-{case.name}")
        for way, (_, _, among) in WAYS.items()
        for case in among
    ],
)
def test_eight_devices_give_the_value_and_gradients_of_one(way, name, found):
    assert found[way][name] == ""


@pytest.mark.parametrize("loss", ["ghm", "ghm_regression"])
@pytest.mark.parametrize("axes", [1, 2])
def test_eight_devices_give_the_state_of_one(loss, axes, found):
    assert found["others"][f"{loss}-{axes}"] == ""


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("tied", [False, True])
def test_eight_devices_mine_what_one_does(axes, axis, tied, found):
    assert found["others"][f"mask-{axes}-{axis}-{tied}"] == ""


def test_the_mean_of_the_devices_own_dice_is_another_number(found):
    assert found["others"]["mean_of_devices"] == ""


if __name__ == "__main__":
    print(json.dumps(compared()))
