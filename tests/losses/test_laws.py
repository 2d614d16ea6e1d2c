"""Laws that hold for every loss: masks, permutations, sums of counts, finiteness."""

import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dicejax.losses import (
    cross_entropy,
    dice,
    dice_from_counts,
    overlap_counts,
    self_adjusting_dice,
)

one_versus_rest = functools.partial(self_adjusting_dice, form="one_versus_rest")
binary_dice = functools.partial(dice, class_axis=None)
LOSSES = {
    "cross_entropy": functools.partial(cross_entropy),
    "smoothed": functools.partial(cross_entropy, label_smoothing=0.1),
    "dice": functools.partial(dice),
    "dice_unsmoothed": functools.partial(dice, smooth=0.0, squared=True),
    "dice_rows": functools.partial(dice, axis=-1, absent="skip"),
    "gold": functools.partial(self_adjusting_dice, alpha=0.5),
    "one_versus_rest": functools.partial(one_versus_rest, alpha=0.5, smooth=0.0),
    "set": functools.partial(one_versus_rest, axis=None, stop_gradient_weight=True),
    "binary_cross_entropy": functools.partial(cross_entropy, class_axis=None),
    "binary_dice": binary_dice,
    "binary_gold": functools.partial(self_adjusting_dice, class_axis=None, alpha=0.5),
}
SHAPE, CLASSES = (3, 4), 3


@pytest.fixture(scope="module", params=LOSSES)
def loss(request):
    return request.param, LOSSES[request.param]


@st.composite
def cases(draw, binary):
    """Logits, labels, where."""
    shape = SHAPE if binary else (*SHAPE, CLASSES)
    finite = st.floats(-100, 100, width=32)
    logits = draw(hnp.arrays(np.float32, shape, elements=finite))
    top = 1 if binary else CLASSES - 1
    labels = draw(hnp.arrays(np.int32, SHAPE, elements=st.integers(0, top)))
    return logits, labels, draw(hnp.arrays(bool, SHAPE))


laws = hypothesis.settings(max_examples=20, deadline=None, derandomize=True)


@functools.cache
def value_and_gradient(name):
    @jax.jit
    def both(logits, labels, where):
        def total(logits):
            losses = LOSSES[name](logits, labels, where=where)
            return losses.sum(), losses

        (_, losses), gradient = jax.value_and_grad(total, has_aux=True)(logits)
        return losses, gradient

    return both


@laws
@hypothesis.given(data=st.data())
def test_masked_entries_change_nothing(loss, data):
    name, _ = loss
    binary = name.startswith("binary")
    logits, labels, where = data.draw(cases(binary))
    junk = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, 3e38]))
    junk_label = data.draw(st.sampled_from([-100, -1, 99]))
    wide = where if binary else where[..., None]
    both = value_and_gradient(name)

    want = both(logits, labels, where)
    dirty = (
        np.where(wide, logits, np.float32(junk)),
        np.where(where, labels, junk_label),
    )
    for got in (
        both(*dirty, where),
        both(dirty[0], np.where(where, labels, -100), np.ones(SHAPE, bool)),
    ):
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one, other)
        assert np.isfinite(got[1]).all()
        assert not np.where(wide, 0, got[1]).any()


@pytest.mark.parametrize(
    "name", ["smoothed", "dice_unsmoothed", "one_versus_rest", "binary_gold"]
)
def test_masked_soft_labels_change_nothing(name):
    function = LOSSES[name]
    rng = np.random.default_rng(0)
    shape = SHAPE if name.startswith("binary") else (*SHAPE, CLASSES)
    logits, labels = rng.normal(size=shape), rng.random(shape)
    where = rng.random(SHAPE) < 0.6
    wide = where.reshape(SHAPE + (1,) * (len(shape) - 2))
    both = jax.jit(jax.grad(lambda z, y: function(z, y, where=where).sum(), (0, 1)))
    want = both(logits, labels)
    got = both(np.where(wide, logits, np.nan), np.where(wide, labels, np.nan))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)
        assert not np.where(wide, 0, one).any()


@laws
@hypothesis.given(data=st.data())
def test_order_of_elements_and_classes_does_not_matter(loss, data):
    name, _ = loss
    binary = name.startswith("binary")
    logits, labels, where = data.draw(cases(binary))
    rows = np.array(data.draw(st.permutations(range(SHAPE[0]))))
    columns = np.array(data.draw(st.permutations(range(SHAPE[1]))))
    classes = np.array(data.draw(st.permutations(range(CLASSES))))
    both = value_and_gradient(name)

    def shuffled(array):
        return array[rows][:, columns]

    moved, renamed = shuffled(logits), shuffled(labels)
    if not binary:
        moved, renamed = moved[..., classes], np.argsort(classes)[renamed]
    want, _ = both(logits, labels, where)
    got, _ = both(moved, renamed.astype(np.int32), shuffled(where))
    want = np.asarray(want)
    if want.shape[: len(SHAPE)] == SHAPE:
        want = shuffled(want)
    elif want.shape[:1] == SHAPE[:1] and name == "dice_rows":
        want = want[rows]
    if not binary and want.shape[-1:] == (CLASSES,):
        want = want[..., classes]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@laws
@hypothesis.given(data=st.data(), cut=st.integers(0, SHAPE[0]))
def test_counts_of_a_concatenation_are_the_sum_of_the_counts(data, cut):
    logits, labels, where = data.draw(cases(binary=False))
    for axis in (None, 0, (0, 1)):
        count = functools.partial(overlap_counts, axis=axis, alpha=0.5)
        whole = count(logits, labels, where=where)
        parts = count(logits[:cut], labels[:cut], where=where[:cut]) + count(
            logits[cut:], labels[cut:], where=where[cut:]
        )
        for one, other in zip(*map(jax.tree.leaves, (whole, parts)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        dice_from_counts(whole), dice_from_counts(parts), atol=1e-6
    )


@laws
@hypothesis.given(data=st.data())
def test_losses_stay_in_their_range(loss, data):
    name, _ = loss
    logits, labels, where = data.draw(cases(name.startswith("binary")))
    losses, _ = value_and_gradient(name)(logits, labels, where)
    assert (losses >= -1e-6).all()
    if "entropy" not in name and name != "smoothed":
        assert (losses <= 1).all()


PATTERNS = np.array(
    [[1, -1, 0], [1, 1, -1], [1, 1, 1], [-1, 0, 1], [-1, -1, -1], [0, 1, 0.999]]
)


HALF, FULL = ("float16", "bfloat16"), ("float32", "float64")
FINITE = [
    *((name, dtype) for name in ("gold", "one_versus_rest") for dtype in HALF + FULL),
    *((name, dtype) for name in ("set", "binary_gold") for dtype in FULL),
    ("cross_entropy", "float16"),
    ("dice_unsmoothed", "bfloat16"),
    ("dice_rows", "float32"),
    ("binary_dice", "float32"),
]


@pytest.mark.parametrize(("name", "dtype"), FINITE)
def test_gradients_are_finite_at_every_size_and_alpha(name, dtype):
    function = LOSSES[name]
    adjustable = function.func not in (cross_entropy, dice)
    with jax.enable_x64(dtype == "float64"):
        sizes = np.array([1e-3, 1.0, 8.0, 17.0, 30.0, 90.0, 800.0, 1e4])
        logits = jnp.asarray(sizes[:, None, None] * PATTERNS, dtype)
        logits = logits[..., 0] if name.startswith("binary") else logits
        labels = jnp.asarray(np.arange(48).reshape(8, 6) % 2)

        def total(logits, labels, alpha):
            settings = {"alpha": alpha} if adjustable else {}
            return function(logits[None], labels[None], **settings).sum()

        # One size at a time, so that no size hides in the sum of another.
        both = jax.value_and_grad(total, (0, 2))
        both = jax.vmap(jax.vmap(both, (0, 0, None)), (None, None, 0))
        alphas = jnp.array([0.0, 1e-3, 0.01, 0.5, 1.0, 2.0, 8.0])
        value, (gradient, slope) = jax.jit(both)(logits, labels, alphas)
        assert gradient.dtype == dtype
        assert value.dtype == ("float64" if dtype == "float64" else "float32")
        for one in (value, gradient.astype(value.dtype), slope):
            assert np.isfinite(one).all()


def test_masks_are_never_an_outer_product():
    # A mask [N, 1] against scores [N] once became [N, N] and masked nothing.
    z, y = jnp.array([3.0, -1.0, 2.0, 0.5]), jnp.array([1, 0, 0, 1])
    where = jnp.array([True, True, False, False])
    with pytest.raises(ValueError, match=r"where has shape \(4, 1\) .* wants \(4,\)"):
        binary_dice(z, y, where=where[:, None])
    np.testing.assert_allclose(
        binary_dice(z, y, where=where), binary_dice(z[:2], y[:2]), rtol=1e-6
    )


def test_masks_of_as_many_elements_as_classes_mask_elements():
    logits = jnp.array([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0], [3.0, 0.0, 0.0]])
    labels, where = jnp.array([0, 1, 2]), jnp.array([True, True, False])
    for function in (dice, functools.partial(dice, smooth=0.0, squared=True)):
        np.testing.assert_allclose(
            function(logits, labels, where=where),
            function(logits[:2], labels[:2]),
            rtol=1e-6,
        )
    # One set per element, no smoothing, a masked row: 0, not 0/0.
    rows = dice(logits, labels, where=where, axis=(), smooth=0.0)
    assert rows[2].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["cross_entropy", "dice", "gold", "binary_dice"])
def test_every_loss_sees_the_same_elements(name):
    # Query and padding tokens of a start or end head count in no loss at all.
    function = LOSSES[name]
    rng = np.random.default_rng(1)
    shape = (2, 6) if name.startswith("binary") else (2, 6, CLASSES)
    logits, labels = rng.normal(size=shape), rng.integers(0, 2, (2, 6))
    context = np.zeros((2, 6), bool)
    context[:, 2:5] = True
    inside = np.asarray(function(logits[:, 2:5], labels[:, 2:5]))
    masked = np.asarray(function(logits, labels, where=context))
    if masked.shape != inside.shape:
        assert not masked[~context].any()
        masked = masked[:, 2:5]
    np.testing.assert_allclose(masked, inside, rtol=1e-5, atol=1e-6)
