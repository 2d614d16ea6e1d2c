"""Gradient harmonising and multi-label losses vs. published code."""

import jax
import numpy as np

from dicejax import losses

from .beside import (
    SHAPE,
    SINGLE,
    assert_close,
    assert_same,
    case,
    in_torch,
    ours,
    outcomes,
    second,
)


def harmonised(norms, bins=10, last_edge=1e-6, averages=None, momentum=0.0):
    """Weights as in MMDetection: averages start at 0 and stay in bins not reached."""
    edges = np.arange(bins + 1) / bins
    edges[-1] += last_edge
    weights, reached = np.zeros_like(norms), 0
    for b in range(bins):
        inside = (norms >= edges[b]) & (norms < edges[b + 1])
        count = inside.sum()
        if count:
            if momentum:
                averages[b] = momentum * averages[b] + (1 - momentum) * count
                count = averages[b]
            weights[inside] = norms.size / count
            reached += 1
    return weights / reached


def ghm_weights(logits, labels, state, **settings):
    """Return our weights, from their effect on cross-entropy, and the new state."""
    settings["multi_label"] = True
    weighted, state = losses.ghm(logits, labels, state, **settings)
    return weighted / losses.cross_entropy(logits, labels, multi_label=True), state


def test_ghm_of_one_batch_is_mmdetections():
    logits, labels = case()[0], outcomes()
    norms = np.abs(np.asarray(jax.nn.sigmoid(logits)) - labels)
    for momentum in (0.0, 0.75):  # the first batch alone, corrected for its start
        mine, _ = ghm_weights(logits, labels, losses.ghm_state(), momentum=momentum)
        np.testing.assert_allclose(mine, harmonised(norms), **SINGLE)  # float32 counts

    targets = logits + np.random.default_rng(6).normal(0, 0.02, SHAPE)
    roots = np.hypot(logits - targets, 0.02)
    weights = harmonised(np.abs(logits - targets) / roots)
    mine, _ = losses.ghm_regression(logits, targets, losses.ghm_state())
    np.testing.assert_allclose(mine, weights * (roots - 0.02), **SINGLE)


def test_mmdetections_ghm_weighs_first_steps_4_times_and_more_and_ours_once():
    logits, labels = case()[0], outcomes()
    norms = np.abs(np.asarray(jax.nn.sigmoid(logits)) - labels)
    state, averages = losses.ghm_state(), np.zeros(10)
    first, inflated = harmonised(norms), []
    for _ in range(4):
        mine, state = ghm_weights(logits, labels, state, momentum=0.75)
        np.testing.assert_allclose(mine, first, **SINGLE)
        theirs = harmonised(norms, averages=averages, momentum=0.75)
        inflated.append((theirs / first).mean())
    np.testing.assert_allclose(inflated, [4, 2.29, 1.73, 1.46], atol=0.005)


def test_mmdetections_ghm_freezes_averages_of_bins_not_reached_and_ours_decay():
    labels = np.ones((100, 1), int)
    easy, hard = np.full((100, 1), 4.0), np.full((100, 1), -4.0)  # bins 0 and 9
    state, averages = losses.ghm_state(), np.zeros(10)
    for logits in (easy, *[hard] * 8):
        norms = 1 - np.asarray(jax.nn.sigmoid(logits))
        _, state = ghm_weights(logits, labels, state, momentum=0.75)
        harmonised(norms, averages=averages, momentum=0.75)
    assert_close(averages[[0, 9]], [25, 100 * (1 - 0.75**8)])
    decayed = [25 * 0.75**8, 100 * (1 - 0.75**8)]
    np.testing.assert_allclose(state.counts[np.array([0, 9])], decayed, rtol=1e-6)
    assert not state.counts[1:9].any()


def test_published_softmax_ghm_gives_the_hardest_no_weight_and_all_a_tenth(torch):
    logits = np.array([[3.0, 0.0], [3.0, 0.0], [0.0, 200.0]], np.float32)
    labels = np.zeros(3, int)
    p_gold = torch.tensor(logits).softmax(1)[:, 0].numpy()
    published = harmonised(1 - p_gold, last_edge=0.0) / 10
    mine, _ = losses.ghm(logits, labels, losses.ghm_state())
    mine /= losses.cross_entropy(logits, labels)
    np.testing.assert_allclose(published, [0.15, 0.15, 0.0], rtol=1e-6)
    np.testing.assert_allclose(mine, [0.75, 0.75, 1.5], rtol=1e-6)


# Several labels.


def test_asymmetric_is_its_authors_with_the_weights_gradient_that_they_leave_out(torch):
    logits, labels = case()[0], outcomes()

    def authors(differentiated):
        def loss(z, y):
            p, q = z.sigmoid(), (1 - z.sigmoid() + 0.05).clamp(max=1)
            entropy = y * torch.log(p) + (1 - y) * torch.log(q)
            weight = (1 - p * y - q * (1 - y)) ** (1.0 * y + 4.0 * (1 - y))
            return -entropy * (weight if differentiated else weight.detach())

        return in_torch(torch, loss, logits, second(labels))

    mine = ours(losses.asymmetric, logits, labels)
    assert_same(mine, authors(differentiated=True))
    value, gradient = authors(differentiated=False)  # their default
    assert_close(mine[0], value)
    assert np.abs(mine[1] - gradient).max() > 0.1


def test_zlpr_is_its_authors(torch):
    logits, labels = case(shape=(20, 5))[0], outcomes(shape=(20, 5))

    def authors(z, y):
        z = (1 - 2 * y) * z
        zero = torch.zeros_like(z[:, :1])
        negative = torch.cat([z - y * 1e12, zero], 1)
        positive = torch.cat([z - (1 - y) * 1e12, zero], 1)
        return negative.logsumexp(1) + positive.logsumexp(1)

    mine = ours(losses.zlpr, logits, labels)
    assert_same(mine, in_torch(torch, authors, logits, labels))


def test_distribution_balanced_is_its_authors_who_divide_kappa_by_the_scale(torch):
    logits, labels = case(shape=(20, 5))[0], outcomes(shape=(20, 5))
    positives, total = np.array([500.0, 200.0, 50.0, 10.0, 1.0]), 1000.0
    counts = torch.tensor(positives)

    def authors(z, y, init_bias=0.05, neg_scale=2.0):
        rate = (1 / counts) / (y / counts).sum(1, keepdim=True)
        weight = 0.1 + torch.sigmoid(10.0 * (rate - 0.3))
        z = z - torch.log(total / counts - 1) * init_bias / neg_scale
        z = z * (1 - y) * neg_scale + z * y
        weight = weight / neg_scale * (1 - y) + weight * y
        y, none = y.to(z.dtype), {"reduction": "none"}
        entropy = torch.nn.functional.binary_cross_entropy_with_logits
        return weight * entropy(z, y, **none)

    settings = {"class_counts": np.stack([total - positives, positives], axis=-1)}
    mine = ours(losses.distribution_balanced, logits, labels, kappa=0.025, **settings)
    theirs = in_torch(torch, authors, logits, labels)
    assert_same(mine, theirs)
    of_paper = losses.distribution_balanced(logits, labels, kappa=0.05, **settings)
    assert abs(float(of_paper.sum()) - theirs[0]) > 0.1
