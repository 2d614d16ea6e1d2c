"""Every loss with every option lowers on every layout of an Explicit mesh.

Types hold the sharding there, so that lowering finds what does not fit, without
devices and without compiling.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from .cases import BINARY, CASES, draw
from .every import HARMONISED, OTHERS, one_of_each, parameters, with_static_settings

pytestmark = pytest.mark.slow  # as a whole

MESH = AbstractMesh((2, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
# Of rows, places and classes.
LAYOUTS = {
    "rows": P("data", None, None),
    "places": P(None, "data", None),
    "classes": P(None, None, "model"),
    "rows and classes": P("data", None, "model"),
}
SHAPE, CLASSES = (4, 6), 4
TABLE = [*CASES, *HARMONISED, *OTHERS]


def with_classes(value):
    """Return per-class settings of `CLASSES` classes."""
    return np.concatenate([value, value[:1]]) if value.ndim else value


def struct(array, spec):
    sharding = NamedSharding(MESH, P(*spec[: array.ndim]))
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)


def lower(case, layout):
    spec = LAYOUTS[layout]
    if case.form == BINARY and "model" in spec:
        spec = P("data", "model")
    logits, labels, where = draw(case.form, shape=SHAPE, classes=CLASSES)
    settings = parameters(case)
    if case.form != BINARY:
        settings = {name: with_classes(value) for name, value in settings.items()}
    loss = with_static_settings(case).loss

    def total(logits, settings, labels, where):
        return loss(logits, labels, where=where, **settings).sum()

    settings = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), settings)
    logits, labels, where = (struct(array, spec) for array in (logits, labels, where))
    with jax.sharding.use_abstract_mesh(MESH):
        both = jax.jit(jax.value_and_grad(total, (0, 1)))
        traced = both.trace(logits, settings, labels, where)
        return traced.lower(lowering_platforms=("cpu",))


def is_fast(case, layout):
    """Return whether the layout shards most, and the loss is one of each or of O."""
    named = {"exclude_class", "background"} & case.settings.keys()
    return layout == "rows and classes" and (case in one_of_each(TABLE) or named)


@pytest.mark.parametrize(
    ("case", "layout"),
    [
        pytest.param(
            case,
            layout,
            id=f"{case.name}-{layout}",
            marks=() if is_fast(case, layout) else pytest.mark.exhaustive,
        )
        for case in TABLE
        for layout in LAYOUTS
    ],
)
def test_value_and_gradient_lower_on_every_layout(case, layout):
    assert "sdy.sharding" in lower(case, layout).as_text()


def test_a_choice_by_a_mask_of_other_shards_does_not_lower():
    """The table can fail: this is what a loss must not do."""

    def dice(logits, labels, *, where, **settings):
        by_class = jnp.sum(logits, axis=(0, 1))
        return jnp.where(jnp.arange(CLASSES) == 0, by_class, 2 * by_class)

    case = dataclasses.replace(one_of_each(TABLE)[0], function=dice)
    lower(case, "rows")
    with pytest.raises(Exception, match="must be scalar or have the same sharding"):
        lower(case, "classes")
