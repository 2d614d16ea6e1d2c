"""Value and gradient of published losses are those of their authors' code."""

import inspect
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.nn import sigmoid, softmax

from dicejax import losses
from dicejax.losses.declaration import REGISTRY

from .. import test_pairs
from . import test_equal, test_published_code, test_rankings
from .adapters import assert_same, case, one_hot, ours, outcomes, probabilities
from .test_published_ghm import harmonised

LOGITS, LABELS = case(shape=(40, 5))
OUTCOMES = outcomes(shape=(40, 5))
SCORES, BINARY = LOGITS[:, 0], OUTCOMES[:, 0]


def entropies(z, y):
    return optax.softmax_cross_entropy_with_integer_labels(z, y)


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("negative", [1.0, 1.5, 4.0])
def test_asymmetric_is_its_authors_with_and_without_the_gradient_of_weights(
    stopped, negative
):
    """Their option is `disable_torch_grad_focal_loss`, on by default."""

    def authors(z, y):
        p = sigmoid(z)
        q = jnp.minimum(1 - p + 0.05, 1)
        entropy = y * jnp.log(p) + (1 - y) * jnp.log(q)
        weight = (1 - p * y - q * (1 - y)) ** (1.0 * y + negative * (1 - y))
        return -entropy * (jax.lax.stop_gradient(weight) if stopped else weight)

    settings = {"gamma_negative": negative, "stop_gradient_weight": stopped}
    mine = ours(losses.asymmetric, LOGITS, OUTCOMES, **settings)
    assert_same(mine, ours(authors, LOGITS, OUTCOMES))


@pytest.mark.parametrize("form", ["softmax", "soft", "binary"])
def test_focal_with_weights_that_have_no_gradient(form):
    """The same option of smp's and ASL's focal code."""
    settings = {"gamma": 1.5, "stop_gradient_weight": True}
    z, y, targets, p = LOGITS, LABELS, one_hot(LABELS), softmax
    if form == "soft":
        y = targets = 0.8 * targets + 0.04
    if form == "binary":
        z, y, settings["class_axis"] = SCORES, BINARY, None
        targets = np.stack([1 - y, y], -1)

        def p(z):
            return jnp.stack([sigmoid(-z), sigmoid(z)], -1)

    weight = (1 - p(z)) ** 1.5
    theirs = ours(lambda z: -targets * weight * jnp.log(p(z)), z)
    assert_same(ours(losses.focal, z, y, **settings), theirs)


def test_brier_is_the_squared_error_of_probabilities():
    def theirs(z):
        return optax.squared_error(softmax(z), one_hot(LABELS)).sum(-1)

    assert_same(ours(losses.brier, LOGITS, LABELS), ours(theirs, LOGITS))


def test_weighted_cross_entropy_is_torchs():
    torch = pytest.importorskip("torch")
    counts = np.array([50.0, 20.0, 10.0, 15.0, 5.0])
    z = torch.tensor(LOGITS, requires_grad=True)
    weights = torch.tensor(np.log10((100 - counts) / counts + 1))
    entropy = torch.nn.functional.cross_entropy
    total = entropy(z, torch.tensor(LABELS), weight=weights, reduction="sum")
    total.backward()
    mine = ours(losses.weighted_cross_entropy, LOGITS, LABELS, class_counts=counts)
    assert_same(mine, (total.item(), z.grad.numpy()))


def test_majority_or_minority_is_a_mean_of_cross_entropy_and_its_masked_part():
    def authors(z, y):
        entropy = entropies(z, y)
        return 0.3 * entropy + 0.7 * jnp.where(y == 0, entropy, 0)

    mine = ours(losses.majority_or_minority, LOGITS, LABELS, weight=0.3)
    assert_same(mine, ours(authors, LOGITS, LABELS))


def test_log_cosh_dice_is_its_authors():
    def authors(z, y):
        p = sigmoid(z)
        x = 1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)
        return jnp.log((jnp.exp(x) + jnp.exp(-x)) / 2)

    mine = ours(losses.log_cosh_dice, SCORES, BINARY, class_axis=None, smooth=1.0)
    assert_same(mine, ours(authors, SCORES, BINARY))


def test_sigmoid_f1_is_its_authors_of_logits():
    """Theirs is called with probabilities, so that the sigmoid is taken twice."""

    def authors(z, y):
        s = 1 / (1 + jnp.exp(-2.0 * (z + 0.5)))
        tp, fp, fn = ((a * b).sum(0) for a, b in ((s, y), (s, 1 - y), (1 - s, y)))
        return jnp.mean(1 - 2 * tp / (2 * tp + fn + fp + 1e-16))

    settings = {"slope": 2.0, "offset": 0.5, "smooth": 0.0}
    mine = ours(losses.sigmoid_f1, LOGITS, OUTCOMES, **settings)
    assert_same(mine, ours(authors, LOGITS, OUTCOMES))


def test_soft_f1_is_the_usual_one_of_probabilities():
    def usual(z, y):
        p, y = softmax(z), one_hot(y)
        tp, fp, fn = ((a * b).sum(0) for a, b in ((p, y), (p, 1 - y), (1 - p, y)))
        return jnp.mean(1 - 2 * tp / (2 * tp + fn + fp))

    mine = ours(losses.soft_f1, LOGITS, LABELS, smooth=0.0)
    assert_same(mine, ours(usual, LOGITS, LABELS))


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("norm", [1, 2])
def test_jaccard_and_tversky_of_soft_labels_are_their_authors(norm, soft):
    labels = probabilities(shape=(40, 5)) if soft else LABELS

    def authors(z, y, alpha, beta, smooth=0.25):
        p, y = softmax(z), y if soft else one_hot(y)
        sums = [(abs(x) ** norm).sum(0) for x in (p, y, p - y)]
        tp = (sums[0] + sums[1] - sums[2]) / 2
        wrong = alpha * (sums[0] - tp) + beta * (sums[1] - tp)
        return 1 - (tp + smooth) / (tp + wrong + smooth)

    settings = {"intersection": "minimum"} if norm == 1 else {"squared": True}
    mine = ours(losses.jaccard, LOGITS, labels, smooth=0.25, **settings)
    assert_same(mine, ours(authors, LOGITS, labels, alpha=1.0, beta=1.0))
    if norm == 1:
        settings |= {"alpha": 0.3, "beta": 0.8, "smooth": 0.25}
        mine = ours(losses.tversky, LOGITS, labels, **settings)
        assert_same(mine, ours(authors, LOGITS, labels, alpha=0.3, beta=0.8))


@pytest.mark.parametrize("amplification", [5.0, 73.0])
def test_anyloss_is_its_authors(amplification):
    def authors(z, y):
        a = 1 / (1 + jnp.exp(-amplification * (sigmoid(z) - 0.5)))
        tp, fp, fn = ((b * c).sum() for b, c in ((a, y), (a, 1 - y), (1 - a, y)))
        return 1 - 2 * tp / (2 * tp + fp + fn)

    settings = {"class_axis": None, "amplification": amplification}
    mine = ours(losses.anyloss, SCORES, BINARY, **settings)
    assert_same(mine, ours(authors, SCORES, BINARY))


def test_ghm_has_weights_without_a_gradient_as_mmdetection():
    weights = harmonised(np.abs(np.asarray(sigmoid(LOGITS)) - OUTCOMES))

    def authors(z, y):
        return weights * optax.sigmoid_binary_cross_entropy(z, y)

    def mine(z, y):
        settings = {"momentum": 0.0, "multi_label": True}
        return losses.ghm(z, y, losses.ghm_state(), **settings)[0]

    mine, theirs = ours(mine, LOGITS, OUTCOMES), ours(authors, LOGITS, OUTCOMES)
    assert_same(mine, theirs, rtol=2e-6, atol=1e-7)  # float32 counts


def test_hard_negatives_have_the_gradient_of_the_cross_entropies_that_stay():
    def usual(z, y):
        entropy = entropies(z, y)
        negatives = jnp.where(y == 0, entropy, -jnp.inf)
        number = int((y != 0).sum() * 0.2)
        least = jnp.sort(negatives)[-number]
        stays = jax.lax.stop_gradient((y != 0) | (negatives >= least))
        return jnp.where(stays, entropy, 0) * (len(y) / stays.sum())

    settings = {"negatives_per_positive": 0.2}
    mine = ours(losses.hard_negatives, LOGITS, LABELS, **settings)
    assert_same(mine, ours(usual, LOGITS, LABELS))


MODULES = (
    test_equal,
    sys.modules[__name__],
    test_pairs,
    test_published_code,
    test_rankings,
)


def test_every_loss_has_the_value_and_gradient_of_code_that_is_not_ours():
    tests = [
        inspect.getsource(test)
        for module in MODULES
        for name, test in vars(module).items()
        if name.startswith("test_") and inspect.isfunction(test)
    ]
    # `ours` returns both.
    compared = {row[1] for row in test_equal.MATCHES}
    compared |= {
        name
        for source in tests
        if "ours(" in source
        for name in re.findall(r"\w+", source)
    }
    package = losses.__name__ + "."
    for declaration in REGISTRY.values():
        if declaration.function.__module__.startswith(package):
            assert declaration.function.__name__ in compared
