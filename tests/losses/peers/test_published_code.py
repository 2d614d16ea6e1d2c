"""Published code that deviates from its formulas, and where ours differs."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dicejax import losses

from .adapters import assert_close, assert_same, case, one_hot, ours, outcomes


def self_adjusted(p, alpha):
    """The factor as published code has it."""
    return (1 - p) ** alpha * p


def self_adjusted_dice(f, y, squared=True):
    return 1 - (2 * f * y + 1) / ((f**2 + y**2 if squared else f + y) + 1)


@pytest.mark.parametrize("alpha", [0.01, 0.5, 1.0])
def test_the_self_adjusting_dice_of_published_code_is_ours(alpha):
    logits, labels = case(shape=(20, 5))

    def every_class(z, y):
        return self_adjusted_dice(self_adjusted(jax.nn.softmax(z), alpha), one_hot(y))

    def gold_alone(z, y):
        p = jnp.take_along_axis(jax.nn.softmax(z), y[:, None], 1)
        return self_adjusted_dice(self_adjusted(p, alpha), 1, squared=False)

    def sigmoids_over_a_batch(z, y):
        f = self_adjusted(jax.nn.sigmoid(z), alpha)
        return 1 - (2 * (f * y).sum() + 1) / ((f * f).sum() + (y * y).sum() + 1)

    squared = {"alpha": alpha, "squared": True}
    binary = squared | {"class_axis": None, "axis": None}
    gold = {"alpha": alpha, "axis": (), "form": "gold", "squared": False}
    for data, settings, published in (
        ((logits, labels), squared | {"axis": ()}, every_class),
        ((logits, labels), gold, gold_alone),
        ((logits[:, 0], outcomes(shape=20)), binary, sigmoids_over_a_batch),
    ):
        mine = ours(losses.self_adjusting_dice, *data, **settings)
        assert_same(mine, ours(published, *data))


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("gap", [18.0, 30.0, 90.0])
def test_the_published_factor_has_a_nan_gradient_where_ours_is_finite(gap, alpha):
    logits, labels = np.array([[gap, 0.0]], np.float32), np.array([0])

    def published(z):
        return self_adjusted_dice(self_adjusted(jax.nn.softmax(z)[0, 0], alpha), 1)

    value, gradient = ours(published, logits)
    assert np.isfinite(value)
    assert np.isnan(gradient).any()
    naive = jax.grad(lambda z: self_adjusted(jax.nn.sigmoid(z), 0.0))
    assert np.isnan(naive(jnp.float32(gap)))  # 0 * 0^-1: for alpha 0 too

    settings = {"alpha": alpha, "squared": True}
    value, gradient = ours(losses.self_adjusting_dice, logits, labels, **settings)
    f = np.exp(-alpha * gap)  # 1 - p is e^-gap, f falls at the rate of alpha
    np.testing.assert_allclose(value, self_adjusted_dice(f, 1), rtol=1e-5)
    slope = (2 * (f * f + 2) - (2 * f + 1) * 2 * f) / (f * f + 2) ** 2 * alpha * f
    np.testing.assert_allclose(gradient, [[slope, -slope]], rtol=1e-4)


def test_zlpr_is_its_authors():
    logits, labels = case(shape=(20, 5))[0], outcomes(shape=(20, 5))

    def authors(z, y):
        z = (1 - 2 * y) * z
        zero = jnp.zeros_like(z[:, :1])
        negative = jnp.concatenate([z - y * 1e12, zero], 1)
        positive = jnp.concatenate([z - (1 - y) * 1e12, zero], 1)
        return sum(jax.nn.logsumexp(z, axis=1) for z in (negative, positive))

    assert_same(ours(losses.zlpr, logits, labels), ours(authors, logits, labels))


@pytest.mark.parametrize("gamma", [0.0, 2.0])
def test_distribution_balanced_is_its_authors_who_divide_kappa_by_the_scale(gamma):
    logits, labels = case(shape=(20, 5))[0], outcomes(shape=(20, 5))
    positives, total = np.array([500.0, 200.0, 50.0, 10.0, 1.0]), 1000.0

    def authors(z, y, init_bias=0.05, neg_scale=2.0):
        rate = (1 / positives) / (y / positives).sum(1, keepdims=True)
        weight = 0.1 + jax.nn.sigmoid(10.0 * (rate - 0.3))
        z = z - jnp.log(total / positives - 1) * init_bias / neg_scale
        z = z * (1 - y) * neg_scale + z * y
        weight = weight / neg_scale * (1 - y) + weight * y
        entropy = optax.sigmoid_binary_cross_entropy(z, y)
        # Their focal loss has a factor of 2 besides.
        return weight * (1 - jnp.exp(-entropy)) ** gamma * entropy

    settings = {"class_counts": np.stack([total - positives, positives], axis=-1)}
    settings["gamma"] = gamma
    mine = ours(losses.distribution_balanced, logits, labels, kappa=0.025, **settings)
    theirs = ours(authors, logits, labels)
    assert_same(mine, theirs)
    of_paper = losses.distribution_balanced(logits, labels, kappa=0.05, **settings)
    assert abs(float(of_paper.sum()) - theirs[0]) > 0.1


def test_published_mining_keeps_all_or_all_but_the_hardest_negatives_or_none():
    rng = np.random.default_rng(5)
    scores, positives = rng.permutation(20) / 20.0, np.arange(20) < 5
    negatives = ~positives

    def published(count, columns):
        # Targets [N, 1] pick every score once for each negative, not the negatives'.
        candidates = scores if columns else scores[negatives]
        threshold = np.sort(np.repeat(candidates, negatives.sum() if columns else 1))
        return int((negatives & (scores > threshold[-count + 1])).sum())

    def mine(count):
        mask = losses.hard_negative_mask(
            scores, positives, negatives_per_positive=count / 5, minimum=0
        )
        assert mask[positives].all()
        hardest = np.sort(scores[negatives])[::-1][:count]
        np.testing.assert_array_equal(np.sort(scores[mask & negatives])[::-1], hardest)
        return int((mask & negatives).sum())

    counts = [0, 1, 2, 3, 10, 15]
    assert [mine(count) for count in counts] == counts
    assert [published(count, False) for count in counts] == [13, 14, 0, 1, 8, 13]
    hardest_is_positive = scores.argmax() < 5
    assert not hardest_is_positive
    assert [published(count, True) for count in counts[2:]] == [0, 0, 0, 0]


def test_clipped_probabilities_lose_the_gradient_of_the_hardest():
    # As Keras clips them.
    def clipped(z):
        return -jnp.log(jnp.clip(jax.nn.sigmoid(z), 1e-7, 1 - 1e-7))

    assert jax.grad(clipped)(-100.0) == 0
    settings = {"class_axis": None, "gamma": 2.0}
    _, gradient = ours(losses.focal, np.array([-100.0]), np.array([1]), **settings)
    assert_close(gradient, [-1.0])


def test_swapped_weights_make_another_tversky():
    # As one release of Keras had them: alpha at the misses, beta at the false alarms.
    logits, labels = case()

    def swapped(z, labels, alpha, beta, smooth=1.0):
        p, y = jax.nn.softmax(z), one_hot(labels)
        hits = (p * y).sum((0, 1)) + smooth
        false_alarms, misses = (p * (1 - y)).sum((0, 1)), ((1 - p) * y).sum((0, 1))
        return 1 - hits / (hits + beta * false_alarms + alpha * misses)

    settings = {"alpha": 0.9, "beta": 0.1, "smooth": 1.0}
    mine = ours(losses.tversky, logits, labels, **settings)
    assert_same(mine, ours(swapped, logits, labels, alpha=0.1, beta=0.9))
    other = swapped(jnp.asarray(logits), labels, 0.9, 0.1)
    assert abs(losses.tversky(logits, labels, **settings) - other).max() > 0.05

    # A class predicted thrice and never gold costs what alpha says.
    sure = 1e3 * one_hot(np.array([0, 0, 0, 1, 1, 1]), 2)
    loss = losses.tversky(sure, np.zeros(6, int), alpha=0.2, beta=0.7, smooth=1.0)
    assert_close(loss, [1 - 4 / (4 + 0.7 * 3), 1 - 1 / (1 + 0.2 * 3)])


def test_a_tversky_that_knows_only_the_sum_of_its_weights_is_that_of_summed_counts():
    # Kornia's: TP / (TP + (alpha + beta) (N - TP)), for which P = Y = N.
    logits, labels = case()
    hits = (np.asarray(jax.nn.softmax(logits)) * one_hot(labels)).sum()
    kornia = 1 - hits / (hits + (0.9 + 0.1) * (labels.size - hits))
    counts = losses.overlap_counts(logits, labels)
    summed = jax.tree.map(lambda x: x.sum(), counts)
    each = []
    for alpha, beta in ((0.9, 0.1), (0.1, 0.9)):
        settings = {"alpha": alpha, "beta": beta, "smooth": 0.0}
        assert_close(losses.tversky_from_counts(summed, **settings), kornia)
        each.append(losses.tversky(logits, labels, **settings))
    assert abs(each[0] - each[1]).max() > 0.05


def test_smoothed_labels_of_masked_elements_count_in_published_code_and_not_here():
    logits, labels = case()
    labels[0] = -100
    log_p = np.asarray(jax.nn.log_softmax(logits))
    smooth = 0.1 * -log_p.mean(-1)  # of every element, ignored or not
    gold = np.where(labels < 0, 0, labels)[..., None]
    likelihood = 0.9 * -np.take_along_axis(log_p, gold, -1)[..., 0]
    published = np.where(labels < 0, 0, likelihood) + smooth
    mine = losses.cross_entropy(logits, labels, label_smoothing=0.1)
    assert_close(mine[1:], published[1:])
    assert published[0].min() > 0.1
    assert not mine[0].any()
