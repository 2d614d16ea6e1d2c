"""Eight devices give the same as one, in float64, on every kind of mesh.

Devices must exist before jax starts, so the comparisons run in a separate process, and
the tests read its table of differences by kind of mesh and loss.
"""

import contextlib
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

from dicejax.losses import dice, ghm, ghm_regression, ghm_state
from dicejax.losses import hard_negative_mask as mine

from ..kinds import exhaustive_but
from .cases import SOFTMAX, draw
from .every import EVERY, OTHERS, one_of_each, parameters, with_static_settings

pytestmark = pytest.mark.slow  # as a whole

SHAPE = (16, 5)
NUMBERS = np.arange(SHAPE[0] * SHAPE[1] + 2.0)  # of negatives, to more than there are
MESHES = {"data": (8,), "data fsdp": (4, 2)}
KINDS = [
    f"{way}, {names}"
    for way in (
        "Explicit",
        "Explicit, set_mesh",
        "Auto",
        "Auto, set_mesh",
        "inside shard_map",
        "outside shard_map",
    )
    for names in MESHES
]
# Each takes a program of all losses that sum over the batch, which say themselves what
# crosses devices, and of cross-entropies, as which all others go element by element.
FAST = ("Explicit, data fsdp", "inside shard_map, data")


def mesh_of(names, kind=AxisType.Auto):
    names = names.split()
    shape = MESHES[" ".join(names)]
    return jax.make_mesh(shape, tuple(names), axis_types=(kind,) * len(names))


def inputs(case):
    """Return logits, parameters, labels, where: unequal counts, one device empty."""
    logits, labels, where = draw(case.form, seed=3, shape=SHAPE)
    where[6:8] = False
    return logits.astype(np.float64), parameters(case), labels, where


def is_over_batch(case):
    """Return whether the loss has one value, or one per class."""
    return case.is_set and case.settings.get("axis") is None


def weighed(case, values):
    """Return a sum in which no two classes weigh the same."""
    classes = values.ndim > (0 if is_over_batch(case) else 2)
    weights = 1.0 + np.arange(values.shape[-1]) if classes else 1.0
    return (values * weights).sum()


def takes_axes(case):
    names = ("ghm", "ghm_regression", "hard_negatives")
    return is_over_batch(case) or case.function.__name__ in names


def loss_of(case, axis_name):
    """Return the loss; one over the whole batch gets its axes."""
    loss = with_static_settings(case).loss
    return functools.partial(loss, axis_name=axis_name) if takes_axes(case) else loss


def value_and_grad(case, loss):
    """Return a function (logits, parameters, labels, where) -> losses, gradients."""

    def total(logits, parameters, labels, where):
        values = loss(logits, labels, where=where, **parameters)
        return weighed(case, values), values

    def both(*arguments):
        (_, values), gradients = jax.value_and_grad(total, (0, 1), has_aux=True)(
            *arguments
        )
        return values, gradients

    return both


def under_jit(case, names):
    return value_and_grad(case, with_static_settings(case).loss)


def inside_shard_map(case, names):
    """Differentiate each device's program."""
    whole, part = P(), P(tuple(names.split()))
    return jax.shard_map(
        value_and_grad(case, loss_of(case, tuple(names.split()))),
        mesh=mesh_of(names),
        in_specs=(part, whole, part, part),
        out_specs=(whole if is_over_batch(case) else part, (part, whole)),
    )


def outside_shard_map(case, names):
    """Differentiate the mapped loss as a whole."""
    loss, part = loss_of(case, tuple(names.split())), P(tuple(names.split()))

    def mapped(logits, labels, *, where, **parameters):
        return jax.shard_map(
            lambda z, p, y, w: loss(z, y, where=w, **p),
            mesh=mesh_of(names),
            in_specs=(part, P(), part, part),
            out_specs=P() if is_over_batch(case) else part,
        )(logits, parameters, labels, where)

    return value_and_grad(case, mapped)


def difference(got, expected):
    """Return the first leaf's difference, or ''."""
    for leaf, other in zip(*map(jax.tree.leaves, (got, expected)), strict=True):
        try:
            np.testing.assert_allclose(leaf, other, rtol=1e-12, atol=1e-12)
        except AssertionError as error:
            return str(error)
        if leaf.dtype not in (np.float64, np.bool_):
            return f"dtype is {leaf.dtype}"
    return ""


def table(cases, kinds):
    """Return the differences from one device, '' for none, by mesh and case.

    All losses are one program for each kind of mesh.
    """

    def program(way, names):
        return jax.jit(
            lambda arguments: {
                case.name: way(case, names)(*arguments[case.name]) for case in cases
            }
        )

    arguments = {case.name: inputs(case) for case in cases}
    want = program(under_jit, None)(arguments)
    compiled, differences = {}, {}
    for kind in kinds:
        *way, names = kind.split(", ")
        types = AxisType.Explicit if way[0] == "Explicit" else AxisType.Auto
        mesh, placed, run = mesh_of(names, types), arguments, under_jit
        if "shard_map" in kind:
            run = inside_shard_map if "inside" in kind else outside_shard_map
        else:
            spread = NamedSharding(mesh, P(mesh.axis_names))
            placed = {
                name: (
                    *jax.device_put((z,), spread),
                    p,
                    *jax.device_put((y, w), spread),
                )
                for name, (z, p, y, w) in arguments.items()
            }
        inside = jax.set_mesh(mesh) if "set_mesh" in way else contextlib.nullcontext()
        with inside:
            lowered = program(run, names).lower(placed)
            text = lowered.as_text()
            if text not in compiled:  # Auto meshes: the same program, set or not
                compiled[text] = lowered.compile()
            got = compiled[text](placed)
        differences[kind] = {name: difference(got[name], want[name]) for name in want}
    return differences


def others():
    """Compare other functions: states, masks, and a mean of devices."""
    differences = {}
    logits, labels, where = draw(SOFTMAX, seed=3, shape=SHAPE)
    logits = logits.astype(np.float64)
    _, state = ghm(logits[:2], labels[:2], ghm_state())
    errors, positives = np.abs(logits[..., 0]), labels == 1

    def compare(name, function, arguments, out_specs, names):
        axes = tuple(names.split())
        mapped = jax.shard_map(
            functools.partial(function, axis_name=axes),
            mesh=mesh_of(names),
            in_specs=(P(axes),) * len(arguments),
            out_specs=out_specs,
        )
        differences[f"{name}, {names}"] = difference(
            jax.jit(mapped)(*arguments), function(*arguments)
        )

    def harmonised(logits, labels, where, axis_name=None):
        return ghm(logits, labels, state, where=where, axis_name=axis_name)

    def regression(x, y, where, axis_name=None):
        return ghm_regression(x, y, state, where=where, axis_name=axis_name)

    def every_number(scores, positives, axis_name=None):
        def with_k(k):
            settings = {"negatives_per_positive": 0.0, "minimum": k}
            return mine(scores, positives, axis_name=axis_name, **settings)

        return jax.vmap(with_k)(NUMBERS)

    for names in MESHES:
        part = P(tuple(names.split()))
        compare("ghm", harmonised, (logits, labels, where), (part, P()), names)
        pair = (errors, logits[..., 1], where)
        compare("ghm_regression", regression, pair, (part, P()), names)
        for kind, scores in (("scores", errors), ("tied scores", np.round(errors))):
            for axis in (None, 0):
                mask = functools.partial(mine, axis=axis, negatives_per_positive=1.5)
                name = f"mask of {kind}, axis {axis}"
                compare(name, mask, (scores, positives), part, names)
            name, of_numbers = f"mask of {kind}, every number", P(None, *part)
            compare(name, every_number, (scores, positives), of_numbers, names)
            stay = np.asarray(every_number(scores, positives)).sum((1, 2))
            expected = np.minimum(NUMBERS + positives.sum(), positives.size)
            differences[f"number of {kind}"] = difference(
                [stay == expected], [stay == stay]
            )
    # A mean of the devices' own losses differs.
    per_device = jax.shard_map(
        lambda z, y: jax.lax.pmean(dice(z, y), "data"),
        mesh=mesh_of("data"),
        in_specs=(P("data"), P("data")),
        out_specs=P(),
    )
    gap = np.abs(jax.jit(per_device)(logits, labels) - dice(logits, labels)).min()
    differences["a mean of devices"] = "" if gap > 1e-2 else f"differs by {gap} only"
    return differences


def chosen(exhaustive):
    cases = [*EVERY, *OTHERS]
    few = [case for case in cases if takes_axes(case) or "entropy" in case.name]
    return cases if exhaustive else one_of_each(few)


@pytest.fixture(scope="module")
def differences(pytestconfig, tmp_path_factory):
    exhaustive = pytestconfig.getoption("exhaustive")
    path = tmp_path_factory.mktemp("sharded") / "differences.json"
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, str(path), *["all"] * exhaustive],
        capture_output=True,
        text=True,
        timeout=1500,
        cwd=Path(__file__).parents[2],
        env=os.environ
        | {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "JAX_NUM_CPU_DEVICES": "8"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(path.read_text())


@pytest.mark.parametrize("kind", exhaustive_but(FAST, KINDS))
def test_eight_devices_give_the_values_and_gradients_of_one(
    kind, differences, pytestconfig
):
    cases = chosen(pytestconfig.getoption("exhaustive"))
    assert differences["table"][kind] == {case.name: "" for case in cases}


def test_eight_devices_give_the_states_and_masks_of_one(differences):
    assert len(differences["others"]) == 2 * 8 + 2 + 1
    assert not any(differences["others"].values()), differences["others"]


if __name__ == "__main__":
    exhaustive = sys.argv[2:] == ["all"]
    by_kind = table(chosen(exhaustive), KINDS if exhaustive else FAST)
    made = {"table": by_kind, "others": others()}
    Path(sys.argv[1]).write_text(json.dumps(made))
