"""Cases for comparison with peers, and tolerances."""

import jax
import jax.numpy as jnp
import numpy as np

ROUNDING = {"rtol": 1e-10, "atol": 1e-12}
SINGLE = {"rtol": 2e-6, "atol": 1e-7}  # vs. a peer that computes in float32
CLIPPED = {"rtol": 1e-6, "atol": 1e-7}  # vs. a peer that clips p by 1e-7

SHAPE = (3, 7, 5)  # batch, length, classes
COUNTS = np.array([1000.0, 200.0, 50.0, 10.0, 1.0])
WEIGHTS = np.array([0.5, 1.0, 2.0, 0.0, 3.0])


def case(seed=0, shape=SHAPE, present=None):
    """Return logits and class numbers, of which only the first `present` occur."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, present or shape[-1], shape[:-1])
    return 2 * rng.normal(size=shape), labels


def outcomes(seed=1, shape=SHAPE):
    return np.random.default_rng(seed).integers(0, 2, shape)


def probabilities(seed=2, shape=SHAPE):
    drawn = np.random.default_rng(seed).gamma(0.5, size=shape)
    return drawn / drawn.sum(-1, keepdims=True)


def one_hot(labels, classes=SHAPE[-1]):
    return np.eye(classes)[labels]


def second(array):
    """Move the class axis to PyTorch's place: [B, L, C] to [B, C, L]."""
    return np.moveaxis(array, -1, 1)


def ours(loss, logits, *labels, **settings):
    """Return value and gradient of the summed loss with respect to the logits."""
    summed = jax.value_and_grad(lambda z: loss(z, *labels, **settings).sum())
    return summed(jnp.asarray(logits))


def in_torch(torch, loss, logits, labels):
    """Return the same of a PyTorch loss of logits [B, C, L] and unchanged labels."""
    z = torch.tensor(logits, requires_grad=True)
    value = loss(z.movedim(-1, 1), torch.tensor(labels)).sum()
    value.backward()
    return value.item(), z.grad.numpy()


def assert_same(one, other, rtol=ROUNDING["rtol"], atol=ROUNDING["atol"]):
    for kind, mine, theirs in zip(("value", "gradient"), one, other, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol, err_msg=kind)


def scaled(pair, factor):
    return tuple(factor * one for one in pair)


def assert_close(one, other):
    np.testing.assert_allclose(one, other, **ROUNDING)


SOFTMAX = {"softmax": True, "to_onehot_y": True}  # of MONAI


def smoothed(smooth):
    """Return MONAI's names for the smoothing of numerator and denominator."""
    return {"smooth_nr": smooth, "smooth_dr": smooth}
