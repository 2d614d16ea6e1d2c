"""Gradient harmonising vs. published code."""

import jax
import numpy as np

from dicejax import losses

from .adapters import SHAPE, SINGLE, assert_close, case, outcomes


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


def test_published_softmax_ghm_gives_the_hardest_no_weight_and_all_a_tenth():
    logits = np.array([[3.0, 0.0], [3.0, 0.0], [0.0, 200.0]], np.float32)
    labels = np.zeros(3, int)
    p_gold = np.asarray(jax.nn.softmax(logits))[:, 0]
    published = harmonised(1 - p_gold, last_edge=0.0) / 10
    mine, _ = losses.ghm(logits, labels, losses.ghm_state())
    mine /= losses.cross_entropy(logits, labels)
    np.testing.assert_allclose(published, [0.15, 0.15, 0.0], rtol=1e-6)
    np.testing.assert_allclose(mine, [0.75, 0.75, 1.5], rtol=1e-6)
