"""AUC, Matthews and Lovasz losses that peers compute as well, and published weights."""

import jax
import numpy as np
import optax
import pytest

from dicejax import losses

from .adapters import (
    SINGLE,
    assert_same,
    case,
    in_torch,
    of_monai,
    of_smp,
    one_hot,
    ours,
    outcomes,
    scaled,
    smp_losses,
)

LOGITS, LABELS = case()[0][..., 0].ravel(), outcomes()[..., 0].ravel()
BINARY = {"class_axis": None}


def test_auc_margin_is_libaucs_first_version_and_what_it_says_of_its_second():
    torch = pytest.importorskip("torch")
    auc = pytest.importorskip("libauc.losses.auc")
    p = np.asarray(jax.nn.sigmoid(LOGITS))
    a, b, share = p[LABELS == 1].mean(), p[LABELS == 0].mean(), LABELS.mean()
    alpha = 1 - a + b

    def theirs(version):
        loss = auc.AUCMLoss(version=version).double()
        for parameter, value in ((loss.a, a), (loss.b, b), (loss.alpha, alpha)):
            parameter.data = torch.tensor([value])
        return in_torch(lambda z, y: loss(torch.sigmoid(z), y), LOGITS, LABELS)

    mine = ours(losses.auc_margin, LOGITS, LABELS, **BINARY)
    assert_same(scaled(mine, share * (1 - share)), theirs("v1"), **SINGLE)
    # The code of the second weighs the mean of the negatives by their share.
    amiss = mine[0] - 2 * alpha * share * b
    np.testing.assert_allclose(theirs("v2")[0], amiss, rtol=1e-6)
    assert amiss < mine[0] - 0.1


@pytest.mark.parametrize("form", ["numbers", "outcomes"])
def test_mcc_is_monais(form):
    logits, labels = case() if form == "numbers" else (case()[0], outcomes())
    settings = {"multi_label": True} if form == "outcomes" else {}
    theirs = {"sigmoid": True} if form == "outcomes" else {}
    theirs |= {"batch": True, "reduction": "sum", "smooth_dr": 0.0}
    mine = ours(losses.mcc, logits, labels, **settings)
    assert_same(mine, of_monai("MCCLoss", logits, labels, **theirs), **SINGLE)


def test_a_class_that_is_absent_costs_1_in_monais_mcc_and_nothing_here():
    logits, labels = case(present=4)
    theirs = of_monai("MCCLoss", logits, labels, batch=True, reduction="sum")
    mine = losses.mcc(logits, labels)
    assert mine[4] == 0
    np.testing.assert_allclose(theirs[0], 1 + mine.sum(), rtol=1e-5)


def test_lovasz_hinge_is_its_authors_code_in_smp():
    logits = case()[0][..., 0].astype(np.float32)
    theirs = of_smp("LovaszLoss", logits, outcomes()[..., 0], "binary", per_image=True)
    settings = BINARY | {"axis": -1}
    mine = ours(losses.lovasz_hinge, logits, outcomes()[..., 0], **settings)
    assert_same(scaled(mine, 1 / 3), theirs, **SINGLE)


def test_log_dice_is_smps():
    logits, labels = case()
    theirs = of_smp("DiceLoss", logits, labels, "multiclass", smooth=0.5, log_loss=True)
    mine = ours(losses.log_dice, logits, labels, smooth=1.0)
    assert_same(scaled(mine, 1 / 5), theirs)


def test_mcc_is_smps_for_one_class():
    logits, labels = LOGITS[None], LABELS[None]
    loss = smp_losses().MCCLoss(eps=0.0)
    theirs = in_torch(
        lambda z, y: loss(z.sigmoid()[:, None, None], y[:, None, None].double()),
        logits,
        labels,
    )
    assert_same(ours(losses.mcc, logits, labels, **BINARY), theirs, **SINGLE)


POSITIVES, TOTAL = np.array([500.0, 200.0, 50.0, 10.0, 1.0]), 1000.0
COUNTS = np.stack([TOTAL - POSITIVES, POSITIVES], axis=-1)


@pytest.mark.parametrize("gamma", [0.0, 2.0])
def test_class_balanced_sigmoids_are_their_authors(gamma):
    logits, labels = case(shape=(20, 5))

    def authors(z, labels):
        weights = (1 - 0.99) / (1 - 0.99**POSITIVES)
        weights = (weights / weights.sum() * 5)[labels][:, None]
        y, p = one_hot(labels), jax.nn.sigmoid(z)
        entropy = optax.sigmoid_binary_cross_entropy(z, y)
        return weights * (y * (1 - p) + (1 - y) * p) ** gamma * entropy

    settings = {"class_counts": COUNTS, "beta": 0.99, "gamma": gamma}
    mine = ours(losses.class_balanced, logits, one_hot(labels).astype(int), **settings)
    assert_same(mine, ours(authors, logits, labels))


def test_poly_1_focal_is_its_formula():
    logits, labels = case()[0], outcomes()

    def authors(z, y, epsilon=1.5, gamma=2.0):
        p = jax.nn.sigmoid(z)
        p_t = y * p + (1 - y) * (1 - p)
        entropy = optax.sigmoid_binary_cross_entropy(z, y)
        return (1 - p_t) ** gamma * entropy + epsilon * (1 - p_t) ** (gamma + 1)

    settings = {"multi_label": True, "epsilon": 1.5, "gamma": 2.0}
    assert_same(
        ours(losses.poly_focal, logits, labels, **settings),
        ours(authors, logits, labels),
    )
