"""Mining with any loss: what stays, its value, and its place on the command line."""

import jax
import numpy as np
import pytest

from dicejax.cli.choices import objective_named
from dicejax.errors import InputError
from dicejax.losses import hard_negative_mask
from dicejax.objectives import (
    CrossEntropy,
    Dice,
    Focal,
    HardNegatives,
    Mined,
    SelfAdjustingDice,
    Tversky,
    WeightedSum,
    name_of,
)

ROWS, TOKENS, CLASSES = 4, 11, 3


def batch(ties=False):
    """Return logits and labels of 11 positives, 29 negatives and 4 masked tokens."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(ROWS, TOKENS, CLASSES)).astype(np.float32)
    labels = np.repeat([0, 1, 2, -100], [29, 6, 5, 4])
    labels = rng.permutation(labels).reshape(ROWS, TOKENS)
    return np.round(logits) if ties else logits, labels


def chosen(logits, labels, k):
    """Return the places of positives and of the k negatives of the lowest p of O."""
    z = logits.reshape(-1, CLASSES).astype(np.float64)
    of_o = np.exp(z[:, 0]) / np.exp(z).sum(-1)
    flat = labels.reshape(-1)
    negatives = sorted(np.flatnonzero(flat == 0), key=lambda i: (of_o[i], i))
    return {*np.flatnonzero(flat > 0), *negatives[:k]}


def places(labels):
    return {*np.flatnonzero(np.ravel(labels) != -100)}


@pytest.mark.parametrize("ties", [False, True])
def test_k_negatives_stay_for_every_k_from_none_to_all(ties):
    logits, labels = batch(ties)
    mined = jax.jit(lambda one: one.mask_easy_negatives(logits, labels))
    for k in range(29 + 3):
        ratio = Mined(negatives_per_positive=k / 11, minimum=0.0)
        least = Mined(negatives_per_positive=0.0, minimum=float(k))
        got = [places(mined(one)) for one in (ratio, least)]
        assert [len(one) - 11 for one in got] == [min(k, 29)] * 2
        if not ties:
            assert got == [chosen(logits, labels, k)] * 2
    assert np.array_equal(np.asarray(mined(Mined()))[labels > 0], labels[labels > 0])


def test_k_negatives_of_equal_scores_stay():
    labels, nothing = np.repeat([1, 0], [11, 29]), np.zeros((40, CLASSES), np.float32)
    for k in range(30):
        got = Mined(negatives_per_positive=k / 11, minimum=0.0).mask_easy_negatives(
            nothing, labels
        )
        assert places(got) == {*range(11 + k)}


def test_a_ratio_of_two_counts_keeps_that_many():
    scores = np.zeros(200, np.float32)
    for n in (11, 14, 19, 21, 49):
        positives = np.arange(200) < n
        for k in range(0, 200 - n, 7):
            kept = hard_negative_mask(
                scores, positives, negatives_per_positive=k / n, minimum=0
            )
            assert kept.sum() == n + k, (k, n)


@pytest.mark.parametrize(
    "loss",
    [Dice(), Dice(squared=True), SelfAdjustingDice(), Tversky(), Focal()],
    ids=name_of,
)
def test_the_loss_is_that_of_what_stays(loss):
    logits, labels = batch()
    stay = chosen(logits, labels, 5)
    masked = [one if i in stay else -100 for i, one in enumerate(labels.ravel())]
    masked = np.reshape(masked, labels.shape)
    one = Mined(of=loss, negatives_per_positive=0.0, minimum=5.0)

    def both(objective, labels):
        def value(logits):
            return objective({"tags": logits}, {"tags": labels})[0]

        return jax.value_and_grad(value)(logits)

    got, want = both(one, labels), both(loss, masked)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-6, atol=1e-9)
    assert {*np.flatnonzero(np.any(got[1], axis=-1))} == stay


@pytest.mark.parametrize("several", [False, True])
def test_mined_cross_entropy_is_that_of_hard_negatives(several):
    logits, labels = batch()
    if several:
        labels = np.where(labels[..., None] < 0, -100, labels[..., None] == [0, 1, 2])
    values = [
        float(one({"tags": logits}, {"tags": labels})[0])
        for one in (Mined(of=CrossEntropy()), HardNegatives())
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_each_output_is_mined_apart():
    logits, labels = batch()
    ends = {"start": logits, "end": -logits}
    targets = {"start": labels, "end": labels[::-1]}
    both = Mined(of=Dice()).bind_outputs(("start", "end"), {"end": 2.0})
    want = sum(
        weight * Mined(of=Dice())({"one": ends[name]}, {"one": targets[name]})[0]
        for name, weight in {"start": 1.0, "end": 2.0}.items()
    )
    assert float(both(ends, targets)[0]) == pytest.approx(float(want), rel=1e-6)


def test_a_sum_may_mine_one_of_its_parts():
    logits, labels = batch()
    parts = (CrossEntropy(), Mined(of=Dice()))
    values = [
        float(one({"tags": logits}, {"tags": labels})[0])
        for one in (*parts, WeightedSum(parts=parts))
    ]
    assert values[2] == pytest.approx(values[0] + values[1], rel=1e-6)


def test_it_is_not_additive_and_refuses_positions():
    one = Mined(of=CrossEntropy())
    assert not one.is_additive
    with pytest.raises(TypeError, match="objective mined is not additive"):
        one.elements({"tags": np.zeros(3, int)})
    with pytest.raises(ValueError, match="'start' are positions"):
        one.bind_outputs(("start",)).with_class_counts({})


def test_the_command_line_names_a_loss_within_a_loss():
    text = "mined:of=dsc:alpha=0.1:smooth=0.01,negatives_per_positive=2"
    one = Mined(
        of=SelfAdjustingDice(alpha=0.1, smooth=0.01), negatives_per_positive=2.0
    )
    assert objective_named(text) == one
    assert name_of(one) == (
        "mined-of=dsc-alpha=0.1-smooth=0.01-negatives_per_positive=2.0"
    )
    with pytest.raises(InputError, match=r"unknown loss 'dcs'.*dsc"):
        objective_named("mined:of=dcs")
