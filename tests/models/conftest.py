"""Fixtures of the tests of models."""

import jax
import pytest


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def torch():
    pytest.importorskip("transformers")
    return pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")
