"""Cross-entropy and related losses vs. PyTorch, optax, MONAI and SMP.

In float64, unless a peer casts down, with agreement to rounding. Where a peer differs,
a test says how and asserts both numbers.
"""

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sklearn.utils.class_weight import compute_class_weight

from dicejax import losses

from .beside import (
    COUNTS,
    SHAPE,
    SINGLE,
    WEIGHTS,
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
)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_cross_entropy_is_that_of_pytorch_with_weights_and_smoothing(
    torch, weights, label_smoothing
):
    logits, labels = case()
    labels[0, 2:4] = -100  # PyTorch's own ignore_index

    def theirs(z, labels):
        return torch.nn.functional.cross_entropy(
            z,
            labels,
            weight=None if weights is None else torch.tensor(weights),
            label_smoothing=label_smoothing,
            reduction="none",
        )

    settings = {"class_weights": weights, "label_smoothing": label_smoothing}
    mine = ours(losses.cross_entropy, logits, labels, **settings)
    assert_same(mine, in_torch(torch, theirs, logits, labels))
    each = losses.cross_entropy(logits, labels, **settings)
    assert_close(each, theirs(torch.tensor(second(logits)), torch.tensor(labels)))


def test_cross_entropy_of_soft_labels_is_that_of_pytorch_and_optax(torch):
    logits, targets = case()[0], probabilities()
    mine = ours(losses.cross_entropy, logits, targets)
    summed = torch.nn.CrossEntropyLoss(reduction="sum")
    assert_same(mine, in_torch(torch, summed, logits, second(targets)))
    assert_same(mine, ours(optax.softmax_cross_entropy, logits, targets))


def test_cross_entropy_of_class_numbers_is_that_of_optax():
    logits, labels = case()
    mine = ours(losses.cross_entropy, logits, labels)
    peer = optax.softmax_cross_entropy_with_integer_labels
    assert_same(mine, ours(peer, logits, labels))
    mine = ours(losses.cross_entropy, logits, labels, label_smoothing=0.2)
    smooth = optax.smooth_labels(one_hot(labels), 0.2)
    assert_same(mine, ours(optax.softmax_cross_entropy, logits, smooth))


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("form", [{"class_axis": None}, {"multi_label": True}])
def test_sigmoid_cross_entropy_is_that_of_pytorch_with_weights_of_positives(
    torch, form, soft
):
    logits, labels = case()[0], outcomes()
    if soft:
        labels = np.random.default_rng(3).random(SHAPE)
    binary = form == {"class_axis": None}
    positive = np.array(3.0) if binary else WEIGHTS[:, None]
    weights = np.stack([np.ones_like(positive), positive], -1).reshape(
        *[-1, 2][binary:]
    )
    mine = ours(losses.cross_entropy, logits, labels, class_weights=weights, **form)
    peer = torch.nn.BCEWithLogitsLoss(
        pos_weight=torch.tensor(positive), reduction="none"
    )
    assert_same(mine, in_torch(torch, peer, logits, second(labels).astype(float)))


def test_sigmoid_cross_entropy_is_that_of_optax_and_its_mean_is_pytorchs_soft_margin(
    torch,
):
    logits, labels = case(shape=(9, 5))[0], outcomes(shape=(9, 5))
    mine = ours(losses.cross_entropy, logits, labels, multi_label=True)
    assert_same(mine, ours(optax.sigmoid_binary_cross_entropy, logits, labels))
    peer = torch.nn.MultiLabelSoftMarginLoss(reduction="sum")
    theirs = in_torch(torch, peer, logits, labels.astype(float))
    assert_same(scaled(mine, 1 / 5), theirs)


@pytest.mark.parametrize("logit", [1.0, 5.0, 10.0, 15.0, 18.0, 40.0, 80.0])
def test_easy_elements_keep_their_value_in_float32_as_sigmoids_of_peers_do(
    torch, logit
):
    z, labels = np.array([logit], np.float32), np.array([1])
    theirs = torch.nn.BCEWithLogitsLoss()(torch.tensor(z), torch.ones(1)).item()
    np.testing.assert_allclose(theirs, np.log1p(np.exp(-logit)), rtol=1e-6)
    mine = losses.cross_entropy(z, labels, class_axis=None)
    np.testing.assert_allclose(mine, [theirs], rtol=1e-6)
    np.testing.assert_allclose(
        optax.sigmoid_binary_cross_entropy(jnp.asarray(z), labels), mine, rtol=1e-6
    )
    # A softmax of theirs loses it to the rounding of p = 1.
    pair = np.array([[0.0, logit]], np.float32)
    np.testing.assert_allclose(losses.cross_entropy(pair, labels), mine, rtol=1e-6)
    softmax = torch.nn.CrossEntropyLoss()(torch.tensor(pair), torch.tensor(labels))
    assert (softmax.item() == 0) == (logit > 17)


def test_logit_adjustment_margins_and_scales_are_cross_entropies_of_changed_logits(
    torch,
):
    logits, labels = case(shape=(20, 5))
    priors = torch.tensor(COUNTS / COUNTS.sum())
    margins = 0.5 * (COUNTS.min() / COUNTS) ** 0.25
    margins = torch.tensor(margins * one_hot(labels))
    scales = torch.tensor((COUNTS / COUNTS.max()) ** 0.15)
    entropy = torch.nn.CrossEntropyLoss(torch.tensor(WEIGHTS), reduction="none")
    plain = torch.nn.CrossEntropyLoss(reduction="none")
    weighted = {"class_weights": WEIGHTS}
    for loss, settings, theirs in (
        (losses.logit_adjusted, {}, lambda z, y: plain(z + torch.log(priors), y)),
        (
            losses.logit_adjusted,
            {"tau": 0.5},
            lambda z, y: plain(z + 0.5 * torch.log(priors), y),
        ),
        (
            losses.ldam,
            {"scale": 30.0, **weighted},
            lambda z, y: entropy(30 * (z - margins), y),
        ),
        (losses.vs, weighted, lambda z, y: entropy(scales * z + torch.log(priors), y)),
    ):
        mine = ours(loss, logits, labels, class_counts=COUNTS, **settings)
        assert_same(mine, in_torch(torch, theirs, logits, labels))


def test_class_weights_are_those_of_scikit_learn_and_of_class_balanced_loss():
    labels = case(shape=(40, 5))[1]
    counts = np.bincount(labels)
    want = compute_class_weight("balanced", classes=np.arange(5), y=labels)
    assert_close(losses.class_weights.inverse(counts), want)
    published = (1 - 0.99) / (1 - 0.99**counts)
    published *= 5 / published.sum()
    mine = losses.class_weights.effective_number(counts, beta=0.99)
    np.testing.assert_allclose(mine, published, rtol=1e-6)


# Focal and poly: optax, MONAI, segmentation-models-pytorch (SMP).


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("alpha", [None, 0.25])
def test_binary_focal_is_that_of_optax(alpha, gamma):
    logits, labels = case()[0], outcomes()
    weights = None if alpha is None else np.array([1 - alpha, alpha])
    settings = {"class_axis": None, "gamma": gamma, "class_weights": weights}
    mine = ours(losses.focal, logits, labels, **settings)
    peer = ours(optax.sigmoid_focal_loss, logits, labels, alpha=alpha, gamma=gamma)
    assert_same(mine, peer)


@pytest.mark.parametrize("alpha", [None, 0.25])
def test_multi_label_focal_is_that_of_monai_and_of_smp(torch, monai, smp, alpha):
    logits, labels = case()[0], outcomes()
    weights = None if alpha is None else np.tile([1 - alpha, alpha], (5, 1))
    settings = {"multi_label": True, "gamma": 1.5, "class_weights": weights}
    mine = scaled(ours(losses.focal, logits, labels, **settings), 1 / labels.size)
    peer = smp.FocalLoss("multilabel", gamma=1.5, alpha=alpha)
    assert_same(mine, in_torch(torch, peer, logits, second(labels)))
    peer = monai.FocalLoss(gamma=1.5, alpha=alpha)  # casts to float32
    assert_same(mine, in_torch(torch, peer, logits, second(labels)), **SINGLE)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_softmax_focal_is_that_of_monai_which_averages_over_classes_too(
    torch, monai, gamma
):
    logits, labels = case()
    mine = ours(losses.focal, logits, labels, gamma=gamma, class_weights=WEIGHTS)
    peer = monai.FocalLoss(gamma=gamma, weight=WEIGHTS, use_softmax=True)
    theirs = in_torch(torch, peer, logits, second(one_hot(labels)))
    assert_same(scaled(mine, 1 / logits.size), theirs, **SINGLE)  # casts to float32


def test_smps_multiclass_focal_is_not_a_softmax_but_sigmoids_one_versus_rest(
    torch, smp
):
    logits, labels = case()
    theirs = in_torch(torch, smp.FocalLoss("multiclass", gamma=2.0), logits, labels)
    targets = one_hot(labels).astype(int)
    mine = ours(losses.focal, logits, targets, multi_label=True)
    assert_same(scaled(mine, 1 / targets.size), theirs)
    assert abs(float(losses.focal(logits, labels).mean()) - theirs[0]) > 0.1


@pytest.mark.parametrize("gap", [18.0, 30.0, 80.0])
def test_a_power_of_1_minus_p_has_a_nan_gradient_in_monai_and_a_finite_one_here(
    torch, monai, gap
):
    logits, labels = np.array([[gap, 0.0]], np.float32), np.array([0])
    peer = monai.FocalLoss(gamma=0.5, use_softmax=True)
    value, gradient = in_torch(torch, peer, logits, one_hot(labels, 2))
    assert np.isfinite(value)
    assert np.isnan(gradient).any()
    value, gradient = ours(losses.focal, logits, labels, gamma=0.5)
    # Where q = 1 - p is small it is q^1.5; float32 ends near 1e-38.
    want = np.exp(-1.5 * gap)
    np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-37)
    slopes = [[-1.5 * want, 1.5 * want]]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("epsilon", [-0.5, 1.0, 2.0])
def test_poly_is_that_of_optax(epsilon):
    logits, labels = case()
    peer = optax.losses.poly_loss_cross_entropy
    for mine, theirs in ((labels, one_hot(labels)), (probabilities(),) * 2):
        assert_same(
            ours(losses.poly, logits, mine, epsilon=epsilon),
            ours(peer, logits, theirs, epsilon=epsilon),
        )
