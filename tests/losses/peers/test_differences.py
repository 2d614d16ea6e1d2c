"""Where packages differ from our losses: a test states how, with both numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dicejax import losses

from .adapters import (
    ROUNDING,
    SHAPE,
    SINGLE,
    assert_close,
    assert_same,
    case,
    in_torch,
    of_monai,
    of_optax,
    of_smp,
    of_torch,
    one_hot,
    ours,
    outcomes,
    probabilities,
    scaled,
)


@pytest.mark.parametrize("logit", [1.0, 5.0, 10.0, 15.0, 18.0, 40.0, 80.0])
def test_easy_elements_keep_their_value_in_float32_as_sigmoids_of_peers_do(logit):
    z, labels = np.array([logit], np.float32), np.array([1])
    mine = losses.cross_entropy(z, labels, class_axis=None)
    np.testing.assert_allclose(mine, [np.log1p(np.exp(-logit))], rtol=1e-6)
    optaxs = optax.sigmoid_binary_cross_entropy(jnp.asarray(z), labels)
    np.testing.assert_allclose(optaxs, mine, rtol=1e-6)
    theirs, _ = of_torch("BCEWithLogitsLoss", z, labels.astype(np.float32))
    np.testing.assert_allclose(theirs, mine[0], rtol=1e-6)
    # A softmax of theirs loses it to the rounding of p = 1.
    pair = np.array([[0.0, logit]], np.float32)
    np.testing.assert_allclose(losses.cross_entropy(pair, labels), mine, rtol=1e-6)
    softmax, _ = of_torch("CrossEntropyLoss", pair, labels)
    assert (softmax == 0) == (logit > 17)


def test_smps_multiclass_focal_is_not_a_softmax_but_sigmoids_one_versus_rest():
    logits, labels = case()
    theirs = of_smp("FocalLoss", logits, labels, "multiclass", gamma=2.0)
    targets = one_hot(labels).astype(int)
    mine = ours(losses.focal, logits, targets, multi_label=True)
    assert_same(scaled(mine, 1 / targets.size), theirs)
    assert abs(float(losses.focal(logits, labels).mean()) - theirs[0]) > 0.1


@pytest.mark.parametrize("gap", [18.0, 30.0, 80.0])
def test_a_power_of_1_minus_p_has_a_nan_gradient_in_monai_and_a_finite_one_in_ours(gap):
    logits, labels = np.array([[gap, 0.0]], np.float32), np.array([0])
    value, gradient = of_monai("FocalLoss", logits, labels, gamma=0.5)
    assert np.isfinite(value)
    assert np.isnan(gradient).any()
    value, gradient = ours(losses.focal, logits, labels, gamma=0.5)
    # Where q = 1 - p is small it is q^1.5; float32 ends near 1e-38.
    expected = np.exp(-1.5 * gap)
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-37)
    slopes = [[-1.5 * expected, 1.5 * expected]]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-37)


def test_smp_skips_absent_classes_of_which_ours_counts_false_positives():
    logits, labels = case(present=4)
    theirs, _ = of_smp("DiceLoss", logits, labels, "multiclass", smooth=0.5)
    counted = losses.dice(logits, labels, smooth=1.0)
    assert float(counted[4]) > 0.7
    np.testing.assert_allclose(counted.mean() - theirs, counted[4] / 5, rtol=1e-9)


def test_optax_smooths_dice_twice_as_much():
    logits, labels = case()
    settings = {"axis": (0, 1), "reduction": "none", "smooth": 0.5}
    theirs, _ = of_optax("dice_loss", logits, labels, **settings)
    assert abs(float(losses.dice(logits, labels, smooth=0.5).sum() - theirs)) > 0.05


def test_smp_takes_the_power_of_the_mean_over_classes_not_of_each_class():
    logits, labels = case()
    settings = {"alpha": 0.3, "beta": 0.7, "smooth": 0.5}
    theirs = of_smp(
        "TverskyLoss", logits, labels, "multiclass", gamma=3 / 4, **settings
    )

    def power_of_mean(z):
        return losses.tversky(z, labels, **settings).mean() ** 0.75

    assert_same(ours(power_of_mean, logits), theirs)
    each = losses.focal_tversky(logits, labels, gamma=4 / 3, **settings)
    assert_close(each, losses.tversky(logits, labels, **settings) ** 0.75)
    assert float(each.mean()) < theirs[0] - 1e-4  # a concave power of unequal terms


def test_monai_smooths_generalized_dice_in_units_of_its_weights_ours_in_counts():
    logits, labels = case(present=4)
    mine = ours(losses.generalized_dice, logits, labels, smooth=1.0, absent="smooth")
    largest = float(np.bincount(labels.ravel())[:4].min()) ** -2.0
    in_units, in_counts = (
        of_monai("GeneralizedDiceLoss", logits, labels, batch=True, smooth=smooth)
        for smooth in (largest, 1.0)
    )
    assert_same(mine, in_units, **SINGLE)
    assert in_counts[0] < float(mine[0]) - 0.1


def test_optax_gives_an_absent_class_all_the_weight_of_generalized_dice():
    logits, labels = case(shape=(7, 5), present=4)
    peer = optax.losses.multiclass_generalized_dice_loss(
        jnp.asarray(logits)[None], one_hot(labels)[None]
    )
    each = losses.dice(logits, labels, smooth=2.0)
    np.testing.assert_allclose(peer, each[4], rtol=1e-5)  # class 4 alone: the absent
    # Ours leaves it out, and is a ratio of sums, not a mean of ratios.
    mine = losses.generalized_dice(logits, labels, smooth=0.0)
    p, y = np.asarray(jax.nn.softmax(logits))[:, :4], one_hot(labels)[:, :4]
    weights = y.sum(0) ** -2.0
    ratio = 2 * (weights * (p * y).sum(0)).sum() / (weights * (p + y).sum(0)).sum()
    assert_close(mine, 1 - ratio)
    assert abs(float(mine) - float(peer)) > 0.1


def test_p_equal_to_y_brings_semimetrics_to_0_and_not_dice_or_jaccard():
    targets = probabilities()
    exact = np.log(targets)
    least = {"intersection": "minimum"}
    for loss, settings in (
        (losses.dice_semimetric, {"variant": "dml1"}),
        (losses.jaccard, least),
        (losses.jaccard, {"squared": True}),
        (losses.tversky, least),
    ):
        assert abs(loss(exact, targets, **settings)).max() < 1e-12
    assert losses.dice(exact, targets).min() > 0.1
    assert losses.jaccard(exact, targets).min() > 0.1
    with pytest.raises(ValueError, match="squared needs intersection 'product'"):
        losses.jaccard(exact, targets, squared=True, **least)


def test_smps_binary_lovasz_is_a_hinge_of_logits_not_of_errors_of_sigmoids():
    logits, labels = case()[0][..., 0], outcomes()[..., 0]
    single = logits.astype(np.float32)  # all it takes
    theirs, _ = of_smp("LovaszLoss", single, labels, "binary")
    mine = losses.lovasz_softmax(logits, labels, class_axis=None)
    pair = np.stack([np.zeros_like(logits), logits], -1)  # softmax over two
    assert_close(mine, losses.lovasz_softmax(pair, labels)[1])
    assert 0 < float(mine) < 1 < theirs


def test_a_mask_before_the_sigmoid_leaks_a_half_into_the_sums_and_ours_does_not():
    logits, labels = case()[0], outcomes()
    where = np.random.default_rng(4).random(SHAPE[:2]) < 0.5

    def leaking(padding):  # sigma(0) = 1/2 for every masked entry
        p = jax.nn.sigmoid(jnp.pad(logits * where[..., None], padding))
        y = np.pad(labels * where[..., None], padding)
        above, below = 2 * (p * y).sum((0, 1)), p.sum((0, 1)) + y.sum((0, 1))
        return 1 - (above + 1) / (below + 1)

    def mine(padding):
        padded = np.pad(logits, padding), np.pad(labels, padding)
        seen = np.pad(where, padding[:2])
        return losses.dice(*padded, where=seen, multi_label=True, smooth=1.0)

    none, some = ((0, 0), (0, 0), (0, 0)), ((0, 0), (0, 50), (0, 0))
    assert_close(mine(some), mine(none))
    assert float((leaking(none) - mine(none)).min()) > 0.05
    assert float((leaking(some) - leaking(none)).min()) > 0.1

    monai = pytest.importorskip("monai.losses")
    torch = pytest.importorskip("torch")
    smooth = {"smooth_nr": 1.0, "smooth_dr": 1.0}
    peer = monai.MaskedDiceLoss(sigmoid=True, batch=True, **smooth)  # 1.6: after
    mask = torch.tensor(where)[:, None]
    theirs, _ = in_torch(lambda z, y: peer(z, y, mask), logits, labels)
    np.testing.assert_allclose(theirs, mine(none).mean(), **ROUNDING)
