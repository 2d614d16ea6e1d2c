"""What callers meet: shapes, errors, types, tracing and compilation."""

import functools
import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.losses import (
    OverlapCounts,
    cross_entropy,
    dice,
    dice_from_counts,
    overlap_counts,
    self_adjusting_dice,
)

LOSSES = [cross_entropy, dice, overlap_counts, self_adjusting_dice]
LOGITS = np.random.default_rng(0).normal(size=(8, 6, 3)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 3, (8, 6))

BAD_ARRAYS = {
    "labels has shape (8, 128) but logits (8, 64, 9) wants (8, 64)": {
        "logits": jnp.zeros((8, 64, 9)),
        "labels": jnp.zeros((8, 128), int),
    },
    "labels has shape (8, 6, 3) but logits (8, 6, 3) wants (8, 6)": {
        "labels": np.zeros((8, 6, 3), int)
    },
    "labels has shape (8, 6) but logits (8, 6, 3) wants (8, 6, 3) for float labels": {
        "labels": np.zeros((8, 6))
    },
    "labels has shape (8, 6) but logits (8, 6, 3) wants (8, 6, 3)": {
        "class_axis": None
    },
    "labels has shape (8, 6) but logits (8, 6, 3) wants (6, 3)": {"class_axis": 0},
    "where has shape (8, 1) but logits (8, 6, 3) wants (8, 6)": {
        "where": np.ones((8, 1), bool)
    },
    "where has shape (8, 6, 3) but logits (8, 6, 3) wants (8, 6)": {
        "where": np.ones((8, 6, 3), bool)
    },
    "where has dtype float32, not bool": {"where": np.ones((8, 6), np.float32)},
    "logits has dtype int32, not a float": {"logits": LOGITS.astype(np.int32)},
    "labels has dtype bool, not integer or float": {"labels": np.ones((8, 6), bool)},
    "class_axis is 3 but logits has shape (8, 6, 3)": {"class_axis": 3},
    "logits has shape (8, 6, 0): no classes on axis 2": {"logits": LOGITS[..., :0]},
    "labels has value 3 but 3 classes want 0 to 2, or -100 for masked": {
        "labels": np.where(LABELS == 1, 3, LABELS)
    },
    "labels has value -1 but 3 classes want 0 to 2, or -100 for masked": {
        "labels": np.where(LABELS == 1, -1, LABELS)
    },
    "labels has value 2 but 2 classes want 0 to 1, or -100 for masked": {
        "labels": np.full((8, 6, 3), 2),
        "class_axis": None,
    },
    "labels has value -100.0 but probabilities want 0 to 1": {
        "labels": np.full((8, 6, 3), -100.0)
    },
    "labels has value nan but probabilities want 0 to 1": {
        "labels": np.full((8, 6, 3), np.nan)
    },
}


def raises(message):
    return pytest.raises(ValueError, match="^" + re.escape(message))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("message", BAD_ARRAYS)
def test_arrays_that_do_not_fit_are_refused(message, loss):
    arguments = {"logits": LOGITS, "labels": LABELS} | BAD_ARRAYS[message]
    with raises(message):
        loss(arguments.pop("logits"), arguments.pop("labels"), **arguments)


@pytest.mark.parametrize("loss", LOSSES)
def test_shapes_are_checked_under_jit_too(loss):
    with raises("labels has shape (8, 5) but logits (8, 6, 3) wants (8, 6)"):
        jax.jit(loss)(LOGITS, LABELS[:, :5])


def test_labels_out_of_range_are_fine_where_masked():
    wrong = np.where(LABELS == 1, 77, LABELS)
    got = cross_entropy(LOGITS, wrong, where=LABELS != 1)
    np.testing.assert_array_equal(got, cross_entropy(LOGITS, LABELS, where=LABELS != 1))


@pytest.mark.parametrize(
    ("loss", "settings", "message"),
    [
        (self_adjusting_dice, {"alpha": -1.0}, "alpha is -1.0 but must be in [0, inf)"),
        (self_adjusting_dice, {"alpha": np.nan}, "alpha is nan but"),
        (self_adjusting_dice, {"smooth": -2}, "smooth is -2 but must be in [0, inf)"),
        (self_adjusting_dice, {"alpha": np.ones(3)}, "alpha has shape (3,), not ()"),
        (overlap_counts, {"alpha": np.inf}, "alpha is inf but must be in [0, inf)"),
        (dice, {"smooth": -0.5}, "smooth is -0.5 but must be in [0, inf)"),
        (dice, {"absent": "drop"}, "absent is 'drop' but must be 'smooth' or 'skip'"),
        (dice, {"axis": 2}, "axis is 2 but labels has 2 axes"),
        (dice, {"axis": (0, -2)}, "axis is (0, -2) but names an axis twice"),
        (
            cross_entropy,
            {"label_smoothing": 1.5},
            "label_smoothing is 1.5 but must be in [0, 1]",
        ),
        (
            cross_entropy,
            {"class_weights": [1.0, -3.0, 1.0]},
            "class_weights is -3.0 but must be in [0, inf)",
        ),
        (
            cross_entropy,
            {"class_weights": (1.0, 3.0)},
            "class_weights has shape (2,), not (3,)",
        ),
        (
            self_adjusting_dice,
            {"form": "silver"},
            "form is 'silver' but must be 'gold' or 'one_versus_rest'",
        ),
        (
            self_adjusting_dice,
            {"axis": None},
            "axis is None but form='gold' wants axis=(); use form='one_versus_rest'",
        ),
    ],
)
def test_settings_out_of_bounds_are_refused(loss, settings, message):
    with raises(message):
        loss(LOGITS, LABELS, **settings)
    # Known values are seen inside a jit as well.
    with raises(message):
        jax.jit(functools.partial(loss, **settings))(LOGITS, LABELS)


def test_gold_form_refuses_soft_labels():
    with raises("labels are float32, not integers; use form='one_versus_rest'"):
        self_adjusting_dice(LOGITS, np.zeros_like(LOGITS))


def test_unknown_keywords_are_refused():
    with pytest.raises(TypeError, match="gamma"):
        dice(LOGITS, LABELS, gamma=1.0)


def test_counts_of_different_shapes_do_not_add():
    rows, whole = (overlap_counts(LOGITS, LABELS, axis=a) for a in (1, None))
    with raises("counts of shape (8, 3) and (3,) do not add"):
        rows + whole
    with raises("counts has arrays of different shapes: [(3,), (3,), (8, 3)]"):
        dice_from_counts(
            OverlapCounts(
                intersection=whole.intersection,
                predicted=whole.predicted,
                actual=rows.actual,
            )
        )
    with raises("smooth is -1.0 but must be in [0, inf)"):
        dice_from_counts(whole, smooth=-1.0)


@pytest.mark.parametrize("loss", [self_adjusting_dice, overlap_counts])
def test_a_new_alpha_compiles_nothing(loss):
    logits = np.tile(LOGITS, (1, 2, 1))  # a shape that no other test compiles
    labels = np.tile(LABELS, (1, 2))
    loss(logits, labels, alpha=0.25)
    before = loss.jitted._cache_size()
    results = [
        jax.tree.leaves(loss(logits, labels, alpha=alpha))[0]
        for alpha in (0.5, 1, np.float64(2.0), jnp.float32(3.0), jnp.asarray(4))
    ]
    assert loss.jitted._cache_size() == before
    assert len({float(one.sum()) for one in results}) == 5


def test_a_new_smooth_compiles_nothing_and_a_new_axis_does():
    dice(LOGITS[:5], LABELS[:5], smooth=0.5)
    before = dice.jitted._cache_size()
    dice(LOGITS[:5], LABELS[:5], smooth=7)
    assert dice.jitted._cache_size() == before
    dice(LOGITS[:5], LABELS[:5], smooth=7, axis=0)
    assert dice.jitted._cache_size() == before + 1


@pytest.mark.parametrize("form", ["gold", "one_versus_rest"])
def test_vmap_over_alpha(form):
    alphas = jnp.array([0.0, 0.1, 1.0])
    loss = functools.partial(self_adjusting_dice, LOGITS, LABELS, form=form)
    got = jax.vmap(lambda alpha: loss(alpha=alpha))(alphas)
    for one, alpha in zip(got, alphas, strict=True):
        np.testing.assert_allclose(one, loss(alpha=alpha), rtol=1e-6, atol=1e-7)


def test_inside_another_jit_with_traced_settings():
    @jax.jit
    def both(logits, labels, alpha, smooth):
        counts = overlap_counts(logits, labels, alpha=alpha)
        whole = self_adjusting_dice(
            logits,
            labels,
            axis=None,
            form="one_versus_rest",
            alpha=alpha,
            smooth=smooth,
        )
        return dice_from_counts(counts, smooth=smooth), whole

    composed, whole = both(LOGITS, LABELS, 0.5, 2.0)
    np.testing.assert_array_equal(composed, whole)


def test_counts_are_a_pytree_that_adds_and_crosses_jit():
    counts = overlap_counts(LOGITS, LABELS)
    assert len(jax.tree.leaves(counts)) == 3
    twice = jax.jit(lambda counts: counts + counts)(counts)
    np.testing.assert_allclose(twice.actual, 2 * counts.actual)
    assert isinstance(twice, OverlapCounts)


@pytest.mark.parametrize("loss", [cross_entropy, dice, self_adjusting_dice])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_results_are_float32_unless_float64(dtype, loss):
    want = "float64" if dtype == "float64" else "float32"
    with jax.enable_x64(True):  # where a Python or NumPy scalar could promote
        settings = {} if loss is cross_entropy else {"squared": True}
        if loss is self_adjusting_dice:
            settings |= {"alpha": np.float64(0.5), "smooth": 0.5}
        got = loss(jnp.asarray(LOGITS, dtype), LABELS, **settings)
        assert {str(one.dtype) for one in jax.tree.leaves(got)} == {want}


def test_half_precision_is_computed_in_float32():
    half = jnp.asarray(LOGITS, jnp.bfloat16)
    for loss in (cross_entropy, dice, self_adjusting_dice):
        np.testing.assert_array_equal(
            loss(half, LABELS), loss(half.astype(jnp.float32), LABELS)
        )


def test_label_types_do_not_matter():
    want = dice(LOGITS, LABELS)
    for dtype in (np.int8, np.uint8, np.int64):
        np.testing.assert_array_equal(dice(LOGITS, LABELS.astype(dtype)), want)
    yes = LABELS == 1
    z = LOGITS[..., 0]
    np.testing.assert_array_equal(
        dice(z, yes, class_axis=None), dice(z, yes.astype(int), class_axis=None)
    )


@pytest.mark.parametrize("loss", [*LOSSES, dice_from_counts])
def test_losses_keep_their_signature_and_docstring(loss):
    signature = inspect.signature(loss)
    assert "Example:" in loss.__doc__ and "aclanthology" in loss.__doc__
    if loss is not dice_from_counts:
        assert list(signature.parameters)[:3] == ["logits", "labels", "where"]
    for parameter in list(signature.parameters.values())[2:]:
        assert parameter.kind is parameter.KEYWORD_ONLY
