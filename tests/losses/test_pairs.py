"""AUC and average precision vs. LibAUC's formulas; blocks, memory, numerics."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.losses import auc_margin, average_precision, pair_sums, pairwise_auc

from ..kinds import exhaustive_but

LOSSES = [pairwise_auc, average_precision]
SURROGATES = [
    {"surrogate": "squared_hinge", "margin": 1.0},
    {"surrogate": "squared_hinge", "margin": 0.6},
    {"surrogate": "squared", "margin": 0.55},
    {"surrogate": "hinge", "margin": 0.55},
    {"surrogate": "barrier_hinge", "margin": 0.55, "barrier": 3.0},
    {"surrogate": "logistic", "scale": 1.0},
    {"surrogate": "logistic", "scale": 2.5},
]
each_surrogate = pytest.mark.parametrize(
    "settings", exhaustive_but(SURROGATES[1::2], SURROGATES)
)
CLOSE = {"rtol": 1e-12, "atol": 1e-14}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def drawn(size=40, seed=0):
    """Return logits, with ties, and labels of which one in four is positive."""
    rng = np.random.default_rng(seed)
    return np.round(2 * rng.normal(size=size), 1), (np.arange(size) % 4 == 0) * 1


def compared(scores, logits):
    """Return what LibAUC calls `y_pred`."""
    return jax.nn.sigmoid(logits) if scores == "probability" else logits


def surrogate_of(settings, t):
    m, s = settings.get("margin"), settings.get("barrier")
    if settings["surrogate"] == "logistic":
        return jnp.log(1 + jnp.exp(-settings["scale"] * t))
    if settings["surrogate"] == "barrier_hinge":
        return jnp.maximum(-s * (m + t) + m, jnp.maximum(m - t, s * (t - m)))
    if settings["surrogate"] == "squared":
        return (m - t) ** 2
    hinge = jnp.maximum(m - t, 0)
    return hinge**2 if settings["surrogate"] == "squared_hinge" else hinge


def assert_same(loss, other, *arguments):
    """Check values and gradients."""
    numbers = tuple(range(len(arguments)))
    got, expected = (
        jax.jit(jax.value_and_grad(function, numbers))(*arguments)
        for function in (loss, other)
    )
    close = functools.partial(np.testing.assert_allclose, **CLOSE)
    jax.tree.map(close, got, expected)


def ours(loss, labels, **settings):
    return functools.partial(loss, labels=labels, class_axis=None, **settings)


@each_surrogate
@pytest.mark.parametrize("scores", ["probability", "log_odds"])
def test_auc_is_libaucs_pairwise_loss(scores, settings):
    logits, labels = drawn()

    def published(logits):
        y_pred = compared(scores, logits)
        f_ps, f_ns = y_pred[labels == 1], y_pred[labels == 0]
        return surrogate_of(settings, f_ps[:, None] - f_ns).mean()

    mine = ours(pairwise_auc, labels, scores=scores, **settings)
    assert_same(mine, published, logits)


FALLING = [s for s in SURROGATES if s["surrogate"] not in ("squared", "barrier_hinge")]


@pytest.mark.parametrize("settings", exhaustive_but(FALLING[1::2], FALLING))
@pytest.mark.parametrize("max_fpr", [0.02, 0.37, 1.0])
def test_partial_auc_is_the_least_value_over_libaucs_dual_variables(settings, max_fpr):
    logits, labels = drawn()

    def published(logits):
        pairs = logits[labels == 1][:, None] - logits[labels == 0]
        losses = surrogate_of(settings, pairs)  # [positives, negatives]
        s = losses[:, :, None]  # piecewise linear in s: least at a loss
        excess = jnp.maximum(losses[:, None, :] - s, 0).mean(-1)
        return (s[..., 0] + excess / max_fpr).min(1).mean()

    mine = ours(pairwise_auc, labels, scores="log_odds", max_fpr=max_fpr, **settings)
    np.testing.assert_allclose(mine(logits), jax.jit(published)(logits), **CLOSE)


@pytest.mark.parametrize("settings", exhaustive_but(FALLING[1::2], FALLING))
@pytest.mark.parametrize("scores", ["probability", "log_odds"])
def test_ap_is_libaucs_objective_and_its_gradient_that_of_aploss(scores, settings):
    logits, labels = drawn()
    positive = labels == 1

    def surrogates(logits):
        y_pred = compared(scores, logits)
        return surrogate_of(settings, y_pred[positive][:, None] - y_pred)

    def objective(logits):
        losses = surrogates(logits)
        return -((losses * positive).sum(1) / losses.sum(1)).mean()

    def ap_loss(logits):
        # Its moving averages after a first batch with gamma 1: those of the batch.
        losses = surrogates(logits)
        u_all = jax.lax.stop_gradient(losses.mean(1, keepdims=True))
        u_pos = jax.lax.stop_gradient((losses * positive).mean(1, keepdims=True))
        return ((u_pos - u_all * positive) / u_all**2 * losses).mean()

    mine = ours(average_precision, labels, scores=scores, **settings)
    value, slope = jax.jit(jax.value_and_grad(mine))(logits)
    np.testing.assert_allclose(value, 1 + jax.jit(objective)(logits), **CLOSE)
    np.testing.assert_allclose(slope, jax.jit(jax.grad(ap_loss))(logits), **CLOSE)


@pytest.mark.parametrize("margin", [2.5, 1.0, 0.05])  # above and below the gap
def test_auc_margin_is_libaucs_objective_at_its_saddle_point(margin):
    logits, labels = drawn()
    logits = logits + 2 * labels  # for a gap
    share = labels.mean()

    def v2(logits, a, b, alpha):
        p = jax.nn.sigmoid(logits)
        f_ps, f_ns = p[labels == 1], p[labels == 0]
        gap = margin + f_ns.mean() - f_ps.mean()
        spread = ((f_ps - a) ** 2).mean() + ((f_ns - b) ** 2).mean()
        return spread + 2 * alpha * gap - alpha**2

    def v1(logits, a, b, alpha):
        p = jax.nn.sigmoid(logits)
        spread = (1 - share) * ((p - a) ** 2 * labels).mean()
        spread += share * ((p - b) ** 2 * (1 - labels)).mean()
        gap = share * (1 - share) * margin
        gap += (share * p * (1 - labels) - (1 - share) * p * labels).mean()
        return spread + 2 * alpha * gap - share * (1 - share) * alpha**2

    p = np.asarray(jax.nn.sigmoid(logits))
    a, b = p[labels == 1].mean(), p[labels == 0].mean()
    point = a, b, max(0.0, margin + b - a)  # alpha may not be negative
    assert (point[2] == 0) == (margin == 0.05)
    mine = jax.jit(jax.value_and_grad(ours(auc_margin, labels, margin=margin)))(logits)
    for published, factor in ((v2, 1.0), (v1, share * (1 - share))):
        both = jax.jit(jax.value_and_grad(published, (0, 1, 2, 3)))
        value, (slope, *dual) = both(logits, *point)
        np.testing.assert_allclose(value, factor * mine[0], **CLOSE)
        np.testing.assert_allclose(slope, factor * mine[1], rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(dual[:2], 0, atol=1e-14)
        assert dual[2] < 0 if point[2] == 0 else abs(dual[2]) < 1e-14


@pytest.mark.parametrize("block", [(1, 1), (3, 7), (64, 1024)])
def test_sums_in_blocks_are_those_over_all_pairs(block):
    logits, labels = drawn(23)
    weights = np.stack([1 - labels, labels]).astype(float)

    def in_blocks(scores, others):
        sums = pair_sums.in_blocks(scores, labels == 1, others, weights, block)
        return jnp.where(labels == 1, jnp.sin(sums), 0).sum()

    def at_once(scores, others):
        losses = jax.nn.softplus(others - scores[:, None])
        return jnp.where(labels == 1, jnp.sin(weights @ losses.T), 0).sum()

    assert_same(in_blocks, at_once, logits, logits - 0.3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("settings", [SURROGATES[0], SURROGATES[-1]])
def test_a_set_of_65536_takes_no_array_of_all_pairs(loss, settings):
    both = jax.value_and_grad(lambda z, y: loss(z, y, class_axis=None, **settings))
    kinds = (jax.ShapeDtypeStruct((65536,), kind) for kind in ("float32", "int32"))
    program = jax.jit(both).lower(*kinds).compile()
    # 32 MiB are 128 arrays of the logits' size; all pairs are 65,536.
    assert program.memory_analysis().temp_size_in_bytes < 2**25


@pytest.mark.parametrize("loss", LOSSES)
def test_a_class_without_positives_or_negatives_has_no_slope(loss):
    logits, labels = drawn(6)
    both = np.zeros_like(labels), np.ones_like(labels)
    total = [ours(loss, y, **settings) for y in both for settings in FALLING[::2]]
    slopes = jax.jit(lambda z: [jax.grad(each)(z) for each in total])(logits)
    assert not np.any(slopes)


@pytest.mark.parametrize("loss", LOSSES)
def test_small_differences_of_large_scores_are_not_lost(loss):
    # Scores that float32 holds exactly, 2,000 of them on either side of 10,000.
    rng = np.random.default_rng(0)
    logits = (10_000 + rng.integers(-2048, 2048, 4000) / 1024).astype(np.float32)
    labels = (rng.random(4000) < 0.3).astype(np.int32)
    mine = jax.jit(jax.value_and_grad(ours(loss, labels, scores="log_odds")))
    got, want = mine(logits), mine(logits.astype(np.float64))
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-4, atol=1e-9)
