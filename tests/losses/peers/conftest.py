"""Peer packages, skipped if not installed, and float64 for all."""

import importlib.util
import sys
from pathlib import Path

import jax
import pytest


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def monai(torch):
    return pytest.importorskip("monai.losses")


@pytest.fixture(scope="module")
def smp(torch):
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
    yield module
    for name in [one for one in sys.modules if one.split(".")[0] == "smp_losses"]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield
