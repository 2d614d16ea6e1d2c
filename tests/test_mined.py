"""Mining with any loss: what stays, and its value."""

import jax
import numpy as np
import pytest

from dicejax.objectives import (
    CrossEntropy,
    Dice,
    Focal,
    HardNegatives,
    Mined,
    SelfAdjustingDice,
    Tversky,
    name_of,
)
from dicejax.tasks import Target

ROWS, TOKENS, CLASSES = 4, 11, 3


def batch():
    """Return logits and labels of 11 positives, 29 negatives and 4 masked tokens."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(ROWS, TOKENS, CLASSES)).astype(np.float32)
    labels = np.repeat([0, 1, 2, -100], [29, 6, 5, 4])
    labels = rng.permutation(labels).reshape(ROWS, TOKENS)
    return logits, labels


def chosen(logits, labels, k):
    """Return the places of positives and of the k negatives of the lowest p of O."""
    z = logits.reshape(-1, CLASSES).astype(np.float64)
    of_o = np.exp(z[:, 0]) / np.exp(z).sum(-1)
    flat = labels.reshape(-1)
    negatives = sorted(np.flatnonzero(flat == 0), key=lambda i: (of_o[i], i))
    return {*np.flatnonzero(flat > 0), *negatives[:k]}


@pytest.mark.parametrize(
    ("loss", "k"),
    [
        (Dice(), 0),
        (Dice(squared=True), 5),
        (SelfAdjustingDice(), 28),
        (Tversky(), 29),
        (Focal(), 31),
    ],
)
def test_the_loss_is_that_of_what_stays(loss, k):
    logits, labels = batch()
    stay = chosen(logits, labels, k)
    masked = np.full(labels.shape, -100)
    masked.flat[[*stay]] = labels.flat[[*stay]]

    def both(objective, labels):
        def value(logits):
            return objective({"tags": logits}, {"tags": labels})[0]

        return jax.value_and_grad(value)(logits)

    expected = both(loss, masked)
    for ratio, minimum in ((k / 11, 0.0), (0.0, float(k))):
        mined = Mined(of=loss, negatives_per_positive=ratio, minimum=minimum)
        result = both(mined, labels)
        np.testing.assert_allclose(result[0], expected[0], rtol=1e-6)
        np.testing.assert_allclose(result[1], expected[1], rtol=1e-6, atol=1e-9)
        assert {*np.flatnonzero(np.any(result[1], axis=-1))} == stay


@pytest.mark.parametrize("several", [False, True])
def test_mined_cross_entropy_is_that_of_hard_negatives(several):
    logits, labels = batch()
    if several:
        labels = np.where(labels[..., None] < 0, -100, labels[..., None] == [0, 1, 2])
    values = [
        float(objective({"tags": logits}, {"tags": labels})[0])
        for objective in (Mined(of=CrossEntropy()), HardNegatives())
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_a_mined_loss_refuses_positions_and_names_the_loss_within():
    mined = Mined(of=SelfAdjustingDice(alpha=0.1, smooth=0.01))
    assert name_of(mined) == "mined-of=dsc-alpha=0.1-smooth=0.01"
    with pytest.raises(ValueError, match="'start' are positions"):
        mined.bind({"start": Target("positions")})
