"""One adapter per peer package, inputs of comparisons, and tolerances."""

import functools
import importlib.util
import sys
from pathlib import Path

import jax
import numpy as np
import optax
import pytest

ROUNDING = {"rtol": 1e-10, "atol": 1e-12}
SINGLE = {"rtol": 2e-6, "atol": 1e-7}  # vs. a peer that computes in float32
CLIPPED = {"rtol": 1e-6, "atol": 1e-7}  # vs. a peer that clips p by 1e-7

SHAPE = (3, 7, 5)  # batch, length, classes


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


@functools.cache
def smp_losses():
    """Return segmentation-models-pytorch's losses, without importing its encoders."""
    package = importlib.util.find_spec("segmentation_models_pytorch")
    if package is None:
        pytest.skip("could not import 'segmentation_models_pytorch'")
    folder = Path(package.origin).parent / "losses"
    spec = importlib.util.spec_from_file_location(
        "smp_losses", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    module = sys.modules["smp_losses"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ours(loss, logits, *labels, **settings):
    """Return value and gradient of the summed loss with respect to the logits."""
    summed = jax.value_and_grad(lambda z: loss(z, *labels, **settings).sum())
    return jax.jit(summed)(logits)


def in_torch(loss, logits, labels):
    """Return the same of a PyTorch loss, with the class axis of both arrays second."""
    torch = pytest.importorskip("torch")
    z, y = torch.tensor(logits, requires_grad=True), torch.tensor(labels)
    y = y.double().movedim(-1, 1) if y.ndim == z.ndim > 1 else y
    value = loss(z.movedim(-1, 1) if z.ndim > 1 else z, y).sum()
    value.backward()
    return value.item(), z.grad.numpy()


def of_optax(name, logits, labels, **settings):
    if labels.ndim < logits.ndim and "integer" not in name:
        labels = one_hot(labels)
    return ours(getattr(optax.losses, name), logits, labels, **settings)


def of_torch(name, logits, labels, **settings):
    torch = pytest.importorskip("torch")
    settings = {
        key: torch.tensor(value) if isinstance(value, np.ndarray) else value
        for key, value in settings.items()
    }
    return in_torch(getattr(torch.nn, name)(**settings), logits, labels)


def of_smp(name, logits, labels, mode, **settings):
    pytest.importorskip("torch")
    loss = getattr(smp_losses(), name)(mode, **settings)
    if mode == "binary":
        return in_torch(lambda z, y: loss(z[:, None], y[:, None]), logits, labels)
    return in_torch(loss, logits, labels)


def of_monai(name, logits, labels, *, smooth=None, **settings):
    monai = pytest.importorskip("monai.losses")
    if smooth is not None:
        settings |= {"smooth_nr": smooth, "smooth_dr": smooth}
    if labels.ndim < logits.ndim:
        settings |= {"to_onehot_y": True}
        settings["use_softmax" if name == "FocalLoss" else "softmax"] = True
        loss = getattr(monai, name)(**settings)
        return in_torch(lambda z, y: loss(z, y[:, None]), logits, labels)
    return in_torch(getattr(monai, name)(**settings), logits, labels)


def assert_same(pair, other, rtol=ROUNDING["rtol"], atol=ROUNDING["atol"]):
    for kind, mine, theirs in zip(("value", "gradient"), pair, other, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol, err_msg=kind)


def scaled(pair, factor):
    return tuple(factor * part for part in pair)


def assert_close(got, expected):
    np.testing.assert_allclose(got, expected, **ROUNDING)
