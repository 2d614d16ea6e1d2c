"""Objectives against the losses they stand for, in NumPy."""

import jax
import numpy as np
import pytest

from dicejax.objectives import CrossEntropy, Dice, SelfAdjustingDice, by_short_name

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(3, 4, 5)).astype(np.float32)
LABELS = RNG.integers(0, 5, (3, 4))
LABELS[0, 2:] = -100
SEEN = LABELS != -100
P = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
Y = np.eye(5)[np.where(SEEN, LABELS, 0)] * SEEN[..., None]
GOLD = (P * Y).sum(-1)[SEEN]


def value(objective):
    return float(objective({"tags": LOGITS, "other": LOGITS * 0}, {"tags": LABELS}))


def set_dice(f, smooth, squared):
    f = f * SEEN[..., None]
    axes = (0, 1)
    power = 2 if squared else 1
    bottom = (f**power).sum(axes) + Y.sum(axes) + smooth
    return (1 - (2 * (f * Y).sum(axes) + smooth) / bottom).mean()


@pytest.mark.parametrize(
    ("objective", "wanted"),
    [
        (CrossEntropy(), -np.log(GOLD).mean()),
        (Dice(smooth=0.5), set_dice(P, 0.5, False)),
        (Dice(squared=True), set_dice(P, 1.0, True)),
        (SelfAdjustingDice(alpha=0.3), set_dice((1 - P) ** 0.3 * P, 1.0, True)),
        (
            SelfAdjustingDice(alpha=0.3, squared=False),
            set_dice((1 - P) ** 0.3 * P, 1.0, False),
        ),
        (
            SelfAdjustingDice(alpha=1.0, over="token"),
            (1 - (2 * (1 - GOLD) * GOLD + 1) / ((1 - GOLD) * GOLD + 2)).mean(),
        ),
    ],
    ids=repr,
)
def test_value_against_numpy(objective, wanted):
    assert value(objective) == pytest.approx(wanted, rel=1e-5)


def test_hyper_parameters_are_traced_and_choices_are_not():
    leaves, structure = jax.tree.flatten(SelfAdjustingDice(alpha=0.2, smooth=3.0))
    assert leaves == [0.2, 3.0]
    assert structure == jax.tree.structure(SelfAdjustingDice())
    assert structure != jax.tree.structure(SelfAdjustingDice(over="token"))


def test_one_program_serves_a_sweep_of_alpha():
    alphas = np.array([0.0, 0.1, 1.0], np.float32)
    swept = jax.vmap(lambda a: SelfAdjustingDice(alpha=a).loss(LOGITS, LABELS))(alphas)
    single = [value(SelfAdjustingDice(alpha=float(a))) for a in alphas]
    np.testing.assert_allclose(swept, single, rtol=1e-5)


def test_no_label_at_all_is_no_loss():
    nothing = {"tags": np.full_like(LABELS, -100)}
    assert float(CrossEntropy()({"tags": LOGITS}, nothing)) == 0.0


def test_short_names_are_the_command_line_s():
    assert set(by_short_name()) == {"ce", "dice", "dsc"}
