"""Dice and related losses vs. MONAI, SMP and optax: equal, or apart by a number."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dicejax import losses

from .beside import (
    CLIPPED,
    ROUNDING,
    SHAPE,
    SINGLE,
    SOFTMAX,
    assert_close,
    assert_same,
    case,
    in_torch,
    one_hot,
    ours,
    outcomes,
    probabilities,
    scaled,
    second,
    smoothed,
)


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("smooth", [1e-5, 1.0])
def test_dice_is_that_of_monai(torch, monai, smooth, squared, batch):
    logits, labels = case(present=4)  # class 4 is absent: the formula as written
    settings = {"smooth": smooth, "squared": squared, "axis": None if batch else -1}
    mine = ours(losses.dice, logits, labels, **settings)
    peer = monai.DiceLoss(
        **SOFTMAX,
        squared_pred=squared,
        batch=batch,
        reduction="sum",
        **smoothed(smooth),
    )
    rounding = SINGLE if squared else ROUNDING  # its norms of targets are float32
    assert_same(mine, in_torch(torch, peer, logits, labels[:, None]), **rounding)


def test_multi_label_dice_is_that_of_monai_with_sigmoids(torch, monai):
    logits, labels = case()[0], outcomes()
    settings = {"multi_label": True, "axis": -1, "smooth": 0.5}
    mine = ours(losses.dice, logits, labels, **settings)
    peer = monai.DiceLoss(sigmoid=True, reduction="sum", **smoothed(0.5))
    assert_same(mine, in_torch(torch, peer, logits, second(labels)))


def test_ignored_entries_are_left_out_as_in_monai_and_smp(torch, monai, smp):
    logits, labels = case()
    labels[1, 2:6] = -100
    mine = scaled(ours(losses.dice, logits, labels), 1 / 5)
    peer = monai.DiceLoss(**SOFTMAX, ignore_index=-100, batch=True, **smoothed(1.0))
    assert_same(mine, in_torch(torch, peer, logits, labels[:, None]))
    peer = smp.DiceLoss("multiclass", ignore_index=-100, smooth=0.5)
    assert_same(mine, in_torch(torch, peer, logits, labels))


@pytest.mark.parametrize("smooth", [0.0, 0.5])
def test_smp_smooths_dice_twice_as_much_and_skips_absent_classes(torch, smp, smooth):
    logits, labels = case(present=4)  # class 4 is absent
    settings = {"smooth": 2 * smooth, "absent": "skip"}
    mine = scaled(ours(losses.dice, logits, labels, **settings), 1 / 5)
    peer = smp.DiceLoss("multiclass", smooth=smooth)
    assert_same(mine, in_torch(torch, peer, logits, labels))
    # Ours counts false positives of an absent class, without "skip".
    counted = losses.dice(logits, labels, smooth=2 * smooth)
    assert float(counted[4]) > 0.7
    np.testing.assert_allclose(counted.mean() - mine[0], counted[4] / 5, rtol=1e-9)


@pytest.mark.parametrize("smooth", [0.0, 0.5])
def test_optax_smooths_dice_twice_as_much(smooth):
    logits, labels = case()
    peer = {"axis": (0, 1), "reduction": "none", "smooth": smooth}
    theirs = ours(optax.losses.dice_loss, logits, one_hot(labels), **peer)
    assert_same(ours(losses.dice, logits, labels, smooth=2 * smooth), theirs)
    same = losses.dice(logits, labels, smooth=smooth)
    assert (abs(float(same.sum()) - float(theirs[0])) > 0.05) == (smooth > 0)

    logits, labels = case()[0][..., 0], outcomes()[..., 0]
    theirs = ours(optax.losses.binary_dice_loss, logits, labels, smooth=smooth)
    settings = {"class_axis": None, "axis": -1, "smooth": 2 * smooth}
    assert_same(ours(losses.dice, logits, labels, **settings), theirs)


@pytest.mark.parametrize("smooth", [0.5, 1.0])
def test_jaccard_is_that_of_smp_and_half_as_smooth_as_that_of_monai(
    torch, monai, smp, smooth
):
    logits, labels = case()
    mine = scaled(ours(losses.jaccard, logits, labels, smooth=smooth), 1 / 5)
    peer = smp.JaccardLoss("multiclass", smooth=smooth)
    assert_same(mine, in_torch(torch, peer, logits, labels))
    peer = monai.DiceLoss(**SOFTMAX, jaccard=True, batch=True, **smoothed(2 * smooth))
    assert_same(mine, in_torch(torch, peer, logits, labels[:, None]))


@pytest.mark.parametrize(("alpha", "beta"), [(0.3, 0.7), (0.9, 0.1), (1.0, 1.0)])
def test_tversky_is_that_of_monai_smp_and_optax(torch, monai, smp, alpha, beta):
    logits, labels = case()
    weights = {"alpha": alpha, "beta": beta}
    mine = ours(losses.tversky, logits, labels, smooth=0.5, **weights)
    mine = scaled(mine, 1 / 5)
    peer = monai.TverskyLoss(**SOFTMAX, batch=True, **weights, **smoothed(0.5))
    assert_same(mine, in_torch(torch, peer, logits, labels[:, None]))
    peer = smp.TverskyLoss("multiclass", smooth=0.5, **weights)
    assert_same(mine, in_torch(torch, peer, logits, labels))
    weights |= {"smooth": 0.5, "axis": (0, 1)}
    assert_same(mine, ours(optax.losses.dice_loss, logits, one_hot(labels), **weights))


def test_focal_tversky_is_smps_of_one_class_with_the_inverse_exponent(torch, smp):
    logits, labels = case()[0][..., 0], outcomes()[..., 0]
    settings = {"alpha": 0.3, "beta": 0.7, "smooth": 0.5}
    peer = smp.TverskyLoss("binary", gamma=3 / 4, **settings)
    theirs = in_torch(torch, lambda z, y: peer(z[:, None], y[:, None]), logits, labels)
    settings |= {"class_axis": None, "gamma": 4 / 3}
    assert_same(ours(losses.focal_tversky, logits, labels, **settings), theirs)


def test_smp_takes_the_power_of_the_mean_over_classes_not_of_each_class(torch, smp):
    logits, labels = case()
    settings = {"alpha": 0.3, "beta": 0.7, "smooth": 0.5}
    peer = smp.TverskyLoss("multiclass", gamma=3 / 4, **settings)
    theirs = in_torch(torch, peer, logits, labels)

    def power_of_mean(z):
        return losses.tversky(z, labels, **settings).mean() ** 0.75

    assert_same(ours(power_of_mean, logits), theirs)
    each = losses.focal_tversky(logits, labels, gamma=4 / 3, **settings)
    assert_close(each, losses.tversky(logits, labels, **settings) ** 0.75)
    assert float(each.mean()) < theirs[0] - 1e-4  # a concave power of unequal terms


@pytest.mark.parametrize("weighting", ["square", "simple", "uniform"])
@pytest.mark.parametrize("batch", [False, True])
def test_generalized_dice_is_that_of_monai(torch, monai, batch, weighting):
    logits, labels = case(present=4)  # absent: the largest weight of those present
    settings = {"weighting": weighting, "smooth": 0.0, "absent": "smooth"}
    settings["axis"] = None if batch else -1
    mine = ours(losses.generalized_dice, logits, labels, **settings)
    peer = monai.GeneralizedDiceLoss(
        **SOFTMAX, w_type=weighting, batch=batch, reduction="sum", **smoothed(0.0)
    )
    theirs = in_torch(torch, peer, logits, labels[:, None])
    assert_same(mine, theirs, **SINGLE)  # its weights are float32


def test_monai_smooths_generalized_dice_in_units_of_its_weights_ours_in_counts(
    torch, monai
):
    logits, labels = case(present=4)
    mine = ours(losses.generalized_dice, logits, labels, smooth=1.0, absent="smooth")
    largest = float(np.bincount(labels.ravel())[:4].min()) ** -2.0
    for smooth, same in ((largest, True), (1.0, False)):
        peer = monai.GeneralizedDiceLoss(**SOFTMAX, batch=True, **smoothed(smooth))
        theirs = in_torch(torch, peer, logits, labels[:, None])
        if same:
            assert_same(mine, theirs, **SINGLE)
        else:
            assert theirs[0] < float(mine[0]) - 0.1


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
    want = 1 - 2 * (weights * (p * y).sum(0)).sum() / (weights * (p + y).sum(0)).sum()
    assert_close(mine, want)
    assert abs(float(mine) - float(peer)) > 0.1


def test_dice_semimetric_is_monais_dice_of_soft_labels(torch, monai):
    logits, targets = case()[0], probabilities()
    settings = {"variant": "dml1", "smooth": 0.5}
    mine = ours(losses.dice_semimetric, logits, targets, **settings)
    settings = {"soft_label": True, "batch": True, "reduction": "sum"}
    peer = monai.DiceLoss(softmax=True, **settings, **smoothed(0.5))
    assert_same(mine, in_torch(torch, peer, logits, second(targets)))
    # Without the option MONAI's is our Dice, which p = y does not bring to 0.
    peer = monai.DiceLoss(softmax=True, batch=True, reduction="sum", **smoothed(0.5))
    plain = ours(losses.dice, logits, targets, smooth=0.5)
    assert_same(plain, in_torch(torch, peer, logits, second(targets)))
    exact = np.log(targets)
    assert abs(losses.dice_semimetric(exact, targets, variant="dml1")).max() < 1e-12
    assert losses.dice(exact, targets).min() > 0.1


@pytest.mark.parametrize("batch", [False, True])
def test_lovasz_softmax_is_its_authors_code_in_smp(torch, smp, batch):
    logits, labels = case(present=4)  # they average over the classes present

    def mine(z):
        each = losses.lovasz_softmax(z, labels, axis=None if batch else -1)
        present = one_hot(labels).sum((0, 1) if batch else 1) > 0
        return (each.sum(-1) / present.sum(-1)).mean()

    peer = smp.LovaszLoss("multiclass", per_image=not batch)
    logits = logits.astype(np.float32)  # all it takes
    theirs = in_torch(torch, lambda z, y: peer(z[..., None], y), logits, labels)
    assert_same(ours(mine, logits.astype(float)), theirs, **SINGLE)


def test_smps_binary_lovasz_is_a_hinge_of_logits_not_of_errors_of_sigmoids(torch, smp):
    logits, labels = case()[0][..., 0], outcomes()[..., 0]
    peer = smp.LovaszLoss("binary")  # float32 only
    theirs = in_torch(torch, peer, logits.astype(np.float32), labels)
    mine = losses.lovasz_softmax(logits, labels, class_axis=None)
    pair = np.stack([np.zeros_like(logits), logits], -1)  # softmax over two
    assert_close(mine, losses.lovasz_softmax(pair, labels)[1])
    assert 0 < float(mine) < 1 < theirs[0]


@pytest.mark.parametrize("gamma", [0.2, 0.5, 0.75])
def test_unified_focal_is_that_of_monai_which_halves_its_cross_entropy(
    torch, monai, gamma
):
    logits, labels = case(shape=(1, 30, 2))
    parameters = {"delta": 0.7, "gamma": gamma}

    def peer(loss):  # of probabilities [1, 2, 30, 1]
        loss = getattr(monai.unified_focal_loss, loss)(to_onehot_y=True, **parameters)
        labelled = labels[:, None, :, None]
        return in_torch(
            torch, lambda z, y: loss(z.softmax(1)[..., None], y), logits, labelled
        )

    def mine(weight):
        settings = {"weight": weight, "smooth": 1e-7, **parameters}
        return ours(losses.unified_focal, logits, labels, **settings)

    assert_same(mine(0.0), peer("AsymmetricFocalTverskyLoss"), **CLIPPED)
    # A mean over pixels and both classes, of which one is always 0: half the mean.
    assert_same(scaled(mine(1.0), 0.5), peer("AsymmetricFocalLoss"), **CLIPPED)
    whole = peer("AsymmetricUnifiedFocalLoss")
    pairs = zip(mine(1.0), mine(0.0), strict=True)
    assert_same([(pixel / 2 + area) / 2 for pixel, area in pairs], whole, **CLIPPED)
    assert float(mine(0.5)[0]) > whole[0] + 0.01


def test_a_mask_before_the_sigmoid_leaks_a_half_into_the_sums_and_ours_does_not(
    torch, monai
):
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
        return losses.dice(*padded, where=seen, multi_label=True)

    none, some = ((0, 0), (0, 0), (0, 0)), ((0, 0), (0, 50), (0, 0))
    assert_close(mine(some), mine(none))
    assert float((leaking(none) - mine(none)).min()) > 0.05
    assert float((leaking(some) - leaking(none)).min()) > 0.1

    peer = monai.MaskedDiceLoss(sigmoid=True, batch=True, **smoothed(1.0))  # 1.6: after
    mask = torch.tensor(where)[:, None]
    theirs = in_torch(torch, lambda z, y: peer(z, y, mask), logits, second(labels))
    np.testing.assert_allclose(theirs[0], mine(none).mean(), **ROUNDING)
